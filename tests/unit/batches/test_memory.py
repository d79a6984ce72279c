"""Queries that forget what comes too late for them: what they see, what is counted, and who is told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from absences import S, answers

import xscl
from xscl.answers.consistency import consistency_rows
from xscl.batches.deciding import too_late
from xscl.catalog.queries import Remembering
from xscl.engine import Engine

TEXT = "A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b] CONSISTENCY"


def event(channel: str, ts: int, value: str = "1") -> xscl.Event:
    return xscl.Event(channel, f"{channel}{ts}", ts, xml=f"<e><k>{value}</k></e>")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        yield made


def test_what_comes_too_late_is_counted_for_whom_it_is(engine: Engine) -> None:
    for name in ("A", "B"):
        engine.add_channel(name, lateness="20 s")
    engine.register(f"{TEXT} WEAK", name="weak")
    engine.register(f"{TEXT} BLOCKING 0 s MEMORY 4 s", name="between")
    engine.register(f"{TEXT} MIDDLE", name="middle")
    engine.ingest([event("A", 1), event("B", 8, "2"), event("B", 5)])
    engine.register(f"{TEXT} WEAK", name="new")
    engine.ingest([event("B", 2, "3"), event("B", 12, "4")])
    (report,) = engine.run_once()
    assert report.late_for == 2
    counts = {info.name: (info.level, info.late_for) for info in engine.queries()}
    between = "BLOCKING 0 s MEMORY 4 s"
    assert counts == {"weak": ("WEAK", 2), "between": (between, 1), "middle": ("MIDDLE", 0), "new": ("WEAK", 1)}
    assert {name: answers(engine, name) for name in counts} == {
        "weak": [(["A1"], 11 * S)],
        **dict.fromkeys(("between", "middle", "new"), []),
    }
    engine.ingest([event("A", 30), event("B", 25, "9")])
    engine.run_once()
    rows = {row["query"]: row for row in consistency_rows(engine.home)}
    figures = ("level", "blocking", "memory", "inserts", "retractions", "late_for", "waiting", "correctable")
    told = {name: [row[figure] for figure in figures] for name, row in rows.items()}
    assert told["weak"] == ["WEAK", "0 s", "0 s", 1, 0, 2, 1, 0]
    assert told["between"] == [between, "0 s", "4 s", 0, 0, 1, 1, 0]
    assert told["middle"][:5] == ["MIDDLE", "0 s", "20 s", 0, 0]


def test_queries_in_parentheses_tell_their_answers(engine: Engine) -> None:
    """Nobody lists their matches, and the rows about their consistency count them."""
    inner = "SELECT a FROM A[./k->a] NOT FOLLOWED BY {a = b, 10} B[./k->b]"
    engine.register(f"({inner})[./a->c] JOIN {{c = d, 1 h}} A[./k->d]", name="outer")
    engine.register(f"{inner} CONSISTENCY STRONG", name="alone")
    engine.ingest([event("A", 1), event("A", 2)])
    engine.heartbeat("B", 50 * S)
    engine.run_once()
    rows = list(consistency_rows(engine.home))
    assert [str(row["query"]).startswith("xscl.sub.") for row in rows] == [False, True]
    assert [row["inserts"] for row in rows] == [2, 2]


def test_published_documents_are_behind_what_their_publishers_read(engine: Engine) -> None:
    engine.register("A PUBLISH P", name="feed")
    text = "P->x NOT FOLLOWED BY {2} B CONSISTENCY"
    for level in ("WEAK", "BLOCKING 1 MEMORY 5"):
        engine.register(f"{text} {level}", name=level.partition(" ")[0].lower())
    for events in ([event("A", 10)], [event("A", 5), event("A", 20)], [event("B", 40)]):
        engine.ingest(events)
        engine.run_once()
    assert [ts for _, ts in answers(engine, "weak")] == [12 * S, 22 * S]
    assert [ts for _, ts in answers(engine, "blocking")] == [7 * S, 12 * S, 22 * S]


def test_a_replayed_event_is_remembered(engine: Engine) -> None:
    engine.add_channel("B", lateness="6 s")
    engine.register(f"{TEXT} WEAK", name="weak")
    engine.ingest([event("A", 1), event("A", 2, "2"), event("B", 50), event("B", 46, "2"), event("B", 5)])
    engine.run_once()
    assert answers(engine, "weak") == [(["A1"], 11 * S), (["A2"], 12 * S)]
    engine.replay_late()
    engine.run_once()
    assert answers(engine, "weak") == [(["A2"], 12 * S)]
    retracted = engine.changes("weak")[-1].retracted
    assert retracted is not None and (retracted.because, retracted.by) == ("replayed", ("B", "B5"))
    assert [info.late_for for info in engine.queries()] == [1]


def test_what_is_asked_once_forgets_as_well(engine: Engine) -> None:
    engine.ingest([event("A", 1), event("B", 9, "2"), event("B", 5)])
    for level, found in (("WEAK", ["A1"]), ("BLOCKING 1 MEMORY 4", []), ("STRONG", [])):
        assert [match.events[0].id for match in engine.query_once(f"{TEXT} {level}").matches] == found


def test_queries_are_read_where_an_event_is_behind(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    reads = too_late.read_remembering

    def counted(connection: sa.Connection, first: int, last: int) -> list[Remembering]:
        read.append(first)
        return reads(connection, first, last)

    monkeypatch.setattr(too_late, "read_remembering", counted)
    for name in ("A", "B"):
        engine.add_channel(name, lateness="20 s")
    engine.register(f"{TEXT} BLOCKING 0 s MEMORY 4 s", name="between")
    late = []
    for ts in (1, 8, 5, 3, 9):
        engine.ingest([event("B", ts)])
        late += [report.late_for for report in engine.run_once()]
    assert (late, len(read)) == ([0, 0, 0, 1, 0], 1)
