"""A feed's tree into its entries: RSS 0.90 to 2.0, RSS 1.0 (RDF), Atom 1.0 and 0.3, CDF.

``read_tree`` notes of each entry what tells it from others, and the element as published, with the namespaces it
needs.  ``entry_item`` makes the normalised item of that, which costs more, and is asked for only where the entry
is new.  An entry's digest is taken over the entry alone, in canonical form and without what it repeats of the feed
it came from (``atom:source``), so that a change of a feed's head makes no new version of its entries.

Extensions of Dublin Core, Media RSS, ``content:encoded``, Atom elements inside RSS and ``itunes:author`` are read as
well; docs/reference/feeds.md has the table.  What a feed gives only half (a date without its time, a link that is no
address) is left out or left as published, never guessed.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from datetime import datetime
from functools import cache
from types import MappingProxyType

from lxml import etree

from xscl.base.errors import DocumentLimitError, SourceError
from xscl.base.safe_xml import parse_stored, serialize
from xscl.base.values import digest_text
from xscl.ingest.dates import parse_date
from xscl.ingest.item import Feed, Item, Resource, bounded, distinct, feed_identity
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
from xscl.ingest.records import Entry, FeedDocument

__all__ = ["MAX_ENTRY_CHARACTERS", "check_entries", "check_entry_size", "entry_item", "is_feed", "read_tree"]

MAX_ENTRY_CHARACTERS = 64 * 1024 * 1024
"""What the entries of one feed may have together when they are written out, inclusive: each repeats the namespaces of
the feed."""

MAX_ENTRIES = 100_000
"""Of one feed, inclusive: it is taken in as a whole, and an entry takes some 6 KB of memory meanwhile."""

_RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_ATOM = frozenset(
    {
        "http://www.w3.org/2005/Atom",
        "http://purl.org/atom/ns#",
        # Names that drafts of Atom 0.3 had.
        "http://example.com/newformat#",
        "http://example.com/necho",
        "http://purl.org/echo/",
        "uri/of/echo/namespace#",
        "http://purl.org/pie/",
    }
)
_XML = "{http://www.w3.org/XML/1998/namespace}"
_XHTML = "http://www.w3.org/1999/xhtml"

_PREFIXES = MappingProxyType(
    {
        **dict.fromkeys(_ATOM, "atom:"),
        "http://purl.org/dc/elements/1.1/": "dc:",
        "http://purl.org/dc/elements/1.0/": "dc:",
        "http://purl.org/dc/terms/": "dcterms:",
        "http://purl.org/rss/1.0/modules/content/": "content:",
        "http://www.itunes.com/dtds/podcast-1.0.dtd": "itunes:",
        "http://www.itunes.com/DTDs/Podcast-1.0.dtd": "itunes:",
        "http://search.yahoo.com/mrss/": "media:",
        "http://search.yahoo.com/mrss": "media:",
        _XHTML: "xhtml:",
    }
)

_TITLE = ("title", "dc:title", "atom:title", "media:title")
_BODY = ("content:encoded", "atom:content", "xhtml:body", "body", "fullitem")
_CONTENT = ("description", "atom:summary", *_BODY, "dc:description", "itunes:summary")
_PUBLISHED = (
    "pubDate",
    "dc:date",
    "atom:published",
    "atom:issued",
    "atom:created",
    "dcterms:issued",
    "dcterms:created",
)
_UPDATED = ("atom:updated", "atom:modified", "dcterms:modified", "lastmod")
_FEED_DATE = (
    "pubDate",
    "lastBuildDate",
    "dc:date",
    "atom:updated",
    "atom:modified",
    "dcterms:modified",
    "dcterms:issued",
    "lastmod",
)
_CDF_NAMES = MappingProxyType({"TITLE": "title", "ABSTRACT": "description"})
_MEDIA_FACTS = ("type", "medium", "width", "height")

_Fields = dict[str, list[etree._Element]]
_Fragments = Callable[[etree._Element], etree._Element | None]
"""The children of one element by name: ``title`` for the format's own, ``atom:title`` for an extension's."""


def is_feed(root: etree._Element) -> bool:
    """Whether the root element is ``rss``, ``rdf:RDF``, Atom's ``feed`` or CDF's ``CHANNEL``."""
    namespace, name = split_name(root)
    if name == "feed":
        return namespace in _ATOM
    return name == "rss" or (name == "RDF" and namespace == _RDF) or _is_cdf(root)


def _is_cdf(element: etree._Element) -> bool:
    # Names in capitals and without a namespace: documents with a root "channel" are no feeds.
    return element.tag in ("CHANNEL", "ITEM")


def read_tree(root: etree._Element, *, source: str, channel: str = "items") -> FeedDocument:
    """The feed and its entries, in document order.

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
    feed = replace(_feed(head, source), base="" if around is None else _base(around, ""))
    if feed.language is None:
        feed = replace(feed, language=_language(root, {}))
    feed = bounded(feed)
    entries: list[Entry] = []
    size = 0
    for element in elements:
        entries.append(_entry(element, feed))
        size += len(entries[-1].raw or "")
        check_entry_size(size)
    return FeedDocument(feed, tuple(entries), channel, source)


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
    """The normalised item of an entry of this feed."""
    if entry.item is not None:
        return entry.item
    assert entry.raw is not None
    element = parse_stored(entry.raw)
    if feed.base:
        own = element.get(f"{_XML}base")
        element.set(f"{_XML}base", absolute_url(feed.base, own) if own else feed.base)
    return _item(element, feed)


