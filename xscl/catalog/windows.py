"""Groups of queries with windows of matches, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.records import RAW
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS, IS_OF_WINDOWS, NEVER, OF_WINDOWS, PARTS, QUERIES, STREAMS

__all__ = [
    "Range",
    "Reader",
    "Windowed",
    "Windows",
    "groups_of_windows_alone",
    "range_of",
    "read_windows",
]


@dataclass(frozen=True, slots=True)
class Windowed:
    """A group of queries with windows."""

    gid: int
    key: str
    part: int
    """The group whose matches the windows are over."""
    part_text: str
    text: str
    namespaces: Mapping[str, str]
    channels: tuple[str, ...]
    """Channels that the part reads."""


@dataclass(frozen=True, slots=True)
class Reader:
    """A query with windows."""

    number: int
    name: str
    since: int
    """Place after which it sees matches."""
    until: int
    """Place of its end."""


@dataclass(frozen=True, slots=True)
class Range:
    """A range of places with some queries, and those with the same ones."""

    begin: tuple[int, int] = (0, 0)
    """First and last place of the range."""
    end: tuple[int, int] = (NEVER, NEVER)
    """Places at which ranges of the same queries end to begin and to end: one goes there, or comes."""

    def has(self, first: int, last: int) -> bool:
        """Whether the same queries are there in another range."""
        return self.begin[0] <= first < self.end[0] and self.begin[1] <= last < self.end[1]


@dataclass(frozen=True, slots=True)
class Windows:
    """Groups with queries that are there in a range of places."""

    groups: tuple[Windowed, ...] = ()
    readers: Mapping[int, Sequence[Reader]] = field(default_factory=dict)
    """Queries by group."""
    range: Range = Range()


def read_windows(connection: Connection, first: int, last: int) -> Windows:
    """Return the groups with queries that are there in a range of places, and these queries by group."""
    readers: dict[int, list[Reader]] = {}
    for gid, *reader in connection.execute(*_readers(first, last)):
        readers.setdefault(gid, []).append(Reader(*reader))
    there = range_of(connection, first, last, readers)
    if not readers:
        return Windows(range=there)
    streams = frozenset(connection.scalars(sa.select(STREAMS.c.name)))

    @cache  # most groups have the same
    def channels_of(stored: str) -> tuple[str, ...]:
        names = read_stored(GROUPS.c.channels, stored)
        return tuple(name for name in names if name.removesuffix(RAW) not in streams)

    @cache
    def namespaces_of(stored: str) -> Mapping[str, str]:
        found: Mapping[str, str] = read_stored(GROUPS.c.namespaces, stored)
        return found

    groups = tuple(
        Windowed(gid, key, part, part_text, text, namespaces_of(namespaces), channels_of(channels))
        for gid, key, part, text, namespaces, channels, part_text in connection.execute(*_groups())
        if gid in readers
    )
    return Windows(groups, readers, there)


def range_of(connection: Connection, first: int, last: int, readers: Mapping[int, Sequence[Reader]]) -> Range:
    """Return a range of places as one with some queries, which are there or have gone before."""
    goes = min((each.until for of in readers.values() for each in of if each.until > first), default=NEVER)
    comes = connection.scalar(*_next(last))
    return Range((first, last), (goes, NEVER if comes is None else comes))


@prepared
def _readers(first: int, last: int) -> sa.Select[Any]:
    columns = QUERIES.c.gid, QUERIES.c.query, QUERIES.c.qid, QUERIES.c.sees_from, QUERIES.c.docid_until
    # A join would look at all queries; a group has one part with windows.
    windowed = QUERIES.c.gid.in_(sa.select(PARTS.c.gid).where(IS_OF_WINDOWS))
    mine = windowed, QUERIES.c.docid_from <= last, QUERIES.c.docid_until > first
    return sa.select(*columns).where(*mine).order_by(QUERIES.c.query)


@prepared
def _next(last: int) -> sa.Select[Any]:
    return sa.select(sa.func.min(QUERIES.c.docid_from)).where(QUERIES.c.docid_from > last)


@prepared
def _groups() -> sa.Select[Any]:
    part = GROUPS.alias()
    columns = GROUPS.c.gid, GROUPS.c.key, PARTS.c.part, GROUPS.c.text, GROUPS.c.namespaces, GROUPS.c.channels
    joined = sa.join(GROUPS, PARTS, PARTS.c.gid == GROUPS.c.gid).join(part, part.c.gid == PARTS.c.part)
    statement = sa.select(*columns, part.c.text.label("part_text")).select_from(joined)
    return statement.where(IS_OF_WINDOWS)


def groups_of_windows_alone(connection: Connection) -> list[int]:
    """Return the groups that nothing but windows is over, and that no query is in, dropped ones included."""
    # Each is looked at once: a hundred thousand windows may be over one.  A sum keeps SQLite from the index of all
    # parts, which it would walk as a whole because that has them in order.
    part = (PARTS.c.part + sa.literal_column("0")).label("part")
    mine = sa.select(part).where(IS_OF_WINDOWS).distinct().subquery()
    of_others = sa.or_(PARTS.c.ends != OF_WINDOWS, PARTS.c.ends.is_(None))
    alone = (
        ~sa.exists().where(QUERIES.c.gid == mine.c.part),
        ~sa.exists().where(PARTS.c.part == mine.c.part, of_others),
    )
    return sorted(connection.scalars(sa.select(mine.c.part).where(*alone)))
