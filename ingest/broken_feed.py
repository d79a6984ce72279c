"""Feeds that are not well-formed XML, read by feedparser: the same items, but no published entries.

feedparser gets the bytes and nothing else, never a path or an address, so it opens nothing.  feedparser is
some hundred times slower than the strict way and is loaded only when needed.  Its own readings of dates are not used,
because it invents what a date lacks; the digest of an item is taken over its normalised fields.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from io import BytesIO

from xscl.base.encodings import character_encoding
from xscl.base.values import digest_text
from xscl.ingest.dates import parse_date
from xscl.ingest.feed import check_entries
from xscl.ingest.item import Feed, Item, Resource, bounded, distinct, feed_identity, item_document
from xscl.ingest.markup import absolute_url, clean, collapse, is_web, links, read_html
from xscl.ingest.records import Entry, FeedDocument

__all__ = ["looks_like_feed", "read_broken_feed"]

_RUNS = re.compile(rb"(\s{200})\s++|([A-Za-z0-9_.+-]{200})[A-Za-z0-9_.+-]++")
"""Blanks and letters in a row that cost feedparser's patterns quadratic time."""
_ENCODING = re.compile(rb"encoding\s*=\s*['\"]([^'\"]*)")
_MAX_DECLARATION = 500
_MARK = re.compile(rb"<(?:[\w.-]+:)?(?:rss|feed|RDF|CHANNEL)(?:[\s>/]|$)")


def looks_like_feed(data: bytes) -> bool:
    """Whether the first 2 KiB hold the start tag of a feed."""
    return _MARK.search(data[:2048].replace(b"\0", b"")) is not None


def read_broken_feed(data: bytes, *, source: str, channel: str = "items") -> FeedDocument | None:
    """Read a feed with the entries that can be made out; None where there is none.

    Of blanks, and of letters and digits, the first 200 in a row are read.
    """
    feedparser = import_module("feedparser")
    content = BytesIO(_RUNS.sub(rb"\1\2", _declared(data)))
    try:
        found = feedparser.parse(content, sanitize_html=False, resolve_relative_uris=False)
        head, entries = dict(found.get("feed") or {}), [dict(entry) for entry in found.get("entries") or []]
    except Exception:  # whatever its parsers stumble over: the input is known to be broken
        return None
    feed = _feed(head, source)
    check_entries(len(entries))
    return FeedDocument(feed, tuple(_entry(entry, feed) for entry in entries), channel, source) if entries else None


def _declared(data: bytes) -> bytes:
    """Take the declaration off where it names no encoding that the bytes can be in, because feedparser takes any.

    A line ends behind it, because feedparser looks for an encoding in all of the first line.
    """
    start = data.removeprefix(b"\xef\xbb\xbf").lstrip()
    if not start.startswith(b"<?"):
        return data
    head, end, rest = start.partition(b"?>")
    names = [name.decode("latin-1") for name in _ENCODING.findall(head[:_MAX_DECLARATION])]
    known = [character_encoding(name) for name in names]
    # A declaration that can be read byte by byte is not in an encoding of two or four bytes a character.
    wrong = any(name is None or name.startswith(("utf-16", "utf-32")) for name in known)
    if not end or len(head) > _MAX_DECLARATION or wrong:
        return rest or start[2:]
    return head + end + b"\n" + rest


def _feed(head: Mapping[str, object], source: str) -> Feed:
    base = source if is_web(source) else ""
    home = absolute_url(base, _string(head, "link")) or None
    own = [_string(link, "href") for link in _mappings(head, "links") if _string(link, "rel") == "self"]
    url = next((absolute_url(home or base, href) for href in own if href), None)
    title = _plain(_string(head, "title"))
    date = _date(head, "published") or _date(head, "updated")
    language = collapse(_string(head, "language")) or None
    identity = feed_identity(url, home, title, source)
    return bounded(Feed(identity, url or home, title, date, _names(head), home, language, address=base))


def _entry(entry: Mapping[str, object], feed: Feed) -> Entry:
    own = _item(entry, feed)
    # Without what an item takes from its feed, which is no part of the entry.
    plain = replace(_item(entry, Feed("")), item_url=own.item_url, links=own.links)
    written = [_string(entry, "title"), _string(entry, "summary")]
    written += [_string(content, "value") for content in _mappings(entry, "content")]
    return Entry(
        own.guid,
        own.item_url,
        digest_text(*written) if any(written) else "",
        _string(entry, "published") or None,
        _string(entry, "updated") or None,
        digest_text(item_document(plain, Feed(""))),
        digest_text(item_document(replace(plain, guid=None), Feed(""))),
        None,
        own,
    )


def _item(entry: Mapping[str, object], feed: Feed) -> Item:
    bodies = [_string(content, "value") for content in _mappings(entry, "content")]
    written = [_string(entry, "summary"), *bodies]
    url = absolute_url(feed.url or feed.address, _string(entry, "link")) or None
    base = url or feed.url or feed.address
    description = next((text for content in written if (text := _plain(content))), None)
    content = next((text for body in bodies if (text := _plain(body))), None)
    return Item(
        url,
        _plain(_string(entry, "title")),
        _names(entry) or feed.authors,
        _date(entry, "published"),
        _date(entry, "updated"),
        description,
        distinct([collapse(_string(tag, "term")) for tag in _mappings(entry, "tags")]),
        clean(_string(entry, "id")).strip() or None,
        distinct(_links(written, base)),
        content if content != description else None,
        collapse(_string(entry, "language")) or feed.language,
        absolute_url(base, _string(entry, "comments")) or None,
        _resources(entry, ("enclosures",), "href", base),
        _resources(entry, ("media_content", "media_thumbnail"), "url", base),
    )


def _resources(entry: Mapping[str, object], names: tuple[str, ...], address: str, base: str) -> tuple[Resource, ...]:
    found: list[Resource] = []
    for name in names:
        role = (("role", "thumbnail"),) if name == "media_thumbnail" else ()
        for one in _mappings(entry, name):
            facts = [(key, collapse(_string(one, key))) for key in ("type", "length", "medium", "width", "height")]
            if url := absolute_url(base, _string(one, address)):
                found.append(Resource(url, (*role, *((key, text) for key, text in facts if text))))
    return tuple(dict.fromkeys(found))


def _links(contents: list[str], base: str) -> Iterator[str]:
    for content in contents:
        if "<" in content:
            yield from links(read_html(content).hrefs, base)


def _plain(text: str) -> str | None:
    return read_html(text).text or None


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
