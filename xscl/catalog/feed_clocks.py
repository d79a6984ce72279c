"""Clocks of feeds in channels with ``--lateness auto``: the one module that writes table ``feed_clocks``.

The lateness of a feed is declared once, and each of its items is judged by the items of this feed before it.  So
feeds that publish in their order, and feeds that bring up old items, need no common lateness.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.tables import FEED_CLOCKS

__all__ = ["FeedClock", "forget_feed_clocks", "put_feed_clocks", "read_feed_clocks", "settled_by"]


@dataclass(slots=True)
class FeedClock:
    """Clock of a feed."""

    feed: str
    """Identity of the feed."""
    lateness: int
    """Time that an item may be behind the clock, microseconds."""
    newest: int | None
    """Greatest event time of its items; None before the first."""

    def shown(self, greatest: int | None, idle: int | None) -> int | None:
        """Return the time that the clock shows.

        Args:
            greatest: greatest event time of all channels.
            idle: the clock is at most so far behind it; None: its own time counts.
        """
        if greatest is None or idle is None:
            return self.newest
        return greatest - idle if self.newest is None else max(self.newest, greatest - idle)


def settled_by(clocks: Iterable[FeedClock], greatest: int | None, idle: int | None) -> int | None:
    """Return the time below which all items of some feeds are in; None: no feed says so.

    >>> settled_by([FeedClock("a", 5, 100), FeedClock("b", 50, 120), FeedClock("c", 0, None)], 120, None)
    70
    >>> settled_by([FeedClock("a", 5, 10), FeedClock("b", 50, 120), FeedClock("c", 0, None)], 120, 30)
    70
    """
    times = [(clock.shown(greatest, idle), clock.lateness) for clock in clocks]
    return min((shown - lateness for shown, lateness in times if shown is not None), default=None)


def read_feed_clocks(connection: Connection, channel: str) -> dict[str, FeedClock]:
    """Return the clocks of the feeds of a channel, by identity."""
    rows = connection.execute(sa.select(FEED_CLOCKS).where(FEED_CLOCKS.c.channel == channel))
    return {row.feed: FeedClock(row.feed, row.lateness, row.newest) for row in rows}


def put_feed_clocks(connection: Connection, channel: str, clocks: Iterable[FeedClock]) -> None:
    """Add or replace clocks of feeds of a channel."""
    for clock in clocks:
        mine = FEED_CLOCKS.c.channel == channel, FEED_CLOCKS.c.feed == clock.feed
        values = {"lateness": clock.lateness, "newest": clock.newest}
        if not connection.execute(FEED_CLOCKS.update().where(*mine).values(**values)).rowcount:
            connection.execute(FEED_CLOCKS.insert().values(channel=channel, feed=clock.feed, **values))


def forget_feed_clocks(connection: Connection, channel: str) -> None:
    """Forget the clocks of the feeds of a channel."""
    connection.execute(FEED_CLOCKS.delete().where(FEED_CLOCKS.c.channel == channel))
