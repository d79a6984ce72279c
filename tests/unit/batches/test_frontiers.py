"""Frontiers: heartbeats settle times as lateness does, also by the wall clock, and published channels hand theirs on.

The oracle of absence says how far times are settled and which events are late.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from budget import examples
from oracle.absence import Beat, Intake, Terms
from oracle.evaluate import Doc

import xscl
from xscl.answers.explaining.explain import explain
from xscl.answers.frontiers import frontiers
from xscl.base.errors import CatalogError
from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.batches import walls
from xscl.catalog.intake_order import read_heartbeats
from xscl.catalog.tables import CHANNELS, LATE
from xscl.engine import Engine
from xscl.ingest.records import Heartbeat
from xscl.upkeep.event_export import export_events

S = 1_000_000


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        yield made


def event(channel: str, ts: int, value: str = "1") -> xscl.Event:
    return xscl.Event(channel, f"{channel}{ts}{value}", ts, xml=f"<e><k>{value}</k></e>")


def watermark(engine: Engine, channel: str) -> int | None:
    with engine.home.catalog.read() as connection:
        return connection.scalar(sa.select(CHANNELS.c.watermark).where(CHANNELS.c.name == channel))


def held(engine: Engine) -> int:
    return engine.run_once()[-1].state_rows


def test_a_heartbeat_settles_times_and_ends_state(engine: Engine) -> None:
    engine.register("A[./k->a] FOLLOWED BY {a = b, 10} B[./k->b]", name="q")
    engine.ingest([event("A", 1), event("A", 20)])
    assert held(engine) == 4
    engine.heartbeat("B", 11 * S)
    assert held(engine) == 2  # B@11 was the last that A@1 could join
    assert watermark(engine, "B") == 11 * S + 1
    report = engine.ingest([event("B", 11), event("B", 12)])
    assert (report.taken, report.late) == (2, 1)
    with engine.home.catalog.read() as connection:
        assert list(connection.scalars(sa.select(LATE.c.message))) == [
            "not behind the heartbeat of 1970-01-01T00:00:11Z"
        ]
    engine.run_once()
    assert [row.source for row in frontiers_of(engine)] == [None, "heartbeat"]


def frontiers_of(engine: Engine) -> list[object]:
    with engine.home.catalog.read() as connection:
        return list(frontiers(engine.home, connection))


def test_a_heartbeat_is_a_line_of_event_files_and_is_exported(engine: Engine, tmp_path: Path) -> None:
    lines = [{"channel": "A", "id": "1", "ts": 5, "xml": "<a/>"}, {"heartbeat": {"channel": "A", "ts": 7}}]
    lines += [{"heartbeat": {"channel": "A"}}, {"heartbeat": 7}, {"channel": "A", "id": "2", "ts": 7, "xml": "<b/>"}]
    source = tmp_path / "lines.ndjson"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = engine.ingest(source)
    assert (report.taken, report.late, report.heartbeats, report.rejected) == (2, 1, 1, 2)
    engine.run_once()
    with (tmp_path / "out.ndjson").open("wb") as stream:
        export_events(engine.home, stream)
    out = [json.loads(line) for line in (tmp_path / "out.ndjson").read_text().splitlines()]
    assert out[1] == {"heartbeat": {"channel": "A", "ts": "1970-01-01T00:00:07Z"}}
    with xscl.connect(home=tmp_path / "again") as other:
        assert other.ingest(tmp_path / "out.ndjson").late == 1


def test_heartbeats_of_streams_and_published_channels_are_refused(engine: Engine) -> None:
    engine.add_channel("A")
    engine.add_channel("part", of="A")
    engine.register("A PUBLISH c", name="q")
    for name in ("part", "c"):
        with pytest.raises(CatalogError, match="XSCL_BAD_CHANNEL"):
            engine.heartbeat(name, 1)
    with pytest.raises(CatalogError, match="XSCL_UNKNOWN_CHANNEL"):
        engine.heartbeat("Z", 1, strict=True)
    assert engine.ingest([Heartbeat("part", 1, "here")]).rejected == 1


def test_runs_send_heartbeats_by_the_wall_clock_while_something_waits(engine: Engine) -> None:
    engine.add_channel("B", wall="1min")
    assert engine.run_once() == []
    engine.register("A[./k->a] FOLLOWED BY {a = b, 10} B[./k->b]", name="q")
    engine.ingest([event("A", 1)])
    engine.run_once()
    engine.run_once()  # there is join state now, so B's times are wanted
    with engine.home.catalog.read() as connection:
        beats = read_heartbeats(connection)
    assert [channel for _, channel, _ in beats] == ["B"]
    assert engine.run_once() == []  # nothing waits any more


def test_heartbeats_by_the_wall_clock_come_while_there_is_much_to_do(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(1_000 * S, 10 * S)
    monkeypatch.setattr(walls, "now_micros", lambda: next(clock))
    engine.add_channel("B", wall="1min")
    engine.register("A[./k->a] FOLLOWED BY {a = b} B[./k->b]", name="q")
    engine.ingest([event("A", 1)])
    engine.run_once()
    engine.ingest([event("other", at) for at in range(5)])
    left = iter([False, False, False, True])
    assert [report.events for report in engine.run_once(batch_docs=1, stop=lambda: next(left))] == [1, 1, 1]
    assert beats_of(engine) == ["B"] * 4  # ten seconds go by each time; 7.5 are a step


def beats_of(engine: Engine) -> list[str]:
    """Channels of the heartbeats so far."""
    with engine.home.catalog.read() as connection:
        return [channel for _, channel, _ in read_heartbeats(connection)]


def test_heartbeats_alone_call_for_no_others(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run returns, however short the wall and however slow its batches."""
    clock = itertools.count(1_000 * S, 10 * S)
    monkeypatch.setattr(walls, "now_micros", lambda: next(clock))
    engine.add_channel("B", wall="1us")
    engine.add_channel("other", wall="1us")
    engine.register("A[./k->a] FOLLOWED BY {a = b} B[./k->b]", name="q")
    engine.ingest([event("A", 1)])
    left = iter([*[False] * 5, True])
    assert [report.events for report in engine.run_once(stop=lambda: next(left))] == [1, 0]
    assert beats_of(engine) == ["B"]  # nothing waits for the other one


