"""How far inputs that grow were taken in; written in the transaction of what was taken."""

from __future__ import annotations

from collections.abc import Iterable

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.tables import SOURCES
from xscl.ingest.records import Position

__all__ = ["position_of", "positions_in", "put_positions"]


def put_positions(connection: Connection, positions: Iterable[Position], now: int) -> None:
    """Keep positions, of each input the last one; ``now`` is in microseconds since the epoch."""
    for source, position in {each.source: each.position for each in positions}.items():
        values = {"position": position, "taken": now}
        changed = connection.execute(SOURCES.update().where(SOURCES.c.source == source).values(values))
        if changed.rowcount == 0:
            connection.execute(SOURCES.insert().values(source=source, **values))


def positions_in(connection: Connection, start: str) -> dict[str, str]:
    """The positions of inputs whose names start like this."""
    statement = sa.select(SOURCES.c.source, SOURCES.c.position)
    found = connection.execute(statement.where(SOURCES.c.source.startswith(start, autoescape=True)))
    return {row.source: row.position for row in found}


def position_of(connection: Connection, source: str) -> str | None:
    """The position of an input; None if it was never taken in."""
    return connection.scalar(sa.select(SOURCES.c.position).where(SOURCES.c.source == source))
