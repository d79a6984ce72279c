"""Join state on Spark: what is held after each batch, in SQL and as batches count it.

The queries are the running example (Figure 3.3) of A. Silva, *Multiple Continuous Query Processing with Relative Window
Predicates* (Juggler), 2004, cut into batches (G3) and with a late row (G4).
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from juggler_data import G3_STATE

import xscl
from xscl.base.settings import DEFAULT_SETTINGS, Settings
from xscl.base.types import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

QUERIES = {
    "Q1": "B->b[./pressure->p][./temp->e] JOIN {e > v, MAXWINDOW 4 s} H[./beatrate = 52][./vib->v] JOIN {} K "
    "JOIN {p > f, t - b IN [1 s, UNBOUNDED]} T->t[./fluct->f]",
    "Q2": "B->b[./pressure->p] JOIN {f < 0.5 * p AND f * 2 = 103, MAXWINDOW 6 s, b - t IN [1 s, UNBOUNDED]} "
    "T->t[./fluct->f] JOIN {h - b IN [0 s, UNBOUNDED]} H->h",
    "Q3": "T->t[./fluct = 103][./incr->i] JOIN {i = v, MAXWINDOW 5 s, t - h IN [1 s, UNBOUNDED]} H->h[./vib->v]",
}
COLUMNS = {
    "B": ("pressure", "temp"),
    "T": ("fluct", "degree", "incr"),
    "H": ("beatrate", "vib"),
    "K": ("fluid",),
}
ROWS: dict[str, list[tuple[float, ...]]] = {
    "B": [(2, 120, 101), (5, 110, 99), (5, 150, 90), (7, 103, 101), (9, 200, 101)],
    "T": [(4, 51.5, 100, 97), (6, 103, 101, 98), (8, 103, 99, 90), (11, 103, 101, 98)],
    "H": [(3, 52, 98), (5, 50, 98), (6, 60, 98), (8, 52, 90), (11, 70, 95)],
    "K": [(3, 100), (6, 150), (10, 75)],
}
EVENTS = [
    Event(channel, f"{channel.lower()}{number}", row[0], row=dict(zip(COLUMNS[channel], row[1:], strict=True)))
    for channel, rows in ROWS.items()
    for number, row in enumerate(rows, start=1)
]
SPANS = ((0, 3), (4, 5), (6, 7), (8, 9), (10, 11))
HELD = """
select distinct e.id from events e left semi join (select docid from r_bin union select docid from r_doc) r
on e.docid = r.docid
"""


def opened(folder: Path, spark: SparkSession, lateness: str, settings: Settings = DEFAULT_SETTINGS) -> Engine:
    engine = xscl.connect(home=folder, spark=spark, settings=settings)
    for channel, columns in COLUMNS.items():
        schema = ", ".join(f"{name} double" for name in columns)
        engine.add_channel(channel, kind="rows", schema=schema, lateness=lateness, clock="icu")
    for name, text in QUERIES.items():
        engine.register(text, name=name)
    return engine


def batches() -> list[list[Event]]:
    return [
        sorted((e for e in EVENTS if low <= float(str(e.ts)) <= high), key=lambda e: float(str(e.ts)))
        for low, high in SPANS
    ]


def test_g3_state_rows_after_each_batch(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path / "driver", spark, "0 s") as engine:
        in_driver = []
        for batch in batches():
            engine.ingest(batch)
            (report,) = engine.run_once()
            in_driver.append((report.state_rows, report.purged))
        assert Counter(match.query for match in engine.matches()) == {"Q1": 9, "Q2": 6, "Q3": 3}
    found = []
    with opened(tmp_path / "spark", spark, "0 s", Settings("spark")) as engine:
        for expected, batch in zip(G3_STATE, batches(), strict=True):
            assert engine.ingest(batch).late == 0
            (report,) = engine.run_once()
            held = sorted(row.id for row in engine.sql(HELD).collect())
            assert held == sorted(expected.split())
            found.append((len(held), report.state_rows, report.purged))
            counts = Counter(match.query for match in engine.matches())
        assert [documents for documents, _, _ in found] == [3, 7, 11, 11, 9]
        assert [(held, purged) for _, held, purged in found] == in_driver
        assert counts == {"Q1": 9, "Q2": 6, "Q3": 3}
        rows = engine.sql("select batch, state_rows, state_bytes, purged from batches order by batch").collect()
        assert [(row.state_rows, row.purged) for row in rows] == [(held, purged) for _, held, purged in found]
        assert all(row.state_bytes > 0 for row in rows)
        assert sum(row.purged for row in rows) > 0


@pytest.mark.parametrize(("lateness", "late", "counts"), [("3 s", 0, (9, 6, 3)), ("2 s", 1, (7, 0, 3))])
def test_g4_a_late_tuple(
    lateness: str, late: int, counts: tuple[int, ...], tmp_path: Path, spark: SparkSession
) -> None:
    t1 = [event for event in EVENTS if event.id == "t1"]
    others = [[event for event in batch if event.id != "t1"] for batch in batches()]
    with opened(tmp_path / "home", spark, lateness) as engine:
        refused = 0
        for batch in [*others[:3], t1, *others[3:]]:
            refused += engine.ingest(batch).late
            engine.run_once()
        found = Counter(match.query for match in engine.matches())
        assert refused == late
        assert engine.sql("select * from late").count() == late
        assert tuple(found[name] for name in QUERIES) == counts


def test_dropping_a_query_gives_its_rows_back(tmp_path: Path, spark: SparkSession) -> None:
    with opened(tmp_path / "home", spark, "0 s") as engine:
        first, second, *_ = batches()
        engine.ingest(first)
        engine.run_once()
        engine.drop("Q1")
        engine.ingest(second)
        engine.run_once()
        # Only Q1 asked for K.
        held = sorted(row.id for row in engine.sql(HELD).collect())
        assert held == sorted(["b1", "b2", "b3", "t1", "h1", "h2"])
        for name in ("Q2", "Q3"):
            engine.drop(name)
        engine.ingest([Event("K", "k9", 5, row={"fluid": 1.0})])
        (report,) = engine.run_once()
        assert report.state_rows == 0 and engine.sql(HELD).count() == 0
