"""Answers from held events, where tasks of Spark do all work and where this process does."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import xscl
from xscl.base.settings import Settings
from xscl.batches import history_walk as held_walk
from xscl.engine import Engine

PAIR = "S//a->x[./k->p] FOLLOWED BY {p=q, 10} S//b->y[./k->q]"
THREE = "S//a[./k->p] JOIN {p=q, 60} S//b[./k->q] JOIN {q=s, 60} C//a[./k->s]"


def event(number: int) -> xscl.Event:
    name = "ab"[number % 2]
    return xscl.Event("S", f"e{number}", number, xml=f"<r><{name}><k>{number // 2 % 3}</k></{name}></r>")


def answers(engine: Engine) -> dict[str, list[str]]:
    """What three queries have that come one after another, among events."""
    engine.ingest(map(event, range(12)))
    engine.register(f"{PAIR} STARTING ALL", name="All")
    engine.register(f"{THREE} STARTING ALL", name="Three")
    engine.register("S//a PUBLISH C STARTING '1970-01-01T00:00:04Z'", name="Feeds")
    engine.ingest(map(event, range(12, 16)))
    engine.run_once()
    return {
        name: sorted("-".join(f"{e.channel}{e.ts // 1_000_000}" for e in m.events) for m in engine.matches(name))
        for name in ("All", "Three", "Feeds")
    }


def test_tasks_fill_as_this_process_does(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    with xscl.connect(home=tmp_path / "driver", spark=spark) as engine:
        expected = answers(engine)
    assert all(expected.values())
    monkeypatch.setattr(held_walk, "_PART", 8)
    with xscl.connect(home=tmp_path / "spark", spark=spark, settings=Settings("spark")) as engine:
        assert answers(engine) == expected
