"""Clocks: what counts as the time of a channel, and what is late by it (docs/explanation/time.md, Clocks and lateness).

Each channel knows the greatest event time it has had.  A clock shows the greatest of its channels'.  For a channel
that is set aside when idle, the clock counts as at most so far behind the newest of all channels.  So what a clock
shows at a place is a function of the intake order before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import numpy.typing as npt

from xscl.catalog.records import ChannelInfo

__all__ = ["LONGEST", "Clocks", "is_late", "judges", "shown_before"]

Times = npt.NDArray[np.int64]

LONGEST = 1 << 60
"""The longest lateness and idle time, microseconds: beyond the distance of any two event times."""
_NEVER = -(1 << 62)
"""Before any event time, also with the longest durations taken from it."""


class Clocks:
    """The times that the clocks of some channels show, given the greatest event time of each; microseconds."""

    def __init__(self, channels: Iterable[ChannelInfo], newest: Mapping[str, int | None]) -> None:
        self.newest: dict[str, int] = {}
        """Greatest time by channel."""
        self._of_clock: dict[str, int] = {}
        self.greatest: int | None = None
        """Greatest time of all channels."""
        for channel in channels:
            time = newest.get(channel.name)
            if time is not None:
                self.see(channel, time)

    def see(self, channel: ChannelInfo, ts: int) -> bool:
        """Note the time of an event; whether that moved the channel's clock."""
        known = self.newest.get(channel.name)
        if known is not None and ts <= known:
            return False
        self.newest[channel.name] = ts
        if self.greatest is None or ts > self.greatest:
            self.greatest = ts
        shown = self._of_clock.get(channel.clock)
        if shown is not None and ts <= shown:
            return False
        self._of_clock[channel.clock] = ts
        return True

    def own(self, channel: ChannelInfo) -> int | None:
        """Return the greatest time of the channels of a channel's clock; None before the first event."""
        return self._of_clock.get(channel.clock)

    def shown(self, channel: ChannelInfo) -> int | None:
        """Return the time that counts for a channel; None before the first event."""
        own = self._of_clock.get(channel.clock)
        if channel.idle is None or self.greatest is None:
            return own
        behind = self.greatest - channel.idle
        return behind if own is None else max(own, behind)


def judges(channel: ChannelInfo) -> bool:
    """Whether an event of a channel may be late."""
    return channel.auto or channel.lateness is not None or channel.heartbeat is not None


def is_late(channel: ChannelInfo, ts: int, shown: int | None) -> bool:
    """Whether an event is late by what its channel's clock showed before it, and by the channel's heartbeat."""
    if channel.heartbeat is not None and ts <= channel.heartbeat:
        return True
    return shown is not None and channel.lateness is not None and ts < shown - channel.lateness


def shown_before(channel: ChannelInfo, clocks: Clocks, ts: Times) -> tuple[Times, npt.NDArray[np.bool_]]:
    """Return the time that the clock shows before each of some events of one channel, in order, and which events are
    late.
    """
    own = _before(clocks.own(channel), ts)
    if channel.idle is not None:
        own = np.maximum(own, _before(clocks.greatest, ts) - channel.idle)
    late = np.zeros(len(ts), dtype=np.bool_) if channel.lateness is None else ts < own - channel.lateness
    if channel.heartbeat is not None:
        late |= ts <= channel.heartbeat
    return own, late


def _before(start: int | None, ts: Times) -> Times:
    """Return the greatest of ``start`` and of the times before each."""
    first = np.array([_NEVER if start is None else start], dtype=np.int64)
    running: Times = np.maximum.accumulate(np.concatenate([first, ts]))[:-1]
    return running
