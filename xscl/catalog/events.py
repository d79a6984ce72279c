"""Events: the one module that writes tables ``intake_files``, ``event_ids`` and ``row_ranges``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import product
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.catalog.insertions import add_tuples
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import EVENT_IDS, HAS_OTHER_BASE, INTAKE_FILES, ROW_RANGES, in_parts

__all__ = [
    "EventId",
    "FeedDigest",
    "IdRow",
    "PublishedId",
    "add_event_files",
    "add_event_ids",
    "add_ids_unless_known",
    "add_row_ranges",
    "edited_between",
    "find_digests",
    "find_event_ids",
    "find_feed_digests",
    "files_between",
    "add_published_ids",
    "forget_published",
    "has_event_ids",
    "has_other_base",
    "newer_versions",
    "of_base",
    "ranges_of_files",
    "remove_event_files",
    "remove_event_ids",
    "remove_ids_between",
    "spans",
]

Row = Mapping[str, object]


def newer_versions(connection: Connection, docids: Collection[int], last: int) -> dict[int, int]:
    """Return the event that brought the next version of some events, up to a place, by their numbers."""
    mine, newer, same = _versions()
    found: dict[int, int] = {}
    for part, here in product(in_parts(sorted(docids)), of_base(newer, mine.c.base)):
        some = sa.select(mine.c.docid, sa.func.min(newer.c.docid)).where(same, here).group_by(mine.c.docid)
        for older, docid in connection.execute(some.where(mine.c.docid.in_(part), newer.c.docid <= last)):
            found[older] = min(docid, found.get(older, docid))
    return found


def edited_between(connection: Connection, first: int, last: int) -> dict[int, str]:
    """Return the channels of events that have a newer version among the events of some places, by their numbers."""
    mine, newer, same = _versions()
    came = sa.and_(newer.c.docid.between(first, last), newer.c.version > 1)
    edited: dict[int, str] = {}
    for here in of_base(mine, newer.c.base):
        rows = connection.execute(sa.select(mine.c.docid, mine.c.channel).where(same, came, here))
        edited.update((row.docid, row.channel) for row in rows)
    return edited


def _versions() -> tuple[Any, Any, Any]:
    """Return events, those with the next versions of their items, and the condition that two are such; bases apart."""
    mine, newer = EVENT_IDS.alias("mine"), EVENT_IDS.alias("newer")
    same = [mine.c[name] == newer.c[name] for name in ("channel", "item")]
    return mine, newer, sa.and_(*same, newer.c.version == mine.c.version + 1)


def of_base(ids: Any, base: sa.ColumnElement[str] | Sequence[str]) -> tuple[sa.ColumnElement[bool], ...]:
    """Return conditions that events have one of these ids without feed and version; no event meets two of them.

    Each is for a statement of its own, and has an index of its own: one with OR would read a whole channel.

    Args:
        ids: ``EVENT_IDS``, or an alias of it.
        base: a column, or ids.
    """
    alone, other = ((each.in_(base) if isinstance(base, Sequence) else each == base) for each in (ids.c.id, ids.c.base))
    return sa.and_(alone, ids.c.base == ids.c.id), sa.and_(other, ids.c.base != ids.c.id)


# -- files -----------------------------------------------------------------------------------------------------


def spans(first: int, last: int) -> tuple[sa.ColumnElement[bool], sa.ColumnElement[bool]]:
    """Return the conditions that a file may hold an event with a number from ``first`` to ``last``."""
    return INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last


def files_between(connection: Connection, first: int, last: int) -> list[str]:
    """Return the paths of the files that may hold an event with a number from ``first`` to ``last``, in their order."""
    return list(connection.scalars(*_paths_between(first, last)))


@prepared
def _paths_between(first: int, last: int) -> sa.Select[Any]:
    return sa.select(INTAKE_FILES.c.path).where(*spans(first, last)).order_by(INTAKE_FILES.c.first)


def add_event_files(connection: Connection, rows: Sequence[Row]) -> None:
    """Name files of events: ``path``, ``first``, ``last``, ``rows``."""
    if rows:
        connection.execute(_ADD_FILE, rows)


_ADD_FILE = INTAKE_FILES.insert()


def remove_event_files(connection: Connection, paths: Collection[str]) -> dict[str, int]:
    """Name files of events no longer, nor their ranges of ids; return how many rows each had that was named."""
    rows: dict[str, int] = {}
    for part in in_parts(sorted(paths)):
        mine = INTAKE_FILES.c.path.in_(part)
        rows |= dict(connection.execute(sa.select(INTAKE_FILES.c.path, INTAKE_FILES.c.rows).where(mine)).all())
        connection.execute(INTAKE_FILES.delete().where(mine))
        connection.execute(ROW_RANGES.delete().where(ROW_RANGES.c.path.in_(part)))
    return rows


# -- ids -------------------------------------------------------------------------------------------------------


class EventId(NamedTuple):
    """A row of ``event_ids`` that was taken in."""

    channel: str
    id: str
    base: str
    feed: str
    version: int
    docid: int
    item: int
    digest: str
    ts: int | None
    received: int | None
    membership: int


class PublishedId(NamedTuple):
    """A row of ``event_ids`` that a batch published."""

    channel: str
    id: str
    base: str
    feed: str
    version: int
    docid: int
    item: int
    digest: str
    published: int


class FeedDigest(NamedTuple):
    """An item of a feed: its id without feed and version, its digest, and the number of its streams."""

    base: str
    digest: str
    membership: int


IdRow = tuple[str, str, str, str, int, int, int, str, int | None, int | None, int]
"""The fields of an ``EventId``.  Python's collector looks at plain tuples of texts and numbers once, at others again
and again."""


def add_event_ids(connection: Connection, rows: Sequence[IdRow]) -> None:
    """Add ids of events."""
    _add_ids(connection, EventId._fields, rows)


def add_ids_unless_known(connection: Connection, rows: Sequence[IdRow]) -> bool:
    """Add ids of new events of one channel, which follow each other in number and are their own bases, where none of
    them is there; return whether they were added.

    To add them tells as much as to look for them before, which would take a third of the time once more.
    """
    channel, *_ = rows[0]
    first, last = (EventId._make(rows[at]).docid for at in (0, -1))
    if has_other_base(connection, channel):
        return False
    _add_ids(connection, EventId._fields, rows, " ON CONFLICT DO NOTHING")
    if connection.scalar(*_count_between(first, last)) == len(rows):
        return True
    remove_ids_between(connection, first, last)
    return False


def has_other_base(connection: Connection, channel: str) -> bool:
    """Tell whether a channel has ids with a feed or a version in them."""
    return connection.execute(*_other_base(channel)).first() is not None


@prepared
def _other_base(channel: str) -> sa.Select[Any]:
    return sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel, HAS_OTHER_BASE).limit(1)


@prepared
def _count_between(first: int, last: int) -> sa.Select[Any]:
    return sa.select(sa.func.count()).where(EVENT_IDS.c.docid.between(first, last))


def add_published_ids(connection: Connection, rows: Sequence[PublishedId]) -> None:
    """Add ids of published documents."""
    _add_ids(connection, PublishedId._fields, rows)


def _add_ids(
    connection: Connection, fields: tuple[str, ...], rows: Sequence[tuple[Any, ...]], where_known: str = ""
) -> None:
    if rows:
        # In their order neighbours meet the same pages of an index.  Most rows are of one channel.
        ordered = sorted(sorted(rows, key=itemgetter(1)), key=itemgetter(0))
        add_tuples(connection, EVENT_IDS.insert(), fields, ordered, where_known)


def find_event_ids(connection: Connection, channel: str, ids: Collection[str]) -> list[EventId]:
    """Find the events of a channel that have one of these ids, with feed and version or without."""
    values = {"ids": json.dumps(sorted(ids), ensure_ascii=False), "channel": channel}
    statement = _having_ids(connection.dialect.name == "sqlite")
    return [EventId._make(row) for row in connection.execute(statement, values)]


def find_feed_digests(connection: Connection, channel: str, feed: str, ids: Collection[str]) -> list[FeedDigest]:
    """Find the digests of a feed's items in a channel that have one of these ids, without feed and version."""
    values = {"ids": json.dumps(sorted(ids), ensure_ascii=False), "channel": channel, "feed": feed}
    statement = _of_feed(connection.dialect.name == "sqlite")
    return [FeedDigest._make(row) for row in connection.execute(statement, values)]


