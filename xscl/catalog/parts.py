"""Parts of groups about absence, steps and windows: the one module that writes table ``parts``."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.insertions import add_rows
from xscl.catalog.prepared import prepared
from xscl.catalog.records import RAW
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import (
    GROUPS,
    IS_OF_ABSENCE,
    IS_RETRACTING,
    PARTS,
    QUERIES,
    among,
    in_parts,
    raw_rows,
)

__all__ = [
    "PartRow",
    "add_parts",
    "asking_of",
    "finders_of",
    "has_parts",
    "parts_behind",
    "parts_of",
    "read_parts",
    "read_parts_of",
    "remove_parts",
    "retracting_channels",
]


def add_parts(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Add rows of parts of groups."""
    add_rows(connection, PARTS.insert(), rows)


class PartRow(NamedTuple):
    """Row of table ``parts``, which tells its columns."""

    gid: int
    number: int
    part: int
    ends: str | None
    shown: int
    blocking: int | None
    memory: int | None
    retracts: bool


_PART_COLUMNS = [PARTS.c[name] for name in PartRow._fields]


def read_parts(connection: Connection, parts: Collection[int]) -> list[PartRow]:
    """Return the rows of ``parts`` for what some groups find for queries about absence, in the order of groups."""
    mine = among(connection, PARTS.c.part, parts), IS_OF_ABSENCE
    rows = raw_rows(connection, sa.select(*_PART_COLUMNS).where(*mine))
    return sorted(map(PartRow._make, rows), key=itemgetter(0, 1))


def parts_behind(connection: Connection, gid: int) -> list[PartRow]:
    """Return the rows of ``parts`` of groups with greater numbers, in the order of groups."""
    rows = raw_rows(connection, sa.select(*_PART_COLUMNS).where(PARTS.c.gid > gid))
    return sorted(map(PartRow._make, rows), key=itemgetter(0, 1))


def read_parts_of(connection: Connection, groups: Collection[int]) -> list[PartRow]:
    """Return the rows of ``parts`` of some groups that are made of parts, in their order."""
    wanted = sa.select(*_PART_COLUMNS).where(among(connection, PARTS.c.gid, groups))
    rows = raw_rows(connection, wanted.order_by(PARTS.c.gid, PARTS.c.number))
    return [*map(PartRow._make, rows)]


def has_parts(connection: Connection) -> bool:
    """Tell whether there are groups that are made of parts: about absence, with steps, or with windows."""
    return connection.scalar(*_any_part()) is not None


@prepared
def _any_part() -> sa.Select[Any]:
    return sa.select(PARTS.c.gid).limit(1)


@prepared
def _parts_behind(gid: int) -> sa.Select[Any]:
    return sa.select(PARTS.c.gid, PARTS.c.part).where(PARTS.c.gid > gid)


def retracting_channels(connection: Connection) -> set[str]:
    """Return the channels and streams whose newer versions of items change matches."""
    joined = sa.select(GROUPS.c.channels).join(PARTS, PARTS.c.gid == GROUPS.c.gid).where(IS_RETRACTING).distinct()
    return {
        name.removesuffix(RAW)
        for channels in connection.scalars(joined)
        for name in read_stored(GROUPS.c.channels, channels)
    }


def asking_of(connection: Connection, groups: Collection[int]) -> dict[int, list[int]]:
    """Return the groups about absence that some groups are a part of, by the number of each of these."""
    found: dict[int, list[int]] = {}
    mine = sa.select(PARTS.c.gid, PARTS.c.part).where(among(connection, PARTS.c.part, groups))
    for row in connection.execute(mine.order_by(PARTS.c.gid, PARTS.c.number)):
        if row.gid not in found.setdefault(row.part, []):
            found[row.part].append(row.gid)
    return found


def parts_of(connection: Connection, groups: Collection[int]) -> dict[int, tuple[int, ...]]:
    """Return the groups that some groups are made of, for those of them that are."""
    found: dict[int, list[int]] = {}
    for row in connection.execute(sa.select(PARTS.c.gid, PARTS.c.part).where(among(connection, PARTS.c.gid, groups))):
        found.setdefault(row.gid, []).append(row.part)
    return {gid: tuple(sorted(set(parts))) for gid, parts in found.items()}


def finders_of(connection: Connection, after: int = 0) -> dict[int, tuple[int, ...]]:
    """Return the groups that find what groups about absence ask, for those with greater numbers than ``after``."""
    found: dict[int, list[int]] = {}
    rows = connection.execute(*_parts_behind(after))
    for gid, part in rows:
        found.setdefault(gid, []).append(part)
    return {gid: tuple(dict.fromkeys(parts)) for gid, parts in found.items()}


def remove_parts(connection: Connection, before: int, used: Collection[int]) -> None:
    """Remove the parts of groups with smaller numbers that have no query and are not ``used`` by stored matches."""
    lone = ~sa.exists().where(QUERIES.c.gid == PARTS.c.gid), PARTS.c.gid < before
    gone = [gid for gid in connection.scalars(sa.select(PARTS.c.gid).where(*lone).distinct()) if gid not in used]
    for some in in_parts(gone):
        connection.execute(PARTS.delete().where(PARTS.c.gid.in_(some)))
