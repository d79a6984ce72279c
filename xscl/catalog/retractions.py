"""Matches that were taken back: the one module that writes table ``retractions``.

A row tells of a match of a group, or of one query of it.  So however many queries had the match, few rows say that it
no longer holds.  A match may be found again later, and taken back again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import RETRACTIONS, in_parts

__all__ = [
    "Because",
    "Retracted",
    "add_retractions",
    "forget_retractions",
    "has_retractions",
    "read_retractions",
    "trim_retractions",
]

Because = Literal["late", "edited", "removed", "replayed", "limit"]
"""Cause that took a match back: a late event, a newer version, a removal, a late event that was taken again, or a limit
at which its run was cut off.
"""


@dataclass(frozen=True, slots=True)
class Retracted:
    """A match that was taken back."""

    batch: int
    gid: int
    """The group that had it, or the number that stands for it in one query."""
    docids: tuple[int, ...]
    nodes: tuple[int, ...]
    later: int
    """Time from its newest member to it, microseconds."""
    exchange: int | None
    """A query has it only if it sees members from this place on; None: every one has it."""
    place: int
    """A query that was dropped before this place keeps it."""
    because: Because
    channel: str | None
    """Channel of the event that did it, or from which the run was cut off."""
    id: str | None
    """Id of that event."""


def add_retractions(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Note that matches were taken back."""
    if rows:
        connection.execute(RETRACTIONS.insert(), rows)


def has_retractions(connection: Connection) -> bool:
    """Tell whether any match was taken back."""
    return connection.execute(sa.select(RETRACTIONS.c.number).limit(1)).first() is not None


def read_retractions(connection: Connection, groups: Sequence[int] | None, first: int = 0) -> Iterator[Retracted]:
    """Read what was taken back in the batches from ``first`` on, of some groups or of all."""
    statement = sa.select(RETRACTIONS).where(RETRACTIONS.c.batch >= first).order_by(RETRACTIONS.c.number)
    parts = [statement] if groups is None else [statement.where(RETRACTIONS.c.gid.in_(p)) for p in in_parts(groups)]
    for part in parts:
        for row in connection.execute(part):
            docids = tuple(read_stored(RETRACTIONS.c.docs, row.docs))
            nodes = tuple(int(node) for node in row.nodes.split(",") if node)
            told = row.later, row.exchange, row.place, row.because, row.channel, row.id
            yield Retracted(row.batch, row.gid, docids, nodes, *told)


def trim_retractions(connection: Connection, oldest: int) -> None:
    """Forget matches with a member from before a place, which no listing has."""
    connection.execute(RETRACTIONS.delete().where(RETRACTIONS.c.first < oldest))


def forget_retractions(connection: Connection) -> None:
    """Forget what was taken back, because all batches run again."""
    connection.execute(RETRACTIONS.delete())
