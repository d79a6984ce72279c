"""One normalised feed item: the fields that feed formats share, the document and the event made of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from xml.sax.saxutils import escape

from xscl.ingest.markup import clean
from xscl.types import Event, format_time, to_micros

__all__ = ["Feed", "Item", "distinct", "feed_identity", "item_document", "item_event"]


@dataclass(frozen=True, slots=True)
class Feed:
    """What the items of one feed share."""

    identity: str
    """Items with one id and one identity are versions of one item."""
    url: str | None = None
    title: str | None = None
    date: datetime | None = None
    """When the feed as a whole was published, for items that have no date."""
    authors: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Item:
    """One entry; texts are plain and on one line, addresses absolute where they can be, moments in UTC."""

    item_url: str | None = None
    title: str | None = None
    authors: tuple[str, ...] = ()
    published: datetime | None = None
    updated: datetime | None = None
    description: str | None = None
    categories: tuple[str, ...] = ()
    guid: str | None = None
    links: tuple[str, ...] = ()
    """Canonical addresses of the distinct links in the content."""


def feed_identity(url: str | None, home: str | None, title: str | None, source: str) -> str:
    """The feed's own address, else its home page and title, else where it was read from.

    >>> feed_identity(None, "http://example.org", "News", "a.xml")
    'http://example.org News'
    """
    return url or (f"{home} {title or ''}".strip() if home else source)


def distinct(values: Iterator[str] | list[str]) -> tuple[str, ...]:
    """The values that are not empty, each once, by first appearance."""
    return tuple(dict.fromkeys(value for value in values if value))


def item_document(item: Item, feed: Feed) -> str:
    """The text of ``<item>`` with children without namespace, in fixed order; an absent field has no element.

    >>> item_document(Item(title="A & B", links=("https://a.org",)), Feed("f", title="F"))
    '<item><channel_title>F</channel_title><title>A &amp; B</title><link>https://a.org</link></item>'
    """
    fields: tuple[tuple[str, tuple[str | None, ...]], ...] = (
        ("item_url", (item.item_url,)),
        ("channel_url", (feed.url,)),
        ("channel_title", (feed.title,)),
        ("title", (item.title,)),
        ("author", item.authors),
        ("published", (_time(item.published),)),
        ("updated", (_time(item.updated),)),
        ("description", (item.description,)),
        ("category", item.categories),
        ("guid", (item.guid,)),
        ("link", item.links),
    )
    children = [f"<{name}>{escape(clean(value))}</{name}>" for name, values in fields for value in values if value]
    return f"<item>{''.join(children)}</item>"


def item_event(item: Item, feed: Feed, *, channel: str, digest: str, source: str) -> Event:
    """The event of an item: its id is the guid, else the address; its time the item's, else the feed's."""
    return Event(
        channel,
        item.guid or item.item_url,
        item.published or item.updated or feed.date,
        xml=item_document(item, feed),
        source=source,
        feed=feed.identity,
        digest=digest,
    )


def _time(moment: datetime | None) -> str | None:
    return format_time(to_micros(moment)) if moment else None
