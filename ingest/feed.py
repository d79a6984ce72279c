"""A feed's tree into events: RSS 0.9x to 2.0, RSS 1.0 (RDF), Atom 1.0 and 0.3.

Every entry gives two events: its normalised item on channel ``C`` (see ``item``), and the entry element as
published, with the namespaces it needs, on ``C.raw``.  Both have one id, one time and one digest.  The digest
is taken over the entry alone, in canonical form, so that a change of the feed's head makes no new version of
its entries.

Extensions of Dublin Core, ``content:encoded``, Atom elements inside RSS and ``itunes:author`` are read as
well; media elements are not.  What a feed gives only half (a date without its time, a link that is no
address) is left out or left as published, never guessed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from types import MappingProxyType

from lxml import etree

from xscl.errors import SourceError
from xscl.ingest.dates import parse_date
from xscl.ingest.item import Feed, Item, distinct, feed_identity, item_event
from xscl.ingest.markup import (
    absolute_url,
    clean,
    collapse,
    fragment_text,
    is_web,
    links,
    parse_html,
    split_name,
)
from xscl.safexml import serialize
from xscl.types import Event
from xscl.values import digest_text

__all__ = ["is_feed", "split_feed"]

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_ATOM = frozenset({"http://www.w3.org/2005/Atom", "http://purl.org/atom/ns#"})
_XML_BASE = "{http://www.w3.org/XML/1998/namespace}base"

_PREFIXES = MappingProxyType(
    {
        **dict.fromkeys(_ATOM, "atom:"),
        "http://purl.org/dc/elements/1.1/": "dc:",
        "http://purl.org/dc/elements/1.0/": "dc:",
        "http://purl.org/dc/terms/": "dcterms:",
        "http://purl.org/rss/1.0/modules/content/": "content:",
        "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
        "http://www.itunes.com/DTDs/Podcast-1.0.dtd": "itunes:",
    }
)

_CONTENT = ("description", "content:encoded", "atom:summary", "atom:content")
_PUBLISHED = ("pubDate", "dc:date", "atom:published", "atom:issued", "dcterms:issued")
_UPDATED = ("atom:updated", "atom:modified", "dcterms:modified")
_FEED_DATE = ("pubDate", "lastBuildDate", "dc:date", "atom:updated", "atom:modified")

_Fields = dict[str, list[etree._Element]]
"""The children of one element by name: ``title`` for the format's own, ``atom:title`` for an extension's."""


def is_feed(root: etree._Element) -> bool:
    """Whether the root element is ``rss``, ``rdf:RDF`` or Atom's ``feed``."""
    namespace, name = split_name(root)
    if name == "feed":
        return namespace in _ATOM
    return name == "rss" or (name == "RDF" and namespace == _RDF)


def split_feed(root: etree._Element, *, source: str, channel: str = "items") -> Iterator[Event]:
    """Two events for each entry, in document order: on ``channel`` and on ``channel.raw``.

    Args:
        root: the feed; it is not changed.
        source: the path or address the feed was read from; an address serves to complete relative links.
        channel: the channel of the normalised items.

    Raises:
        SourceError: ``XSCL_NOT_A_FEED``: the root is no feed, or it is RSS or RDF without channel and items.
    """
    if not is_feed(root):
        raise SourceError("XSCL_NOT_A_FEED", f"{source}: the root element is {root.tag!r}, not rss, rdf:RDF or feed")
    head, entries = _sections(root)
    if head is None and not entries:
        raise SourceError(
            "XSCL_NOT_A_FEED",
            f"{source}: {split_name(root)[1]} without a channel or items; take it whole",
        )
    base = source if is_web(source) else ""
    feed = _feed(head, source, base)
    for entry in entries:
        item = _item(entry, feed, base)
        event = item_event(item, feed, channel=channel, digest=_digest(entry), source=source)
        yield event
        yield replace(event, channel=f"{channel}.raw", xml=serialize(entry))


def _sections(root: etree._Element) -> tuple[etree._Element | None, list[etree._Element]]:
    """The element that describes the feed, and the entries; RSS 1.0 has its items beside the channel."""
    namespace, _ = split_name(root)
    if namespace in _ATOM:
        return root, list(root.iterchildren(f"{{{namespace}}}entry"))
    channels = list(root.iterchildren("{*}channel"))
    entries = [item for parent in (*channels, root) for item in parent.iterchildren("{*}item")]
    return (channels[0] if channels else None), entries


def _digest(entry: etree._Element) -> str:
    try:
        # Exclusive: namespaces that only the feed's root declares are no part of the entry.
        return digest_text(etree.tostring(entry, method="c14n", exclusive=True, with_comments=False).decode("utf-8"))
    except etree.C14NError:  # a namespace that is a relative address
        return digest_text(serialize(entry))


def _feed(head: etree._Element | None, source: str, base: str) -> Feed:
    if head is None:
        return Feed(source)
    fields = _fields(head)
    home = _home(fields, base)
    url = _atom_link(fields, "self", home or base)
    title = _first_text(fields, "title", "dc:title", "atom:title")
    return Feed(
        feed_identity(url, home, title, source),
        url or home,
        title,
        _first_date(fields, _FEED_DATE),
        distinct([_person(author) for author in fields.get("atom:author", [])]),
    )


