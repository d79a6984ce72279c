"""Entries that their feeds withdraw: the items that they have become are removed (RFC 6721, ``deleted-entry``).

A feed repeats a withdrawal for some time.  So one that was taken is known again by its time, and a version of the item
that came behind it stays, as does an item whose entry states a later change.  An entry that only leaves the feed is
not withdrawn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, compress
from typing import TypeVar

import sqlalchemy as sa

from xscl.base.docids import PUBLISHED
from xscl.catalog.events import of_base
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import RAW
from xscl.catalog.removals import last_stated
from xscl.catalog.retained_from import sight_of
from xscl.catalog.tables import EVENT_IDS, in_parts
from xscl.ingest.identity import BEFORE_ALL, changed_at, changes_of, ids_of_guids
from xscl.ingest.records import FeedDocument
from xscl.intake.feed_memory import FeedState
from xscl.intake.removals import RemovedEvent, remove
from xscl.intake.transaction import Chunk

__all__ = ["take_withdrawals", "without_withdrawn"]

T = TypeVar("T")


def without_withdrawn(document: FeedDocument, checked: Sequence[T] | None) -> tuple[FeedDocument, Sequence[T] | None]:
    """Leave out the entries that the same feed withdraws, and the withdrawals that entries are newer than.

    Args:
        document: the feed.
        checked: something for each of its entries.
    """
    if not document.withdrawn:
        return document, checked
    when: dict[str, int] = {}
    for each in document.withdrawn:
        when[each.guid] = max(each.when, when.get(each.guid, each.when))
    newer = {entry.guid for entry in document.entries if entry.guid in when and changed_at(entry) > when[entry.guid]}
    stays = [entry.guid not in when or entry.guid in newer for entry in document.entries]
    # Of several withdrawals of an entry the last one counts.
    last = {each.guid: each for each in document.withdrawn if each.when == when[each.guid] and each.guid not in newer}
    left = replace(document, entries=tuple(compress(document.entries, stays)), withdrawn=tuple(last.values()))
    return left, None if checked is None else list(compress(checked, stays))


def take_withdrawals(chunk: Chunk, state: FeedState, document: FeedDocument) -> None:
    """Remove the items of entries that a feed withdraws; entries that were never taken are passed over."""
    if not document.withdrawn:
        return
    chunk.write_ids()
    ids = ids_of_guids(state.memory, [each.guid for each in document.withdrawn])
    changed = changes_of(state.memory, ids.values())
    # An entry that changed behind its withdrawal stays, also where the feed no longer shows it.
    when = {
        id_: each.when for each in document.withdrawn if changed.get(id_ := ids[each.guid], BEFORE_ALL) <= each.when
    }
    for name in (document.channel, document.channel + RAW):
        for channel, id_, events in _versions(chunk, name, state.identity, list(when)):
            if last_stated(chunk.connection, [event.docid for event in events]) < when[id_]:
                chunk.report.removed += sum(remove(chunk, channel, [events], when[id_]))


def _versions(chunk: Chunk, name: str, feed: str, ids: Sequence[str]) -> Iterator[tuple[str, str, list[RemovedEvent]]]:
    """Yield channel, id and versions of those items of a feed that are there."""
    channel, stream = resolve_stream(chunk.streams, name)
    here = [EVENT_IDS.c.channel == channel, EVENT_IDS.c.feed == feed, EVENT_IDS.c.docid < PUBLISHED]
    here.append(sight_of(chunk.connection, channel).ids)
    if stream is not None:
        here.append(EVENT_IDS.c.membership.in_(chunk.memberships.of_stream(stream.number)))
    for part in in_parts(ids):
        wanted = sa.select(EVENT_IDS.c.docid, EVENT_IDS.c.id, EVENT_IDS.c.base).where(*here)
        halves = (chunk.connection.execute(wanted.where(those)) for those in of_base(EVENT_IDS, part))
        found: dict[str, list[RemovedEvent]] = {}
        for row in sorted(chain.from_iterable(halves)):
            found.setdefault(row.base, []).append(RemovedEvent(row.docid, row.id))
        for id_, events in found.items():
            yield channel, id_, events
