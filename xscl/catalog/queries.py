"""Registered queries: the one module that writes table ``queries``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.insertions import add_rows
from xscl.catalog.intake_order import note_sweep, take_places
from xscl.catalog.prepared import prepared
from xscl.catalog.records import RAW, QueryInfo
from xscl.catalog.stored_json import read_stored
from xscl.catalog.suggestions import no_query
from xscl.catalog.tables import (
    GROUPS,
    HAS_SPARE,
    IS_DROPPED,
    IS_LISTED,
    IS_PUBLISHING,
    NEVER,
    NOTHING_FORBIDDEN,
    PARTS,
    QUERIES,
    STREAMS,
    in_parts,
)

__all__ = [
    "LIVE",
    "Feed",
    "Remembering",
    "add_late_for",
    "add_queries",
    "drop_query",
    "end_dropped",
    "forget_batches",
    "has_publishing",
    "mark_filled",
    "mend_query",
    "query_info",
    "read_feeders",
    "read_feeds",
    "read_live_feeds",
    "read_queries",
    "read_query",
    "read_remembering",
    "regroup",
    "release_query",
    "replay_place",
    "remove_queries",
    "sources_by_channel",
    "suspend_query",
    "tell_apart",
]

LIVE = QUERIES.c.docid_until == NEVER
"""Condition that a query is not dropped."""
_MOST_CHANNELS = 100
"""Channels, each published from the one before, for which a drop leaves places; documents hardly go through so many."""
_SAME = tuple(field.name for field in fields(QueryInfo) if field.name != "name")
"""Fields of the record that columns have the names of."""


@dataclass(frozen=True, slots=True)
class Feed:
    """Queries that read and publish alike, from a place on and before another."""

    channel: str
    """Channel that they publish to."""
    sources: frozenset[str]
    """Channels that they read."""
    since: int
    until: int
    blocking: int = 0
    """Time by which their documents are behind the clocks of what they read."""
    is_final: bool = False
    """Whether they wait until times are settled: no document of theirs is older than what is."""


@dataclass(frozen=True, slots=True)
class Remembering:
    """A query that sees no events which come farther behind their clocks than its memory."""

    query: int
    memory: int
    channels: frozenset[str]
    """Channels and streams that it reads."""
    since: int
    """Place after which it sees events."""
    until: int
    """Place from which on it sees none."""


# -- reading ---------------------------------------------------------------------------------------------------


def query_info(row: sa.RowMapping | Mapping[str, Any]) -> QueryInfo:
    """Return the query of a row of ``queries``, which may have more columns."""
    values = {name: row[name] for name in _SAME} | {
        "namespaces": {} if row["namespaces"] == "{}" else read_stored(QUERIES.c.namespaces, row["namespaces"]),
        "names": read_stored(QUERIES.c.names, row["names"]),
        "held_from": {} if row["held_from"] is None else read_stored(QUERIES.c.held_from, row["held_from"]),
    }
    return QueryInfo(name=row["qid"], **values)


def read_queries(connection: Connection, *, live_only: bool = True, name: str | None = None) -> list[QueryInfo]:
    """Return queries by name: the live ones, unless told otherwise."""
    statement = sa.select(QUERIES).order_by(QUERIES.c.qid, QUERIES.c.query)
    if live_only:
        statement = statement.where(LIVE)
    if name is not None:
        statement = statement.where(QUERIES.c.qid == name)
    return [query_info(row) for row in connection.execute(statement).mappings()]


def read_query(connection: Connection, name: str) -> QueryInfo:
    """Return a query that is live or suspended.

    Raises:
        CatalogError: there is none of that name.
    """
    row = connection.execute(sa.select(QUERIES).where(QUERIES.c.qid == name, IS_LISTED)).mappings().first()
    if row is None:
        raise no_query(connection, name)
    return query_info(row)


def read_feeders(connection: Connection) -> dict[str, list[frozenset[str]]]:
    """Return the channels that each live query reads which publishes, by the channel that it publishes to.

    Queries that read and publish alike count once.  A query that names a stream reads the stream's channel, too.
    """
    return sources_by_channel(read_live_feeds(connection))


def read_live_feeds(connection: Connection) -> list[Feed]:
    """Return what publishes to channels now."""
    return _feeds(
        connection, {(row.publish, row.channels, 0, NEVER, *_waits(row)) for row in connection.execute(*_fed())}
    )


def sources_by_channel(feeds: Iterable[Feed]) -> dict[str, list[frozenset[str]]]:
    """Return the channels that queries read, by the channel that they publish to; those that read alike count once."""
    found: dict[str, list[frozenset[str]]] = {}
    for feed in feeds:
        known = found.setdefault(feed.channel, [])
        if feed.sources not in known:
            known.append(feed.sources)
    return found


def read_feeds(connection: Connection, first: int, last: int) -> list[Feed]:
    """Return what published to channels in a range of places, each feed as far as it lies in the range."""
    rows = connection.execute(*_fed_between(first, last))
    found = {
        (row.publish, row.channels, max(row.docid_from, first), min(row.docid_until, last + 1), *_waits(row))
        for row in rows
    }
    return _feeds(connection, found)


def _waits(row: sa.Row[Any]) -> tuple[int, bool]:
    """Return how far behind clocks a query answers, and whether it waits until times are settled."""
    is_final = row.ends is not None and row.ends != NOTHING_FORBIDDEN and row.blocking is None
    return max(row.blocking or 0, 0), is_final


def _feeds(connection: Connection, rows: Collection[tuple[str, str, int, int, int, bool]]) -> list[Feed]:
    named = frozenset(connection.scalars(sa.select(STREAMS.c.name))) if rows else frozenset()
    found = []
    for publish, channels, since, until, blocking, is_final in sorted(rows):
        names = frozenset(n for n in read_stored(GROUPS.c.channels, channels) if n.removesuffix(RAW) not in named)
        found.append(Feed(publish, names, since, until, blocking, is_final))
    return found


def has_publishing(connection: Connection) -> bool:
    """Tell whether there are queries that publish, dropped ones included."""
    return connection.scalar(*_any_publishing()) is not None


@prepared
def _any_publishing() -> sa.Select[Any]:
    return sa.select(QUERIES.c.query).where(IS_PUBLISHING).limit(1)


def read_remembering(connection: Connection, first: int, last: int) -> list[Remembering]:
    """Return the queries with a memory of their own that see some place of a range."""
    found: dict[int, Remembering] = {}
    for row in connection.execute(*_remembering(first, last)):
        channels = frozenset(read_stored(GROUPS.c.channels, row.channels))
        known = found.get(row.query)
        if known is not None:
            channels |= known.channels
        found[row.query] = Remembering(row.query, row.memory, channels, row.sees_from, row.docid_until)
    return list(found.values())


@prepared
def _remembering(first: int, last: int) -> sa.Select[Any]:
    columns = QUERIES.c.query, PARTS.c.memory, GROUPS.c.channels, QUERIES.c.sees_from, QUERIES.c.docid_until
    joined = sa.select(*columns).join(PARTS, PARTS.c.gid == QUERIES.c.gid).join(GROUPS, GROUPS.c.gid == PARTS.c.part)
    return joined.where(PARTS.c.memory.is_not(None), QUERIES.c.sees_from < last, QUERIES.c.docid_until > first)


@prepared
def _fed() -> sa.Select[Any]:
    return _feeding(QUERIES.c.publish).where(IS_PUBLISHING, LIVE).distinct()


@prepared
def _fed_between(first: int, last: int) -> sa.Select[Any]:
    joined = _feeding(QUERIES.c.publish, QUERIES.c.docid_from, QUERIES.c.docid_until)
    return joined.where(IS_PUBLISHING, QUERIES.c.docid_from <= last, QUERIES.c.docid_until > first).distinct()


def _feeding(*columns: sa.Column[Any]) -> sa.Select[Any]:
    """Return a selection of queries with what they read, and with what their answers wait for."""
    joined = sa.select(*columns, GROUPS.c.channels, PARTS.c.ends, PARTS.c.blocking)
    joined = joined.join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
    return joined.outerjoin(PARTS, sa.and_(PARTS.c.gid == QUERIES.c.gid, PARTS.c.number == 0))


# -- registration ----------------------------------------------------------------------------------------------


def add_queries(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Add rows of new queries."""
    add_rows(connection, QUERIES.insert(), rows)


