"""The benches of stage 2, at sizes that take little time."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from local_engine import compiled

from xscl.bench import levels
from xscl.bench.engines import MODES
from xscl.bench.latency import _percentile, shaped_queries
from xscl.bench.levels import _sized
from xscl.bench.retention import _figures, _Kept

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_queries_of_twenty_shapes() -> None:
    texts = list(shaped_queries(600, 3))
    assert texts == list(islice(shaped_queries(700, 3), 600))
    assert texts != list(shaped_queries(600, 4))
    assert len({name for name, _ in texts}) == 600
    assert len({compiled(text).template.id for _, text in texts}) == 20
    assert len({compiled(text).template.id for _, text in shaped_queries(60, 3, templates=3)}) == 3


def test_percentiles() -> None:
    values = [float(value) for value in range(100, 0, -1)]
    assert (_percentile(values, 95), _percentile(values, 50)) == (95.0, 50.0)
    assert _percentile([3.0], 95) == 3.0


def test_sizes() -> None:
    sizes = levels._FULL
    assert _sized(sizes, None, None, None) == sizes
    assert _sized(sizes, 500, 70, 7) == replace(sizes, queries=(10, 100, 500), state=70, batch=7)
    assert _sized(sizes, 1_000, None, None).queries == (10, 100, 1_000)


def test_what_is_kept_at_half_and_at_the_end() -> None:
    kept = [_Kept(rows, 10 * rows, 0.5) for rows in (4, 8, 9, 6)]
    assert _figures(MODES[1], kept) == {
        "state_rows_at_half_executors": 8,
        "state_rows_at_end_executors": 6,
        "state_rows_ratio_executors": 0.75,
        "state_bytes_at_half_executors": 80,
        "state_bytes_at_end_executors": 60,
        "state_bytes_ratio_executors": 0.75,
        "most_state_rows_executors": 9,
        "batch_executors_s": 0.5,
    }


@pytest.mark.usefixtures("spark")
def test_two_levels(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr("xscl.bench.levels.start_session", lambda: spark)
    tiny = replace(levels._QUICK, warm=0, pairs=1, batches=1, spark_sample=1, prepared_queries=9, prepared_documents=5)
    monkeypatch.setattr(levels, "_QUICK", tiny)
    report = levels.measure(lambda text: None, levels=2, quick=True, queries=9, items=12, batch_docs=6, seed=5)
    assert report.figures["digest_equal"] is True
    assert [(row["documents"], row["queries"]) for row in report.table] == [("pair", 9), ("batch", 9)]
    assert report.figures["pairs"] == 1
    for row in report.table:
        assert row["rows_of_r_out"] > 0
        for name in ("engine_s", "engine_executors_s", "statements_s", "sequential_spark_s", "sequential_prepared_s"):
            assert row[name] > 0
        for name in ("statements", "sequential_spark", "sequential_prepared"):
            # Both are rounded, to four digits.
            assert row[f"speedup_over_{name}"] == pytest.approx(row[f"{name}_s"] / row["engine_s"], rel=0.01)
    assert {key for key in report.figures if key.startswith("batch_")} >= {"batch_engine_s", "batch_results_digest"}
    assert len(report.plot.lines) == 10
