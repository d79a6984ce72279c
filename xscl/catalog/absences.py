"""Queries as those of absence are read: all once, and then what has changed since."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.tables import HOME, IS_DROPPED, PARTS, QUERIES, among, raw_rows

__all__ = ["AskedState", "asked_since", "asked_state", "dropped_until", "groups_asked"]

_PRIME = (1 << 31) - 1


class AskedState(NamedTuple):
    """State of the catalogue: while it is the same, all queries and the parts of their groups are."""

    queries: int
    newest: int
    groups: int
    """Sum that changes when a query goes to another group."""
    dropped: tuple[int, int]
    parts: int
    swept: int

    def goes_on(self, before: AskedState, new: AskedState) -> bool:
        """Tell whether queries have come and were dropped since another state, and nothing else has changed.

        ``new`` is the state of the queries that have come.
        """
        sums = self.queries == before.queries + new.queries and self.groups == before.groups + new.groups
        return sums and self.swept == before.swept and self.parts >= before.parts


def asked_state(connection: Connection, after: int = 0) -> AskedState:
    """Read the state of the queries with greater numbers than ``after``."""
    count, newest, groups = connection.execute(*(_behind(after) if after else _every())).one()
    gone, until = connection.execute(*_gone()).one()
    parts = connection.scalar(*_parts())
    swept = connection.scalar(*_swept())
    return AskedState(count, newest or 0, groups or 0, (gone, until or 0), parts or 0, swept or 0)


def asked_since(connection: Connection, after: int) -> Sequence[tuple[Any, ...]]:
    """Return queries with greater numbers, of groups that are made of others or find what others ask.

    A row has the group, the place after which it sees members, the place of its end, and the number.
    """
    columns = QUERIES.c.gid, QUERIES.c.sees_from, QUERIES.c.docid_until, QUERIES.c.query
    some = sa.select(PARTS.c.gid).union(sa.select(PARTS.c.part))
    return raw_rows(connection, sa.select(*columns).where(QUERIES.c.query > after, QUERIES.c.gid.in_(some)))


def groups_asked(connection: Connection, groups: Collection[int]) -> list[int]:
    """Return those of some groups that a query is in, dropped ones included."""
    mine = among(connection, QUERIES.c.gid, groups)
    return [gid for (gid,) in raw_rows(connection, sa.select(QUERIES.c.gid).where(mine).distinct())]


def dropped_until(connection: Connection) -> Sequence[tuple[Any, ...]]:
    """Return the number of each dropped query, and the place of its end."""
    return raw_rows(connection, sa.select(QUERIES.c.query, QUERIES.c.docid_until).where(IS_DROPPED))


_COUNTS: tuple[Any, ...] = (
    sa.func.count(),
    sa.func.max(QUERIES.c.query),
    sa.func.sum(QUERIES.c.gid * QUERIES.c.query % _PRIME),
)


@prepared
def _every() -> sa.Select[Any]:
    # An index has both columns; with a condition the rows would be read.
    return sa.select(*_COUNTS).select_from(QUERIES)


@prepared
def _behind(after: int) -> sa.Select[Any]:
    return sa.select(*_COUNTS).where(QUERIES.c.query > after)


@prepared
def _gone() -> sa.Select[Any]:
    counts: tuple[Any, ...] = sa.func.count(), sa.func.sum(QUERIES.c.docid_until)
    return sa.select(*counts).where(IS_DROPPED)


@prepared
def _parts() -> sa.Select[Any]:
    counts: tuple[Any, ...] = (sa.func.max(PARTS.c.gid),)
    return sa.select(*counts)


@prepared
def _swept() -> sa.Select[Any]:
    columns: tuple[Any, ...] = (HOME.c.swept,)
    return sa.select(*columns)
