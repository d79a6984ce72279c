"""Runs of plain events: documents in a home without streams, with ids of their own.

In channels of feeds these are the items that no feed has brought before.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat
from operator import attrgetter
from typing import NamedTuple, Self

import numpy as np

from xscl.catalog.clocks import judges, shown_before
from xscl.catalog.events import IdRow, add_ids_unless_known
from xscl.catalog.records import ChannelInfo
from xscl.intake.checks import CheckedEvent
from xscl.intake.identity import IdsOfChannel
from xscl.intake.report import Outcome
from xscl.intake.transaction import Chunk

__all__ = ["PlainEvents"]


class PlainEvents:
    """Plain events of a transaction, which wait in their order until ``write`` makes rows of them."""

    def __init__(self, chunk: Chunk) -> None:
        self._chunk = chunk
        self._items: list[CheckedEvent] = []
        self._places: list[int] = []
        self._receipts: list[int] = []
        self._waiting: dict[str, dict[str, str]] = {}
        """Digests of those by channel and id."""
        self._channel: ChannelInfo | None = None
        """Channel of the last one."""
        self._ids = IdsOfChannel()
        self._digests: dict[str, str] = {}

    def take(self, item: CheckedEvent, place: int, received: int) -> Outcome | None:
        """Take an event if it is plain; None for another, before which ``write`` is to be called."""
        event, id_ = item.event, item.id
        if item.content is None:
            return None
        channel = self._channel
        if channel is None or channel.name != event.channel:
            channel = self._turn_to(event.channel)
        if channel is None or channel.feed != (event.feed is not None):
            return None
        if self._ids.has(id_):
            # An item may be a version of one that is there.
            if channel.feed or not any(
                known.digest == item.digest and known.scope == ("", 0) and known.docid not in self._ids.removed
                for known in self._ids.known(id_)
            ):
                return None
        elif (before := self._digests.get(id_)) is None:
            self._digests[id_] = item.digest
            self._items.append(item)
            self._places.append(place)
            self._receipts.append(received)
            return "taken"
        elif channel.feed or before != item.digest:
            return None
        self._chunk.report.duplicates += 1
        return "duplicate"

    def take_run(self, items: Sequence[CheckedEvent], place: int, received: int) -> bool:
        """Take new events of one channel that is of no feed, where all are such; ``place`` and ``received`` are of the
        first.  Any other run is left as it is.
        """
        names = {item.event.channel for item in items}
        channel = self._turn_to(names.pop()) if len(names) == 1 else None
        if (
            channel is None
            or channel.feed
            or any(item.content is None or item.event.feed is not None for item in items)
        ):
            return False
        ids = {item.id for item in items}
        if len(ids) < len(items) or self._ids.has_any(ids):
            return False
        run = _Run.of(items, range(place, place + len(items)), range(received, received + len(items)))
        if not add_ids_unless_known(self._chunk.connection, run.ids):
            return False
        _note(self._chunk, run)
        return True

    def _turn_to(self, name: str) -> ChannelInfo | None:
        """Go on with a channel; return it if its events may be plain."""
        channel = self._chunk.channels.get(name)
        if channel is None or channel.kind != "xml" or self._chunk.streams:
            return None
        self._channel = channel
        self._ids = self._chunk.known.of_channel(name)
        self._digests = self._waiting.setdefault(name, {})
        return channel

    def write(self) -> None:
        """Make rows of the events that wait."""
        if self._items:
            run = _Run.of(self._items, self._places, self._receipts)
            self._chunk.ids += run.ids
            _note(self._chunk, run)
            self._items, self._places, self._receipts = [], [], []
        # What comes between may change a channel.
        self._channel = None
        self._waiting = {}


class _Run(NamedTuple):
    """Plain events, a column at a time."""

    items: Sequence[CheckedEvent]
    places: Sequence[int]
    receipts: Sequence[int]
    times: Sequence[int]
    """Event times."""
    ids: Sequence[IdRow]

    @classmethod
    def of(cls, items: Sequence[CheckedEvent], places: Sequence[int], receipts: Sequence[int]) -> Self:
        """Return events with their numbers and times of receipt."""
        times = list(map(_event_time, items, receipts))
        names, ids, digests = ([*map(attrgetter(name), items)] for name in ("event.channel", "id", "digest"))
        feeds = [item.event.feed or "" for item in items]
        columns = (names, ids, ids, feeds, repeat(1), places, places, digests, times, receipts, repeat(0))
        return cls(items, places, receipts, times, list(zip(*columns, strict=False)))


def _note(chunk: Chunk, run: _Run) -> None:
    """Make rows of plain events, whose ids are noted elsewhere."""
    items, places, receipts, times, rows = run
    names, ids, _, feeds, *_ = zip(*rows, strict=True)
    events, _, given, contents, _, _, _, starts = zip(*items, strict=True)
    sources = [
        event.time_source or ("received" if ts is None else "given") for event, ts in zip(events, given, strict=True)
    ]
    late_by, behind = _judged(chunk, names, times, feeds)
    is_late = [clock is not None for clock in late_by]
    who = (places, names, ids, repeat(1), places, times, receipts)
    chunk.rows += zip(*who, is_late, behind, given, sources, contents, repeat(None), repeat(0), starts, strict=False)
    chunk.known.add_new(rows)
    chunk.report.taken += len(items)
    for n, clock in enumerate(late_by):
        if clock is not None:
            chunk.note_late(names[n], ids[n], places[n], times[n], receipts[n], clock)


def _event_time(item: CheckedEvent, received: int) -> int:
    """Return the event time; an item that is dated in the future has the time when it was first seen."""
    if item.ts is None:
        return received
    return item.ts if item.event.feed is None else min(item.ts, received)


def _judged(
    chunk: Chunk, names: Sequence[str], times: Sequence[int], feeds: Sequence[str]
) -> tuple[Sequence[int | None], Sequence[int]]:
    """Return the clock's time for each event that is late, else None, and how far the clock was beyond each.

    The events move the clocks.
    """
    channels = {name: chunk.channels[name] for name in dict.fromkeys(names)}
    if len(channels) > 1 or any(map(judges, channels.values())):
        judged = [chunk.judged(channels[name], ts, feed) for name, ts, feed in zip(names, times, feeds, strict=True)]
        return [late_by for late_by, _ in judged], [behind for _, behind in judged]
    channel = channels[names[0]]
    ts = np.array(times, dtype=np.int64)
    shown, _ = shown_before(channel, chunk.clocks, ts)
    chunk.see(channel, max(times))
    return [None] * len(times), np.maximum(shown - ts, 0).tolist()
