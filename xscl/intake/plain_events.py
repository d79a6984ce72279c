"""Runs of plain events: documents in a home without streams, with ids of their own.

In channels of feeds these are the items that no feed has brought before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat
from operator import attrgetter
from typing import Any, NamedTuple, Self

import numpy as np

from xscl.catalog.clocks import judges, shown_before
from xscl.catalog.events import IdRow, add_ids_unless_known
from xscl.catalog.records import ChannelInfo
from xscl.intake.checks import CheckedEvent, KeptDocument
from xscl.intake.identity import IdsOfChannel
from xscl.intake.new_events import Column, EventTuple, event_columns
from xscl.intake.report import Outcome
from xscl.intake.transaction import Chunk

__all__ = ["PlainEvents"]

_OF_EVENT = attrgetter("channel", "feed", "time_source")


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
        run = _Run.of(items, range(place, place + len(items)), range(received, received + len(items)))
        names, ids = set(run.names), set(run.ids)
        channel = self._turn_to(names.pop()) if len(names) == 1 else None
        if channel is None or channel.feed or run.has_feeds or None in run.contents:
            return False
        if len(ids) < len(items) or self._ids.has_any(ids):
            return False
        times = run.times()
        rows = run.id_rows(times)
        if not add_ids_unless_known(self._chunk.connection, rows):
            return False
        columns = _noted(self._chunk, run, times, rows)
        if isinstance(run.contents[0], bytes):
            self._chunk.add_table(event_columns(columns, len(items)))
        else:
            self._chunk.rows += _tuples(columns)
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
            times = run.times()
            rows = run.id_rows(times)
            self._chunk.ids += rows
            self._chunk.rows += _tuples(_noted(self._chunk, run, times, rows))
            self._items, self._places, self._receipts = [], [], []
        # What comes between may change a channel.
        self._channel = None
        self._waiting = {}


class _Run(NamedTuple):
    """Events, a column at a time."""

    places: Sequence[int]
    receipts: Sequence[int]
    names: Sequence[str]
    """Channels."""
    feeds: Sequence[str | None]
    sources: Sequence[str | None]
    """Dates of feed items that times are."""
    ids: Sequence[str]
    given: Sequence[int | None]
    """Times that were given."""
    contents: Sequence[bytes | KeptDocument | None]
    digests: Sequence[str]
    starts: Sequence[int | None]

    @classmethod
    def of(cls, items: Sequence[CheckedEvent], places: Sequence[int], receipts: Sequence[int]) -> Self:
        """Return events with their numbers and times of receipt."""
        events, ids, given, contents, digests, _, _, starts = zip(*items, strict=True)
        names, feeds, sources = zip(*map(_OF_EVENT, events), strict=True)
        return cls(places, receipts, names, feeds, sources, ids, given, contents, digests, starts)

    @property
    def has_feeds(self) -> bool:
        """Whether some are items of feeds."""
        return self.feeds.count(None) < len(self.feeds)

    def times(self) -> Sequence[int]:
        """Return the event times; an item that is dated in the future has the time when it was first seen."""
        times = [now if ts is None else ts for ts, now in zip(self.given, self.receipts, strict=True)]
        if not self.has_feeds:
            return times
        each = zip(times, self.receipts, self.feeds, strict=True)
        return [ts if feed is None else min(ts, now) for ts, now, feed in each]

    def id_rows(self, times: Sequence[int]) -> list[IdRow]:
        """Return their rows of ``event_ids``."""
        ids, places = self.ids, self.places
        feeds = [feed or "" for feed in self.feeds] if self.has_feeds else repeat("")
        columns = (self.names, ids, ids, feeds, repeat(1), places, places, self.digests, times, self.receipts)
        return list(zip(*columns, repeat(0), strict=False))


def _noted(chunk: Chunk, run: _Run, times: Sequence[int], rows: Sequence[IdRow]) -> dict[str, Column]:
    """Return the columns of plain events, whose ids are noted elsewhere; their transaction learns of them."""
    places, receipts, names, feeds, dates, ids, given, contents, _, starts = run
    late_by, behind = _judged(chunk, names, times, [feed or "" for feed in feeds])
    sources = [date or ("received" if ts is None else "given") for date, ts in zip(dates, given, strict=True)]
    chunk.known.add_new(rows)
    chunk.report.taken += len(rows)
    for n, clock in enumerate(late_by):
        if clock is not None:
            chunk.note_late(names[n], ids[n], places[n], times[n], receipts[n], clock)
    return {
        "docid": places,
        "channel": _once(names),
        "id": ids,
        "version": repeat(1),
        "item": places,
        "ts": times,
        "received": receipts,
        "late": _once([clock is not None for clock in late_by]),
        "behind": behind,
        "declared": given,
        "time_source": _once(sources),
        "content": contents,
        "cells": repeat(None),
        "membership": repeat(0),
        "start": _once(starts),
    }


def _once(values: Sequence[Any]) -> Column:
    """Return the value that all events have, or the values."""
    return repeat(values[0]) if len(set(values)) == 1 else values


def _tuples(columns: Mapping[str, Column]) -> Iterator[EventTuple]:
    """Return events as rows."""
    return zip(*columns.values(), strict=False)


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