def tell_apart(connection: Connection, groups: Iterable[int]) -> None:
    """Give the queries of groups about absence a number each, which stands for its group in matches of its own."""
    for part in in_parts(sorted(groups)):
        mine = QUERIES.c.gid.in_(part), QUERIES.c.history.is_(None)
        connection.execute(QUERIES.update().where(*mine).values(history=-QUERIES.c.query))


def drop_query(connection: Connection, name: str, now: int) -> int:
    """End a query that is live or suspended; return the place of the drop in the intake order.

    Raises:
        CatalogError: there is none of that name.
    """
    info = read_query(connection, name)
    place, _ = take_places(connection, 1, now)
    if info.is_suspended:
        release_query(connection, info.query, place)
        return place
    # Drops that follow one another have the same places before them.
    spare = connection.scalar(*_spare_of_drop(place - 1))
    if spare is None and (count := _channels_to_wait_for(connection, info.gid)):
        spare = place
        take_places(connection, count, now)
        place += count
    ends = {"docid_until": place, "spare": spare}
    connection.execute(QUERIES.update().where(QUERIES.c.query == info.query).values(**ends))
    return place


def _channels_to_wait_for(connection: Connection, gid: int) -> int:
    """Return through how many channels documents may come to a query at most, one replay after another, that were
    published before it goes; 0: it reads nothing that is published.
    """
    channels = read_stored(GROUPS.c.channels, connection.scalar(*_channels_of(gid)) or "[]")
    fed = sa.select(QUERIES.c.query).where(QUERIES.c.publish.in_(channels)).limit(1)
    if connection.execute(fed).first() is None:
        return 0
    return int(connection.scalar(*_count_published(_MOST_CHANNELS)) or 0)


