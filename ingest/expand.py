"""A feed's entries as events: the normalised item on the feed's channel ``C``, the entry as published on ``C.raw``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from xscl.base.pickled import by_fields
from xscl.base.types import Event
from xscl.ingest.feed import read_entries
from xscl.ingest.identity import EMPTY, Policy, identify
from xscl.ingest.item import item_document, item_time
from xscl.ingest.records import Entry, FeedDocument

__all__ = ["EntryDocuments", "entry_documents", "entry_events", "feed_events"]


@dataclass(frozen=True, slots=True)
class EntryDocuments:
    """The documents of an entry, which are the same whichever item it is."""

    declared: datetime | None
    """Its time."""
    time_source: str
    texts: tuple[str, ...]
    """The item; and the entry as published where there is one."""

    __reduce__ = by_fields


def entry_documents(document: FeedDocument, entries: Sequence[Entry]) -> Iterator[EntryDocuments]:
    """Yield the documents of entries of a feed."""
    for item, published in read_entries(entries, document.feed):
        declared, source = item_time(item, document.feed)
        normalised = item_document(item, document.feed)
        yield EntryDocuments(declared, source, (normalised,) if published is None else (normalised, published))


def entry_events(
    document: FeedDocument, entry: Entry, made: EntryDocuments, id_: str, *, feed: str, policy: Policy
) -> tuple[Event, ...]:
    """Return the events of an entry: its item, and the entry as published where there is one.

    Both have one id, time, feed and digest.

    Args:
        document: the feed it is in.
        entry: one of its entries.
        made: its documents.
        id_: which item it is.
        feed: the feed's identity.
        policy: how the feed's items are told apart; but for ``guid``, a change of the guid alone is no new version.
    """
    return tuple(
        Event(
            channel,
            id_,
            made.declared,
            xml=xml,
            source=document.source,
            feed=feed,
            digest=entry.digest if policy == "guid" else entry.body,
            time_source=made.time_source,
        )
        for channel, xml in zip((document.channel, f"{document.channel}.raw"), made.texts, strict=False)
    )


def feed_events(document: FeedDocument) -> list[Event]:
    """Return the events of a feed that was never polled before."""
    found = identify(EMPTY, document.entries, document.channel)
    chosen = [n for n, repeat in enumerate(found.repeats) if not repeat]
    entries = [document.entries[n] for n in chosen]
    feed, policy = document.feed.identity, found.memory.policy
    return [
        event
        for n, entry, made in zip(chosen, entries, entry_documents(document, entries), strict=True)
        for event in entry_events(document, entry, made, found.ids[n], feed=feed, policy=policy)
    ]