def _sections(root: etree._Element) -> tuple[etree._Element | None, list[etree._Element]]:
    """The element that describes the feed, and the entries; RSS 1.0 has its items beside the channel."""
    namespace, _ = split_name(root)
    if namespace in _ATOM:
        return root, list(root.iterchildren(f"{{{namespace}}}entry"))
    if _is_cdf(root):
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
    fields = _fields(element)
    guid = _guid(element, fields)
    # A copy declares the namespaces that are used; the element would be written with all that are in scope.
    published = deepcopy(element)
    raw = serialize(published)
    digest, body = _digests(published, guid)
    written = ["".join(node.itertext(etree.Element)).strip() for node in _each(fields, *_TITLE, *_CONTENT)]
    return Entry(
        guid,
        _item_url(element, fields, feed.url or feed.address),
        digest_text(*written) if any(written) else "",
        next((text for node in _each(fields, *_PUBLISHED) if (text := _text(node))), None),
        next((text for node in _each(fields, *_UPDATED) if (text := _text(node))), None),
        digest,
        body,
        raw,
    )


def _digests(element: etree._Element, guid: str | None) -> tuple[str, str]:
    """Take the digests of what an entry says, with its guid and without; the element is changed."""
    # What a planet repeats of the feed an entry came from says with each poll when it was polled last.
    for origin in _fields(element).get("atom:source", ()):
        element.remove(origin)
    try:
        # Exclusive: namespaces that only the feed's root declares are no part of the entry.
        text = etree.tostring(element, method="c14n", exclusive=True, with_comments=False).decode("utf-8")
    except etree.C14NError:  # a namespace that is a relative address
        text = serialize(element)
    return digest_text(text), digest_text(text.replace(guid, "") if guid else text)


def _feed(head: etree._Element | None, source: str) -> Feed:
    address = source if is_web(source) else ""
    if head is None:
        return Feed(source, address=address)
    fields = _fields(head)
    home = _home(head, fields, address)
    url = _atom_link(fields, "self", home or address)
    title = _first_text(fields, _TITLE, _fragment)
    return Feed(
        feed_identity(url, home, title, source),
        url or home,
        title,
        _first_date(fields, _FEED_DATE),
        distinct([_person(author) for author in fields.get("atom:author", [])]),
        home,
        _language(head, fields),
        address,
    )


def _item(element: etree._Element, feed: Feed) -> Item:
    fields = _fields(element)
    url = _item_url(element, fields, feed.url or feed.address)
    base = url or feed.url or feed.address
    fragments = cache(_fragment)  # each is read once, for its text and its links
    description = _first_text(fields, _CONTENT, fragments)
    content = _first_text(fields, _BODY, fragments)
    return Item(
        url,
        _first_text(fields, _TITLE, fragments),
        _authors(fields) or feed.authors,
        _first_date(fields, _PUBLISHED),
        _first_date(fields, _UPDATED),
        description,
        _categories(fields),
        _guid(element, fields),
        _content_links(fields, base, fragments),
        content if content != description else None,
        _language(element, fields) or feed.language,
        _comments(fields, base),
        _enclosures(fields, base),
        _media(element, base),
    )


def _fields(element: etree._Element) -> _Fields:
    own, _ = split_name(element)
    cdf = _is_cdf(element)
    found: _Fields = {}
    if cdf and element.get("LASTMOD"):
        # CDF has its dates in attributes.
        moment = etree.Element("lastmod")
        moment.text = element.get("LASTMOD")
        found["lastmod"] = [moment]
    for child in element.iterchildren(etree.Element):
        namespace, name = split_name(child)
        if cdf:
            name = _CDF_NAMES.get(name, name)
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


def _first_text(fields: _Fields, names: tuple[str, ...], fragments: _Fragments) -> str | None:
    for element in _each(fields, *names):
        fragment = fragments(element)
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
    if kind == "base64":
        return _decoded("".join(element.itertext(etree.Element)))
    if kind == "text" or next(element.iterchildren(etree.Element), None) is not None:
        return element
    text = "".join(element.itertext(etree.Element))
    return parse_html(text) if "<" in text or "&" in text else element


def _content_type(element: etree._Element) -> str:
    """``text``, ``html`` (inline, too), ``base64`` of it, or ``other``; only Atom says, in RSS all text is HTML."""
    if split_name(element)[0] not in _ATOM:
        return "html"
    if element.get("mode") == "base64":
        return "base64"
    kind = (element.get("type") or "text").strip().lower().partition(";")[0]
    if kind in ("text", "text/plain"):
        return "text"
    if kind in ("html", "xhtml", "text/html", "application/xhtml+xml"):
        return "html"
    return "other"


