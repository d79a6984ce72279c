"""Feeds that are not well-formed XML, read by feedparser: the same items, but no published entries.

feedparser gets the bytes and nothing else, never a path or an address, so it opens nothing.  It is some
hundred times slower than the strict way and is loaded only when it is needed.  Its own readings of dates are
not used, because it invents what a date lacks; the digest of an item is taken over its normalised fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from importlib import import_module
from io import BytesIO

from xscl.ingest.dates import parse_date
from xscl.ingest.item import Feed, Item, distinct, feed_identity, item_document, item_event
from xscl.ingest.markup import absolute_url, clean, collapse, fragment_text, is_web, links, parse_html
from xscl.types import Event
from xscl.values import digest_text

__all__ = ["looks_like_feed", "read_broken_feed"]

_MARKS = (b"<rss", b"<feed", b"<rdf:RDF")


def looks_like_feed(data: bytes) -> bool:
    """Whether the first 2 KiB hold the start tag of a feed."""
    head = data[:2048]
    return any(mark in head for mark in _MARKS)


def read_broken_feed(data: bytes, *, source: str, channel: str = "items") -> list[Event]:
    """One event for each entry that can be made out; empty where there is none."""
    feedparser = import_module("feedparser")
    try:
        found = feedparser.parse(BytesIO(data), sanitize_html=False, resolve_relative_uris=False)
        head, entries = dict(found.get("feed") or {}), [dict(entry) for entry in found.get("entries") or []]
    except Exception:  # whatever its parsers stumble over: the input is known to be broken
        return []
    feed = _feed(head, source)
    return [_event(entry, feed, channel, source) for entry in entries]


def _feed(head: Mapping[str, object], source: str) -> Feed:
    base = source if is_web(source) else ""
    home = absolute_url(base, _string(head, "link")) or None
    own = [_string(link, "href") for link in _mappings(head, "links") if _string(link, "rel") == "self"]
    url = next((absolute_url(home or base, href) for href in own if href), None)
    title = _plain(_string(head, "title"))
    date = _date(head, "published") or _date(head, "updated")
    return Feed(feed_identity(url, home, title, source), url or home, title, date, _names(head))


def _event(entry: Mapping[str, object], feed: Feed, channel: str, source: str) -> Event:
    contents = [_string(entry, "summary")]
    contents += [_string(content, "value") for content in _mappings(entry, "content")]
    item_url = absolute_url(feed.url or "", _string(entry, "link")) or None
    item = Item(
        item_url,
        _plain(_string(entry, "title")),
        _names(entry) or feed.authors,
        _date(entry, "published"),
        _date(entry, "updated"),
        next((text for content in contents if (text := _plain(content))), None),
        distinct([collapse(_string(tag, "term")) for tag in _mappings(entry, "tags")]),
        clean(_string(entry, "id")).strip() or None,
        distinct(_links(contents, item_url or feed.url or "")),
    )
    digest = digest_text(item_document(item, Feed("")))
    return item_event(item, feed, channel=channel, digest=digest, source=source)


def _links(contents: list[str], base: str) -> Iterator[str]:
    for content in contents:
        if "<" in content and (fragment := parse_html(content)) is not None:
            yield from links(fragment, base)


def _plain(text: str) -> str | None:
    fragment = parse_html(text) if text else None
    return fragment_text(fragment) or None if fragment is not None else None


def _date(fields: Mapping[str, object], key: str) -> datetime | None:
    return parse_date(_string(fields, key))


def _names(fields: Mapping[str, object]) -> tuple[str, ...]:
    names = [collapse(_string(author, "name")) for author in _mappings(fields, "authors")]
    return distinct(names) or distinct([collapse(_string(fields, "author"))])


def _string(fields: Mapping[str, object], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


def _mappings(fields: Mapping[str, object], key: str) -> list[dict[str, object]]:
    value = fields.get(key)
    return [dict(one) for one in value if isinstance(one, Mapping)] if isinstance(value, list) else []
