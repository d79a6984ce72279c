"""Frontiers within a batch: how far the times of channels are settled at each of its places.

After a batch ``store.watermarks`` says so.  An answer about absence has the place at which it became certain, which
does not depend on how the intake is cut into batches; so it is asked here for each place of the range.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import place_of
from xscl.batches.ranges import BatchRange
from xscl.catalog.queries import Feed
from xscl.catalog.records import ChannelInfo
from xscl.store.parquet import checked_dataset
from xscl.templates.absence import NEVER, Settled
from xscl.templates.columns import Int64s

__all__ = ["settled_times"]

_NEVER_ENDS = 1 << 62
_Steps = tuple[Int64s, Int64s]
"""Places, ascending, and a time at each."""


def settled_times(
    span: BatchRange, asked: Collection[tuple[str, int | None]], published: Sequence[pa.Table]
) -> dict[tuple[str, int | None], Settled]:
    """Return how far the times of some channels are settled, or their clocks have come, at the places of a batch.

    Args:
        span: the batch.
        asked: channels, each with a distance behind its clock at which times are settled; None: its lateness is.
            With the distance -1 the time that the clock shows is settled, too.
        published: documents that the batch published.
    """
    readers = _Readers(span, published)
    return {(name, behind): readers[behind].settled(name) for name, behind in asked}


class _Readers(dict[int | None, "_Reader"]):
    """Readers by the distance that they ask for."""

    def __init__(self, span: BatchRange, published: Sequence[pa.Table]) -> None:
        super().__init__()
        self.span = span
        self.published = published
        self.asking: set[str] = set()
        """Channels that are being asked for."""
        self._events: pa.Table | None = None

    def __missing__(self, behind: int | None) -> _Reader:
        return self.setdefault(behind, _Reader(self, behind))

    def taken_in(self) -> pa.Table:
        """Return the events of the batch by their places."""
        if self._events is None:
            taken, first, last = self.span.taken, self.span.first, self.span.last
            if taken is not None:
                self._events = taken.rows
                return self._events
            wanted = (ds.field("docid") >= first) & (ds.field("docid") <= last)
            columns = ["docid", "channel", "ts"]
            table = checked_dataset(self.span.paths, EVENT_SCHEMA).to_table(columns=columns, filter=wanted)
            numbers = table.column("docid").to_numpy()
            in_order = bool((numbers[1:] > numbers[:-1]).all())
            self._events = table if in_order else table.sort_by("docid")
        return self._events


class _Reader:
    def __init__(self, readers: _Readers, behind: int | None) -> None:
        self.readers = readers
        self.span = readers.span
        self.behind = behind
        self.published = readers.published
        self.clocks = self.span.clocks.clocks()
        self._known: dict[str, Settled] = {}

    def settled(self, name: str) -> Settled:
        """Return how far a channel's times are settled."""
        if name in self.readers.asking:
            # What feeds itself is never settled; queries that live at one place never do.
            return _constant(NEVER)
        if name not in self._known:
            self.readers.asking.add(name)
            self._known[name] = self._settled(name)
            self.readers.asking.remove(name)
        return self._known[name]

    def _settled(self, name: str) -> Settled:
        feeds, channel = [feed for feed in self.span.feeds if feed.channel == name], self.span.clocks.channels.get(name)
        beaten = self._by_itself(name, channel, beats=True)
        if not feeds:
            return beaten
        # Heartbeats speak of events that are taken in, not of what queries publish.
        own = self._by_itself(name, channel, beats=False)
        alone = name not in self.clocks.newest and (channel is None or channel.lateness is None)
        # From the first event that no query published, the channel is as any other.
        end = self._first_event(name) if alone else self.span.first
        cuts = {self.span.first, end, *(feed.since for feed in feeds), *(feed.until for feed in feeds)}
        parts = []
        for first in sorted(cut for cut in cuts if cut <= self.span.last):
            live = [feed for feed in feeds if feed.since <= first < feed.until]
            if live and first >= end:
                # What waits until times are settled is older than what a clock shows.
                live = [feed for feed in live if feed.is_final]
                parts.append((first, _least([own, *self._fed(live)])))
            else:
                parts.append((first, _least([*self._fed(live)]) if live else beaten))
        return _joined(parts)

    def _fed(self, feeds: Collection[Feed]) -> Iterator[Settled]:
        """Yield how far the times of the answers of queries are settled, or what stands for their clock has come."""
        for feed in feeds:
            for source in sorted(feed.sources):
                if self.behind is None:
                    yield self.settled(source)
                elif feed.is_final:
                    yield _moved(self.readers[None].settled(source), max(self.behind, 0))
                elif feed.blocking:
                    yield self.readers[max(self.behind, 0) + feed.blocking].settled(source)
                else:
                    yield self.settled(source)

    def _first_event(self, name: str) -> int:
        """Return the place of a channel's first event that was taken in; a place behind the batch: it has none."""
        if name not in self.span.channels:
            return self.span.last + 1
        events = self.readers.taken_in()
        mine = pc.equal(events.column("channel"), name)
        return min(events.column("docid").filter(mine).to_pylist(), default=self.span.last + 1)

    def _by_itself(self, name: str, channel: ChannelInfo | None, *, beats: bool) -> Settled:
        """Return how far a channel's times are settled by its clock, and with ``beats`` by its heartbeats."""
        if channel is None:
            return _constant(NEVER)
        clocks, before, steps = self.span.clocks, NEVER, list[_Steps]()
        known = [time for time in (self.clocks.shown(channel), clocks.published[name]) if time is not None]
        for behind, since, until in self._behind(channel):
            if known and since < self.span.first:
                before = max(before, max(known) - behind)
            elif known:
                steps.append(_step(since, max(known) - behind))
            for places, times in self._shown(channel):
                held = places < until
                steps.append((np.maximum(places[held], since), times[held] - behind))
        if beats:
            beaten = clocks.beaten[name]
            before = before if beaten is None else max(before, beaten + 1)
            steps += [_step(place, time + 1) for place, of, time in self.span.beats if of == name]
        return _growing(before, steps)

    def _behind(self, channel: ChannelInfo) -> Iterator[tuple[int, int, int]]:
        """Yield how far times must be behind the channel's clock, each with the places from and until it holds."""
        if self.behind is not None:
            yield self.behind, 0, _NEVER_ENDS
        # Events up to there were judged by another lateness, or by another clock.
        since, clocks = self.span.clocks.settled[channel.name], self.span.clocks
        for begin, end, lateness in clocks.former.get(channel.name, ()):
            if begin <= self.span.last and end > self.span.first:
                yield lateness, begin, end
        if channel.lateness is not None and since <= self.span.last:
            yield channel.lateness, since, _NEVER_ENDS

    def _shown(self, channel: ChannelInfo) -> Iterator[_Steps]:
        """Yield places and times that move what a channel's clock shows."""
        for table in self.published:
            mine = table.filter(pc.equal(table.column("channel"), channel.name))
            places = np.maximum(place_of(mine.column("docid").to_numpy()), self.span.first)
            yield places, mine.column("ts").to_numpy()
        if not self.span.channels:
            return
        events = self.readers.taken_in()
        places, times = events.column("docid").to_numpy(), events.column("ts").to_numpy()
        sharing = [each.name for each in self.span.clocks.channels.values() if each.clock == channel.clock]
        mine = pc.is_in(events.column("channel"), pa.array(sharing, pa.string())).to_numpy()
        yield places[mine], times[mine]
        if channel.idle is not None:
            yield places, times - channel.idle


