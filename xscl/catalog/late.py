"""Late and rejected events: the one module that writes tables ``late`` and ``rejected``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.catalog.tables import LATE, REJECTED, in_parts

__all__ = [
    "add_late",
    "forget_published_late",
    "note_rejected",
    "replay_late",
    "replayed_among",
    "return_number",
    "trim_late",
    "trim_rejected",
]

Row = Mapping[str, object]


def note_rejected(connection: Connection, rows: Iterable[Row], now: int) -> None:
    """Note what could not be taken; ``now`` is in microseconds since the epoch."""
    values = [{"query": None, **row, "received": now} for row in rows]
    if values:
        connection.execute(REJECTED.insert(), values)


def add_late(connection: Connection, rows: Sequence[Row]) -> None:
    """Note late events."""
    if rows:
        connection.execute(LATE.insert(), rows)


def replay_late(connection: Connection, docids: Sequence[int], place: int) -> None:
    """Have late events taken at a place as if they had been in time, unless they were before."""
    for part in in_parts(docids):
        of_part = LATE.c.docid.in_(part), LATE.c.replayed.is_(None)
        connection.execute(LATE.update().where(*of_part).values(replayed=place))


def replayed_among(connection: Connection, docids: Sequence[int], last: int) -> set[int]:
    """Return those of some late events that were taken again at places up to one."""
    found: set[int] = set()
    for part in in_parts(docids):
        found.update(connection.scalars(sa.select(LATE.c.docid).where(LATE.c.docid.in_(part), LATE.c.replayed <= last)))
    return found


def return_number(connection: Connection, channel: str, id_: str, docid: int) -> bool:
    """Give a replayed document that was published again its number; return whether there was one without."""
    same = LATE.c.channel == channel, LATE.c.id == id_
    waiting = LATE.c.replayed.is_not(None), LATE.c.docid.is_(None)
    return bool(connection.execute(LATE.update().where(*waiting, *same).values(docid=docid)).rowcount)


def forget_published_late(connection: Connection) -> None:
    """Forget late published documents; those that were replayed stay without a number, which they get again."""
    connection.execute(LATE.delete().where(LATE.c.docid >= PUBLISHED, LATE.c.replayed.is_(None)))
    connection.execute(LATE.update().where(LATE.c.docid >= PUBLISHED).values(docid=None))


def trim_late(connection: Connection, channel: str, before: int, processed: int) -> int:
    """Remove processed late events of a channel that are older than ``before``; return how many."""
    done = LATE.c.docid.is_(None) | (LATE.c.docid <= processed) | (LATE.c.docid >= PUBLISHED)
    # Where a batch ends must not depend on when this is done.
    again = LATE.c.replayed.is_(None) | (LATE.c.replayed <= processed)
    mine = LATE.delete().where(LATE.c.channel == channel, LATE.c.ts < before, done, again)
    return connection.execute(mine).rowcount


def trim_rejected(connection: Connection, most: int) -> int:
    """Remove rejected records but the newest ``most``; return how many."""
    newest = connection.scalar(sa.select(sa.func.max(REJECTED.c.number))) or 0
    return connection.execute(REJECTED.delete().where(REJECTED.c.number <= newest - most)).rowcount
