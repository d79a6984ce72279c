"""How long a channel's events are held, and from which time on they are kept.

A channel with a retention **holds** an event while its time is at least H = min(C, received) - retention: C is what the
channel's clock shows, ``received`` when the last event was received, so that one wrong date ahead of time purges
nothing.  H never falls.  Held events are what queries are answered from that start in the past.

An event is **kept** longer where live queries may still join it: its time is at least the least of H and of the floors
of the channel's join state (``templates.retention``).  Events that are kept no more leave the disk (``event_upkeep``),
and matches with one of them are listed no more.  Both bounds move with the commit of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.clocks import Clocks
from xscl.catalog.tables import CHANNELS, INTAKE_FILES
from xscl.store.home import Home
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.retention import EVER

__all__ = ["Reaches", "move_held"]

Reaches = Mapping[tuple[str, str], int]
"""(channel, channel of a partner) and how much later a partner may be at most, for what live queries ask."""


def move_held(home: Home, connection: Connection, first: int, last: int, reaches: Reaches) -> None:
    """Move the bounds of all channels on, in the transaction of a batch that has noted its clocks and watermarks.

    Args:
        home: the home.
        connection: of the transaction.
        first: the batch's first place.
        last: its last place.
        reaches: for what is asked after the batch.
    """
    rows = connection.execute(sa.select(CHANNELS).where(CHANNELS.c.retention.is_not(None))).all()
    received = _received(home, connection, first, last) if rows else None
    if received is None:
        return
    clocks = _clocks(home, connection)
    marks = {row.name: row.watermark for row in connection.execute(sa.select(CHANNELS.c.name, CHANNELS.c.watermark))}
    for row in rows:
        clock = clocks.get(row.name)
        if clock is None:
            continue
        held = _later(row.held_from, min(clock, received) - row.retention)
        floor = _floor(row.name, reaches, marks)
        kept = row.kept_from if held is None else _later(row.kept_from, min(held, floor))
        if (held, kept) != (row.held_from, row.kept_from):
            mine = CHANNELS.update().where(CHANNELS.c.name == row.name)
            connection.execute(mine.values(held_from=held, kept_from=kept))


def _floor(channel: str, reaches: Reaches, marks: Mapping[str, int | None]) -> int:
    """The least event time of this channel that a partner may still come for."""
    floor = UNBOUNDED
    for (own, partner), reach in reaches.items():
        if own == channel:
            mark = marks.get(partner)
            floor = min(floor, EVER if mark is None else mark - reach)
    return floor


def _later(before: int | None, now: int) -> int | None:
    """A bound never falls; None where it is before all times."""
    if now < -UNBOUNDED // 2:
        return before
    return now if before is None else max(before, now)


def _received(home: Home, connection: Connection, first: int, last: int) -> int | None:
    """When the last event of a range was received; None without one."""
    newest = (
        sa.select(INTAKE_FILES.c.path)
        .where(INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last)
        .order_by(INTAKE_FILES.c.first.desc())
    )
    wanted = (pc.field("docid") >= first) & (pc.field("docid") <= last)
    for path in connection.scalars(newest):
        found = pc.max(pq.read_table(home.paths([path])[0], columns=["received"], filters=wanted).column(0)).as_py()
        if found is not None:
            return int(found)
    return None


def _clocks(home: Home, connection: Connection) -> dict[str, int]:
    """What the clock of each channel shows, of what is processed."""
    rows = {row.name: row for row in connection.execute(sa.select(CHANNELS))}
    channels = home.catalog.channels(connection)
    clocks = Clocks(channels.values(), {name: row.processed for name, row in rows.items()})
    found = {}
    for name, row in rows.items():
        times = [time for time in (clocks.shown(channels[name]), row.published) if time is not None]
        if times:
            found[name] = max(times)
    return found
