"""Groups of queries with steps, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.records import RAW
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS, IS_OF_STEPS, PARTS, QUERIES, STREAMS, among
from xscl.catalog.windows import Range, Reader, range_of

__all__ = ["Stepped", "SteppedQueries", "groups_by_steps", "has_steps", "is_step", "read_stepped"]


@dataclass(frozen=True, slots=True)
class Stepped:
    """A group of queries with steps."""

    gid: int
    key: str
    text: str
    namespaces: Mapping[str, str]
    parts: tuple[int, ...]
    """The groups whose matches the steps are over."""
    channels: tuple[tuple[str, ...], ...]
    """Channels that each part reads."""
    distances: tuple[int | None, int | None]
    """Distances behind clocks up to which it answers, and remembers events, as table ``parts`` has them."""

    @property
    def is_alone(self) -> bool:
        """Whether it shares its steps with no other group (``Group.alone``)."""
        return " " in self.key


class SteppedQueries(NamedTuple):
    """Groups with queries that are there in a range of places, and all queries of these groups."""

    groups: Sequence[Stepped] = ()
    readers: Mapping[int, Sequence[Reader]] = {}
    """Queries by group."""
    range: Range = Range()


def is_step(name: str) -> bool:
    """Tell whether the id of a template, or its beginning, is that of a step."""
    return name.startswith("s")


def groups_by_steps(connection: Connection, first: int, last: int) -> dict[str, list[int]]:
    """Return the groups with queries that are there in a range of places by the ids of their steps."""
    from xscl.language.outlines.steps import known_shape  # reads texts, which takes a while to load
    from xscl.language.steps.shapes import step_id

    found: dict[str, list[int]] = {}
    for each in read_stepped(connection, first, last).groups:
        shape, _ = known_shape(each.text, tuple(sorted(each.namespaces.items())))
        found.setdefault(step_id(shape, each.channels, each.distances), []).append(each.gid)
    return found


def has_steps(connection: Connection) -> bool:
    """Return whether any query has steps."""
    return connection.scalar(sa.select(PARTS.c.gid).where(IS_OF_STEPS).limit(1)) is not None


def read_stepped(connection: Connection, first: int, last: int) -> SteppedQueries:
    """Return the groups with queries that are there in a range of places, and all their queries by group."""
    live = set(connection.scalars(*_live(first, last)))
    if not live:
        return SteppedQueries(range=range_of(connection, first, last, {}))
    readers: dict[int, list[Reader]] = {}
    columns = QUERIES.c.gid, QUERIES.c.query, QUERIES.c.qid, QUERIES.c.sees_from, QUERIES.c.docid_until
    mine = among(connection, QUERIES.c.gid, live), QUERIES.c.docid_from <= last
    for gid, *reader in connection.execute(sa.select(*columns).where(*mine).order_by(QUERIES.c.query)):
        readers.setdefault(gid, []).append(Reader(*reader))
    parts: dict[int, list[int]] = {}
    distances: dict[int, tuple[int | None, int | None]] = {}
    wanted = sa.select(PARTS.c.gid, PARTS.c.part, PARTS.c.blocking, PARTS.c.memory).where(IS_OF_STEPS)
    for gid, part, *distance in connection.execute(wanted.order_by(PARTS.c.gid, PARTS.c.number)):
        if gid in live:
            parts.setdefault(gid, []).append(part)
            distances[gid] = distance[0], distance[1]
    streams = frozenset(connection.scalars(sa.select(STREAMS.c.name)))
    rows = {row.gid: row for row in connection.execute(*_groups())}
    every = {part for of in parts.values() for part in of}
    read = sa.select(GROUPS.c.gid, GROUPS.c.channels).where(among(connection, GROUPS.c.gid, every))
    channels = {
        row.gid: tuple(
            name for name in read_stored(GROUPS.c.channels, row.channels) if name.removesuffix(RAW) not in streams
        )
        for row in connection.execute(read)
    }
    found = [
        Stepped(
            gid,
            rows[gid].key,
            rows[gid].text,
            read_stored(GROUPS.c.namespaces, rows[gid].namespaces),
            tuple(parts[gid]),
            tuple(channels[part] for part in parts[gid]),
            distances[gid],
        )
        for gid in sorted(live)
    ]
    return SteppedQueries(found, readers, range_of(connection, first, last, readers))


@prepared
def _live(first: int, last: int) -> sa.Select[Any]:
    # A join would look at all queries.
    stepped = QUERIES.c.gid.in_(sa.select(PARTS.c.gid).where(IS_OF_STEPS))
    mine = stepped, QUERIES.c.docid_from <= last, QUERIES.c.docid_until > first
    return sa.select(QUERIES.c.gid).where(*mine).distinct()


@prepared
def _groups() -> sa.Select[Any]:
    columns = GROUPS.c.gid, GROUPS.c.key, GROUPS.c.text, GROUPS.c.namespaces
    return sa.select(*columns).join(PARTS, PARTS.c.gid == GROUPS.c.gid).where(IS_OF_STEPS).distinct()