@prepared
def _spare_of_drop(place: int) -> sa.Select[Any]:
    return sa.select(QUERIES.c.spare).where(IS_DROPPED, QUERIES.c.docid_until == place, HAS_SPARE).limit(1)


@prepared
def _channels_of(gid: int) -> sa.Select[Any]:
    return sa.select(GROUPS.c.channels).where(GROUPS.c.gid == gid)


@prepared
def _count_published(most: int) -> sa.Select[Any]:
    channels = sa.select(QUERIES.c.publish).where(IS_PUBLISHING).distinct().limit(most)
    return sa.select(sa.func.count()).select_from(channels.subquery())


def replay_place(connection: Connection, last: int, now: int) -> int:
    """Return the place at which documents are taken again that a batch up to a place has published too late.

    Queries that see them, and are dropped behind that place, are still there.
    """
    spare = connection.scalar(*_spare_behind(last))
    return take_places(connection, 1, now)[0] if spare is None else max(spare, last + 1)


@prepared
def _spare_behind(last: int) -> sa.Select[Any]:
    ahead = IS_DROPPED, QUERIES.c.docid_until > last + 1, HAS_SPARE
    return sa.select(QUERIES.c.spare).where(*ahead).order_by(QUERIES.c.docid_until).limit(1)


def release_query(connection: Connection, query: int, place: int) -> None:
    """End the suspension of a query, which is dropped or resumed at a place."""
    connection.execute(QUERIES.update().where(QUERIES.c.query == query).values(released=place))


def regroup(connection: Connection, changed: Iterable[tuple[int, int, str, str]]) -> None:
    """Write (query, group, template, names as JSON) of queries that were compiled again."""
    rows = [
        {"b_query": query, "gid": gid, "template": template, "names": names} for query, gid, template, names in changed
    ]
    if rows:
        connection.execute(QUERIES.update().where(QUERIES.c.query == sa.bindparam("b_query")), rows)
        note_sweep(connection)


def mend_query(connection: Connection, query: int, values: Mapping[str, object]) -> None:
    """Change columns of a query that differ from what its text says."""
    connection.execute(QUERIES.update().where(QUERIES.c.query == query).values(**values))
    note_sweep(connection)


# -- batches ---------------------------------------------------------------------------------------------------


def mark_filled(connection: Connection, queries: Sequence[QueryInfo]) -> None:
    """Note that queries are answered from retained events, by which batch, and from which times on."""
    if queries:
        values = [
            {
                "b_query": info.query,
                "history": info.history,
                "filled": info.filled,
                "held_from": json.dumps(dict(info.held_from), sort_keys=True) if info.held_from else None,
            }
            for info in queries
        ]
        connection.execute(QUERIES.update().where(QUERIES.c.query == sa.bindparam("b_query")), values)


def add_late_for(connection: Connection, counts: Mapping[int, int]) -> None:
    """Count events that came too late for the memory of queries, by their numbers."""
    if counts:
        rows = [{"b_query": query, "b_more": more} for query, more in counts.items()]
        counted = {"late_for": QUERIES.c.late_for + sa.bindparam("b_more")}
        connection.execute(QUERIES.update().where(QUERIES.c.query == sa.bindparam("b_query")).values(counted), rows)


def suspend_query(connection: Connection, query: int, place: int, reason: str) -> None:
    """Suspend a query: it sees nothing from a place on."""
    connection.execute(QUERIES.update().where(QUERIES.c.query == query).values(docid_until=place, suspended=reason))


def end_dropped(connection: Connection, place: int, batch: int) -> None:
    """Give queries dropped or suspended before a place no matches of the batch there, of a replay or a back-fill."""
    # The place of a suspension is the one behind its batch, which may be this one.
    dropped = IS_DROPPED, QUERIES.c.docid_until <= place, QUERIES.c.ended.is_(None)
    connection.execute(QUERIES.update().where(*dropped).values(ended=batch - 1))


def forget_batches(connection: Connection) -> None:
    """Forget the batches that answered queries from retained events, and those that dropped ones end with."""
    answered = QUERIES.update().where(QUERIES.c.starting != "NOW", QUERIES.c.filled > 0)
    connection.execute(answered.values(filled=None, history=None))
    connection.execute(QUERIES.update().values(ended=None, late_for=0))  # numbers of batches, and counts


def remove_queries(connection: Connection, queries: Sequence[int]) -> None:
    """Remove dropped queries without stored matches."""
    for part in in_parts(queries):
        connection.execute(QUERIES.delete().where(QUERIES.c.query.in_(part)))
