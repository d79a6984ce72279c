"""The times from which on the events of channels are held and kept, as of the last commit; ``event_retention`` moves
them.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.catalog import Catalog
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import CHANNELS

__all__ = ["held_times", "held_up", "held_up_note", "keep_times"]


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


def held_up(catalog: Catalog) -> list[str]:
    """Channels whose retention has no effect yet, because live queries may join any of their events."""
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