def _constant(time: int) -> Settled:
    return Settled(time, np.zeros(0, np.int64), np.zeros(0, np.int64))


def _moved(found: Settled, by: int) -> Settled:
    """Return times that are earlier by something."""
    times = np.where(found.times > NEVER, found.times - by, NEVER)
    return Settled(found.before - by if found.before > NEVER else NEVER, found.places, times)


def _step(place: int, time: int) -> _Steps:
    return np.array([place], np.int64), np.array([time], np.int64)


def _growing(before: int, steps: Collection[_Steps]) -> Settled:
    """Return the greatest of all times up to each place, where that grows."""
    if not steps:
        return _constant(before)
    places = np.concatenate([of for of, _ in steps])
    order = np.argsort(places, kind="stable")
    greatest = np.maximum.accumulate(np.append(before, np.concatenate([times for _, times in steps])[order]))
    grows = greatest[1:] > greatest[:-1]
    return Settled(before, places[order][grows], greatest[1:][grows])


def _least(found: Collection[Settled]) -> Settled:
    """Return the least of several at each place."""
    if not found:
        return _constant(NEVER)
    places = np.unique(np.concatenate([each.places for each in found]))
    return Settled(min(each.before for each in found), places, np.minimum.reduce([each.at(places) for each in found]))


def _joined(parts: Sequence[tuple[int, Settled]]) -> Settled:
    """Return one after another, each from a place on."""
    places, times = [], []
    ends = [first for first, _ in parts[1:]] + [_NEVER_ENDS]
    for (first, part), end in zip(parts, ends, strict=True):
        inner = part.places[(part.places > first) & (part.places < end)]
        places.append(np.append(first, inner))
        times.append(part.at(places[-1]))
    return Settled(parts[0][1].before, np.concatenate(places), np.concatenate(times))