def test_published_channels_hand_watermarks_on(engine: Engine) -> None:
    for name in ("A", "B", "C"):
        engine.add_channel(name, lateness="10 s")
    engine.register("A->x[./k->a] JOIN {a = b, 5 s} B[./k->b] PUBLISH c", name="first")
    engine.register("c->y[.//k->d] JOIN {d = e, 5 s} C[./k->e]", name="second")
    rows = []
    for at in range(0, 300, 10):
        engine.ingest([event(name, at, str(at)) for name in ("A", "B", "C")])
        rows.append(engine.run_once()[-1].state_rows)
    assert watermark(engine, "c") == watermark(engine, "A") == 280 * S
    assert [row.source for row in frontiers_of(engine)] == ["lateness", "lateness", "lateness", "published"]
    assert max(rows[-10:]) <= 1.2 * max(rows[5:15])
    assert len(engine.matches("second")) == 30


def test_older_documents_of_published_channels_are_taken_again(engine: Engine) -> None:
    """A late event serves queries of one block, so what they publish may be older than the channel's watermark."""
    engine.add_channel("A", lateness="10 s")
    engine.add_channel("B", lateness="10 s")
    engine.register("A->x PUBLISH c", name="view")
    engine.register("c[./k->a] JOIN {a = b, 5 s} B[./k->b]", name="q")
    engine.ingest([event("A", 0, "0"), event("B", 20)])
    engine.run_once()
    for at in (100, 200):
        engine.ingest([event("A", at, "0"), event("B", at, "0")])
        engine.run_once()
    engine.ingest([event("A", 21)])  # late
    engine.run_once()
    assert [[e.id for e in match.events][1] for match in engine.matches("q")] == ["B201", "B1000", "B2000"]


