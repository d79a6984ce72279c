"""State over published channels levels off: forty windows of a steady stream, without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean

import sqlalchemy as sa

import xscl
from xscl.catalog.tables import STATE_FILES
from xscl.engine import Engine

WINDOW, EVENTS = 60, 30
"""Seconds of a window, and events within it."""
QUERIES = {
    "pairs": 'SELECT <pair k="{x}"/> FROM S/a/k->x FOLLOWED BY {x = y, 1 min} S/b/k->y PUBLISH P',
    "met": 'SELECT <met k="{x}"/> FROM P/pair/@k->x FOLLOWED BY {x = y, 1 min} S/b/k->y PUBLISH Q',
    "last": "Q/met/@k->x JOIN {x = y, 1 min} P/pair/@k->y",
    "unmet": "S/a/k->x NOT FOLLOWED BY {x = y, 1 min} P/pair/@k->y PUBLISH U",
    "again": "U/k->x FOLLOWED BY {x = y, 1 min} S/a/k->y",
    "alone": "P/pair->p[@k->x] WITHOUT {x = y, z - p IN [-30 s, 1 min]} Q/met->z[@k->y]",
}


def stream(windows: int) -> Iterator[list[xscl.Event]]:
    """A window's events each, some of them disordered by ten seconds at most."""
    choose = random.Random(5)
    number = 0
    for window in range(windows):
        times = sorted(window * WINDOW + choose.uniform(0, WINDOW) for _ in range(EVENTS))
        came = sorted(times, key=lambda ts: ts + choose.choice([0, 0, choose.uniform(0, 10)]))
        events = []
        for ts in came:
            number += 1
            name = choose.choice("ab")
            events.append(xscl.Event("S", f"e{number}", ts, xml=f"<{name}><k>{choose.randrange(10)}</k></{name}>"))
        yield events


def state(engine: Engine) -> Sequence[int]:
    """Return rows and files of all state."""
    with engine.home.catalog.read() as connection:
        return connection.execute(sa.select(sa.func.sum(STATE_FILES.c.rows), sa.func.count(STATE_FILES.c.path))).one()


def test_state_over_published_channels_levels_off(tmp_path: Path) -> None:
    found = []
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.add_channel("S", lateness="10 s")
        for name, text in QUERIES.items():
            engine.register(text, name=name)
        # A batch has the events of four windows.
        for number, events in enumerate(stream(40)):
            assert not engine.ingest(events).late
            if number % 4 == 1:
                engine.run_once()
                found.append(state(engine))
        # Every query has answers, so all of its state was there.
        assert [name for name in QUERIES if not list(engine.matches(query=name, limit=1))] == []
    for name, counts in zip(("rows", "files"), zip(*found, strict=True), strict=True):
        assert fmean(counts[-5:]) <= 1.2 * fmean(counts[2:8]), (name, counts)
