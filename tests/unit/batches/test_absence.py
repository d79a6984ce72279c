"""Absence in batches: who sees which answer, what a killed process leaves behind, and what waits for whom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from absences import S, answers

import xscl
import xscl.upkeep.upkeep
from xscl.base.failpoints import hooked
from xscl.base.types import LAST_TIME
from xscl.catalog.intake_order import read_heartbeats
from xscl.catalog.tables import INTAKE_FILES, PARTS, STATE_FILES
from xscl.engine import Engine
from xscl.store.home import init_home
from xscl.upkeep.archive_export import export_home
from xscl.upkeep.archive_import import import_home
from xscl.upkeep.event_export import export_events
from xscl.upkeep.health import derived_problems

TEXT = "A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b]"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        yield made


def event(channel: str, ts: int, value: str = "1") -> xscl.Event:
    return xscl.Event(channel, f"{channel}{ts}", ts, xml=f"<e><k>{value}</k></e>")


def pending(engine: Engine) -> int:
    with engine.home.catalog.read() as connection:
        rows = sa.select(sa.func.sum(STATE_FILES.c.rows)).where(STATE_FILES.c.kind == "pending")
        return connection.scalar(rows) or 0


def test_a_newcomer_of_a_group_sees_only_what_comes(engine: Engine) -> None:
    """The same text, registered after the document that forbids the answer to the older query."""
    engine.register(TEXT, name="old")
    engine.ingest([event("B", 5)])
    engine.register(TEXT, name="new")
    engine.ingest([event("A", 1), event("A", 20)])
    engine.run_once()
    assert pending(engine) == 2
    engine.heartbeat("B", 30 * S)
    engine.run_once()
    assert answers(engine, "old") == [(["A20"], 30 * S)]
    assert answers(engine, "new") == [(["A1"], 11 * S), (["A20"], 30 * S)]
    assert pending(engine) == 0


def test_a_dropped_query_has_what_was_certain_before(engine: Engine) -> None:
    for name in ("gone", "stays"):
        engine.register(TEXT, name=name)
    engine.ingest([event("A", 1), event("A", 5)])
    engine.heartbeat("B", 11 * S)
    engine.drop("gone")
    engine.heartbeat("B", 15 * S)
    engine.run_once()
    assert answers(engine, "gone") == [(["A1"], 11 * S)]
    assert answers(engine, "stays") == [(["A1"], 11 * S), (["A5"], 15 * S)]


def test_parts_are_shared_with_queries_that_ask_them(engine: Engine) -> None:
    engine.register("SELECT a FROM A->x[./k->a]", name="members")
    engine.register(TEXT, name="absent")
    engine.register(TEXT.replace("10", "20"), name="longer")
    with engine.home.catalog.read() as connection:
        wanted = set(connection.scalars(sa.select(PARTS.c.part).where(PARTS.c.number == 0)))
    assert wanted == {next(info.gid for info in engine.queries() if info.name == "members")}
    engine.ingest([event("A", 1), event("B", 15)])
    engine.end_input()
    engine.run_once()
    assert [answers(engine, name) for name in ("members", "absent", "longer")] == [
        [(["A1"], 1 * S)],
        [(["A1"], 11 * S)],
        [],
    ]


def test_published_channels_settle_absences(engine: Engine) -> None:
    engine.add_channel("A", lateness="2 s")
    engine.add_channel("B", lateness="2 s")
    engine.register("B[./k->p] JOIN {p = q, 5} B[./k->q] PUBLISH pairs", name="publishes")
    engine.register("A->x NOT FOLLOWED BY {10} pairs", name="q")
    engine.ingest([event("A", 1), event("A", 30), event("B", 31), event("B", 33), event("B", 50)])
    engine.run_once()
    assert answers(engine, "q") == [(["A1"], 11 * S)]


@pytest.mark.parametrize("window", ["99999999999 d", "106751991 d", "y - x IN (0 s, 99999999999 d]", f"{'9' * 900} w"])
def test_a_window_may_be_longer_than_all_time(engine: Engine, window: str) -> None:
    """Its end is the greatest event time, because nothing comes behind that; so it is known when all is in."""
    operator = "WITHOUT" if "IN" in window else "NOT FOLLOWED BY"
    text = f"A->x[./k->a] {operator} {{a = b, {window}}} B->y[./k->b]"
    engine.register(text, name="q")
    engine.ingest([event("A", 1), event("A", 2, "2"), event("B", 5, "2")])
    engine.run_once()
    assert (answers(engine, "q"), pending(engine)) == ([], 1)
    engine.end_input()
    engine.run_once()
    assert answers(engine, "q") == [(["A1"], LAST_TIME)]
    assert [match.ts for match in engine.query_once(text).matches] == [LAST_TIME]


def test_a_window_may_end_before_all_time(engine: Engine) -> None:
    engine.register("A->x[./k->a] WITHOUT {a = b, x - y IN [99999999998 d, 99999999999 d]} B->y[./k->b]", name="q")
    engine.ingest([event("A", 1), event("B", 1)])
    engine.end_input()
    engine.run_once()
    assert answers(engine, "q") == [(["A1"], 1 * S)]


def test_a_process_may_end_anywhere(tmp_path: Path) -> None:
    """Each batch but the first ends once at each of its steps that no batch before has ended at."""
    steps: set[str] = set()
    ended: set[str] = set()
    came: list[float] = []

    def play(folder: Path, *, ends: bool) -> list[tuple[list[str], int]]:
        came.clear()

        def at(name: str) -> None:
            steps.add(name)
            if ends and len(came) > 1 and name.startswith("batch.") and name not in ended:
                ended.add(name)
                raise KeyboardInterrupt

        def run() -> None:
            while True:
                try:
                    engine.run_once()
                except KeyboardInterrupt:
                    continue
                return

        with hooked(at), xscl.connect(home=folder) as engine:
            engine.add_channel("A", lateness="0 s")
            engine.register(f"{TEXT} PUBLISH M CONSISTENCY STRONG", name="q")
            engine.register("M->m NOT FOLLOWED BY {1} A PUBLISH N CONSISTENCY STRONG", name="r")
            engine.register("N", name="s")
            for ts in (1, 2, 20, 40):
                came.append(ts)
                engine.ingest([event("A", ts), event("B", ts + 9, str(ts % 3))])
                engine.heartbeat("B", (ts + 5) * S)
                run()
            engine.end_input()
            run()
            return [found for query in "qrs" for found in answers(engine, query)]

    expected = play(tmp_path / "steady", ends=False)
    assert expected
    assert play(tmp_path / "often", ends=True) == expected
    assert {"batch.absence", "batch.decided", "batch.pending", "batch.publish", "batch.published"} <= ended
    assert ended == {name for name in steps if name.startswith("batch.")}


def test_runs_send_heartbeats_while_an_absence_waits(engine: Engine) -> None:
    engine.add_channel("B", wall="1min")
    engine.register(TEXT, name="q")
    engine.ingest([event("A", 1)])
    engine.run_once()
    engine.run_once()
    with engine.home.catalog.read() as connection:
        assert [channel for _, channel, _ in read_heartbeats(connection)] == ["B"]
    assert answers(engine, "q") == [(["A1"], 11 * S)]
    assert engine.run_once() == []


def test_homes_and_event_files_take_absences_along(engine: Engine, tmp_path: Path) -> None:
    engine.register(TEXT, name="q")
    engine.ingest([event("A", 1), event("A", 7), event("B", 9)])
    engine.heartbeat("B", 11 * S)
    engine.ingest([event("A", 10)])
    engine.run_once()
    with (tmp_path / "home.tar").open("wb") as stream:
        export_home(engine.home, stream)
    with (tmp_path / "events.ndjson").open("wb") as stream:
        export_events(engine.home, stream)
    engine.end_input()
    engine.run_once()
    expected = answers(engine, "q")
    assert expected == [(["A10"], 20 * S)]
    with engine.home.catalog.read() as connection:
        assert list(derived_problems(connection)) == []
    with (tmp_path / "home.tar").open("rb") as stream:
        import_home(tmp_path / "moved", stream)
    init_home(tmp_path / "again")
    for name in ("moved", "again"):
        with xscl.connect(home=tmp_path / name) as other:
            if name == "again":
                assert not other.ingest(tmp_path / "events.ndjson").rejected
            other.end_input()
            other.run_once()
            assert answers(other, "q") == expected


def test_texts_are_asked_once_as_if_nothing_came_any_more(engine: Engine) -> None:
    engine.add_channel("A", lateness="3 s")
    engine.ingest([event("A", 1), event("A", 20), event("B", 25), event("A", 40), event("A", 2)])
    found = [([each.id for each in match.events], match.ts) for match in engine.query_once(TEXT)]
    assert found == [(["A1"], 11 * S), (["A40"], 50 * S)]  # A2 is late


@pytest.mark.parametrize("level", ["STRONG", "MIDDLE"])
@pytest.mark.parametrize("change", ["KEEP", "RETRACT"])
def test_a_late_member_that_is_replayed_gets_its_answer(engine: Engine, level: str, change: str) -> None:
    """Of one block and of two, with what came before its replay, and with what comes after."""
    for channel in "ABC":
        engine.add_channel(channel, lateness="5 s")
    two = "A[./k->a] FOLLOWED BY {a = c, 60 s} C[./k->c] WITHOUT {a = b, BETWEEN} B[./k->b]"
    for name, text in (("one", TEXT), ("two", two)):
        engine.register(f"{text} CONSISTENCY {level} ON CHANGE {change}", name=name)
    engine.register(TEXT, name="gone")
    engine.ingest([event("C", 3), event("A", 30, "9"), event("B", 40, "9"), event("A", 2)])
    engine.ingest([event("A", 4, "2"), event("B", 35, "9")])
    engine.run_once()
    assert answers(engine, "one") == answers(engine, "two") == []
    engine.drop("gone")
    assert engine.replay_late(ids=["A2"]).events == 1
    engine.run_once()
    assert answers(engine, "one") == [(["A2"], 12 * S)] and answers(engine, "two") == [(["A2", "C3"], 3 * S)]
    engine.ingest([event("C", 29), event("C", 50, "9"), event("B", 60, "9")])
    engine.run_once()
    assert answers(engine, "two") == [(["A2", "C3"], 3 * S), (["A2", "C29"], 29 * S)]
    assert answers(engine, "one") == [(["A2"], 12 * S)] and answers(engine, "gone") == []


def test_members_whose_events_have_gone_keep_their_items(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Members older than their channels hold go before an absence is decided, which other versions do not forbid."""
    monkeypatch.setattr(xscl.upkeep.upkeep, "EVERY", 1)
    for channel in "AB":
        engine.add_channel(channel, lateness="9 s", retention="1 s", clock="one")
    found = "A->x[./k = '1'][./k->a] NEXT {a = b} B->y[./k->b] WITHOUT {a = c, 4} A->z[./k->c]"
    engine.register(found, name="q")

    def take(channel: str, id_: str, ts: float, value: str) -> int:
        xml = f"<e><k>{value}</k><n>{ts}</n></e>"
        engine.ingest([xscl.Event(channel, id_, ts, xml=xml, feed="f")])
        return sum(report.matches for report in engine.run_once())

    assert take("A", "j", 100, "0") == 0
    # The first version of the item is of no interest to the query, the others are members.
    assert [take("A", "i", 91, "0"), take("A", "i", 92, "1"), take("A", "i", 93, "1"), take("B", "y", 96, "1")] == [
        0
    ] * 4
    assert [take("A", "j", ts, "0") for ts in (101, 102, 103, 104)] == [0] * 4
    with engine.home.catalog.read() as connection:
        assert not {3, 4, 5, 6}.intersection(connection.scalars(sa.select(INTAKE_FILES.c.first)))
    assert take("A", "j", 110, "0") == 2
    # Another item forbids.
    assert [take("A", "j", 140, "0"), take("A", "k", 132, "1"), take("A", "l", 133, "1"), take("B", "z", 136, "1")] == [
        0
    ] * 4
    assert [take("A", "j", ts, "0") for ts in (141, 142, 143, 144, 150)] == [0] * 5
