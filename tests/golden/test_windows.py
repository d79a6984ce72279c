"""Examples of windows of matches: a story in five feeds told once, rankings, and answers that other queries read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import xscl
from xscl.base.errors import QueryError
from xscl.base.failpoints import crash_at, hooked
from xscl.language.compile import compile_query
from xscl.language.syntax.format import format_query
from xscl.language.syntax.parser import parse_query
from xscl.upkeep.health import examine_home

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MIN = 60
BUSY = """SELECT <busy title="{t}" feeds="{count(DISTINCT c)}"/> FROM items->i[./title->t][./channel_title->c]
WINDOW 1 h
GROUP BY t
HAVING count(DISTINCT c) >= 5
ON CROSSING
PUBLISH busy"""


def item(number: int, ts: int, feed: str) -> xscl.Event:
    xml = f"<item><title>Storm</title><channel_title>{feed}</channel_title></item>"
    return xscl.Event("items", f"i{number}", ts, xml=xml)


def stories() -> Iterator[xscl.Event]:
    """Five feeds within 40 minutes, the first of them again at 50, silence, and five again from three hours on."""
    minutes = [(0, "a"), (10, "b"), (20, "c"), (30, "d"), (40, "e"), (50, "a")]
    minutes += [(180 + minute, feed) for minute, feed in minutes[:5]]
    for number, (minute, feed) in enumerate(minutes):
        yield item(number, minute * MIN, feed)


def told(folder: Path, size: int) -> list[tuple[int, str]]:
    """Times in minutes and documents of what is told, with so many events a batch."""
    with xscl.connect(home=folder) as engine:
        engine.add_channel("items", lateness="0 s")
        engine.register(BUSY, name="q")
        engine.register("busy[./@feeds->n]", name="r")
        events = [*stories(), item(99, 24 * 60 * MIN, "z")]
        for first in range(0, len(events), size):
            engine.ingest(events[first : first + size])
            engine.run_once()
        found = [(match.ts // MIN // 1_000_000, match.document) for match in engine.matches("q")]
        assert [match.ts // MIN // 1_000_000 for match in engine.matches("r")] == [ts for ts, _ in found]
        assert [dict(match.values) for match in engine.matches("r")] == [{"n": "5"}] * len(found)
        return found


@pytest.mark.parametrize("size", [1, 3, 100])
def test_g_x3(tmp_path: Path, size: int) -> None:
    document = '<busy title="Storm" feeds="5"/>'
    assert told(tmp_path / "home", size) == [(40, document), (220, document)]


def test_an_answer_that_one_query_of_a_group_has_is_published(tmp_path: Path) -> None:
    text = """SELECT <n of="{count()}"/> FROM items WINDOW 1 h EVERY 1 h"""
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("items", lateness="0 s")
        engine.register(text, name="first")
        engine.ingest([item(1, MIN, "a")])
        engine.register(f"{text} PUBLISH counts", name="second")
        engine.register("counts[./@of->n]", name="r")
        engine.ingest([item(2, 2 * MIN, "a"), item(3, 24 * 60 * MIN, "z")])
        engine.run_once()
        assert [dict(match.values) for match in engine.matches("r")] == [{"n": "1"}]


@pytest.mark.parametrize("where", ["batch.told", "batch.windows", "batch.before", "batch.commit", "batch.committed"])
def test_a_batch_that_ends_at_any_step_tells_all_once(tmp_path: Path, where: str) -> None:
    class Ended(Exception):
        pass

    def end() -> None:
        raise Ended

    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("items", lateness="0 s")
        engine.register(BUSY, name="q")
        events = list(stories())
        engine.ingest(events[:3])
        engine.run_once()
        engine.ingest([*events[3:], item(99, 24 * 60 * MIN, "z")])
        with pytest.raises(Ended), hooked(crash_at(where, end)):
            engine.run_once()
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.run_once()
        assert [match.ts // MIN // 1_000_000 for match in engine.matches("q")] == [40, 220]
        assert not list(examine_home(engine.home, deep=True).problems)


def test_sql_has_the_answers(tmp_path: Path, spark: SparkSession) -> None:
    told(tmp_path / "home", 100)
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        rows = engine.sql("SELECT match, ts_max FROM matches WHERE qid = 'q' ORDER BY ts_max").collect()
        assert [tuple(row) for row in rows] == [(match.id, match.ts) for match in engine.matches("q")]


def test_a_text_is_answered_once(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.ingest(stories())
        text = "SELECT c, count() AS n FROM items[./channel_title->c] WINDOW 1 d EVERY 1 d GROUP BY c TOP 2 BY count()"
        found = [dict(match.values) for match in engine.query_once(text)]
        assert found == [{"c": "a", "n": "3"}, {"c": "b", "n": "2"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("SELECT k FROM A[./k->k] WINDOW 1 h", "k is neither grouped by nor aggregated"),
        ("SELECT k, count() AS n FROM A[./k->k] WINDOW 1 h GROUP BY k HAVING n > 3", "n is a name that SELECT gives"),
        ("SELECT count() FROM A WINDOW 1 h EVERY 2 h", "matches between the windows"),
        ("SELECT count() FROM A WINDOW 1 h TOP 3 BY count()", "TOP compares the groups"),
        ("SELECT count() FROM A WINDOW 1 h EVERY 1 h HAVING count() > 2 ON CROSSING", "ON CROSSING speaks of matches"),
        ("SELECT count() FROM A WINDOW 1 h ON CROSSING", "needs a condition"),
        ("SELECT count(), count() FROM A WINDOW 1 h", "two values have the name count"),
        ("SELECT count(x/b) FROM A->x WINDOW 1 h", "a path behind the variable x"),
        ("SELECT count() FROM A WINDOW 1 h STARTING ALL", "see what comes after the registration"),
        ("SELECT count() FROM A->x WITHOUT {y - x IN (0 s, 1 h]} B->y WINDOW 1 h", "not about absence"),
        ("SELECT count() FROM A WINDOW 1 d EVERY 1 s", "more than 10,000 windows"),
        ("A WINDOW 1 h", "nothing is said of the matches"),
        ("xscl.answers->x", "has the answers of windows"),
    ],
)
def test_refusals(text: str, message: str) -> None:
    with pytest.raises(QueryError, match=message) as refused:
        compile_query(parse_query(text), text)
    assert "^" in str(refused.value)


def test_canonical_text_is_taken_again() -> None:
    assert format_query(parse_query(BUSY)) == BUSY


def test_nobody_else_feeds_answers(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        report = engine.ingest([xscl.Event("xscl.answers", "a", 1, xml="<a/>")])
        assert [each.condition for each in report.problems] == ["XSCL_BAD_CHANNEL_NAME"]
        engine.register("SELECT count() AS n FROM A WINDOW 1 h EVERY 1 h", name="q")
        notes = engine.register("SELECT count() AS n FROM A WINDOW 2 h EVERY 1 h", name="r").notes
        assert any("nothing settles the times of A" in note for note in notes)
