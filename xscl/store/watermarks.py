"""Clocks and watermarks of channels after a batch.

A watermark is the least event time that may still come to a channel: its clock, less its lateness, or what its
heartbeats say.  A channel that only queries publish to has that of the channels which those queries read, because a
match is no older than the newest of its members.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.catalog.channels import channel_of_row, note_beaten, note_processed, note_published, note_watermark
from xscl.catalog.clocks import Clocks
from xscl.catalog.prepared import prepared
from xscl.catalog.queries import read_live_feeds, sources_by_channel
from xscl.catalog.records import ChannelInfo
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import CHANNELS
from xscl.store.parquet import read_columns
from xscl.store.taken_events import TakenEvents
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.retention import EVER

__all__ = [
    "ChannelClocks",
    "EventTimes",
    "Watermarks",
    "channel_clocks",
    "commit_watermarks",
    "event_times",
    "next_watermarks",
]


@dataclass(frozen=True, slots=True)
class ChannelClocks:
    """Channels, and the event times that have come to each, as of the last commit."""

    channels: Mapping[str, ChannelInfo]
    processed: Mapping[str, int | None]
    """Greatest event time of processed events."""
    published: Mapping[str, int | None]
    """Greatest event time of published documents."""
    beaten: Mapping[str, int | None]
    """Greatest time of processed heartbeats."""
    settled: Mapping[str, int]
    """Place from which on all events were judged by the channel's lateness of now."""
    watermarks: Mapping[str, int | None] = field(default_factory=dict)
    """Time below which each channel is settled; None: events of any age may come."""
    kept: Mapping[str, int] = field(default_factory=dict)
    """Least event time that is kept, of each channel whose older events have gone."""
    former: Mapping[str, Sequence[tuple[int, int, int]]] = field(default_factory=dict)
    """Lateness of before that, each with the places from which and until which it held."""
    feeders: Mapping[str, Collection[frozenset[str]]] = field(default_factory=dict)
    """Channels that each live query reads which publishes, by the channel that it publishes to."""
    final: Mapping[str, Collection[frozenset[str]]] = field(default_factory=dict)
    """Channels that such queries read which wait until times are settled, by the channel that they publish to."""

    def clocks(self) -> Clocks:
        """Return the clocks of processed events."""
        return Clocks(self.channels.values(), self.processed)


@dataclass(frozen=True, slots=True)
class EventTimes:
    """Times of the events of a batch."""

    newest: Mapping[str, int] = field(default_factory=dict)
    """Greatest event time of each channel with an event, microseconds."""
    oldest: Mapping[str, int] = field(default_factory=dict)
    """Least event time of each of them."""
    received: int | None = None
    """Time at which the last one was received; None without one."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """Clocks and watermarks after a batch."""

    processed: Mapping[str, int]
    """Greatest event time of processed events, by channel for which the batch has moved it."""
    beaten: Mapping[str, int]
    """Greatest time of processed heartbeats, by channel for which the batch has moved it."""
    published: Mapping[str, int]
    """Greatest event time of the batch's published documents, by channel."""
    shown: Mapping[str, int]
    """Time that each channel's clock shows, published documents included; a channel without a time is left out."""
    watermarks: Mapping[str, int | None]
    greatest: int | None
    """Greatest event time of all processed events."""


def channel_clocks(connection: Connection) -> ChannelClocks:
    """Read the clocks of the channels of a home."""
    rows = connection.execute(*_channels()).mappings().all()
    feeds = read_live_feeds(connection)
    former = {row["name"]: row["former"] for row in rows if row["former"] is not None}
    return ChannelClocks(
        {row["name"]: channel_of_row(row) for row in rows},
        {row["name"]: row["processed"] for row in rows},
        {row["name"]: row["published"] for row in rows},
        {row["name"]: row["beaten"] for row in rows},
        {row["name"]: row["settled"] for row in rows},
        {row["name"]: row["watermark"] for row in rows},
        {row["name"]: row["kept_from"] for row in rows if row["kept_from"] is not None},
        {name: read_stored(CHANNELS.c.former, value) for name, value in former.items()},
        sources_by_channel(feeds),
        sources_by_channel(feed for feed in feeds if feed.is_final),
    )


@prepared
def _channels() -> sa.Select[Any]:
    return sa.select(CHANNELS).order_by(CHANNELS.c.name)


def event_times(paths: Sequence[str], first: int, last: int, taken: TakenEvents | None = None) -> EventTimes:
    """Return the times of the events of a range, from memory or from the files that have them."""
    newest: dict[str, int] = {}
    oldest: dict[str, int] = {}
    received = None
    for events in _times_of(paths, first, last) if taken is None else [taken.pieces]:
        encoded = events.column("channel").combine_chunks().dictionary_encode()
        codes, times = encoded.indices.to_numpy(), events.column("ts").to_numpy()
        names = encoded.dictionary.to_pylist()
        for bounds, start, found in ((np.maximum, EVER, newest), (np.minimum, UNBOUNDED, oldest)):
            ends = np.full(len(names), start)
            bounds.at(ends, codes, times)
            for name, time in zip(names, ends.tolist(), strict=True):
                found[name] = int(bounds(time, found.get(name, time)))
        # It grows with the place.
        latest = pc.max(events.column("received")).as_py()
        received = max((time for time in (received, latest) if time is not None), default=None)
    return EventTimes(newest, oldest, received)