def _item(entry: etree._Element, feed: Feed, base: str) -> Item:
    fields = _fields(entry)
    guid = _guid(entry, fields)
    item_url = _item_url(entry, fields, feed.url or base)
    return Item(
        item_url,
        _first_text(fields, "title", "dc:title", "atom:title"),
        _authors(fields) or feed.authors,
        _first_date(fields, _PUBLISHED),
        _first_date(fields, _UPDATED),
        _first_text(fields, *_CONTENT),
        _categories(fields),
        guid,
        _content_links(fields, item_url or feed.url or base),
    )


def _fields(element: etree._Element) -> _Fields:
    own, _ = split_name(element)
    found: _Fields = {}
    for child in element.iterchildren(etree.Element):
        namespace, name = split_name(child)
        # RSS is written with and without a namespace of its own; Atom is always known by its namespace.
        prefix = _PREFIXES.get(namespace, "" if namespace in (own, "") else None)
        if prefix is not None:
            found.setdefault(prefix + name, []).append(child)
    return found


def _each(fields: _Fields, *names: str) -> Iterator[etree._Element]:
    for name in names:
        yield from fields.get(name, ())


def _text(element: etree._Element) -> str:
    return collapse("".join(element.itertext(etree.Element)))


def _first_text(fields: _Fields, *names: str) -> str | None:
    for element in _each(fields, *names):
        fragment = _fragment(element)
        if fragment is not None and (text := fragment_text(fragment)):
            return text
    return None


def _first_date(fields: _Fields, names: tuple[str, ...]) -> datetime | None:
    for element in _each(fields, *names):
        if moment := parse_date(_text(element)):
            return moment
    return None


def _fragment(element: etree._Element) -> etree._Element | None:
    """The markup in an element: the element itself if that is inline or plain, else its text read as HTML."""
    kind = _content_type(element)
    if kind == "other":
        return None
    if kind == "text" or next(element.iterchildren(etree.Element), None) is not None:
        return element
    text = "".join(element.itertext(etree.Element))
    return parse_html(text) if "<" in text or "&" in text else element


def _content_type(element: etree._Element) -> str:
    """``text``, ``html`` (or inline markup) or ``other``; only Atom says, in RSS all text is HTML."""
    if split_name(element)[0] not in _ATOM:
        return "html"
    kind = (element.get("type") or "text").strip().lower().partition(";")[0]
    if kind in ("text", "text/plain"):
        return "text"
    if kind in ("html", "xhtml", "text/html", "application/xhtml+xml") and element.get("mode") != "base64":
        return "html"
    return "other"


def _atom_link(fields: _Fields, relation: str, base: str) -> str | None:
    for link in fields.get("atom:link", ()):
        # Relations may be written as addresses, too: http://www.iana.org/assignments/relation/self.
        rel = (link.get("rel") or "alternate").strip().lower().rpartition("/")[2]
        if rel == relation and (href := collapse(link.get("href") or "")):
            return absolute_url(_base(link, base), href)
    return None


def _home(fields: _Fields, base: str) -> str | None:
    for link in fields.get("link", ()):
        if text := _text(link):
            return absolute_url(_base(link, base), text)
    return _atom_link(fields, "alternate", base)


def _item_url(entry: etree._Element, fields: _Fields, base: str) -> str | None:
    if url := _home(fields, base):
        return url
    for guid in fields.get("guid", ()):
        if guid.get("isPermaLink", "true").strip().lower() == "true" and is_web(text := _text(guid)):
            return text
    about = collapse(entry.get(f"{{{_RDF}}}about") or "")
    return about if is_web(about) else None


def _guid(entry: etree._Element, fields: _Fields) -> str | None:
    texts = ["".join(element.itertext(etree.Element)) for element in _each(fields, "guid", "atom:id")]
    texts.append(entry.get(f"{{{_RDF}}}about") or "")
    return next((guid for text in texts if (guid := clean(text).strip())), None)


def _authors(fields: _Fields) -> tuple[str, ...]:
    named = distinct([_person(element) for element in _each(fields, "author", "dc:creator", "atom:author")])
    if named:
        return named
    planets = [author for origin in fields.get("atom:source", ()) for author in _each(_fields(origin), "atom:author")]
    return distinct([_person(element) for element in (*fields.get("itunes:author", ()), *planets)])


def _person(element: etree._Element) -> str:
    name = next(element.iterchildren("{*}name"), None)
    if name is not None:
        return _text(name)
    return "" if split_name(element)[0] in _ATOM else _text(element)


def _categories(fields: _Fields) -> tuple[str, ...]:
    texts = [_text(element) for element in _each(fields, "category", "dc:subject")]
    terms = [collapse(element.get("term") or "") for element in fields.get("atom:category", ())]
    return distinct(texts + terms)


def _content_links(fields: _Fields, base: str) -> tuple[str, ...]:
    found: list[str] = []
    for element in _each(fields, *_CONTENT):
        if _content_type(element) == "html" and (fragment := _fragment(element)) is not None:
            found.extend(links(fragment, _base(element, base)))
    return distinct(found)


def _base(element: etree._Element, base: str) -> str:
    """Where references in ``element`` start from: ``base``, then every ``xml:base`` from the root down."""
    declared = [node.get(_XML_BASE) for node in (element, *element.iterancestors())]
    for reference in reversed(declared):
        if reference:
            base = absolute_url(base, reference)
    return base
