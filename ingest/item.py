"""One normalised feed item: the fields that feed formats share, its document and its time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from xml.sax.saxutils import escape, quoteattr

from xscl.base.values import digest_text
from xscl.base.xml_runs import CanonicalDocument
from xscl.ingest.markup import MAX_ADDRESS, clean

__all__ = ["Feed", "Item", "Resource", "bounded", "distinct", "feed_identity", "item_document", "item_time"]

_MAX_LINE = 1_000
"""Characters of a feed's title, language and author, inclusive."""
_MAX_AUTHORS = 20
_SECONDS = len("2026-06-01T09:30:00")


@dataclass(frozen=True, slots=True)
class Feed:
    """Facts that the items of one feed share."""

    identity: str
    """Items with one id and one identity are versions of one item."""
    url: str | None = None
    title: str | None = None
    date: datetime | None = None
    """Date of the feed as a whole, for items that have none."""
    authors: tuple[str, ...] = ()
    home: str | None = None
    """The address of the web page it belongs to."""
    language: str | None = None
    address: str = ""
    """Address from which the feed was read, if that is one of the web."""
    base: str = ""
    """Value of ``xml:base`` around the entries."""


@dataclass(frozen=True, slots=True)
class Resource:
    """A file that goes with an item: its address, and what the feed says of it, by names of attributes."""

    url: str
    attributes: tuple[tuple[str, str], ...] = ()


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
    content: str | None = None
    """The text of the whole content, where ``description`` is another text."""
    language: str | None = None
    comments: str | None = None
    """The address of the page of comments."""
    enclosures: tuple[Resource, ...] = ()
    media: tuple[Resource, ...] = ()


def feed_identity(url: str | None, home: str | None, title: str | None, source: str) -> str:
    """Return the feed's own address, else its home page and title, else where it was read from.

    >>> feed_identity(None, "http://example.org", "News", "a.xml")
    'http://example.org News'
    """
    identity = url or (f"{home} {title or ''}".strip() if home else source)
    return identity if len(identity) <= MAX_ADDRESS + _MAX_LINE else digest_text(identity)


def bounded(feed: Feed) -> Feed:
    """Cut what each item of a feed repeats of the feed, so that a long title is not stored as often as it has items.

    Texts keep their first 1,000 characters, addresses longer than ``MAX_ADDRESS`` go, 20 authors stay.
    """
    return replace(
        feed,
        url=_address(feed.url),
        home=_address(feed.home),
        base=_address(feed.base) or "",
        title=feed.title and feed.title[:_MAX_LINE],
        language=feed.language and feed.language[:_MAX_LINE],
        authors=tuple(author[:_MAX_LINE] for author in feed.authors[:_MAX_AUTHORS]),
    )


def _address(text: str | None) -> str | None:
    return text if text is None or len(text) <= MAX_ADDRESS else None


def distinct(values: Iterator[str] | list[str]) -> tuple[str, ...]:
    """Return the values that are not empty, each once, by first appearance."""
    return tuple(dict.fromkeys(value for value in values if value))


def item_document(item: Item, feed: Feed) -> str:
    """Return the text of ``<item>`` with children without namespace, in fixed order; an absent field has no element.

    >>> item_document(Item(title="A & B", links=("https://a.org",)), Feed("f", title="F"))
    '<item><channel_title>F</channel_title><title>A &amp; B</title><link>https://a.org</link></item>'
    """
    names = ["item_url", "channel_url", "channel_title", "title", *["author"] * len(item.authors)]
    texts = [item.item_url, feed.url, feed.title, item.title, *item.authors]
    names += ["published", "updated", "description", *["category"] * len(item.categories)]
    texts += [_time(item.published), _time(item.updated), item.description, *item.categories]
    names += ["guid", *["link"] * len(item.links), "content", "language", "comments"]
    texts += [item.guid, *item.links, item.content, item.language, item.comments]
    together = "".join(filter(None, texts))
    if "&" in together or "<" in together or ">" in together:
        texts = [text and escape(text) for text in texts]
    written = "".join([f"<{name}>{text}</{name}>" for name, text in zip(names, texts, strict=True) if text])
    if item.enclosures or item.media:
        written += "".join([_resource("enclosure", resource) for resource in item.enclosures])
        written += "".join([_resource("media", resource) for resource in item.media])
    cleaned = clean(written)
    # Nothing became empty, and values are written as libxml2 does.
    plain = written and cleaned == written and "\r" not in written and "='" not in written
    return CanonicalDocument(f"<item>{written}</item>") if plain else f"<item>{cleaned}</item>"


def _resource(name: str, resource: Resource) -> str:
    attributes = "".join(f" {key}={quoteattr(text)}" for key, text in resource.attributes)
    return f"<{name}{attributes}>{escape(resource.url)}</{name}>"


def item_time(item: Item, feed: Feed) -> tuple[datetime | None, str]:
    """Return the time that an item declares and the date's name: ``published``, ``updated``, ``feed``, ``received``."""
    if item.published:
        return item.published, "published"
    if item.updated:
        return item.updated, "updated"
    return (feed.date, "feed") if feed.date else (None, "received")


def _time(moment: datetime | None) -> str | None:
    """Write a moment of UTC as ``format_time`` does."""
    if moment is None:
        return None
    text = moment.replace(tzinfo=None).isoformat()
    return f"{text}Z" if len(text) == _SECONDS else f"{text.rstrip('0')}Z"
