"""The times from which on the events of channels are held and kept, as of the last commit; ``event_retention`` moves
them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.catalog import Catalog
from xscl.catalog.intake_order import read_processed
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import CHANNELS, EVENT_IDS

__all__ = ["Sight", "held_times", "held_up", "held_up_note", "in_sight", "keep_times", "sight_of"]


def held_times(connection: Connection) -> dict[str, int]:
    """Return the time from which on events are held as of the last commit, for each channel that has let events go."""
    return {row.name: row.held_from for row in connection.execute(*_select_held())}


@prepared
def _select_held() -> sa.Select[Any]:
    return sa.select(CHANNELS.c.name, CHANNELS.c.held_from).where(CHANNELS.c.held_from.is_not(None))


def keep_times(connection: Connection) -> dict[str, int]:
    """Return the time from which on events are kept, of each channel from which some may have gone."""
    statement = sa.select(CHANNELS.c.name, CHANNELS.c.kept_from).where(CHANNELS.c.kept_from.is_not(None))
    return {row.name: row.kept_from for row in connection.execute(statement)}


@dataclass(frozen=True, slots=True)
class Sight:
    """Bounds of the events of a channel that are in sight; upkeep forgets the others, sooner or later."""

    kept_from: int | None
    """Least time of those that batches have processed; None: all are in sight."""
    processed: int
    """Last place that a batch has processed."""

    def has(self, docid: int, ts: int) -> bool:
        """Tell whether an event that was taken in is in sight."""
        return self.kept_from is None or ts >= self.kept_from or docid > self.processed

    @property
    def ids(self) -> sa.ColumnElement[bool]:
        """The rows of ``event_ids`` of such events."""
        if self.kept_from is None:
            return sa.true()
        # Ids without a time are of documents that batches published.
        has_time = EVENT_IDS.c.ts.is_(None) | (EVENT_IDS.c.ts >= self.kept_from)
        return has_time | (EVENT_IDS.c.docid > self.processed)


def sight_of(connection: Connection, channel: str) -> Sight:
    """Return which events of a channel are in sight as of the last commit."""
    kept_from = connection.scalar(sa.select(CHANNELS.c.kept_from).where(CHANNELS.c.name == channel))
    return Sight(kept_from, read_processed(connection))


def in_sight(connection: Connection) -> sa.ColumnElement[bool]:
    """Return the rows of ``event_ids`` of events that are in sight as of the last commit, whatever their channel."""
    if connection.scalar(sa.select(sa.func.count(CHANNELS.c.kept_from))) == 0:
        return sa.true()
    ids = EVENT_IDS.c
    # Ids without a time are of documents that batches published.
    gone = sa.exists().where(CHANNELS.c.name == ids.channel, CHANNELS.c.kept_from > ids.ts)
    return ~gone | (ids.docid > read_processed(connection))


def held_up(catalog: Catalog) -> list[str]:
    """Return the channels whose retention has no effect yet, because live queries may join any of their events."""
    held = CHANNELS.c.held_from
    behind = sa.and_(held.is_not(None), CHANNELS.c.kept_from.is_(None))
    with catalog.read() as connection:
        return list(connection.scalars(sa.select(CHANNELS.c.name).where(behind).order_by(CHANNELS.c.name)))


def held_up_note(channel: str) -> str:
    """Return the note on a channel whose retention has no effect yet."""
    return (
        f"channel {channel}: its events stay beyond its retention, because live queries may join any of them; give the "
        "channels they are joined with a lateness, and the queries windows"
    )
