"""The facts of a feed and of its entries, read from their elements, whatever dialect has them."""

from __future__ import annotations

from base64 import b64decode
from datetime import datetime
from functools import cache, lru_cache
from types import MappingProxyType

from lxml import etree

from xscl.ingest.dates import parse_date
from xscl.ingest.item import Feed, Item, Resource, distinct, feed_identity
from xscl.ingest.markup import (
    absolute_url,
    clean,
    collapse,
    fragment_text,
    is_web,
    links,
    parse_html,
    split_name,
    split_tag,
)

__all__ = [
    "ATOM",
    "CONTENT",
    "PUBLISHED",
    "RDF",
    "TITLE",
    "UPDATED",
    "XML",
    "base_of",
    "each_field",
    "field_text",
    "fields_of",
    "guid_of",
    "is_cdf",
    "item_url",
    "language_of",
    "read_head",
    "read_item",
    "whole_text",
]


ATOM = frozenset(
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


XML = "{http://www.w3.org/XML/1998/namespace}"
_BASE, _LANGUAGE = f"{XML}base", f"{XML}lang"


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XHTML = "http://www.w3.org/1999/xhtml"


_PREFIXES = MappingProxyType(
    {
        **dict.fromkeys(ATOM, "atom:"),
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


TITLE = ("title", "dc:title", "atom:title", "media:title")


_BODY = ("content:encoded", "atom:content", "xhtml:body", "body", "fullitem")


CONTENT = ("description", "atom:summary", *_BODY, "dc:description", "itunes:summary")


PUBLISHED = (
    "pubDate",
    "dc:date",
    "atom:published",
    "atom:issued",
    "atom:created",
    "dcterms:issued",
    "dcterms:created",
)


UPDATED = ("atom:updated", "atom:modified", "dcterms:modified", "lastmod")


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


_KINDS = MappingProxyType(
    {
        **dict.fromkeys(("text", "text/plain"), "text"),
        **dict.fromkeys(("html", "xhtml", "text/html", "application/xhtml+xml"), "html"),
    }
)
_MEDIA_FACTS = ("type", "medium", "width", "height")


Fields = dict[str, list[etree._Element]]


"""The children of one element by name: ``title`` for the format's own, ``atom:title`` for an extension's."""


_MEDIA = tuple(
    f"{{{namespace}}}{name}"
    for namespace, prefix in _PREFIXES.items()
    for name in ("content", "thumbnail")
    if prefix == "media:"
)


class _Fragments:
    """The markup in elements, and its text; each is read once, for its text and its links."""

    def __init__(self) -> None:
        self._found: dict[etree._Element, etree._Element | None] = {}
        self._texts: dict[etree._Element, str] = {}

    def of(self, element: etree._Element) -> etree._Element | None:
        """Return the markup in an element, if it is any."""
        if element not in self._found:
            self._found[element] = _fragment(element)
        return self._found[element]

    def text(self, element: etree._Element) -> str:
        """Return the text of the markup in an element."""
        if element not in self._texts:
            fragment = self.of(element)
            self._texts[element] = "" if fragment is None else fragment_text(fragment)
        return self._texts[element]


def is_cdf(element: etree._Element) -> bool:
    """Whether the element is CDF's, a channel or an item."""
    # Names in capitals and without a namespace: documents with a root "channel" are no feeds.
    return element.tag in ("CHANNEL", "ITEM")


def read_head(head: etree._Element | None, source: str) -> Feed:
    """Read what a feed says of itself; ``head`` is the element that does, if there is one."""
    address = source if is_web(source) else ""
    if head is None:
        return Feed(source, address=address)
    fields = fields_of(head)
    home = _home(head, fields, address)
    url = _atom_link(fields, "self", home or address)
    title = _first_text(fields, TITLE, _Fragments())
    return Feed(
        feed_identity(url, home, title, source),
        url or home,
        title,
        _first_date(fields, _FEED_DATE),
        distinct([_person(author) for author in fields.get("atom:author", [])]),
        home,
        language_of(head, fields),
        address,
    )


def read_item(element: etree._Element, feed: Feed) -> Item:
    """Read an entry of a feed as a normalised item."""
    fields = fields_of(element)
    url = item_url(element, fields, feed.url or feed.address)
    base = url or feed.url or feed.address
    fragments = _Fragments()
    description = _first_text(fields, CONTENT, fragments)
    content = _first_text(fields, _BODY, fragments)
    return Item(
        url,
        _first_text(fields, TITLE, fragments),
        _authors(fields) or feed.authors,
        _first_date(fields, PUBLISHED),
        _first_date(fields, UPDATED),
        description,
        _categories(fields),
        guid_of(element, fields),
        _content_links(fields, base, fragments),
        content if content != description else None,
        language_of(element, fields) or feed.language,
        _comments(fields, base),
        _enclosures(fields, base),
        _media(element, base),
    )


def fields_of(element: etree._Element) -> Fields:
    """Find the children of an element, by their names."""
    own, _ = split_name(element)
    cdf = is_cdf(element)
    found: Fields = {}
    if cdf and element.get("LASTMOD"):
        # CDF has its dates in attributes.
        moment = etree.Element("lastmod")
        moment.text = element.get("LASTMOD")
        found["lastmod"] = [moment]
    for child in element.iterchildren("*"):
        name = _field_name(str(child.tag), own, cdf)
        if name is None:
            continue
        if name in found:
            found[name].append(child)
        else:
            found[name] = [child]
    return found


@lru_cache(maxsize=1_024)
def _field_name(tag: str, own: str, cdf: bool) -> str | None:
    """Return the name of a field, in an element with a namespace of its own; None for what is none."""
    namespace, name = split_tag(tag)
    if cdf:
        name = _CDF_NAMES.get(name, name)
    # RSS is written with and without a namespace of its own; Atom is always known by its namespace.
    prefix = _PREFIXES.get(namespace, "" if namespace in (own, "") else None)
    return None if prefix is None else prefix + name


def each_field(fields: Fields, *names: str) -> list[etree._Element]:
    """List the children of these names, in the order of the names."""
    found: list[etree._Element] = []
    for name in names:
        if name in fields:
            found += fields[name]
    return found


def field_text(element: etree._Element) -> str:
    """Read the text of an element on one line."""
    return collapse(whole_text(element))


def whole_text(element: etree._Element) -> str:
    """Read the text of an element as it stands."""
    return "".join(element.itertext(etree.Element)) if len(element) else element.text or ""


def _first_text(fields: Fields, names: tuple[str, ...], fragments: _Fragments) -> str | None:
    for element in each_field(fields, *names):
        if text := fragments.text(element):
            return text
    return None


def _first_date(fields: Fields, names: tuple[str, ...]) -> datetime | None:
    for element in each_field(fields, *names):
        if moment := parse_date(field_text(element)):
            return moment
    return None


def _fragment(element: etree._Element) -> etree._Element | None:
    """Return the markup in an element: the element itself if that is inline or plain, else its text read as HTML."""
    kind = _content_type(element)
    if kind == "other":
        return None
    if kind == "base64":
        return _decoded(whole_text(element))
    if kind == "text" or (len(element) and next(element.iterchildren("*"), None) is not None):
        return element
    text = whole_text(element)
    return parse_html(text) if "<" in text or "&" in text else element


def _content_type(element: etree._Element) -> str:
    """``text``, ``html`` (inline, too), ``base64`` of it, or ``other``; only Atom says, in RSS all text is HTML."""
    if split_name(element)[0] not in ATOM:
        return "html"
    if element.get("mode") == "base64":
        return "base64"
    type_ = element.get("type") or "text"
    return _KINDS.get(type_) or _KINDS.get(type_.strip().lower().partition(";")[0], "other")


def _decoded(text: str) -> etree._Element | None:
    try:
        return parse_html(b64decode(text).decode("utf-8"))
    except ValueError:
        return None


def _atom_link(fields: Fields, relation: str, base: str) -> str | None:
    for link in fields.get("atom:link", ()):
        if _is_relation(link.get("rel"), relation) and (href := collapse(link.get("href") or "")):
            return absolute_url(base_of(link, base), href)
    return None


def _is_relation(text: str | None, relation: str) -> bool:
    # Relations may be written as addresses, too: http://www.iana.org/assignments/relation/self.
    return text == relation or (text or "alternate").strip().lower().rpartition("/")[2] == relation


def _home(element: etree._Element, fields: Fields, base: str) -> str | None:
    for link in fields.get("link", ()):
        # Some write Atom's form without its namespace.
        if text := field_text(link) or collapse(link.get("href") or ""):
            return absolute_url(base_of(link, base), text)
    if is_cdf(element) and (text := collapse(element.get("HREF") or "")):
        return absolute_url(base, text)
    return _atom_link(fields, "alternate", base)


def item_url(element: etree._Element, fields: Fields, base: str) -> str | None:
    """Find the address of an entry: its link, a guid that is one, or ``rdf:about``."""
    if url := _home(element, fields, base):
        return url
    for guid in fields.get("guid", ()):
        if guid.get("isPermaLink", "true").strip().lower() == "true" and is_web(text := field_text(guid)):
            return text
    about = collapse(element.get(f"{{{RDF}}}about") or "")
    return about if is_web(about) else None


def guid_of(entry: etree._Element, fields: Fields) -> str | None:
    """Find what the publisher tells an entry from others by."""
    texts = [whole_text(element) for element in each_field(fields, "guid", "atom:id")]
    texts.append(entry.get(f"{{{RDF}}}about") or "")
    return next((guid for text in texts if (guid := clean(text).strip())), None)


def _authors(fields: Fields) -> tuple[str, ...]:
    named = distinct(
        [_person(element) for element in each_field(fields, "author", "dc:creator", "dc:author", "atom:author")]
    )
    if named:
        return named
    planets = [
        author for origin in fields.get("atom:source", ()) for author in each_field(fields_of(origin), "atom:author")
    ]
    return distinct([_person(element) for element in (*fields.get("itunes:author", ()), *planets)])


def _person(element: etree._Element) -> str:
    name = next(element.iterchildren("{*}name"), None)
    if name is not None:
        return field_text(name)
    return "" if split_name(element)[0] in ATOM else field_text(element)


def _categories(fields: Fields) -> tuple[str, ...]:
    texts = [field_text(element) for element in each_field(fields, "category", "dc:subject", "media:category")]
    terms = [collapse(element.get("term") or "") for element in fields.get("atom:category", ())]
    return distinct(texts + terms)


def _content_links(fields: Fields, base: str, fragments: _Fragments) -> tuple[str, ...]:
    found: list[str] = []
    for element in each_field(fields, *CONTENT):
        if _content_type(element) in ("html", "base64") and (fragment := fragments.of(element)) is not None:
            found.extend(links(fragment, base_of(element, base)))
    return distinct(found)


def language_of(element: etree._Element, fields: Fields) -> str | None:
    """Find the language that an element states or inherits."""
    for field in each_field(fields, "language", "dc:language"):
        if text := field_text(field):
            return text
    node: etree._Element | None = element
    while node is not None:
        if (stated := node.get(_LANGUAGE)) and (text := collapse(stated)):
            return text
        node = node.getparent()
    return None


def _comments(fields: Fields, base: str) -> str | None:
    for element in fields.get("comments", ()):
        if text := field_text(element):
            return absolute_url(base_of(element, base), text)
    return _atom_link(fields, "replies", base)


def _enclosures(fields: Fields, base: str) -> tuple[Resource, ...]:
    facts = ("type", "length")
    found = [_resource(node, "url", facts, base_of(node, base)) for node in fields.get("enclosure", ())]
    own = [link for link in fields.get("atom:link", ()) if _is_relation(link.get("rel"), "enclosure")]
    return _addressed(found + [_resource(link, "href", facts, base_of(link, base)) for link in own])


def _media(element: etree._Element, base: str) -> tuple[Resource, ...]:
    nodes = list(element.iterdescendants(*_MEDIA))
    if not nodes:
        return ()

    @cache
    def around(node: etree._Element) -> str:
        """Find where references in a node start from: what is around it is asked once."""
        parent = node.getparent()
        above = base if parent is None else around(parent)
        own = node.get(f"{XML}base")
        return absolute_url(above, own) if own else above

    found: list[Resource] = []
    for node in nodes:
        resource = _resource(node, "url", _MEDIA_FACTS, around(node))
        if split_name(node)[1] == "thumbnail":
            resource = Resource(resource.url, (("role", "thumbnail"), *resource.attributes))
        found.append(resource)
    return _addressed(found)


def _resource(node: etree._Element, name: str, facts: tuple[str, ...], base: str) -> Resource:
    url = absolute_url(base, node.get(name) or "")
    return Resource(url, tuple((fact, text) for fact in facts if (text := collapse(node.get(fact) or ""))))


def _addressed(found: list[Resource]) -> tuple[Resource, ...]:
    """Keep the resources that have an address, each once."""
    return tuple(dict.fromkeys(one for one in found if one.url))


def base_of(element: etree._Element, base: str) -> str:
    """Find the base of references in ``element``: ``base``, then every ``xml:base`` from the root down."""
    declared: list[str] = []
    node: etree._Element | None = element
    while node is not None:
        if reference := node.get(_BASE):
            declared.append(reference)
        node = node.getparent()
    for reference in reversed(declared):
        base = absolute_url(base, reference)
    return base
