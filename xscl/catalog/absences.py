"""Queries as those of absence are read: all once, and then what has changed since."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.tables import IS_DROPPED, PARTS, QUERIES, among, raw_rows

__all__ = ["asked_since", "dropped_until", "groups_asked"]


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