def has_event_ids(connection: Connection, channel: str) -> bool:
    """Whether ids of events of a channel are kept one by one."""
    some = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel).limit(1)
    return connection.execute(some).first() is not None


def find_digests(connection: Connection, channel: str, ids: Collection[str]) -> dict[str, str]:
    """Find the digests of the events of a channel that have one of these ids, by their ids with feed and version."""
    values = {"ids": json.dumps(list(ids), ensure_ascii=False), "channel": channel}
    found = connection.execute(_digests(connection.dialect.name == "sqlite"), values)
    return {row.id: row.digest for row in found}


@cache
def _digests(sqlite: bool) -> sa.TextClause:
    return sa.text(
        f"SELECT event_ids.id, event_ids.digest FROM {_listed(sqlite)} CROSS JOIN event_ids"
        " WHERE event_ids.channel = :channel AND event_ids.id = wanted.value"
    )


@cache
def _of_feed(sqlite: bool) -> sa.TextClause:
    columns = ", ".join(f"event_ids.{name}" for name in FeedDigest._fields)
    # Each half has an index of its own.
    halves = (
        f"SELECT {columns} FROM {_listed(sqlite)} CROSS JOIN event_ids"
        f" WHERE event_ids.channel = :channel AND event_ids.{name} = wanted.value AND event_ids.feed = :feed"
        f" AND event_ids.base {operator} event_ids.id"
        for name, operator in (("id", "="), ("base", "<>"))
    )
    return sa.text(" UNION ALL ".join(halves))


