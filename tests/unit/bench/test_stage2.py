"""The benches of stage 2, at sizes that take little time."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

import pytest
from local_engine import compiled

from xscl.bench.baselines import Samples
from xscl.bench.bench import Options, run_bench
from xscl.bench.benches import BENCHES
from xscl.bench.latency import _percentile
from xscl.bench.retention import _figures
from xscl.bench.workload import shaped_queries

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
    bench = BENCHES["two-level"]
    assert bench.sizes.asked(Options()) == bench.sizes
    assert bench.sizes.asked(Options(queries=500, items=70, batch=7)) == replace(
        bench.sizes, queries=(10, 100, 500), items=70, batch=7
    )
    assert bench.sizes.asked(Options(queries=1_000)).queries == (10, 100, 1_000)
    assert BENCHES["three-level"].sizes.asked(Options(quick=True)).queries == (100,)
    stage1 = BENCHES["stage1"].sizes.asked(Options(quick=True, queries=7, batch=5))
    assert (stage1.queries, stage1.patterns, stage1.items, stage1.item_batch, stage1.document_batch) == (
        7,
        7,
        1000,
        5,
        5,
    )


def test_what_is_kept_at_half_and_at_the_end() -> None:
    kept = [{"state_rows": rows, "state_bytes": 10 * rows, "seconds": 0.5, "cpu_s": rows / 4} for rows in (4, 8, 9, 6)]
    assert _figures(kept) == {
        "state_rows_at_half": 8,
        "state_rows_at_end": 6,
        "state_rows_ratio": 0.75,
        "state_bytes_at_half": 80,
        "state_bytes_at_end": 60,
        "state_bytes_ratio": 0.75,
        "most_state_rows": 9,
        "batch_s": 0.5,
        "cpu_s": 1.5,
    }


@pytest.mark.thorough
@pytest.mark.usefixtures("spark")
def test_two_levels(monkeypatch: pytest.MonkeyPatch, spark: SparkSession) -> None:
    monkeypatch.setattr("xscl.bench.bench.start_session", lambda: spark)
    bench = BENCHES["two-level"]
    samples = Samples(statements=1, spark_queries=1, prepared_queries=1, prepared_documents=2)
    tiny = replace(
        bench.sizes, queries=(3,), items=12, batch=6, warm=0, pairs=1, batches=1, samples=samples, variations=0
    )
    report = run_bench(replace(bench, sizes=tiny), Options(seed=1), lambda text: None)
    assert report.figures["digest_equal"] is True
    assert [(row["documents"], row["queries"]) for row in report.table] == [("pair", 3), ("batch", 3)]
    assert report.figures["pairs"] == 1
    for row in report.table:
        assert row["rows_of_r_out"] > 0
        for name in ("engine_s", "engine_spark_s", "statements_s", "sequential_spark_s", "sequential_prepared_s"):
            assert row[name] > 0
        for name in ("statements", "sequential_spark", "sequential_prepared"):
            # Both are rounded, to four digits.
            assert row[f"speedup_over_{name}"] == pytest.approx(row[f"{name}_s"] / row["engine_s"], rel=0.01)
    assert {key for key in report.figures if key.startswith("batch_")} >= {"batch_engine_s", "batch_results_digest"}
    assert len(report.plots[0].lines) == 10