@pytest.mark.parametrize("time", [LAST_TIME + 1, (1 << 63) - 1, 1 << 63, 10**30, FIRST_TIME - 1, -(1 << 63) - 1])
def test_heartbeats_have_times_that_events_may_have(engine: Engine, time: int) -> None:
    with pytest.raises(CatalogError, match="XSCL_BAD_EVENT_TIME") as refused:
        engine.heartbeat("A", time)
    assert "another unit" in (refused.value.hint or "")
    report = engine.ingest([Heartbeat("A", time, "line 1"), event("A", 1)])
    assert [each.condition for each in report.problems] == ["XSCL_BAD_EVENT_TIME"]
    assert (report.taken, report.heartbeats) == (1, 0)
    assert len(engine.run_once()) == 1


@pytest.mark.parametrize("runs", [False, True])
@pytest.mark.parametrize("ends", [False, True])
def test_heartbeats_behind_a_drop_do_not_ask_when_batches_run(engine: Engine, runs: bool, ends: bool) -> None:
    engine.register("A PUBLISH c", name="view")
    engine.register("c[./k->a] JOIN {a = b, 50 s} B[./k->b]", name="q")
    engine.ingest([event("A", 1, "0")])
    engine.drop("view")
    if runs:
        engine.run_once()
    if ends:
        engine.ingest([event("c", 2, "1"), event("B", 3, "0")])
        engine.end_input()
    else:
        engine.heartbeat("c", 20 * S)
        engine.ingest([event("B", 3, "0")])
    assert engine.ingest([event("c", 4, "0")]).late == 1
    engine.run_once()
    assert len(engine.matches("q")) == 1


def test_what_is_exported_behind_the_end_comes_in_again(engine: Engine, tmp_path: Path) -> None:
    engine.ingest([event("A", 1)])
    engine.register("B->x NOT FOLLOWED BY {1} A->y", name="q")
    engine.end_input()
    engine.run_once()
    absent = explain(engine.home.catalog, "q").record()["absent"]
    assert "9999-12-31" in json.dumps(absent)
    with (tmp_path / "events.jsonl").open("wb") as stream:
        export_events(engine.home, stream)
    with xscl.connect(home=tmp_path / "other") as other:
        assert other.ingest(tmp_path / "events.jsonl").heartbeats == 1
        other.run_once()
        assert watermark(other, "A") == watermark(engine, "A") == LAST_TIME + 1


@pytest.mark.parametrize("seed", range(examples(20)))
def test_frontiers_are_those_of_the_oracle(tmp_path: Path, seed: int) -> None:
    choose = random.Random(seed)
    terms = {
        name: Terms(choose.choice([None, 3 * S]), choose.choice([None, "shared"]), choose.choice([None, None, 5 * S]))
        for name in "ABC"
    }
    events: dict[Doc, int] = {}
    beats: dict[int, Beat] = {}
    with xscl.connect(home=tmp_path / "home") as engine:
        for name, each in terms.items():
            seconds = {
                option: f"{value // S} s"
                for option, value in (("lateness", each.lateness), ("idle", each.idle))
                if value
            }
            engine.add_channel(name, **seconds, **({"clock": each.clock} if each.clock else {}))
        engine.register("A[./k->a] FOLLOWED BY {a = b, 10} B[./k->b]", name="q")
        place = 1
        for number in range(choose.randint(5, 20)):
            channel, ts = choose.choice("ABC"), (number + choose.randint(-8, 3)) * S
            if choose.random() < 0.3:
                place = engine.heartbeat(channel, ts)
                beats[place] = Beat(channel, ts)
            else:
                engine.ingest([event(channel, ts // S, str(number))])
                place += 1
                events[Doc(channel, f"{channel}{ts // S}{number}", ts, "<e/>")] = place
            if choose.random() < 0.3:
                engine.run_once()
        engine.run_once()
        intake = Intake(events, beats, terms)
        with engine.home.catalog.read() as connection:
            late = set(connection.scalars(sa.select(LATE.c.id)))
        assert late == {doc.id for doc in intake.judged() if doc.late}
        for name in terms:
            settled = intake.settled(name, place)
            assert watermark(engine, name) == (None if settled < -(1 << 59) else settled)
