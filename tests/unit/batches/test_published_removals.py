"""Documents of matches that are taken back: removed once, wherever a process ends, and taken along by archives."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from absences import answers

import xscl
from xscl.base.failpoints import crash_at, hooked
from xscl.base.types import Retraction
from xscl.catalog.removals import read_removals
from xscl.engine import Engine
from xscl.upkeep.event_export import export_events
from xscl.upkeep.health import examine_home

PUBLISHER = "A->x[./k->a] NOT FOLLOWED BY {a = b, 10} B->y[./k->b] PUBLISH M"


def event(channel: str, ts: int, key: str = "1") -> xscl.Event:
    return xscl.Event(channel, f"{channel}{ts}", ts, xml=f"<e><k>{key}</k></e>")


def begun(folder: Path) -> Engine:
    """A home in which two orders are unpaid as far as is known, and one pair of them."""
    engine = xscl.connect(home=folder)
    for name in "AB":
        engine.add_channel(name, clock="one")
    engine.register(f"{PUBLISHER} CONSISTENCY MIDDLE", name="p")
    engine.register("M->m FOLLOWED BY {1 h} M->n PUBLISH N ON CHANGE RETRACT", name="r")
    engine.register("N ON CHANGE RETRACT", name="s")
    engine.ingest([event("A", 1), event("A", 2, "2"), event("A", 40, "3")])
    engine.run_once()
    assert found(engine, "prs") == [2, 1, 1]
    return engine


def found(engine: Engine, names: Sequence[str]) -> list[int]:
    return [len(answers(engine, name)) for name in names]


def removed(engine: Engine) -> Sequence[str]:
    with engine.home.catalog.read() as connection:
        return [each.channel for each in read_removals(connection)]


@pytest.mark.parametrize("where", ["batch.decided", "batch.before", "batch.commit", "batch.committed"])
def test_a_process_may_end_anywhere(where: str, tmp_path: Path) -> None:
    class Ended(Exception):
        pass

    def end() -> None:
        raise Ended

    with begun(tmp_path / "home") as engine:
        engine.ingest([event("B", 9)])
        with pytest.raises(Ended), hooked(crash_at(where, end)):
            engine.run_once()
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.run_once()
        assert found(engine, "prs") == [1, 0, 0]
        assert removed(engine) == ["M", "N"]
        assert not list(examine_home(engine.home, deep=True).problems)
        told = [match.retracted for name in "prs" for match in engine.changes(name) if match.retracted]
        assert [each.because for each in told] == ["late", "removed", "removed"]


def test_event_files_have_no_such_removals(tmp_path: Path) -> None:
    with begun(tmp_path / "home") as engine:
        engine.ingest([event("B", 9)])
        engine.run_once()
        with (tmp_path / "events.ndjson").open("wb") as stream:
            export_events(engine.home, stream)
    assert b"retract" not in (tmp_path / "events.ndjson").read_bytes()


def test_a_replay_removes_what_was_final(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        for name in "AB":
            engine.add_channel(name, lateness="5 s", clock="one")
        engine.register(f"{PUBLISHER} CONSISTENCY STRONG", name="p")
        engine.register("M->m ON CHANGE RETRACT", name="follows")
        engine.register("M->m", name="keeps")
        engine.ingest([event("A", 1), event("A", 40, "3"), event("B", 9)])
        engine.run_once()
        assert found(engine, ("p", "follows", "keeps")) == [1, 1, 1]
        engine.replay_late()
        engine.run_once()
        assert found(engine, ("p", "follows", "keeps")) == [0, 0, 1]
        assert [match.retracted for match in engine.changes("p")] == [None, Retraction("replayed", ("B", "B9"))]
        assert removed(engine) == ["M"]
