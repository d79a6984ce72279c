"""Matches that are taken back: what holds, what is told in which order, and who tells it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from absences import S, answers

import xscl
from xscl.answers.matches.listing import match_json
from xscl.engine import Engine
from xscl.ingest.records import Heartbeat
from xscl.upkeep.archive_export import export_home
from xscl.upkeep.archive_import import import_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXT = "A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]"
LATE = {"because": "late", "by": {"channel": "B", "id": "B5"}}


def event(channel: str, ts: int, value: str = "1") -> xscl.Event:
    return xscl.Event(channel, f"{channel}{ts}", ts, xml=f"<e><k>{value}</k></e>")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """A home in which the answer to A1 was taken back, and that to A2 was not."""
    with xscl.connect(home=tmp_path / "home") as made:
        for name in ("q", "gone", "same"):
            made.register(TEXT, name=name)
        made.ingest([event("A", 1), event("A", 2, "2")])
        made.run_once()
        made.ingest([event("B", 20, "3")])
        made.run_once()
        made.drop("gone")
        made.ingest([event("B", 5)])
        made.run_once()
        yield made


def lines(engine: Engine, name: str | None, after: str = "start", limit: int | None = None) -> list[dict[str, object]]:
    return [match_json(match, cursor=True) for match in engine.changes(name, after=after, limit=limit)]


def test_what_holds_and_what_is_told(engine: Engine) -> None:
    assert answers(engine, "q") == answers(engine, "same") == [(["A2"], 12 * S)]
    assert answers(engine, "gone") == [(["A1"], 11 * S), (["A2"], 12 * S)]
    came, other, went = lines(engine, "q")
    assert went == {"retract": came["match"], "query": "q", **LATE, "cursor": went["cursor"]}
    assert lines(engine, "q", str(other["cursor"])) == [went]
    assert lines(engine, "q", str(went["cursor"])) == []
    assert [line.get("retract") for line in lines(engine, "gone")] == [None, None]
    everything = lines(engine, None)
    assert len(everything) == 8
    again, cursor = [], "start"
    while page := lines(engine, None, cursor, 1):
        again += page
        cursor = str(page[-1]["cursor"])
    assert again == everything


def test_a_match_that_goes_counts_once_whoever_had_it(tmp_path: Path) -> None:
    """Queries that differ in windows share their matches, in what comes and in what goes."""

    def version(id_: str, ts: int) -> xscl.Event:
        return xscl.Event("items", id_, ts, xml=f"<e><k>1</k><n>{ts}</n></e>", feed="f")

    with xscl.connect(home=tmp_path / "home") as engine:
        for name, window in (("short", 8), ("long", 20)):
            text = f"items->x[./k->a] FOLLOWED BY {{a = b, {window}}} items->y[./k->b] ON CHANGE RETRACT"
            engine.register(text, name=name)
        engine.ingest([version("a", 1), version("b", 2), version("c", 3)])
        (came,) = engine.run_once()
        engine.ingest([version("a", 4)])
        (went,) = engine.run_once()
        told = [match for match in engine.changes(after="c2") if match.retracted is not None]
    assert (came.matches, went.matches, went.retracted) == (3, 2, 2)
    assert len(told) == 4


def test_retractions_are_within_the_bounds_of_a_listing(engine: Engine) -> None:
    found = engine.matches("q", after="start", since=12 * S)
    assert [match.retracted for match in found] == [None]
    found = engine.matches("q", after="start", until=11 * S)
    assert [match.retracted is None for match in found] == [True, False]


def test_a_home_that_moves_takes_corrections_along(engine: Engine, tmp_path: Path) -> None:
    with (tmp_path / "home.tar").open("wb") as stream:
        export_home(engine.home, stream)
    with (tmp_path / "home.tar").open("rb") as stream:
        import_home(tmp_path / "moved", stream)
    with xscl.connect(home=tmp_path / "moved") as moved:
        assert json.dumps(lines(moved, None)) == json.dumps(lines(engine, None))
        # The answer to A2 still waits for what may forbid it.
        moved.ingest([event("B", 6, "2")])
        moved.run_once()
        assert answers(moved, "q") == []


def test_relations_say_what_came_and_went(engine: Engine, spark: SparkSession) -> None:
    with xscl.connect(home=engine.home.root, spark=spark) as reader:
        told = [
            (line.get("match") or line["retract"], line["query"], line.get("because")) for line in lines(reader, None)
        ]
        rows = reader.sql("SELECT match, qid, kind, because, batch FROM changes").collect()
        assert sorted((row.match, row.qid, str(row.because)) for row in rows) == sorted(
            (match, query, str(because)) for match, query, because in told
        )
        assert {(row.kind, row.because, row.batch) for row in rows} == {("insert", None, 2), ("retract", "late", 3)}
        held = {(match.id, match.query) for match in reader.matches()}
        for statement, expected in (
            ("SELECT match, qid FROM matches", held),
            ("SELECT match, qid FROM matches_all", {(match, query) for match, query, _ in told}),
        ):
            assert {tuple(row) for row in reader.sql(statement).collect()} == expected
        assert reader.sql("SELECT count(*) AS n FROM matches").collect()[0].n == len(held)
        assert {row.match for row in reader.matches_df("q").collect()} == {m for m, query in held if query == "q"}
        frame = spark.read.format("xscl-matches").option("query", "q").load(str(engine.home.root))
        assert [row.retracted for row in frame.collect()] == [None, None, "late"]


def test_a_replay_tells_once_what_is_not_final(tmp_path: Path) -> None:
    """One binding was forbidden before and is gone, the other still waits, and a replay forbids both."""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register(TEXT, name="q")
        engine.ingest([xscl.Event("A", "A1", 1, xml="<e><k>1</k><k>2</k></e>"), event("B", 3), event("B", 20, "3")])
        engine.run_once()
        assert answers(engine, "q") == [(["A1"], 11 * S)]
        late = xscl.Event("B", "B4", 4, xml="<e><k>1</k><k>2</k></e>")
        engine.ingest([Heartbeat("B", 5 * S, "test"), late])
        engine.replay_late()
        engine.run_once()
        assert [match.retracted and match.retracted.because for match in engine.changes("q")] == [None, "replayed"]


def test_a_replay_takes_back_what_no_binding_holds_up(tmp_path: Path) -> None:
    """An answer with two bindings goes when both are forbidden; a newcomer that does not see the event keeps it."""
    text = "SELECT x FROM A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b] CONSISTENCY STRONG"
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("B", lateness="1 s")
        engine.register(text, name="old")
        engine.ingest([event("B", 50), event("B", 5), event("B", 6, "2")])
        engine.register(text, name="new")
        engine.ingest([xscl.Event("A", "A1", 1, xml="<e><k>1</k><k>2</k></e>")])
        engine.run_once()
        for name in ("old", "new"):
            assert answers(engine, name) == [(["A1"], 11 * S)]
        for id_, held in (("B5", 1), ("B6", 0)):
            engine.replay_late(ids=[id_])
            engine.run_once()
            assert len(answers(engine, "old")) == held
        assert answers(engine, "new") == [(["A1"], 11 * S)]
        retracted = engine.changes("old")[-1].retracted
        assert retracted is not None and (retracted.because, retracted.by) == ("replayed", ("B", "B6"))
