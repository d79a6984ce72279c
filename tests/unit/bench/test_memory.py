"""The bench of processes that start over a growing state, at sizes that take little time."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from xscl.base.errors import EngineError
from xscl.base.settings import Settings
from xscl.bench.bench import Options, run_bench
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import register, take
from xscl.bench.memory import BENCH, join_first
from xscl.bench.workload import RSS, shaped_queries
from xscl.engine import connect

SIZES = replace(BENCH.sizes, queries=60, items=(200, 600), batch=50, batches=2, load=200)


def made(home: Path, queries: int) -> ItemFeed:
    """Make a home with queries and a state, and return the feed of the items that follow."""
    feed = ItemFeed(1, reach=200)
    with connect(home=home, settings=Settings("driver")) as engine:
        register(engine, shaped_queries(queries, 1))
        take(engine, RSS.channel, feed.take(200))
        engine.run_once()
    return feed


def test_a_process_that_starts(tmp_path: Path) -> None:
    feed = made(tmp_path / "home", 20)
    parts = tmp_path / "parts.json"
    parts.write_text(json.dumps([list(feed.take(50)) for _ in range(3)]), encoding="utf-8")
    found = join_first(lambda _: None, home=str(tmp_path / "home"), parts=str(parts))
    assert found["state_rows"] > 500
    assert found["next_batch_s"] <= found["first_batch_s"] < 60
    assert 1e6 < found["private_bytes"] <= found["most_private_bytes"] < 1e10


def test_a_process_that_joins_nothing_is_no_measure(tmp_path: Path) -> None:
    feed = made(tmp_path / "home", 20)
    parts = tmp_path / "parts.json"
    parts.write_text(json.dumps([list(feed.take(1)), [[0, "<nothing/>"]]]), encoding="utf-8")
    with pytest.raises(EngineError, match="joined nothing"):
        join_first(lambda _: None, home=str(tmp_path / "home"), parts=str(parts))


@pytest.mark.thorough
def test_figures() -> None:
    report = run_bench(replace(BENCH, sizes=SIZES), Options(seed=1), lambda text: None)
    assert [row["state"] for row in report.table] == [200, 600]
    assert report.figures["growth_of_state_rows"] > 2
    assert [len(points) for points in report.plots[0].lines.values()] == [2, 2]
