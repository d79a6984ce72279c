"""Heartbeats by the wall clock: a run says that all events up to some time before now are in.

Nothing else that decides answers reads a clock.  Such a heartbeat takes a place of the intake order like any other, so
what was answered once is answered alike again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.types import now_micros
from xscl.batches.answered import channels_waited_for
from xscl.batches.windows.rows import read_waits
from xscl.catalog.channels import note_heartbeat, read_channels, read_watermarks
from xscl.catalog.intake_order import add_heartbeat, take_places
from xscl.catalog.prepared import prepared
from xscl.catalog.queries import read_feeders
from xscl.catalog.tables import CHANNELS
from xscl.store.home import Home
from xscl.store.join_state import files_by_kind, state_among
from xscl.templates.retention import BY_ROWS

__all__ = ["beat_walls", "due_walls"]

_STEPS = 8
"""Heartbeats in the time that they are behind now, at most."""
_LEAST_STEP = 1_000_000
"""Least time between two heartbeats of a channel, microseconds: each is a batch, if nothing else comes."""


def due_walls(home: Home, connection: Connection) -> list[tuple[str, int]]:
    """Return the channels whose heartbeats are due and wanted, each with the time of its heartbeat."""
    if connection.scalar(*_any_wall()) is None:
        return []
    due = _due(connection, now_micros())
    if not due:
        return []
    wanted = _wanted(home, connection)
    return due if wanted is None else [(name, time) for name, time in due if name in wanted]


@prepared
def _any_wall() -> sa.Select[Any]:
    return sa.select(CHANNELS.c.name).where(CHANNELS.c.wall.is_not(None)).limit(1)


def beat_walls(home: Home, due: Sequence[tuple[str, int]]) -> None:
    """Send heartbeats."""
    with home.catalog.begin() as connection:
        for channel, time in due:
            place, _ = take_places(connection, 1, now_micros())
            add_heartbeat(connection, place, channel, time)
            note_heartbeat(connection, channel, time)


def _wanted(home: Home, connection: Connection) -> Collection[str] | None:
    """Return the channels that something waits for, with those that feed them; None: it may be any."""
    files = files_by_kind(connection)
    state = state_among(home, files, read_watermarks(connection))
    wanted: set[str] = set()
    if state.rows:
        if state.reach is None:
            return None
        wanted.update(pc.unique(state.reach.column("channel")).to_pylist())
        wanted.discard(BY_ROWS)
    for file in (*files.get("pending", ()), *files.get("answered", ())):
        wanted.update(channels_waited_for(home.root / file.path))
    for file in (*files.get("windows", ()), *files.get("steps", ())):
        wanted.update(read_waits(home.root / file.path))
    feeders, new = read_feeders(connection), list(wanted)
    while new:
        sources = {source for names in feeders.get(new.pop(), ()) for source in names} - wanted
        wanted |= sources
        new += sources
    return wanted


def _due(connection: Connection, now: int) -> list[tuple[str, int]]:
    """Return channels with a wall, each with the time of its heartbeat; those that had one lately are left out."""
    feeders = read_feeders(connection)
    found = []
    for name, channel in read_channels(connection).items():
        if channel.wall is not None and name not in feeders:
            # The wall itself is not passed: an event of that very time is in time.
            time = now - channel.wall - 1
            if channel.heartbeat is None or time - channel.heartbeat >= max(channel.wall // _STEPS, _LEAST_STEP):
                found.append((name, time))
    return found
