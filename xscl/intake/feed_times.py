"""Clocks of feeds in an intake's transaction (``--lateness auto``), and how far their channel is settled by them.

Behind the items of each feed document the channel gets a heartbeat: all items are in up to the least time of its
feeds, each less its lateness.  A heartbeat has a place of the intake order, and all else goes by such places.
"""

from __future__ import annotations

from sqlalchemy.engine import Connection

from xscl.catalog.feed_clocks import FeedClock, put_feed_clocks, read_feed_clocks, settled_by
from xscl.catalog.records import ChannelInfo

__all__ = ["FeedTimes"]


class FeedTimes:
    """Clocks of feeds as a transaction knows them, each channel read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._channels: dict[str, dict[str, FeedClock]] = {}
        self._moved: dict[str, dict[str, FeedClock]] = {}
        self.still = False
        """Whether items move no clock now: they come from a stranger to their feed."""

    def _of(self, channel: ChannelInfo) -> dict[str, FeedClock]:
        if (found := self._channels.get(channel.name)) is None:
            found = self._channels[channel.name] = read_feed_clocks(self._connection, channel.name)
        return found

    def late_by(self, channel: ChannelInfo, feed: str, ts: int, greatest: int | None) -> int | None:
        """Return the time that the clock of a feed shows if an item of it is late, else None; the item moves the clock.

        Args:
            channel: channel of the item.
            feed: the feed; one without a declared lateness has no late items.
            ts: event time of the item.
            greatest: greatest event time of all channels before it.
        """
        clock = self._of(channel).get(feed)
        if clock is None:
            return None
        shown = clock.shown(greatest, channel.idle)
        if not self.still and (clock.newest is None or ts > clock.newest):
            clock.newest = ts
            self._moved.setdefault(channel.name, {})[feed] = clock
        return shown if shown is not None and ts < shown - clock.lateness else None

    def settled(self, channel: ChannelInfo, greatest: int | None) -> int | None:
        """Return the time below which all items of a channel are in; None: no feed says so."""
        return settled_by(self._of(channel).values(), greatest, channel.idle)

    def write(self) -> None:
        """Write the clocks that moved."""
        for channel, clocks in self._moved.items():
            put_feed_clocks(self._connection, channel, clocks.values())
