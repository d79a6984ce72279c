"""A feed's entries as events: the normalised item on the feed's channel ``C``, the entry as published on ``C.raw``."""

from __future__ import annotations

from xscl.base.types import Event
from xscl.ingest.feed import entry_item
from xscl.ingest.identity import EMPTY, Policy, identify
from xscl.ingest.item import item_document, item_time
from xscl.ingest.records import Entry, FeedDocument

__all__ = ["entry_events", "feed_events"]


def entry_events(document: FeedDocument, entry: Entry, id_: str, *, feed: str, policy: Policy) -> tuple[Event, ...]:
    """Return the events of an entry: its item, and the entry as published where there is one.

    Both have one id, time, feed and digest.

    Args:
        document: the feed it is in.
        entry: one of its entries.
        id_: which item it is.
        feed: the feed's identity.
        policy: how the feed's items are told apart; but for ``guid``, a change of the guid alone is no new version.
    """
    item = entry_item(entry, document.feed)
    declared, source = item_time(item, document.feed)

    def event(channel: str, xml: str) -> Event:
        return Event(
            channel,
            id_,
            declared,
            xml=xml,
            source=document.source,
            feed=feed,
            digest=entry.digest if policy == "guid" else entry.body,
            time_source=source,
        )

    normalised = event(document.channel, item_document(item, document.feed))
    return (normalised,) if entry.raw is None else (normalised, event(f"{document.channel}.raw", entry.raw))


def feed_events(document: FeedDocument) -> list[Event]:
    """Return the events of a feed that was never polled before."""
    found = identify(EMPTY, document.entries, document.channel)
    chosen = zip(document.entries, found.ids, found.repeats, strict=True)
    return [
        event
        for entry, id_, repeat in chosen
        if not repeat
        for event in entry_events(document, entry, id_, feed=document.feed.identity, policy=found.memory.policy)
    ]
