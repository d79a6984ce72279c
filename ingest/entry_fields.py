"""The children of a feed's element by what they say, in any dialect.

Entries of a feed have few *shapes*, sequences of names of children.  So what each child says is looked up by the
shape, and found out once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from lxml import etree

from xscl.ingest.markup import split_name, split_tag

__all__ = ["ATOM", "MEDIA", "MEDIA_NAMESPACE", "RDF", "Fields", "Places", "fields_of", "is_cdf"]


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


RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
MEDIA_NAMESPACE = "http://search.yahoo.com/mrss"
"""Beginning of the namespaces of Media RSS."""
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
        f"{MEDIA_NAMESPACE}/": "media:",
        MEDIA_NAMESPACE: "media:",
        _XHTML: "xhtml:",
    }
)
"""Prefixes of the names below by namespace; the format's own namespace has none."""


_CDF_NAMES = MappingProxyType({"TITLE": "title", "ABSTRACT": "description"})


MEDIA = tuple(
    f"{{{namespace}}}{name}"
    for namespace, prefix in _PREFIXES.items()
    for name in ("content", "thumbnail")
    if prefix == "media:"
)
"""Elements that name a file of Media RSS."""


_MOST_CHILDREN = 64
"""Children of an element whose shape is remembered, inclusive."""
_SHAPES = 512


class Places(NamedTuple):
    """Numbers of the children that say something, for each thing in the order in which they count."""

    titles: tuple[int, ...]
    contents: tuple[int, ...]
    bodies: tuple[int, ...]
    published: tuple[int, ...]
    updated: tuple[int, ...]
    dates: tuple[int, ...]
    guids: tuple[int, ...]
    permalinks: tuple[int, ...]
    links: tuple[int, ...]
    atom_links: tuple[int, ...]
    authors: tuple[int, ...]
    atom_authors: tuple[int, ...]
    itunes_authors: tuple[int, ...]
    origins: tuple[int, ...]
    categories: tuple[int, ...]
    terms: tuple[int, ...]
    languages: tuple[int, ...]
    comments: tuple[int, ...]
    enclosures: tuple[int, ...]


_BODIES = ("content:encoded", "atom:content", "xhtml:body", "body", "fullitem")


_CHANGES = ("atom:updated", "atom:modified", "dcterms:modified")


_ISSUES = ("atom:published", "atom:issued", "atom:created", "dcterms:issued", "dcterms:created")


_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "titles": ("title", "dc:title", "atom:title", "media:title"),
        "contents": ("description", "atom:summary", *_BODIES, "dc:description", "itunes:summary"),
        "bodies": _BODIES,
        "published": ("pubDate", "dc:date", *_ISSUES),
        "updated": (*_CHANGES, "lastmod"),
        "dates": ("pubDate", "lastBuildDate", "dc:date", *_CHANGES, "dcterms:issued", "lastmod"),
        "guids": ("guid", "atom:id"),
        "permalinks": ("guid",),
        "links": ("link",),
        "atom_links": ("atom:link",),
        "authors": ("author", "dc:creator", "dc:author", "atom:author"),
        "atom_authors": ("atom:author",),
        "itunes_authors": ("itunes:author",),
        "origins": ("atom:source",),
        "categories": ("category", "dc:subject", "media:category"),
        "terms": ("atom:category",),
        "languages": ("language", "dc:language"),
        "comments": ("comments",),
        "enclosures": ("enclosure",),
    }
)
"""Names of children that say a thing, those that count first in front: ``title`` for the format's own, ``atom:title``
for an extension's."""

assert tuple(_NAMES) == Places._fields


class Fields(NamedTuple):
    """The children of an element, and what each says."""

    children: Sequence[etree._Element]
    at: Places

    def each(self, places: tuple[int, ...]) -> Sequence[etree._Element]:
        """List the children at some places."""
        children = self.children
        return [children[place] for place in places] if places else ()


def is_cdf(element: etree._Element) -> bool:
    """Whether the element is CDF's, a channel or an item."""
    # Names in capitals and without a namespace: documents with a root "channel" are no feeds.
    return element.tag in ("CHANNEL", "ITEM")


def fields_of(element: etree._Element) -> Fields:
    """Find the children of an element by what they say."""
    cdf = is_cdf(element)
    children = element[:]
    if cdf and (moment := element.get("LASTMOD")):
        # CDF has its dates in attributes.
        child = etree.Element("lastmod")
        child.text = moment
        children.insert(0, child)
    # A comment has a function for a tag.
    tags = tuple([tag if isinstance(tag := child.tag, str) else "" for child in children])
    find = _known_places if len(tags) <= _MOST_CHILDREN else _places
    return Fields(children, find(tags, split_name(element)[0], cdf))


def _places(tags: tuple[str, ...], own: str, cdf: bool) -> Places:
    """Return the places of the children with these tags, in an element with a namespace of its own."""
    named: dict[str, list[int]] = {}
    for place, tag in enumerate(tags):
        if tag and (name := _field_name(tag, own, cdf)) is not None:
            named.setdefault(name, []).append(place)
    return Places(**{thing: tuple(_in_order(named, names)) for thing, names in _NAMES.items()})


_known_places = lru_cache(maxsize=_SHAPES)(_places)


def _in_order(named: Mapping[str, Sequence[int]], names: Iterable[str]) -> Iterator[int]:
    for name in names:
        yield from named.get(name, ())


def _field_name(tag: str, own: str, cdf: bool) -> str | None:
    """Return the name of a field, in an element with a namespace of its own; None for what is none."""
    namespace, name = split_tag(tag)
    if cdf:
        name = _CDF_NAMES.get(name, name)
    # RSS is written with and without a namespace of its own; Atom is always known by its namespace.
    prefix = _PREFIXES.get(namespace, "" if namespace in (own, "") else None)
    return None if prefix is None else prefix + name