def _decoded(text: str) -> etree._Element | None:
    try:
        return parse_html(b64decode(text).decode("utf-8"))
    except ValueError:
        return None


def _atom_link(fields: _Fields, relation: str, base: str) -> str | None:
    for link in fields.get("atom:link", ()):
        if _relation(link) == relation and (href := collapse(link.get("href") or "")):
            return absolute_url(_base(link, base), href)
    return None


def _relation(link: etree._Element) -> str:
    # Relations may be written as addresses, too: http://www.iana.org/assignments/relation/self.
    return (link.get("rel") or "alternate").strip().lower().rpartition("/")[2]


def _home(element: etree._Element, fields: _Fields, base: str) -> str | None:
    for link in fields.get("link", ()):
        # Some write Atom's form without its namespace.
        if text := _text(link) or collapse(link.get("href") or ""):
            return absolute_url(_base(link, base), text)
    if _is_cdf(element) and (text := collapse(element.get("HREF") or "")):
        return absolute_url(base, text)
    return _atom_link(fields, "alternate", base)


def _item_url(element: etree._Element, fields: _Fields, base: str) -> str | None:
    if url := _home(element, fields, base):
        return url
    for guid in fields.get("guid", ()):
        if guid.get("isPermaLink", "true").strip().lower() == "true" and is_web(text := _text(guid)):
            return text
    about = collapse(element.get(f"{{{_RDF}}}about") or "")
    return about if is_web(about) else None


def _guid(entry: etree._Element, fields: _Fields) -> str | None:
    texts = ["".join(element.itertext(etree.Element)) for element in _each(fields, "guid", "atom:id")]
    texts.append(entry.get(f"{{{_RDF}}}about") or "")
    return next((guid for text in texts if (guid := clean(text).strip())), None)


def _authors(fields: _Fields) -> tuple[str, ...]:
    named = distinct(
        [_person(element) for element in _each(fields, "author", "dc:creator", "dc:author", "atom:author")]
    )
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
    texts = [_text(element) for element in _each(fields, "category", "dc:subject", "media:category")]
    terms = [collapse(element.get("term") or "") for element in fields.get("atom:category", ())]
    return distinct(texts + terms)


def _content_links(fields: _Fields, base: str, fragments: _Fragments) -> tuple[str, ...]:
    found: list[str] = []
    for element in _each(fields, *_CONTENT):
        if _content_type(element) in ("html", "base64") and (fragment := fragments(element)) is not None:
            found.extend(links(fragment, _base(element, base)))
    return distinct(found)


def _language(element: etree._Element, fields: _Fields) -> str | None:
    """What the element says of its language, or inherits."""
    texts = [_text(node) for node in _each(fields, "language", "dc:language")]
    texts += [collapse(node.get(f"{_XML}lang") or "") for node in (element, *element.iterancestors())]
    return next((text for text in texts if text), None)


def _comments(fields: _Fields, base: str) -> str | None:
    for element in fields.get("comments", ()):
        if text := _text(element):
            return absolute_url(_base(element, base), text)
    return _atom_link(fields, "replies", base)


def _enclosures(fields: _Fields, base: str) -> tuple[Resource, ...]:
    facts = ("type", "length")
    found = [_resource(node, "url", facts, _base(node, base)) for node in fields.get("enclosure", ())]
    own = [link for link in fields.get("atom:link", ()) if _relation(link) == "enclosure"]
    return _addressed(found + [_resource(link, "href", facts, _base(link, base)) for link in own])


def _media(element: etree._Element, base: str) -> tuple[Resource, ...]:
    @cache
    def around(node: etree._Element) -> str:
        """Find where references in a node start from: what is around it is asked once."""
        parent = node.getparent()
        above = base if parent is None else around(parent)
        own = node.get(f"{_XML}base")
        return absolute_url(above, own) if own else above

    found: list[Resource] = []
    for node in element.iterdescendants(etree.Element):
        namespace, name = split_name(node)
        if _PREFIXES.get(namespace) == "media:" and name in ("content", "thumbnail"):
            resource = _resource(node, "url", _MEDIA_FACTS, around(node))
            if name == "thumbnail":
                resource = Resource(resource.url, (("role", "thumbnail"), *resource.attributes))
            found.append(resource)
    return _addressed(found)


def _resource(node: etree._Element, name: str, facts: tuple[str, ...], base: str) -> Resource:
    url = absolute_url(base, node.get(name) or "")
    return Resource(url, tuple((fact, text) for fact in facts if (text := collapse(node.get(fact) or ""))))


def _addressed(found: list[Resource]) -> tuple[Resource, ...]:
    """Those that have an address, each once."""
    return tuple(dict.fromkeys(one for one in found if one.url))


def _base(element: etree._Element, base: str) -> str:
    """Where references in ``element`` start from: ``base``, then every ``xml:base`` from the root down."""
    declared = [node.get(f"{_XML}base") for node in (element, *element.iterancestors())]
    for reference in reversed(declared):
        if reference:
            base = absolute_url(base, reference)
    return base
