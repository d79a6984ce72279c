"""Removals of events: the one module that writes table ``removals``.

An event is removed at a place of the intake order.  Matches with it hold no longer for queries with ``ON CHANGE
RETRACT`` from that place on.  An event is removed once; what comes later under its id is another one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED, published_docid
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import NEVER, REMOVALS, in_parts

__all__ = [
    "Removed",
    "add_removals",
    "forget_published_removals",
    "has_removals",
    "last_stated",
    "read_removals",
    "removed_among",
    "removed_before",
    "removed_between",
    "removed_ids",
    "trim_removals",
]


_VERSION = re.compile(r"#[0-9]+\Z")
"""End of the id of a newer version."""
_BEFORE = -(1 << 62)
"""A time before all times."""


class Removed(NamedTuple):
    """A row of ``removals``."""

    docid: int
    place: int
    channel: str
    id: str
    stated: int | None


def add_removals(connection: Connection, rows: Sequence[Removed]) -> None:
    """Note that events are removed, which no removal has removed before."""
    if rows:
        connection.execute(REMOVALS.insert(), [row._asdict() for row in rows])


def has_removals(connection: Connection, channel: str | None = None) -> bool:
    """Tell whether any event was removed, of one channel or of all."""
    wanted = () if channel is None else (REMOVALS.c.channel == channel,)
    return connection.execute(sa.select(REMOVALS.c.docid).where(*wanted).limit(1)).first() is not None


def removed_ids(connection: Connection, channel: str) -> set[str]:
    """Return the ids of the events of a channel that were removed, and those of their items."""
    ids = set(connection.scalars(sa.select(REMOVALS.c.id).where(REMOVALS.c.channel == channel)))
    return ids | {_VERSION.sub("", id_) for id_ in ids}


def removed_among(connection: Connection, docids: Collection[int], last: int = NEVER) -> dict[int, int]:
    """Return the places at which some events were removed, up to a place, by their numbers."""
    found: dict[int, int] = {}
    if not docids or connection.execute(*_any_removal()).first() is None:
        return found
    for part in in_parts(sorted(docids)):
        wanted = REMOVALS.c.docid.in_(part), REMOVALS.c.place <= last
        rows = connection.execute(sa.select(REMOVALS.c.docid, REMOVALS.c.place).where(*wanted))
        found.update((docid, place) for docid, place in rows)
    return found


@prepared
def _any_removal() -> sa.Select[Any]:
    return sa.select(REMOVALS.c.docid).limit(1)


def last_stated(connection: Connection, docids: Collection[int]) -> int:
    """Return the greatest time that feeds state of the removal of some events; before all times without one."""
    found = [_BEFORE]
    for part in in_parts(sorted(docids)):
        wanted = REMOVALS.c.docid.in_(part), REMOVALS.c.stated.is_not(None)
        found += connection.scalars(sa.select(REMOVALS.c.stated).where(*wanted))
    return max(found)


def removed_between(connection: Connection, first: int, last: int) -> dict[int, str]:
    """Return the channels of the events that were removed at some places, by their numbers."""
    return {row.docid: row.channel for row in connection.execute(*_between(first, last))}


def removed_before(connection: Connection, place: int) -> frozenset[int]:
    """Return the numbers of the events that were removed before a place."""
    return frozenset(connection.scalars(sa.select(REMOVALS.c.docid).where(REMOVALS.c.place < place)))


@prepared
def _between(first: int, last: int) -> sa.Select[Any]:
    return sa.select(REMOVALS.c.docid, REMOVALS.c.channel).where(REMOVALS.c.place.between(first, last))


def read_removals(connection: Connection) -> list[Removed]:
    """Return all removals in the order of their places."""
    rows = connection.execute(sa.select(REMOVALS).order_by(REMOVALS.c.place, REMOVALS.c.docid))
    return [Removed(row.docid, row.place, row.channel, row.id, row.stated) for row in rows]


def trim_removals(connection: Connection, processed: int, oldest: int) -> None:
    """Forget processed removals of events that come before a place, before which no event is kept."""
    published = REMOVALS.c.docid.between(PUBLISHED, published_docid(oldest, 0) - 1)
    before = (REMOVALS.c.docid < oldest) | published
    connection.execute(REMOVALS.delete().where(REMOVALS.c.place <= processed, before))


def forget_published_removals(connection: Connection) -> None:
    """Forget that published documents are removed, because all batches run again."""
    connection.execute(REMOVALS.delete().where(REMOVALS.c.docid >= PUBLISHED))
