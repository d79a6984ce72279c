"""Pairs that are told by spans are those that would be written: in listings, in merges, and as rows for Spark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa

import xscl
import xscl.templates.joins.meet
import xscl.templates.joins.order
import xscl.upkeep.results
from xscl.catalog.tables import BATCHES, CHANNELS
from xscl.engine import Engine
from xscl.store.results import Results
from xscl.templates.pair_spans import PairSpans, expanded_spans, span_parts, span_table
from xscl.templates.results import SPANS_FILE
from xscl.upkeep.results import ResultUpkeep

SAME = "S//a->x[./k->p] JOIN {p = q} S//a->y[./k->q]"
LATER = "S//a->x[./m->p] FOLLOWED BY {p = q} S//a->y[./m->q]"
OTHER = "S//a->x[./k->p][./n->n] JOIN {p = q AND n < m} S//a->y[./k->q][./n->m]"


def events(first: int, last: int) -> list[xscl.Event]:
    return [
        xscl.Event(
            "S", f"e{n}", n, xml=f"<i>{'<b/>' if n % 11 == 0 else ''}<a><k>{n % 3}</k><m>{n % 4}</m><n>{n}</n></a></i>"
        )
        for n in range(first, last)
    ]


def run(home: Path) -> tuple[Engine, list[tuple[str, str]]]:
    engine = xscl.connect(home=home)
    engine.register(SAME, name="same")
    engine.register(LATER, name="later")
    for first in range(0, 120, 40):
        if first == 80:
            engine.register(SAME, name="late")  # which sees no event from before
            engine.register(OTHER, name="other")
        engine.ingest(events(first, first + 40))
        engine.run_once()
    return engine, sorted((match.query, match.id) for match in engine.matches())


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> None:
    """No number of pairs is too small."""
    monkeypatch.setattr(xscl.templates.joins.order, "_PAIRS_PER_ROW", 0)
    monkeypatch.setattr(xscl.templates.joins.meet, "LEAST_TOLD", 0)


def span_files(engine: Engine) -> list[Path]:
    with engine.home.catalog.read() as connection:
        folders = set(connection.scalars(sa.select(BATCHES.c.result_path)))
    return [file for folder in folders for file in (engine.home.root / folder).rglob(SPANS_FILE)]


def test_matches_are_those_of_pairs_that_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, written = run(tmp_path / "a")
    assert span_files(engine) == []
    monkeypatch.setattr(xscl.templates.joins.order, "_PAIRS_PER_ROW", 0)
    monkeypatch.setattr(xscl.templates.joins.meet, "LEAST_TOLD", 0)
    engine, found = run(tmp_path / "b")
    assert found == written and len(span_files(engine)) == 2
    for name in ("same", "late", "other"):
        assert [m.id for m in engine.matches(name)] == [m.id for m in xscl.connect(home=tmp_path / "a").matches(name)]


@pytest.mark.usefixtures("told")
@pytest.mark.parametrize("kept_from", [None, 30])
def test_merged_folders_tell_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept_from: int | None) -> None:
    monkeypatch.setattr(xscl.upkeep.results, "FANOUT", 2)
    monkeypatch.setattr(xscl.upkeep.results, "SMALL", 100_000)
    engine, found = run(tmp_path / "a")
    if kept_from is not None:
        kept = [m for m in engine.matches() if all(event.ts >= kept_from * 1_000_000 for event in m.events)]
        found = sorted((match.query, match.id) for match in kept)
        with engine.home.catalog.begin() as connection:
            connection.execute(CHANNELS.update().values(kept_from=kept_from * 1_000_000))
    before = len(span_files(engine))
    times = {} if kept_from is None else {"S": kept_from * 1_000_000}
    list(ResultUpkeep(engine.home).work(times, 1))
    assert sorted((match.query, match.id) for match in engine.matches()) == found
    assert (before, len(span_files(engine))) == (2, 1 if kept_from is None else 0)


def test_parts_of_spans() -> None:
    chance = np.random.default_rng(3)
    lists, starts = np.arange(100, 130), np.array([0, 12, 12, 30])
    which = chance.choice([0, 2], size=9)
    begin = chance.integers(0, 5, size=9)
    end = begin + chance.integers(0, 6, size=9)
    classes = chance.integers(0, 3, size=9).astype(np.int32)
    parts = [PairSpans(left, np.arange(9), classes, which, begin, end, lists, starts) for left in (True, False)]
    wanted = sorted(
        (1 << 40, int(number), *((doc, other) if part.left else (other, doc)))
        for part in parts
        for doc, number, at, first, last in zip(part.docs, classes, which, begin, end, strict=True)
        for other in lists[starts[at] : starts[at + 1]][first:last].tolist()
    )
    table = span_table(1 << 40, parts)
    for most in (1, 7, 1_000):
        found = pa.concat_tables([expanded_spans(part) for part in span_parts(table, most)])
        assert sorted(zip(*(column.to_pylist() for column in found.columns), strict=True)) == wanted


def test_only_wanted_spans_are_made(tmp_path: Path) -> None:
    lists, starts = np.arange(5), np.array([0, 5])
    classes = np.array([0, 1], dtype=np.int32)
    zeros = np.zeros(2, dtype=np.int64)
    part = PairSpans(True, np.array([8, 9]), classes, zeros, zeros, zeros + 5, lists, starts)
    pq.write_table(span_table(7, [part]), tmp_path / SPANS_FILE)
    made = expanded_spans(span_table(7, [part]), lambda origin, number: number == 1)
    assert made.column("d1").to_pylist() == [9] * 5
    assert len(Results([tmp_path / SPANS_FILE]).combinations().docs) == 10