def _listed(sqlite: bool) -> str:
    return "json_each(:ids) AS wanted" if sqlite else "json_array_elements_text(CAST(:ids AS json)) AS wanted (value)"


@cache
def _having_ids(sqlite: bool) -> sa.TextClause:
    columns = ", ".join(f"event_ids.{name}" for name in EventId._fields)
    # One condition with OR would have SQLite read the whole channel: each half has an index of its own.
    halves = (
        f"SELECT {columns} FROM {_listed(sqlite)} CROSS JOIN event_ids"
        f" WHERE event_ids.channel = :channel AND event_ids.{asked}"
        for asked in ("id = wanted.value", "base = wanted.value AND event_ids.base <> event_ids.id")
    )
    return sa.text(" UNION ".join(halves))


def add_row_ranges(connection: Connection, rows: Sequence[Row]) -> None:
    """Add ranges of ids of rows."""
    if rows:
        connection.execute(ROW_RANGES.insert(), rows)


def ranges_of_files(connection: Connection, paths: Collection[str]) -> Iterator[sa.Row[tuple[object, ...]]]:
    """Iterate over the ranges of ids of the rows of some files."""
    for part in in_parts(sorted(paths)):
        yield from connection.execute(sa.select(ROW_RANGES).where(ROW_RANGES.c.path.in_(part)))


def remove_ids_between(connection: Connection, first: int, last: int) -> None:
    """Remove the ids of events with numbers from ``first`` to ``last``."""
    connection.execute(EVENT_IDS.delete().where(EVENT_IDS.c.docid.between(first, last)))


def remove_event_ids(connection: Connection, docids: Iterable[int]) -> None:
    """Remove the ids of events with these numbers."""
    for part in in_parts(sorted(docids)):
        connection.execute(EVENT_IDS.delete().where(EVENT_IDS.c.docid.in_(part)))


def forget_published(connection: Connection) -> None:
    """Forget all published documents."""
    connection.execute(INTAKE_FILES.delete().where(INTAKE_FILES.c.first >= PUBLISHED))
    connection.execute(EVENT_IDS.delete().where(EVENT_IDS.c.docid >= PUBLISHED))
