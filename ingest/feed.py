"""A feed's tree into its entries: RSS 0.90 to 2.0, RSS 1.0 (RDF), Atom 1.0 and 0.3, CDF.

``read_tree`` notes of each entry what tells it from others, and the element as published, with the namespaces it
needs.  ``read_entries`` makes the normalised item of that, which costs more, and is asked for only where the entry
is new.  An entry's digest is taken over the entry alone, in canonical form and without what it repeats of the feed
it came from (``atom:source``), so that a change of a feed's head makes no new version of its entries.

Extensions of Dublin Core, Media RSS, ``content:encoded``, Atom elements inside RSS and ``itunes:author`` are read as
well; docs/reference/feeds.md has the table.  Half facts (a date without its time, a link that is no
address) are left out or left as published, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace

from lxml import etree

from xscl.base.errors import DocumentLimitError, SourceError
from xscl.base.safe_xml import serialize
from xscl.base.types import to_micros
from xscl.base.values import digest_bytes, digest_text
from xscl.base.xml_runs import parsed_again
from xscl.ingest.dates import parse_date
from xscl.ingest.entry_fields import ATOM, RDF, fields_of, is_cdf
from xscl.ingest.feed_fields import (
    XML,
    base_of,
    field_text,
    guid_of,
    item_url,
    language_of,
    read_head,
    read_item,
    whole_text,
)
from xscl.ingest.item import Feed, Item, bounded
from xscl.ingest.markup import (
    absolute_url,
    split_name,
)
from xscl.ingest.records import Entry, FeedDocument, Withdrawn

__all__ = [
    "MAX_ENTRY_CHARACTERS",
    "check_entries",
    "check_entry_size",
    "entry_item",
    "is_feed",
    "read_entries",
    "read_tree",
]

MAX_ENTRY_CHARACTERS = 64 * 1024 * 1024
"""Characters of the entries of one feed together when written out, inclusive: each repeats the namespaces of
the feed."""

MAX_ENTRIES = 100_000
"""Entries of one feed, inclusive: a feed is ingested as a whole, and an entry takes some 6 KB meanwhile."""


_WITHDRAWN = "{http://purl.org/atompub/tombstones/1.0}deleted-entry"
"""Element by which a feed of Atom says that an entry is no longer there (RFC 6721)."""


def is_feed(root: etree._Element) -> bool:
    """Whether the root element is ``rss``, ``rdf:RDF``, Atom's ``feed`` or CDF's ``CHANNEL``."""
    namespace, name = split_name(root)
    if name == "feed":
        return namespace in ATOM
    return name == "rss" or (name == "RDF" and namespace == RDF) or is_cdf(root)


def read_tree(root: etree._Element, *, source: str, channel: str = "items") -> FeedDocument:
    """Return the feed and its entries, in document order.

    Args:
        root: the feed; it is not changed.
        source: the path or address the feed was read from; an address serves to complete relative links.
        channel: the channel of the normalised items.

    Raises:
        SourceError: ``XSCL_NOT_A_FEED``: the root is no feed, or it is RSS or RDF without channel and items.
        DocumentLimitError: ``XSCL_DOCUMENT_LIMIT``: the entries are over ``MAX_ENTRIES`` or ``MAX_ENTRY_CHARACTERS``.
    """
    if not is_feed(root):
        raise SourceError("XSCL_NOT_A_FEED", f"{source}: the root element is {root.tag!r}, not rss, rdf:RDF or feed")
    head, elements = _sections(root)
    if head is None and not elements:
        raise SourceError(
            "XSCL_NOT_A_FEED",
            f"{source}: line {root.sourceline}: {split_name(root)[1]} without a channel or items; take it whole",
        )
    check_entries(len(elements))
    around = elements[0].getparent() if elements else None
    feed = replace(read_head(head, source), base="" if around is None else base_of(around, ""))
    if feed.language is None:
        feed = replace(feed, language=language_of(root, ()))
    feed = bounded(feed)
    entries: list[Entry] = []
    size = 0
    for element in elements:
        entries.append(_entry(element, feed))
        size += len(entries[-1].raw or "")
        check_entry_size(size)
    return FeedDocument(feed, tuple(entries), channel, source, withdrawn=tuple(_withdrawn(root)))


def _withdrawn(root: etree._Element) -> Iterator[Withdrawn]:
    """Yield the entries that a feed of Atom withdraws; a withdrawal without an id or a time is none."""
    if split_name(root)[0] not in ATOM:
        return
    for number, element in enumerate(root.iterchildren(_WITHDRAWN), start=1):
        check_entries(number)
        guid, when = element.get("ref", "").strip(), parse_date(element.get("when", ""))
        if guid and when is not None:
            yield Withdrawn(guid, to_micros(when))


def check_entries(count: int) -> None:
    """Refuse a feed of too many entries, before they are read.

    Raises:
        DocumentLimitError: ``XSCL_DOCUMENT_LIMIT``.
    """
    if count > MAX_ENTRIES:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT", f"the feed has {count:,} entries; {MAX_ENTRIES:,} are the most that are taken"
        )


def check_entry_size(size: int) -> None:
    """Refuse a feed whose entries have more characters together than ``MAX_ENTRY_CHARACTERS``.

    Raises:
        DocumentLimitError: ``XSCL_DOCUMENT_LIMIT``.
    """
    if size > MAX_ENTRY_CHARACTERS:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT",
            f"the entries of the feed have more than {MAX_ENTRY_CHARACTERS:,} characters when written out",
        )


def entry_item(entry: Entry, feed: Feed) -> Item:
    """Return the normalised item of an entry of this feed."""
    return next(read_entries([entry], feed))[0]


def read_entries(entries: Sequence[Entry], feed: Feed) -> Iterator[tuple[Item, str | None]]:
    """Yield the normalised item of each entry of this feed, and the entry as published where there is one."""
    published = parsed_again([entry.raw for entry in entries if entry.item is None and entry.raw is not None])
    for entry in entries:
        if entry.item is not None:
            yield entry.item, entry.raw
            continue
        element, text = next(published)
        if feed.base:
            own = element.get(f"{XML}base")
            element.set(f"{XML}base", absolute_url(feed.base, own) if own else feed.base)
        yield read_item(element, text, feed, entry.link, entry.guid), text


def _sections(root: etree._Element) -> tuple[etree._Element | None, list[etree._Element]]:
    """Return the element that describes the feed, and the entries; RSS 1.0 has its items beside the channel."""
    namespace, _ = split_name(root)
    if namespace in ATOM:
        return root, list(root.iterchildren(f"{{{namespace}}}entry"))
    if is_cdf(root):
        return root, list(_outermost(root, "ITEM"))
    channels = list(root.iterchildren("{*}channel"))
    entries = [item for parent in (*channels, root) for item in parent.iterchildren("{*}item")]
    return (channels[0] if channels else None), entries


def _outermost(root: etree._Element, name: str) -> Iterator[etree._Element]:
    """Yield the elements of a name that are in no other one of it."""
    walker = etree.iterwalk(root, events=("start",))
    for _, element in walker:
        if element.tag == name:
            walker.skip_subtree()
            yield element


def _entry(element: etree._Element, feed: Feed) -> Entry:
    fields = fields_of(element)
    guid = guid_of(element, fields)
    # A copy declares the namespaces that are used; the element would be written with all that are in scope.
    published = copy(element)
    raw = serialize(published)
    # What a planet repeats of the feed an entry came from says with each poll when it was polled last.
    for origin in [published[place] for place in fields.at.origins]:
        published.remove(origin)
    digest, body = _digests(published, guid)
    written = [whole_text(node).strip() for node in (*fields.each(fields.at.titles), *fields.each(fields.at.contents))]
    return Entry(
        guid,
        item_url(element, fields, feed.url or feed.address),
        digest_text(*written) if any(written) else "",
        next((text for node in fields.each(fields.at.published) if (text := field_text(node))), None),
        next((text for node in fields.each(fields.at.updated) if (text := field_text(node))), None),
        digest,
        body,
        raw,
    )


def _digests(element: etree._Element, guid: str | None) -> tuple[str, str]:
    """Take the digests of what an entry says, with its guid and without."""
    try:
        # Exclusive: namespaces that only the feed's root declares are no part of the entry.
        text = etree.tostring(element, method="c14n", exclusive=True, with_comments=False)
    except etree.C14NError:  # a namespace that is a relative address
        text = serialize(element).encode()
    return digest_bytes(text), digest_bytes(text.replace(guid.encode(), b"") if guid else text)
