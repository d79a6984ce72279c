"""What readers yield: events, and the other things an event file may hold, in their order.

``source`` is where a record came from: ``path`` or ``path:line``, lines counted from 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xscl.errors import XsclError
from xscl.ingest.item import Feed, Item
from xscl.types import Event

__all__ = ["Drop", "Entry", "FeedDocument", "Flush", "Poll", "Record", "Register", "Rejected", "rejected"]


@dataclass(frozen=True, slots=True)
class Register:
    """A query to register at this place of the intake order; ``name`` is None where the service names it."""

    text: str
    name: str | None
    source: str


@dataclass(frozen=True, slots=True)
class Drop:
    """A query to drop at this place of the intake order."""

    name: str
    source: str


@dataclass(frozen=True, slots=True)
class Flush:
    """A batch ends here."""

    source: str


@dataclass(frozen=True, slots=True)
class Rejected:
    """Something that could not be taken, and why; what stands around it was taken.

    ``channel``, ``id`` and ``ts`` (microseconds since the epoch) are given as far as they could be read.
    """

    source: str
    condition: str
    message: str
    channel: str | None = None
    id: str | None = None
    ts: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a feed: what tells it from others, and its item, or what that is made of when it is wanted."""

    guid: str | None
    link: str | None
    """Its address, as in ``item_url``."""
    content: str
    """A digest of title and content as published, without guid, link and dates; empty where there are none."""
    published: str | None
    """The date as published, and ``updated`` that of the last change."""
    updated: str | None
    digest: str
    """Of what the publisher wrote in this entry, without what belongs to the feed as a whole."""
    raw: str | None
    """The entry element as published; None where the feed is no well-formed XML."""
    item: Item | None = None
    """None: ``feed.entry_item`` reads it from ``raw``."""


@dataclass(frozen=True, slots=True)
class Poll:
    """What a fetch leaves in the row of a subscription, once what it brought is committed."""

    subscription: int
    """``feeds.number``."""
    values: Mapping[str, object]
    """By columns of ``feeds``: validators, times, counters."""


@dataclass(frozen=True, slots=True)
class FeedDocument:
    """A feed as it was read once: which items its entries are is decided where earlier polls are known."""

    feed: Feed
    entries: tuple[Entry, ...]
    """In document order."""
    channel: str
    """Of the normalised items, or one of its streams."""
    source: str
    poll: Poll | None = None
    flaw: str | None = None
    """Why it was read tolerantly, with the place; None: it is well-formed."""


Record = Event | FeedDocument | Register | Drop | Flush | Rejected


def rejected(source: str, error: XsclError, channel: str | None = None) -> Rejected:
    """The record for an input that was refused with ``error``."""
    return Rejected(source, error.condition, error.message, channel)
