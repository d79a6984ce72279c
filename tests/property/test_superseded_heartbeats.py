"""Heartbeats that others supersede go, and no answer changes: not of the home, nor of one that takes its export."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from budget import examples

import xscl
from xscl.batches import batch, walls
from xscl.catalog.intake_order import read_heartbeats
from xscl.engine import Engine
from xscl.upkeep.event_export import export_events

S = 1_000_000
ABSENCES = [
    "A[./k->a] NOT FOLLOWED BY {a = b, 5} B[./k->b] CONSISTENCY STRONG",
    "A[./k->a] NOT FOLLOWED BY {a = b, 5} B[./k->b] CONSISTENCY MIDDLE",
    "A[./k->a] FOLLOWED BY {a = b, 6} B[./k->b] WITHOUT {a = c, BETWEEN} C[./k->c] CONSISTENCY STRONG",
    "A[./k->a] JOIN {a = b, 4} B[./k->b]",
]


def steps(seed: int) -> list[tuple[str, object]]:
    """What comes, with many heartbeats side by side, and where batches end."""
    choose, found, time = random.Random(seed), [], 10
    found.append(("register", (ABSENCES[seed % 4], "q0")))
    for number in range(60):
        time += choose.choice([0, 1, 1, 2])
        chance = choose.random()
        if chance < 0.55:
            found.append(("beat", (choose.choice("ABBC"), time - choose.randint(0, 6))))
        elif chance < 0.85:
            xml = f"<e><k>{choose.randint(1, 2)}</k></e>"
            ts = time - choose.choice([0, 0, 3])
            found.append(("event", xscl.Event(choose.choice("ABC"), f"e{number}", ts, xml=xml)))
        elif chance < 0.9:
            found.append(("register", (choose.choice(ABSENCES), f"q{number}")))
        elif chance < 0.93:
            found.append(("drop", None))
        elif chance < 0.96:
            found.append(("replay", None))
        if choose.random() < 0.4:
            found.append(("run", None))
    return found


def play(engine: Engine, seed: int) -> None:
    names: list[str] = []
    for kind, what in steps(seed):
        match kind, what:
            case "register", (text, name):
                engine.register(text, name=name)
                names.append(name)
            case "beat", (channel, time):
                engine.heartbeat(channel, time * S)
            case "event", _:
                engine.ingest([what])
            case "drop", _ if names:
                engine.drop(names.pop(0))
            case "replay", _:
                engine.replay_late()
            case "run", _:
                engine.run_once()
    engine.register(f"{ABSENCES[3]} STARTING ALL", name="all")
    engine.end_input()
    engine.run_once()


def matches(engine: Engine) -> list[tuple[str, str, int]]:
    return sorted((match.query, match.id, match.ts) for match in engine.matches())


def beats(engine: Engine) -> list[tuple[int, str, int]]:
    with engine.home.catalog.read() as connection:
        return read_heartbeats(connection)


@pytest.mark.parametrize("seed", range(4, 4 + examples(4)))
def test_no_answer_needs_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    with xscl.connect(home=tmp_path / "trimmed") as engine:
        play(engine, seed)
        expected, left = matches(engine), beats(engine)
        replayed = any(kind == "replay" for kind, _ in steps(seed))
        with (tmp_path / "events.jsonl").open("wb") as file:
            export_events(engine.home, file)
    monkeypatch.setattr(batch, "trim_superseded", lambda connection: None)
    with xscl.connect(home=tmp_path / "whole") as engine:
        play(engine, seed)
        assert matches(engine) == expected
        assert len(beats(engine)) > len(left)
        with (tmp_path / "whole.jsonl").open("wb") as file:
            export_events(engine.home, file)
    found = []
    for name in ("events.jsonl", "whole.jsonl"):
        with xscl.connect(home=tmp_path / f"other-{name}") as other:
            other.ingest(tmp_path / name)
            other.run_once()
            found.append(matches(other))
    assert found[0] == found[1]
    assert replayed or found[0] == expected


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as engine:
        for name in "BC":
            engine.add_channel(name, wall="1 min")
        engine.register("A[./k->a] FOLLOWED BY {a = b} B[./k->b] JOIN {b = c} C[./k->c]", name="q")
        engine.ingest([xscl.Event("A", "a", 1, xml="<e><k>1</k></e>")])
        yield engine


def test_they_do_not_pile_up_where_nothing_comes(waiting: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(now=1_000 * S)
    monkeypatch.setattr(walls, "now_micros", lambda: clock.now)
    for round_ in range(40):
        clock.now += 30 * S
        waiting.run_once()
        if round_ == 20:
            waiting.ingest([xscl.Event("A", "b", 2, xml="<e><k>2</k></e>")])
    # One of each channel before the event and behind it.
    assert sorted(channel for _, channel, _ in beats(waiting)) == ["B", "B", "C", "C"]
