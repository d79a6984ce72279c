"""Offsets up to which growing inputs were ingested; written in the transaction of their events."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import SOURCES
from xscl.ingest.following import FilePosition
from xscl.ingest.records import Position
from xscl.ingest.sql_tables import position_key

__all__ = ["position_of", "positions_in", "put_positions"]


def put_positions(connection: Connection, positions: Iterable[Position], now: int) -> None:
    """Keep positions, of each input the last one; ``now`` is in microseconds since the epoch."""
    for source, position in {each.source: each.position for each in positions}.items():
        values = {"position": position, "taken": now}
        changed = connection.execute(SOURCES.update().where(SOURCES.c.source == source).values(values))
        if changed.rowcount == 0:
            connection.execute(SOURCES.insert().values(source=source, **values))


def positions_in(connection: Connection, start: str) -> dict[str, str]:
    """Return the offsets of inputs whose names start with a text."""
    statement = sa.select(SOURCES.c.source, SOURCES.c.position)
    found = connection.execute(statement.where(SOURCES.c.source.startswith(start, autoescape=True))).all()
    for row in found:
        read_stored(SOURCES.c.position, row.position, FilePosition.of)
    return {row.source: row.position for row in found}


def position_of(connection: Connection, source: str) -> str | None:
    """Return the offset of an input; None if it was never ingested."""
    found = connection.scalar(sa.select(SOURCES.c.position).where(SOURCES.c.source == source))
    if found is not None:
        read_stored(SOURCES.c.position, found, position_key)
    return found
