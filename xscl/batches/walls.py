"""Heartbeats by the wall clock: a run says that all events up to some time before now are in.

Nothing else that decides answers reads a clock.  Such a heartbeat takes a place of the intake order like any other, so
what was answered once is answered alike again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.types import now_micros
from xscl.catalog.channels import note_heartbeat, read_channels
from xscl.catalog.intake_order import add_heartbeat, take_places
from xscl.catalog.prepared import prepared
from xscl.catalog.queries import read_feeders
from xscl.catalog.tables import CHANNELS, STATE_FILES
from xscl.store.home import Home

__all__ = ["beat_walls", "due_walls"]

_STEPS = 8
"""Heartbeats in the time that they are behind now, at most."""


def due_walls(connection: Connection) -> list[tuple[str, int]]:
    """Return the channels whose heartbeats are due while something waits, each with the time of its heartbeat."""
    if connection.scalar(*_any_wall()) is None or not _waits(connection):
        return []
    return _due(connection, now_micros())


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


def _waits(connection: Connection) -> bool:
    """Tell whether there is join state, which waits for partners."""
    return bool(connection.scalar(sa.select(sa.func.sum(STATE_FILES.c.held)).where(STATE_FILES.c.kind != "reach")))


def _due(connection: Connection, now: int) -> list[tuple[str, int]]:
    """Return channels with a wall, each with the time of its heartbeat; those that had one lately are left out."""
    feeders = read_feeders(connection)
    found = []
    for name, channel in read_channels(connection).items():
        if channel.wall is not None and name not in feeders:
            # The wall itself is not passed: an event of that very time is in time.
            time = now - channel.wall - 1
            if channel.heartbeat is None or time - channel.heartbeat >= max(channel.wall // _STEPS, 1):
                found.append((name, time))
    return found
