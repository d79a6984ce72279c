"""Removals take events out, at a place of the intake order (docs/explanation/time.md).

A removal speaks of what came before it.  A later event of the same id is a newer version of the item.  All
versions of an item go together, for the channel and for all its streams.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from xscl.base.docids import PUBLISHED
from xscl.catalog.id_ranges import rows_by_id
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.removals import Removed, add_removals, removed_among
from xscl.catalog.suggestions import how_created, no_channel
from xscl.catalog.tables import EVENT_IDS, in_parts
from xscl.ingest.records import Removal
from xscl.intake.transaction import Chunk

__all__ = ["RemovedEvent", "remove", "take_removals"]


@dataclass(frozen=True, slots=True)
class RemovedEvent:
    """An event that is to be removed."""

    docid: int
    id: str


def take_removals(chunk: Chunk, removal: Removal) -> None:
    """Take out events by their ids; an id that no event has is counted and told.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``: the channel has to be there and is not.
    """
    channel, stream = resolve_stream(chunk.streams, removal.channel)
    if chunk.terms.strict and channel not in chunk.channels:
        raise no_channel(chunk.connection, removal.channel, how_created(removal.channel, strict=True))
    ids = removal.ids
    found = _items(chunk, channel, set(ids), None if stream is None else stream.number)
    removed = remove(chunk, channel, [found.get(id_, ()) for id_ in ids])
    for id_, count in zip(ids, removed, strict=True):
        chunk.report.removed += count
        if not count:
            chunk.report.missing += 1
            chunk.report.note_input(f"{removal.source}: {removal.channel} has no event {id_!r} to remove")


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


def _items(chunk: Chunk, channel: str, ids: Collection[str], stream: int | None) -> dict[str, list[RemovedEvent]]:
    """Return the versions of the items with some ids."""
    named, mine = EVENT_IDS.c.id, []
    if stream is not None:
        # Within a stream ids stand for themselves, as they were given.
        named, mine = EVENT_IDS.c.base, [EVENT_IDS.c.membership.in_(chunk.memberships.of_stream(stream))]
    here = EVENT_IDS.c.channel == channel, EVENT_IDS.c.docid < PUBLISHED
    found: dict[str, list[RemovedEvent]] = {}
    of_item: dict[tuple[str, int], str] = {}
    for part in in_parts(sorted(ids)):
        chosen = sa.select(named.label("id"), EVENT_IDS.c.base, EVENT_IDS.c.item).where(*here, named.in_(part), *mine)
        of_item.update({(row.base, row.item): row.id for row in chunk.connection.execute(chosen)})
    # First versions of rows may have their ids in ranges alone.
    left = set(ids).difference(of_item.values())
    for _, first in rows_by_id(chunk.connection, chunk.terms.home.root, {channel: left}):
        found[first.id] = [RemovedEvent(first.docid, first.id)]
        of_item[first.id, first.docid] = first.id
    for bases in in_parts(sorted({base for base, _ in of_item})):
        versions = sa.select(EVENT_IDS.c.docid, EVENT_IDS.c.id, EVENT_IDS.c.base, EVENT_IDS.c.item)
        for row in chunk.connection.execute(versions.where(*here, EVENT_IDS.c.base.in_(bases))):
            if (id_ := of_item.get((row.base, row.item))) is not None:
                found.setdefault(id_, []).append(RemovedEvent(row.docid, row.id))
    return found
