"""The relation ``matches`` lists what ``match list`` does: versions and what they replace, copies, what is kept."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import xscl.templates.joins.meet
import xscl.templates.joins.order
from xscl.base.settings import Settings
from xscl.base.types import Event
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import CHANNELS
from xscl.engine import connect
from xscl.templates.results import SPANS_FILE

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

QUERIES = {
    "pairs": "items//a->x[./k->p] JOIN {p = q} items//a->y[./k->q]",
    "mixed": "left//a->x[./k->p] JOIN {p = q} items//a->y[./k->q]",
    "singles": "items//a",
}


def item(channel: str, id_: str, ts: int, shift: int = 0, more: int = 1) -> Event:
    content = "<w/>" * shift + "<a><k>v</k></a>" * more
    return Event(channel, id_, ts, xml=f"<i>{content}</i>", feed="f")


def check(engine: Engine) -> int:
    """Compare the relation with the listing; the number of matches."""
    listed = {m.id: (m.query, m.ts, m.replaces) for m in engine.matches()}
    rows = engine.sql("SELECT match, qid, ts_max, replaces FROM matches").collect()
    assert {row.match: (row.qid, row.ts_max, row.replaces) for row in rows} == listed
    assert len(rows) == len(listed)
    return len(listed)


def check_counts(engine: Engine) -> None:
    """Counts come from classes, and fewer columns from fewer files."""
    by_query = Counter(match.query for match in engine.matches())
    counted = engine.sql("SELECT count(*) FROM matches WHERE qid <> 'nobody'")
    assert counted.columns == ["count(1)"] and counted.collect()[0][0] == by_query.total()
    for columns in ("count(*)", "count(nodes)", "count(ts_min)"):
        counted = engine.sql(f"SELECT qid, {columns} AS n FROM matches GROUP BY qid").collect()
        assert {row.qid: row.n for row in counted} == by_query, columns


def test_matches_are_those_that_are_listed(engine: Engine) -> None:
    engine.add_channel("left", of="items", source="s")
    engine.add_channel("right", of="items", source="s")
    for name, text in QUERIES.items():
        engine.register(text, name=name)
    engine.ingest([item("left", "g", 1, more=2), item("items", "h", 2)])
    engine.run_once()
    # A newer version, by the other stream as well and in another batch.
    engine.ingest([item("left", "g", 3, shift=1)])
    engine.run_once()
    engine.ingest([item("right", "g", 3, shift=1), item("items", "h", 4), item("right", "h", 5, shift=1)])
    engine.run_once()
    engine.register(QUERIES["singles"], name="later")
    engine.ingest([item("items", "h", 6, shift=2), item("left", "g", 7)])
    engine.run_once()
    engine.drop("pairs")
    engine.ingest([item("items", "h", 8, shift=1)])
    engine.run_once()
    everything = check(engine)
    check_counts(engine)
    framed = {
        row.match: (row.ids, dict(row["values"]), row.document, row.replaces) for row in engine.matches_df().collect()
    }
    assert framed == {
        m.id: ([event.id for event in m.events], dict(m.values), m.document, m.replaces) for m in engine.matches()
    }
    assert sum(m.replaces is not None for m in engine.matches()) > 5
    with engine.home.catalog.begin() as connection:
        connection.execute(CHANNELS.update().where(CHANNELS.c.name == "items").values(kept_from=2_000_000))
    assert 0 < check(engine) < everything
    assert min(event.ts for m in engine.matches() for event in m.events) == 2_000_000
    template = engine.home.catalog.ask(read_queries, live_only=False, name="pairs")[0].template
    statement = f"""
        SELECT count(*) AS n, min(e.ts) AS oldest
        FROM rout_{template} r JOIN r_docts e ON e.docid IN (r.docid1, r.docid2)"""
    (row,) = engine.sql(statement).collect()
    assert row.n > 0 and row.oldest == 2_000_000


def test_queries_in_parentheses_have_no_matches_of_their_own(engine: Engine) -> None:
    text = "(SELECT k AS k FROM S/d[./k->k])->x[./k->a] JOIN {a = b, 1 h} S/d[./k->b]"
    engine.register(text, name="before")
    engine.ingest([Event("S", "before", -9_000, xml="<d><k>1</k></d>")])
    engine.register(text, name="outer")
    engine.drop("before")
    engine.ingest(Event("S", f"e{number}", number, xml="<d><k>1</k></d>") for number in range(3))
    engine.run_once()
    assert check(engine) == 10  # one of them is the first query's
    check_counts(engine)
    listed = [match.id for match in engine.matches()]
    for relation in ("matches_all", "changes"):
        assert sorted(row.match for row in engine.sql(f"SELECT match FROM {relation}").collect()) == sorted(listed)
    assert engine.sql("SELECT match FROM match_members").count() == 20
    (inner,) = engine.queries(like="xscl.sub.*")
    for name in (None, "outer", inner.name):
        assert sorted(row.match for row in engine.matches_df(name).select("match").collect()) == sorted(
            match.id for match in engine.matches(name)
        )


def test_rows_of_r_out_that_stand_alike_are_written_out(spark: SparkSession, tmp_path: Path) -> None:
    """Twelve authors on either side are one match and 144 rows of R_out, wherever the documents are joined."""
    found = []
    for place, settings in enumerate((Settings(), Settings("spark"))):
        with connect(home=tmp_path / str(place), spark=spark, settings=settings) as engine:
            engine.register("S/rss->x[.//author->a] FOLLOWED BY {a = b, 1 h} S/rss->y[.//author->b]", name="Q")
            for number in range(2):
                authors = "<author>A</author>" * 12
                engine.ingest([Event("S", f"e{number}", number, xml=f"<rss>{authors}</rss>")])
            engine.run_once()
            (template,) = (row.template for row in engine.sql("select template from queries").collect())
            rows = engine.sql(f"select node1, node2 from rout_{template}").collect()
            found.append((len(list(engine.matches())), sorted(map(tuple, rows))))
    assert found[0] == found[1] and (found[0][0], len(found[0][1])) == (1, 144)


def test_pairs_that_are_told_by_spans(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(xscl.templates.joins.order, "_PAIRS_PER_ROW", 0)
    monkeypatch.setattr(xscl.templates.joins.meet, "LEAST_TOLD", 0)
    engine.register(QUERIES["pairs"], name="pairs")
    for first in (0, 20):
        engine.ingest(
            [Event("items", f"e{n}", n, xml=f"<i><a><k>{n % 3}</k></a></i>") for n in range(first, first + 20)]
        )
        engine.run_once()
    assert list((engine.home.root / "results").rglob(SPANS_FILE))
    assert check(engine) == sum(n * (n - 1) // 2 for n in (14, 13, 13)) * 2
    check_counts(engine)
