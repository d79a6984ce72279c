"""Removals take events out, at a place of the intake order (docs/explanation/time.md).

A removal speaks of what came before it and is in sight.  A later event of the same id is a newer version of the item.
All versions of an item go together, for the channel and for all its streams.

Retention takes events out of sight with the commit of a batch, and upkeep forgets their ids some time later.  A removal
goes by the commit.  So it finds the same events whenever upkeep has come to them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import chain

import sqlalchemy as sa

from xscl.base.docids import PUBLISHED
from xscl.catalog.events import of_base
from xscl.catalog.id_ranges import rows_by_id
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.removals import Removed, add_removals, removed_among
from xscl.catalog.retained_from import sight_of
from xscl.catalog.suggestions import how_created, no_channel
from xscl.catalog.tables import EVENT_IDS, in_parts
from xscl.ingest.records import Removal
from xscl.intake.transaction import Chunk

__all__ = ["Items", "RemovedEvent", "items_of", "remove", "take_removals"]

_Item = tuple[str, int]
"""Id without feed and version, and number of the first version."""


@dataclass(frozen=True, slots=True)
class RemovedEvent:
    """An event that is to be removed."""

    docid: int
    id: str


class Items:
    """Items with some ids, and the versions that each has: those of before, and those that a transaction brings."""

    def __init__(self, chunk: Chunk, channel: str, ids: Collection[str], stream: int | None = None) -> None:
        """Read them; ``stream`` is the stream within which ids stand for themselves, as they were given."""
        self._chunk = chunk
        self._channel = channel
        self._of: dict[str, set[_Item]] = {id_: set() for id_ in ids}
        """Items that have an id."""
        self._versions: dict[_Item, list[RemovedEvent]] = {}
        # Whoever asks the catalogue finds what came just before.
        chunk.write_ids()
        self._seen = 0
        self._read(stream)

    def remove(self, ids: Sequence[tuple[str, str]], channel: str) -> None:
        """Take out the events of items by ids, each with its source; an id that no event has is counted and told."""
        self._learn()
        named = [[event for item in self._of[id_] for event in self._versions[item]] for id_, _ in ids]
        report = self._chunk.report
        for (id_, source), count in zip(ids, remove(self._chunk, self._channel, named), strict=True):
            report.removed += count
            if not count:
                report.missing += 1
                report.note_input(f"{source}: {channel} has no event {id_!r} to remove")
            for item in self._of[id_]:
                self._versions[item] = []

    def _learn(self) -> None:
        """Note the versions that have come since."""
        ids = self._chunk.ids
        for channel, id_, base, _, _, docid, item, *_ in ids[self._seen :]:
            if channel != self._channel:
                continue
            if id_ in self._of:
                self._of[id_].add((base, item))
                self._versions.setdefault((base, item), [])
            if (base, item) in self._versions:
                self._versions[base, item].append(RemovedEvent(docid, id_))
        self._seen = len(ids)

    def _read(self, stream: int | None) -> None:
        chunk, ids = self._chunk, EVENT_IDS.c
        sight = sight_of(chunk.connection, self._channel)
        here = ids.channel == self._channel, ids.docid < PUBLISHED, sight.ids
        chosen = sa.select((ids.id if stream is None else ids.base).label("named"), ids.base, ids.item).where(*here)
        if stream is not None:
            chosen = chosen.where(ids.membership.in_(chunk.memberships.of_stream(stream)))
        for part in in_parts(sorted(self._of)):
            for those in (ids.id.in_(part),) if stream is None else of_base(EVENT_IDS, part):
                for id_, base, item in chunk.connection.execute(chosen.where(those)):
                    self._of[id_].add((base, item))
                    self._versions[base, item] = []
        # First versions of rows may have their ids in ranges alone.
        left = {id_ for id_, items in self._of.items() if not items}
        for _, first in rows_by_id(chunk.connection, chunk.terms.home.root, {self._channel: left}):
            if not sight.has(first.docid, first.ts):
                continue
            self._of[first.id].add((first.id, first.docid))
            self._versions[first.id, first.docid] = [RemovedEvent(first.docid, first.id)]
        versions = sa.select(ids.docid, ids.id, ids.base, ids.item).where(*here)
        for bases in in_parts(sorted({base for base, _ in self._versions})):
            halves = (chunk.connection.execute(versions.where(those)) for those in of_base(EVENT_IDS, bases))
            for docid, id_, base, item in chain.from_iterable(halves):
                if (base, item) in self._versions:
                    self._versions[base, item].append(RemovedEvent(docid, id_))


def take_removals(chunk: Chunk, *removals: Removal) -> None:
    """Take out events of one channel by their ids; an id that no event has is counted and told.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``: the channel has to be there and is not.
    """
    named = [(id_, removal.source) for removal in removals for id_ in removal.ids]
    items_of(chunk, removals[0].channel, {id_ for id_, _ in named}).remove(named, removals[0].channel)


def items_of(chunk: Chunk, name: str, ids: Collection[str]) -> Items:
    """Return the items with some ids of a channel or stream.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``: the channel has to be there and is not.
    """
    channel, stream = resolve_stream(chunk.streams, name)
    if chunk.terms.strict and channel not in chunk.channels:
        raise no_channel(chunk.connection, name, how_created(name, strict=True))
    return Items(chunk, channel, ids, None if stream is None else stream.number)


def remove(
    chunk: Chunk, channel: str, items: Sequence[Collection[RemovedEvent]], stated: int | None = None
) -> list[int]:
    """Take out the events of some items, each item at a place of its own; return how many each still had."""
    gone = removed_among(chunk.connection, [event.docid for events in items for event in events])
    counts = []
    for events in items:
        # Copies by several streams may be one event.
        left = {event.docid: event for event in events if event.docid not in gone}.values()
        counts.append(len(left))
        if left:
            place, _ = chunk.places(1)
            rows = [Removed(event.docid, place, channel, event.id, stated) for event in left]
            add_removals(chunk.connection, rows)
            chunk.known.of_channel(channel).removed |= {event.docid for event in left}
            gone |= {event.docid: place for event in left}
    return counts
