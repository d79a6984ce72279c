"""Groups of queries with windows of matches, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.records import RAW
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS, OF_WINDOWS, PARTS, QUERIES, STREAMS

__all__ = ["Reader", "Windowed", "read_windowed"]


@dataclass(frozen=True, slots=True)
class Windowed:
    """A group of queries with windows."""

    gid: int
    key: str
    part: int
    """The group whose matches the windows are over."""
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


def read_windowed(connection: Connection, first: int, last: int) -> tuple[list[Windowed], dict[int, list[Reader]]]:
    """Return the groups with queries that are there in a range of places, and these queries by group."""
    readers: dict[int, list[Reader]] = {}
    for gid, *reader in connection.execute(*_readers(first, last)):
        readers.setdefault(gid, []).append(Reader(*reader))
    if not readers:
        return [], {}
    streams = frozenset(connection.scalars(sa.select(STREAMS.c.name)))
    found = []
    for row in connection.execute(*_groups()):
        if row.gid in readers:
            names = read_stored(GROUPS.c.channels, row.channels)
            channels = tuple(name for name in names if name.removesuffix(RAW) not in streams)
            namespaces = read_stored(GROUPS.c.namespaces, row.namespaces)
            found.append(Windowed(row.gid, row.key, row.part, row.text, namespaces, channels))
    return found, readers


@prepared
def _readers(first: int, last: int) -> sa.Select[Any]:
    columns = QUERIES.c.gid, QUERIES.c.query, QUERIES.c.qid, QUERIES.c.sees_from, QUERIES.c.docid_until
    joined = sa.select(*columns).join(PARTS, PARTS.c.gid == QUERIES.c.gid)
    mine = PARTS.c.ends == OF_WINDOWS, QUERIES.c.docid_from <= last, QUERIES.c.docid_until > first
    return joined.where(*mine).order_by(QUERIES.c.query)


@prepared
def _groups() -> sa.Select[Any]:
    columns = GROUPS.c.gid, GROUPS.c.key, PARTS.c.part, GROUPS.c.text, GROUPS.c.namespaces, GROUPS.c.channels
    return sa.select(*columns).join(PARTS, PARTS.c.gid == GROUPS.c.gid).where(PARTS.c.ends == OF_WINDOWS)
