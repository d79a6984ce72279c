"""Removals of events take back matches of queries with ON CHANGE RETRACT, and of no others."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import xscl
from xscl.base.errors import SourceError
from xscl.base.failpoints import hooked
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.retained_from import keep_times
from xscl.engine import Engine
from xscl.ingest.records import Removal
from xscl.intake.intake import Intake
from xscl.store import results
from xscl.upkeep.event_export import export_events
from xscl.upkeep.events import EventUpkeep, Kept
from xscl.upkeep.upkeep import Upkeep

SECOND = 1_000_000
PAIRS = "A[./k->a] JOIN {a = b, 10} B[./k->b]"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        made.register(f"{PAIRS} ON CHANGE RETRACT", name="now")
        made.register(PAIRS, name="ever")
        yield made


def line(channel: str, id_: str, ts: int = 1, k: int = 1) -> dict[str, object]:
    return {"channel": channel, "id": id_, "ts": ts, "xml": f"<e><k>{k}</k></e>"}


def removal(channel: str, id_: object) -> dict[str, object]:
    return {"retract": {"channel": channel, "id": id_}}


def held(engine: Engine, name: str = "now") -> list[str]:
    engine.run_once()
    return sorted(" ".join(event.id for event in match.events) for match in engine.matches(name))


def gone(engine: Engine) -> list[tuple[str, str | None]]:
    """Reason and event of what was taken back, by order."""
    told = [match.retracted for match in engine.changes("now", after="start") if match.retracted is not None]
    return [(one.because, None if one.by is None else one.by[1]) for one in told]


def test_a_removal_takes_back_what_changes_tell_of(engine: Engine) -> None:
    engine.ingest([line("A", "a1"), line("A", "a2"), line("B", "b1"), line("B", "b2")])
    assert held(engine) == ["a1 b1", "a1 b2", "a2 b1", "a2 b2"]
    report = engine.ingest([removal("B", "b1")])
    assert (report.removed, report.missing, report.rejected) == (1, 0, 0)
    assert held(engine) == ["a1 b2", "a2 b2"]
    assert gone(engine) == [("removed", "b1")] * 2
    assert engine.retract("A", ["a2", "a9"]).removed == 1
    engine.ingest([line("A", "a3"), line("B", "b3")])
    assert held(engine) == ["a1 b2", "a1 b3", "a3 b2", "a3 b3"]
    assert len(held(engine, "ever")) == 9


def test_removed_within_a_batch_a_match_was_never_there(engine: Engine) -> None:
    engine.ingest([line("A", "a1"), line("B", "b1"), removal("A", "a1"), line("B", "b2")])
    assert held(engine) == []
    assert list(engine.changes("now", after="start")) == []
    assert held(engine, "ever") == ["a1 b1", "a1 b2"]


def test_a_query_that_was_dropped_before_keeps_its_matches(engine: Engine) -> None:
    engine.ingest([line("A", "a1"), line("B", "b1")])
    engine.drop("now")
    engine.register(f"{PAIRS} ON CHANGE RETRACT", name="later")
    engine.ingest([line("A", "a2"), line("B", "b2"), removal("A", "a1"), removal("A", "a2")])
    assert held(engine) == ["a1 b1"]
    assert held(engine, "later") == []


def test_removals_that_follow_each_other_are_one_transaction(engine: Engine) -> None:
    engine.ingest([line("A", f"a{n}") for n in range(5)] + [line("B", "b1")])
    steps: list[str] = []
    lines = [removal("A", id_) for id_ in ("a0", "a1", "a1", "a9")] + [line("A", "a1", 2)]
    with hooked(steps.append):
        report = engine.ingest([*lines, removal("A", "a1"), removal("B", "b9"), removal("A", "a2")])
    # The runs are of four removals, an event, and a removal three times.
    assert steps.count("intake.commit") == 5
    assert (report.removed, report.missing, report.taken) == (4, 3, 1)
    assert [note.partition(": ")[2] for note in report.notes] == [
        "A has no event 'a1' to remove",
        "A has no event 'a9' to remove",
        "B has no event 'b9' to remove",
    ]
    assert held(engine) == ["a3 b1", "a4 b1"]


def test_removals_that_are_refused_are_refused_one_by_one(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "strict") as engine:
        report = Intake(engine.home, strict=True).take([Removal("X", (id_,), f"f:{id_}") for id_ in "12"])
    assert [(each.source, each.condition) for each in report.problems] == [
        ("f:1", "XSCL_UNKNOWN_CHANNEL"),
        ("f:2", "XSCL_UNKNOWN_CHANNEL"),
    ]


def test_what_is_not_there_is_counted_and_told(engine: Engine) -> None:
    report = engine.ingest([removal("A", "a1"), removal("nowhere", "x"), line("A", "a1"), line("B", "b1")])
    assert (report.removed, report.missing, report.rejected, report.taken) == (0, 2, 0, 2)
    assert report.notes == [
        "item 1: A has no event 'a1' to remove",
        "item 2: nowhere has no event 'x' to remove",
    ]
    # A removal speaks of what came before it.
    assert held(engine) == ["a1 b1"]
    assert engine.retract("A", "a1").removed == 1
    again = engine.retract("A", "a1")
    assert (again.removed, again.missing) == (0, 1)
    with pytest.raises(SourceError, match="XSCL_UNKNOWN_CHANNEL"):
        engine.retract("nowhere", "x", strict=True).raise_if_rejected()


@pytest.mark.parametrize("forgotten", [False, True])
@pytest.mark.parametrize("as_rows", [False, True])
def test_what_is_out_of_sight_is_not_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forgotten: bool, as_rows: bool
) -> None:
    """Whether upkeep has come to an event that is beyond its retention makes no difference to a removal."""
    monkeypatch.setattr(Upkeep, "beside", lambda _: nullcontext(lambda: None))
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("A", kind="rows" if as_rows else "xml", lateness="0 s", retention="10 s")
        if as_rows:
            times = pa.array([n * SECOND for n in range(30)], pa.timestamp("us", "UTC"))
            engine.ingest(pa.table({"no": list(range(30)), "t": times}), channel="A", id="no", ts="t")
        else:
            engine.ingest([{"channel": "A", "id": str(n), "ts": n, "xml": "<e/>"} for n in range(30)])
        assert engine.retract("A", "1").removed == 1  # its batch has not come
        engine.run_once()
        if forgotten:
            assert sum(EventUpkeep(engine.home).work(Kept(engine.home.catalog.ask(keep_times)))) > 0
        assert [engine.retract("A", str(n)).removed for n in (0, 2, 18, 19, 29)] == [0, 0, 0, 1, 1]
        assert engine.home.catalog.ask(read_last_places)[1] == 33


def test_an_id_comes_again_as_a_newer_version(engine: Engine) -> None:
    engine.ingest([line("A", "a1"), line("B", "b1")])
    assert held(engine) == ["a1 b1"]
    engine.retract("A", "a1")
    # The same text is another event now; an id that is held is still taken once.
    report = engine.ingest([line("A", "a1"), line("A", "a1"), line("A", "a1", k=2)])
    assert (report.taken, report.versions, report.duplicates, report.rejected) == (1, 1, 1, 1)
    assert held(engine) == ["a1#2 b1"]
    assert engine.retract("A", "a1").removed == 1
    assert held(engine) == []


@pytest.mark.parametrize("ids", [["1", "2", "3"], ["x", "y", "z"]])
def test_rows_are_removed_and_come_again(engine: Engine, ids: list[str]) -> None:
    rows = pa.table({"no": ids, "k": ["1", "1", "2"]})
    engine.register("T[./k->a] JOIN {a = b, 10 w} B[./k->b] ON CHANGE RETRACT", name="rows")
    engine.ingest(rows, channel="T", id="no")
    engine.ingest([xscl.Event("B", "b", xml="<e><k>1</k></e>")])
    first, second, _ = ids
    assert held(engine, "rows") == [f"{first} b", f"{second} b"]
    assert engine.retract("T", [first, ids[2]]).removed == 2
    assert held(engine, "rows") == [f"{second} b"]
    report = engine.ingest(rows, channel="T", id="no")
    assert (report.taken, report.duplicates, report.rejected) == (2, 1, 0)
    assert held(engine, "rows") == [f"{first}#2 b", f"{second} b"]


def test_streams_name_their_events_as_they_were_given(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "streams") as engine:
        for name in ("left", "right"):
            engine.add_channel(name, of="C")
        engine.register("C[./k = '1'] ON CHANGE RETRACT", name="now")
        engine.ingest([line("left", "x"), line("right", "x"), line("right", "y")])
        assert held(engine) == ["x", "x (right)", "y"]
        assert engine.retract("right", ["x", "x (right)"]).missing == 1
        assert held(engine) == ["x", "y"]


def test_a_removal_is_exported_in_its_place(engine: Engine, tmp_path: Path) -> None:
    engine.ingest([line("A", "a1"), removal("A", "a1"), line("A", "a1"), line("B", "b1"), line("B", "b2")])
    engine.ingest([removal("B", "b2"), line("A", "a2")])
    expected = held(engine)
    assert expected == ["a1#2 b1", "a2 b1"]
    stream = io.BytesIO()
    export_events(engine.home, stream)
    lines = [json.loads(each) for each in stream.getvalue().splitlines()]
    assert [each["retract"] for each in lines if "retract" in each] == [
        {"channel": "A", "id": "a1"},
        {"channel": "B", "id": "b2"},
    ]
    (tmp_path / "events.jsonl").write_bytes(stream.getvalue())
    with xscl.connect(home=tmp_path / "other") as other:
        assert other.ingest(tmp_path / "events.jsonl").removed == 2
        assert held(other) == expected
        assert [match.id for match in other.matches("now")] == [match.id for match in engine.matches("now")]


@pytest.mark.parametrize(
    "bad", [7, {"channel": "A"}, {"id": "x"}, {"channel": "A", "id": ""}, {"channel": "A", "id": 1, "ts": 1}]
)
def test_lines_that_are_no_removals_are_refused(engine: Engine, bad: object) -> None:
    report = engine.ingest([{"retract": bad}])
    assert [problem.condition for problem in report.problems] == ["XSCL_BAD_EVENT_LINE"]


def test_a_removal_reads_the_results_that_may_have_the_event(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str | Path] = []
    reads = results.read_columns

    def counted(file: str | Path, *asked: Any, **named: Any) -> pa.Table:
        read.append(file)
        return reads(file, *asked, **named)

    batches = 6
    for number in range(batches):
        ts = 100 * number
        engine.ingest([line(channel, f"{channel}{number}", ts) for channel in ("A", "B", "C")])
        engine.run_once()
    monkeypatch.setattr(results, "read_columns", counted)
    for place, id_ in enumerate(["A0", "A5", "C1"]):
        read.clear()
        assert engine.retract(id_[0], [id_]).removed == 1
        engine.run_once()
        folders = {Path(file).relative_to(engine.home.root).parts[1] for file in read}
        assert len(folders) == (1 if id_[0] == "A" else 0), id_
        assert len(held(engine)) == batches - min(place + 1, 2)


def test_a_question_finds_what_is_there_when_it_is_asked(engine: Engine) -> None:
    """Removed events are no members, forbid nothing, and are in no query in parentheses; published ones likewise."""
    silent = "A->x[./k->a] NOT FOLLOWED BY {a = b, 5} B[./k->b]"
    engine.register(f"{silent} PUBLISH silent CONSISTENCY MIDDLE", name="silent")
    engine.ingest([line("A", "a1"), line("A", "a2"), line("A", "a3", k=3), line("B", "b1", ts=2)])
    engine.run_once()
    engine.ingest([line("B", "b3", ts=3, k=3), removal("A", "a2")])

    def asked(text: str) -> list[str]:
        return sorted(" ".join(event.id for event in match.events) for match in engine.query_once(text))

    # A removal that waits for the next batch counts like an event that does.
    assert asked("A/e") == asked("A/e ON CHANGE RETRACT") == ["a1", "a3"]
    engine.run_once()
    assert asked(PAIRS) == ["a1 b1", "a3 b3"] and asked(silent) == asked("silent//k") == []
    assert len(asked("(SELECT k FROM A[./k->k])[./k->x]")) == 2
    engine.ingest([removal("B", "b1"), removal("B", "b3")])
    assert asked(silent) == ["a1", "a3"]
    # Whoever stands goes on as if nothing had been removed.
    engine.register("A/e STARTING ALL", name="past")
    assert held(engine, "past") == ["a1", "a2", "a3"] and held(engine, "ever") == ["a1 b1", "a2 b1", "a3 b3"]