def _times_of(paths: Sequence[str], first: int, last: int) -> Iterator[pa.Table]:
    columns = ["docid", "channel", "ts", "received"]
    for path in paths:
        events = read_columns(path, EVENT_SCHEMA, columns, "docid", lambda least, most: least <= last and most >= first)
        docids = events.column("docid").to_numpy()
        yield events.filter(pa.array((docids >= first) & (docids <= last)))


def _watermark(before: ChannelClocks, last: int, name: str, shown: int | None, beaten: int | None) -> int | None:
    """Return a channel's watermark by its own clock and heartbeats."""
    found, lateness = None, before.channels[name].lateness
    # Events that are not processed yet may have been judged by what a channel's lateness was before.
    if shown is not None and lateness is not None and last >= before.settled[name]:
        found = shown - lateness
    beat = max((time for time in (before.beaten[name], beaten) if time is not None), default=None)
    if beat is not None and name not in before.feeders:
        found = beat + 1 if found is None else max(beat + 1, found)
    return found


def next_watermarks(
    before: ChannelClocks,
    last: int,
    newest: Mapping[str, int] = MappingProxyType({}),
    published: Mapping[str, int] = MappingProxyType({}),
    beaten: Mapping[str, int] = MappingProxyType({}),
) -> Watermarks:
    """Return clocks and watermarks after a batch.

    Args:
        before: clocks before the batch.
        last: the last place of the batch.
        newest: greatest event time of each channel among the events of the batch.
        published: greatest event time of documents that the batch published to each channel.  Such a
            document moves no clock, because it makes no event late that is taken in; but later documents published
            there are late by it.
        beaten: greatest time of each channel's heartbeats in the batch.
    """
    clocks = before.clocks()
    moved = {name for name in newest.keys() & before.channels.keys() if newest[name] > clocks.newest.get(name, EVER)}
    for name in moved:
        clocks.see(before.channels[name], newest[name])
    shown: dict[str, int] = {}
    for name, channel in before.channels.items():
        times = (clocks.shown(channel), before.published[name], published.get(name))
        known = [time for time in times if time is not None]
        if known:
            shown[name] = max(known)
    watermarks = {name: _watermark(before, last, name, shown.get(name), beaten.get(name)) for name in before.channels}
    beats = {name: time for name, time in before.beaten.items() if time is not None}
    moved_beats = {name: time for name, time in beaten.items() if time > beats.get(name, EVER)}
    fed = {
        name: feeders
        for name, feeders in before.feeders.items()
        if name in before.channels and before.channels[name].lateness is None and name not in clocks.newest
    }
    # Answers that wait until times are settled are older than what a clock shows, and late nowhere.
    bounded = {name: sources for name, sources in before.final.items() if name not in fed}
    seen = {name: clocks.newest[name] for name in moved}
    return Watermarks(seen, moved_beats, published, shown, _handed_on(watermarks, fed, bounded), clocks.greatest)


def _handed_on(
    watermarks: Mapping[str, int | None],
    fed: Mapping[str, Collection[frozenset[str]]],
    bounded: Mapping[str, Collection[frozenset[str]]] = MappingProxyType({}),
) -> dict[str, int | None]:
    """Return watermarks with those of channels that only queries feed, each the least of what these queries read.

    Channels that are ``bounded`` have one of their own, and it is no greater than those of what some queries read.

    >>> some = {"a": 5, "b": 3, "c": None, "d": None, "e": 9}
    >>> _handed_on(some, {"c": [{"a"}, {"a", "b"}], "d": [{"c"}]}, {"e": [{"d", "a"}]})
    {'a': 5, 'b': 3, 'c': 3, 'd': 3, 'e': 3}
    """
    waiting = {**fed, **bounded}
    found = {name: time for name, time in watermarks.items() if name not in waiting}
    while ready := [name for name, feeders in waiting.items() if not any(names & waiting.keys() for names in feeders)]:
        for name in ready:
            times = [found.get(channel) for names in waiting.pop(name) for channel in names]
            times += [watermarks.get(name)] if name in bounded else []
            known = [time for time in times if time is not None]
            found[name] = min(known) if known and len(known) == len(times) else None
    return {name: found.get(name) for name in watermarks}


def commit_watermarks(connection: Connection, now: Watermarks, before: Mapping[str, int | None]) -> None:
    """Note clocks and watermarks in the transaction of the batch; ``before`` are the watermarks as they are there."""
    for channel, greatest in now.processed.items():
        note_processed(connection, channel, greatest)
    for channel, greatest in now.beaten.items():
        note_beaten(connection, channel, greatest)
    for channel, greatest in now.published.items():
        note_published(connection, channel, greatest)
    for channel, watermark in now.watermarks.items():
        if watermark != before.get(channel):
            note_watermark(connection, channel, watermark)
