"""Frontiers within a batch: how far the times of channels are settled at each of its places.

After a batch ``store.watermarks`` says so.  An answer about absence has the place at which it became certain, which
does not depend on how the intake is cut into batches; so it is asked here for each place of the range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.batches.ranges import BatchRange
from xscl.catalog.records import ChannelInfo
from xscl.store.parquet import checked_dataset
from xscl.templates.absence import Settled
from xscl.templates.columns import Int64s

__all__ = ["settled_times"]

_NEVER = -(1 << 62)
_Steps = tuple[Int64s, Int64s]
"""Places, ascending, and a time at each."""


def settled_times(
    span: BatchRange, asked: Collection[tuple[str, int | None]], published: Mapping[str, int]
) -> dict[tuple[str, int | None], Settled]:
    """Return how far the times of some channels are settled, or their clocks have come, at the places of a batch.

    Args:
        span: the batch.
        asked: channels, each with a distance behind its clock that is far enough; None: its lateness is.  With the
            distance 0 the time that the clock shows is reached; with others a time is when the clock is beyond.
        published: greatest time of the documents that the batch published to each channel.
    """
    readers = {blocking: _Reader(span, published, blocking) for _, blocking in asked}
    return {(name, blocking): readers[blocking].settled(name) for name, blocking in asked}


class _Reader:
    def __init__(self, span: BatchRange, published: Mapping[str, int], blocking: int | None) -> None:
        self.span = span
        self.blocking = blocking
        self.published = published
        self.clocks = span.clocks.clocks()
        self._known: dict[str, Settled] = {}
        self._events: pa.Table | None = None

    def settled(self, name: str) -> Settled:
        """Return how far a channel's times are settled."""
        if name not in self._known:
            # What feeds itself is never settled; no live queries do.
            self._known[name] = Settled(_NEVER, np.zeros(0, np.int64), np.zeros(0, np.int64))
            self._known[name] = self._settled(name)
        return self._known[name]

    def _settled(self, name: str) -> Settled:
        clocks, channel = self.span.clocks, self.span.clocks.channels.get(name)
        feeders = clocks.feeders.get(name)
        only_fed = feeders is not None and name not in self.clocks.newest and name not in self.span.channels
        if feeders is not None and only_fed and (channel is None or channel.lateness is None):
            return _least([self.settled(source) for names in feeders for source in sorted(names)])
        if channel is None:
            return Settled(_NEVER, np.zeros(0, np.int64), np.zeros(0, np.int64))
        before, steps = _NEVER, list[_Steps]()
        known = [time for time in (self.clocks.shown(channel), clocks.published[name]) if time is not None]
        for behind, since in self._behind(channel):
            moves = list(self._shown(channel))
            if name in self.published:
                moves.append(_step(self.span.last, self.published[name]))
            if known and since < self.span.first:
                before = max(before, max(known) - behind)
            elif known:
                moves.append(_step(since, max(known)))
            steps += [(np.maximum(places, since), times - behind) for places, times in moves]
        if feeders is None:
            beaten = clocks.beaten[name]
            before = before if beaten is None else max(before, beaten + 1)
            steps += [_step(place, time + 1) for place, of, time in self.span.beats if of == name]
        return _growing(before, steps)

    def _behind(self, channel: ChannelInfo) -> Iterator[tuple[int, int]]:
        """Yield how far times must be behind the channel's clock, each with the place from which on that is enough."""
        if self.blocking is not None:
            yield self.blocking or -1, 0
        # Events up to there may be in time by another lateness.
        since = self.span.clocks.settled[channel.name]
        if channel.lateness is not None and since <= self.span.last:
            yield channel.lateness, since

    def _shown(self, channel: ChannelInfo) -> Iterator[_Steps]:
        """Yield places and times that move what a channel's clock shows."""
        if not self.span.channels:
            return
        if self._events is None:
            first, last = self.span.first, self.span.last
            wanted = (ds.field("docid") >= first) & (ds.field("docid") <= last)
            columns = ["docid", "channel", "ts"]
            table = checked_dataset(self.span.paths, EVENT_SCHEMA).to_table(columns=columns, filter=wanted)
            self._events = table.sort_by("docid")
        places, times = self._events.column("docid").to_numpy(), self._events.column("ts").to_numpy()
        sharing = [each.name for each in self.span.clocks.channels.values() if each.clock == channel.clock]
        mine = pc.is_in(self._events.column("channel"), pa.array(sharing, pa.string())).to_numpy()
        yield places[mine], times[mine]
        if channel.idle is not None:
            yield places, times - channel.idle


def _step(place: int, time: int) -> _Steps:
    return np.array([place], np.int64), np.array([time], np.int64)


def _growing(before: int, steps: Collection[_Steps]) -> Settled:
    """Return the greatest of all times up to each place, where that grows."""
    if not steps:
        return Settled(before, np.zeros(0, np.int64), np.zeros(0, np.int64))
    places = np.concatenate([of for of, _ in steps])
    order = np.argsort(places, kind="stable")
    greatest = np.maximum.accumulate(np.append(before, np.concatenate([times for _, times in steps])[order]))
    grows = greatest[1:] > greatest[:-1]
    return Settled(before, places[order][grows], greatest[1:][grows])


def _least(found: Collection[Settled]) -> Settled:
    """Return the least of several at each place."""
    if not found:
        return Settled(_NEVER, np.zeros(0, np.int64), np.zeros(0, np.int64))
    places = np.unique(np.concatenate([each.places for each in found]))
    columns = [np.append(each.before, each.times)[np.searchsorted(each.places, places, side="right")] for each in found]
    times = np.minimum.reduce(columns) if len(places) else places
    return _growing(min(each.before for each in found), [(places, times)] if len(places) else [])
