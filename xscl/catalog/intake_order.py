"""The intake order: the one module that writes tables ``home``, ``flushes`` and ``heartbeats``.

Every event, registration, drop, flush, heartbeat and replay takes a place of one order.  The row of ``home`` has the
next place and the last one that a committed batch has processed.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.tables import FLUSHES, HEARTBEATS, HOME, NEVER, SCHEMA_VERSION, in_parts

__all__ = [
    "add_flush",
    "add_heartbeat",
    "create_home",
    "go_on_at",
    "next_place",
    "next_place_and_sweeps",
    "note_sweep",
    "read_heartbeats",
    "read_last_places",
    "read_processed",
    "read_repeated",
    "repeat_all",
    "set_processed",
    "sweeps",
    "take_places",
    "trim_flushes",
    "trim_heartbeats",
    "trim_superseded",
]


def create_home(connection: Connection) -> None:
    """Add the row of table ``home`` unless it is there."""
    if connection.execute(sa.select(HOME.c.one)).first() is None:
        values = {"schema_version": SCHEMA_VERSION, "next_place": 1, "received": 0, "processed": 0}
        connection.execute(HOME.insert().values(one=1, **values))


# -- places ----------------------------------------------------------------------------------------------------


def take_places(connection: Connection, count: int, now: int) -> tuple[int, int]:
    """Take the next ``count`` places of the intake order: (first place, its time of receipt).

    Later ones follow at distances of one, so that ``received`` grows strictly over everything that a home takes in.
    """
    row = connection.execute(*_next_place_and_time()).one()
    received = max(now, row.received + 1)
    connection.execute(_UPDATE, {"next_place": row.next_place + count, "received": received + count - 1})
    return row.next_place, received


def next_place(connection: Connection) -> int:
    """Return the place that the next event or command takes."""
    return read_last_places(connection)[1] + 1


def read_last_places(connection: Connection) -> tuple[int, int]:
    """Return (last place of the last committed batch, last place taken in)."""
    row = connection.execute(*_last_places()).one()
    return row.processed, row.next_place - 1


def read_processed(connection: Connection, *, lock: bool = False) -> int:
    """Return the last place of the last committed batch; with ``lock`` nobody else changes it in this transaction."""
    return connection.scalar(*(_locked_place() if lock else _processed_place())) or 0


def set_processed(connection: Connection, place: int, other: int | None = None) -> None:
    """Note the last place of the last committed batch, and the last one of it that no heartbeat has, if any."""
    connection.execute(_UPDATE, {"processed": place} | ({} if other is None else {"beats_from": other + 1}))


_UPDATE = HOME.update()


@prepared
def _next_place_and_time() -> sa.Select[Any]:
    return sa.select(HOME.c.next_place, HOME.c.received).with_for_update()


@prepared
def _last_places() -> sa.Select[Any]:
    return sa.select(HOME.c.processed, HOME.c.next_place)


@prepared
def _processed_place() -> sa.Select[Any]:
    return sa.select(HOME.c.processed)


@prepared
def _locked_place() -> sa.Select[Any]:
    return sa.select(HOME.c.processed).with_for_update()


def repeat_all(connection: Connection) -> None:
    """Have all batches run again; what they have found up to now stays found, whatever quotas say."""
    done = sa.case((HOME.c.repeated > HOME.c.processed, HOME.c.repeated), else_=HOME.c.processed)
    connection.execute(HOME.update().values(processed=0, repeated=done))


def read_repeated(connection: Connection) -> int:
    """Return the place up to which batches run again after a repair."""
    return int(connection.execute(sa.select(HOME.c.repeated)).scalar_one())


def go_on_at(connection: Connection, following: int, processed: int) -> None:
    """Put right the next place and the last processed one, in a repair."""
    connection.execute(HOME.update().values(processed=processed, next_place=following))


# -- ends of batches -------------------------------------------------------------------------------------------


def add_flush(connection: Connection, place: int) -> None:
    """Have a batch end at a place."""
    connection.execute(FLUSHES.insert().values(place=place))


def trim_flushes(connection: Connection, processed: int, oldest: int) -> None:
    """Remove processed ends of batches that lie before a place, before which no event is kept."""
    connection.execute(FLUSHES.delete().where(FLUSHES.c.place <= processed, FLUSHES.c.place < oldest))


# -- heartbeats ------------------------------------------------------------------------------------------------


def add_heartbeat(connection: Connection, place: int, channel: str, time: int) -> None:
    """Note that at a place all events of a channel up to a time are in."""
    connection.execute(HEARTBEATS.insert().values(place=place, channel=channel, ts=time))


def read_heartbeats(connection: Connection, first: int = 0, last: int = NEVER) -> list[tuple[int, str, int]]:
    """Return (place, channel, time) of the heartbeats of a range of places, in their order."""
    return [(row.place, row.channel, row.ts) for row in connection.execute(*_heartbeats(first, last))]


@prepared
def _heartbeats(first: int, last: int) -> sa.Select[Any]:
    return sa.select(HEARTBEATS).where(HEARTBEATS.c.place.between(first, last)).order_by(HEARTBEATS.c.place)


def trim_heartbeats(connection: Connection, processed: int, oldest: int) -> None:
    """Remove processed heartbeats that lie before a place, before which no event is kept."""
    connection.execute(HEARTBEATS.delete().where(HEARTBEATS.c.place <= processed, HEARTBEATS.c.place < oldest))


def trim_superseded(connection: Connection) -> None:
    """Remove heartbeats that others of their channels supersede, with heartbeats alone between them.

    Nothing that comes between is judged by the first one, and nobody comes or goes there.  So all answers are the same
    with the last one alone, also where the intake order is taken in once more.
    """
    row = connection.execute(sa.select(HOME.c.beats_from, HOME.c.processed)).one()
    beats = read_heartbeats(connection, row.beats_from, row.processed)
    kept = {channel: place for time, place, channel in sorted((time, place, channel) for place, channel, time in beats)}
    gone = [place for place, channel, _ in beats if place != kept[channel]]
    for part in in_parts(gone):
        connection.execute(HEARTBEATS.delete().where(HEARTBEATS.c.place.in_(part)))


# -- sweeps -----------------------------------------------------------------------------------------------------


def sweeps(connection: Connection) -> int:
    """Return how often what a process may remember of queries and groups became void."""
    return int(connection.execute(sa.select(HOME.c.swept)).scalar_one())


def next_place_and_sweeps(connection: Connection) -> tuple[int, int]:
    """Return the place that the next event or command takes, and the number of sweeps."""
    row = connection.execute(*_place_and_sweeps()).one()
    return row.next_place, row.swept


@prepared
def _place_and_sweeps() -> sa.Select[Any]:
    return sa.select(HOME.c.next_place, HOME.c.swept)


def note_sweep(connection: Connection) -> None:
    """Count a removal of queries, groups, instances and variables, or queries that went to other groups."""
    connection.execute(HOME.update().values(swept=HOME.c.swept + 1))
