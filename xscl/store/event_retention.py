"""Retention of events: bounds from which on a channel's events are held, and kept.

A channel with a retention **holds** an event while its time is at least H = min(C, received) - retention: C is what the
channel's clock shows, ``received`` when the last event was received, so that one wrong date ahead of time purges
nothing.  H never falls.  Held events are what queries are answered from that start in the past.

An event is **kept** longer where live queries may still join it: its time is at least the least of H, of the floors
of the channel's join state (``templates.retention``), of the oldest member of the matches that steps go on from, and of
the channel's watermark.  So no event that comes in time has gone at its arrival, whatever queries are registered then.
Events that are no longer kept leave the disk, and matches with one of them are no longer listed.  Both bounds move with
the commit of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.channels import move_bounds
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import CHANNELS
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.retention import EVER

__all__ = ["Reaches", "move_held"]

Reaches = Mapping[tuple[str, str], int]
"""(channel, channel of a partner) and how much later a partner may be at most, for what live queries ask."""


def move_held(
    connection: Connection, received: int, clocks: Mapping[str, int], reaches: Reaches, oldest: Mapping[str, int]
) -> None:
    """Move the bounds of all channels on, in the transaction of a batch that has noted its watermarks.

    Args:
        connection: of the transaction.
        received: time at which the last event of the batch was received.
        clocks: time that the clock of each channel shows after the batch.
        reaches: for live queries after the batch.
        oldest: least time of the members of matches that steps go on from, by channel.
    """
    rows = connection.execute(*_retained()).all()
    marks = dict(connection.execute(sa.select(CHANNELS.c.name, CHANNELS.c.watermark)).all()) if rows else {}
    for row in rows:
        clock = clocks.get(row.name)
        if clock is None:
            continue
        held = _later(row.held_from, min(clock, received) - row.retention)
        floor = min(_floor(row.name, reaches, marks), oldest.get(row.name, UNBOUNDED), _mark(row.name, marks))
        kept = row.kept_from if held is None else _later(row.kept_from, min(held, floor))
        if (held, kept) != (row.held_from, row.kept_from):
            move_bounds(connection, row.name, held, kept)


@prepared
def _retained() -> sa.Select[Any]:
    return sa.select(CHANNELS).where(CHANNELS.c.retention.is_not(None))


def _mark(channel: str, marks: Mapping[str, int | None]) -> int:
    """Return the least time of events that may still come in time; ``UNBOUNDED`` where any may."""
    mark = marks.get(channel)
    return UNBOUNDED if mark is None else mark


def _floor(channel: str, reaches: Reaches, marks: Mapping[str, int | None]) -> int:
    """Return the least event time of this channel that a partner may still come for."""
    floor = UNBOUNDED
    for (own, partner), reach in reaches.items():
        if own == channel:
            mark = marks.get(partner)
            floor = min(floor, EVER if mark is None else mark - reach)
    return floor


def _later(before: int | None, now: int) -> int | None:
    """Return a bound, which never falls; None where it is before all times."""
    if now < -UNBOUNDED // 2:
        return before
    return now if before is None else max(before, now)
