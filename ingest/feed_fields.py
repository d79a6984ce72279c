"""The facts of a feed and of its entries, read from their elements, whatever dialect has them."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from types import MappingProxyType

from lxml import etree

from xscl.ingest.dates import parse_date
from xscl.ingest.entry_fields import ATOM, MEDIA, MEDIA_NAMESPACE, RDF, Fields, fields_of, is_cdf
from xscl.ingest.item import Feed, Item, Resource, distinct, feed_identity
from xscl.ingest.markup import (
    NOTHING,
    Markup,
    absolute_url,
    clean,
    collapse,
    has_scheme,
    is_web,
    links,
    read_fragment,
    read_html,
    split_name,
)

__all__ = [
    "XML",
    "base_of",
    "field_text",
    "guid_of",
    "item_url",
    "language_of",
    "read_head",
    "read_item",
    "whole_text",
]


XML = "{http://www.w3.org/XML/1998/namespace}"
_BASE, _LANGUAGE = f"{XML}base", f"{XML}lang"


_KINDS = MappingProxyType(
    {
        **dict.fromkeys(("text", "text/plain"), "text"),
        **dict.fromkeys(("html", "xhtml", "text/html", "application/xhtml+xml"), "html"),
    }
)
_PLAIN = frozenset({"alternate", "enclosure", "replies", "self"})
"""Relations as most feeds write them."""
_FILE_FACTS = ("type", "length")
_MEDIA_FACTS = ("type", "medium", "width", "height")


def read_head(head: etree._Element | None, source: str) -> Feed:
    """Read what a feed says of itself; ``head`` is the element that does, if there is one."""
    address = source if is_web(source) else ""
    if head is None:
        return Feed(source, address=address)
    fields = fields_of(head)
    home = _home(head, fields, address)
    url = _atom_link(fields, "self", home or address)
    title = _first_text(_markup(each) for each in fields.each(fields.at.titles))
    return Feed(
        feed_identity(url, home, title, source),
        url or home,
        title,
        _first_date(fields.each(fields.at.dates)),
        distinct([_person(author) for author in fields.each(fields.at.atom_authors)]),
        home,
        language_of(head, fields.each(fields.at.languages)),
        address,
    )


def read_item(element: etree._Element, written: str, feed: Feed, url: str | None, guid: str | None) -> Item:
    """Read an entry of a feed, whose text, address and guid are known, as a normalised item."""
    fields = fields_of(element)
    at = fields.at
    base = url or feed.url or feed.address
    contents = {place: _markup(fields.children[place]) for place in at.contents}
    description = _first_text(contents[place] for place in at.contents)
    content = _first_text(contents[place] for place in at.bodies)
    return Item(
        url,
        _first_text(map(_markup, fields.each(at.titles))),
        _authors(fields) or feed.authors,
        _first_date(fields.each(at.published)),
        _first_date(fields.each(at.updated)),
        description,
        _categories(fields),
        guid,
        _content_links(fields, base, contents),
        content if content != description else None,
        language_of(element, fields.each(at.languages)) or feed.language,
        _comments(fields, base),
        _enclosures(fields, base),
        _media(element, base) if MEDIA_NAMESPACE in written else (),
    )


def field_text(element: etree._Element) -> str:
    """Read the text of an element on one line."""
    return collapse(whole_text(element))


def whole_text(element: etree._Element) -> str:
    """Read the text of an element as it stands."""
    return "".join(element.itertext(etree.Element)) if len(element) else element.text or ""


def _first_text(texts: Iterable[Markup]) -> str | None:
    for markup in texts:
        if markup.text:
            return markup.text
    return None


def _first_date(elements: Iterable[etree._Element]) -> datetime | None:
    for element in elements:
        if moment := parse_date(field_text(element)):
            return moment
    return None


def _markup(element: etree._Element) -> Markup:
    """Read the markup in an element: the element itself if that is inline or plain, else its text, which is HTML."""
    kind = _content_type(element)
    if kind == "other":
        return NOTHING
    if kind == "base64":
        return _decoded(whole_text(element))
    if len(element) and (kind == "text" or next(element.iterchildren("*"), None) is not None):
        found = read_fragment(element)
        return found if kind == "html" else Markup(found.text, ())
    text = whole_text(element)
    return read_html(text) if kind == "html" and ("<" in text or "&" in text) else Markup(collapse(text), ())


def _content_type(element: etree._Element) -> str:
    """Return ``text``, ``html`` (inline, too), ``base64``, or ``other``; only Atom says, in RSS all text is HTML."""
    if split_name(element)[0] not in ATOM:
        return "html"
    type_ = element.get("type") or "text"
    if element.get("mode") == "base64":
        return "base64"
    return _KINDS.get(type_) or _KINDS.get(type_.strip().lower().partition(";")[0], "other")


def _decoded(text: str) -> Markup:
    try:
        return read_html(b64decode(text).decode("utf-8"))
    except ValueError:
        return NOTHING


def _atom_link(fields: Fields, relation: str, base: str) -> str | None:
    for link in fields.each(fields.at.atom_links):
        if _is_relation(link.get("rel"), relation) and (href := collapse(link.get("href") or "")):
            return _completed(link, base, href)
    return None


def _completed(element: etree._Element, base: str, reference: str) -> str:
    """Complete a reference in an element; ``xml:base`` is looked for where it is not absolute already."""
    return reference if has_scheme(reference) else absolute_url(base_of(element, base), reference)


def _is_relation(text: str | None, relation: str) -> bool:
    # Relations may be written as addresses, too: http://www.iana.org/assignments/relation/self.
    return text == relation or (text not in _PLAIN and _relation(text or "alternate") == relation)


def _relation(text: str) -> str:
    return text.strip().lower().rpartition("/")[2]


def _home(element: etree._Element, fields: Fields, base: str) -> str | None:
    for link in fields.each(fields.at.links):
        # Some write Atom's form without its namespace.
        if text := field_text(link) or collapse(link.get("href") or ""):
            return _completed(link, base, text)
    if is_cdf(element) and (text := collapse(element.get("HREF") or "")):
        return absolute_url(base, text)
    return _atom_link(fields, "alternate", base)


def item_url(element: etree._Element, fields: Fields, base: str) -> str | None:
    """Find the address of an entry: its link, a guid that is one, or ``rdf:about``."""
    if url := _home(element, fields, base):
        return url
    for guid in fields.each(fields.at.permalinks):
        if guid.get("isPermaLink", "true").strip().lower() == "true" and is_web(text := field_text(guid)):
            return text
    about = collapse(element.get(f"{{{RDF}}}about") or "")
    return about if is_web(about) else None


def guid_of(entry: etree._Element, fields: Fields) -> str | None:
    """Find what the publisher tells an entry from others by."""
    texts = [whole_text(element) for element in fields.each(fields.at.guids)]
    texts.append(entry.get(f"{{{RDF}}}about") or "")
    return next((guid for text in texts if (guid := clean(text).strip())), None)


def _authors(fields: Fields) -> tuple[str, ...]:
    at = fields.at
    named = distinct([_person(element) for element in fields.each(at.authors)])
    if named or not (at.origins or at.itunes_authors):
        return named
    planets = [
        author for origin in map(fields_of, fields.each(at.origins)) for author in origin.each(origin.at.atom_authors)
    ]
    return distinct([_person(element) for element in (*fields.each(at.itunes_authors), *planets)])


def _person(element: etree._Element) -> str:
    name = next(element.iterchildren("{*}name"), None)
    if name is not None:
        return field_text(name)
    return "" if split_name(element)[0] in ATOM else field_text(element)


def _categories(fields: Fields) -> tuple[str, ...]:
    texts = [field_text(element) for element in fields.each(fields.at.categories)]
    terms = [collapse(element.get("term") or "") for element in fields.each(fields.at.terms)]
    return distinct(texts + terms)


def _content_links(fields: Fields, base: str, contents: Mapping[int, Markup]) -> tuple[str, ...]:
    found: list[str] = []
    for place, markup in contents.items():
        if markup.hrefs:
            found.extend(links(markup.hrefs, base_of(fields.children[place], base)))
    return distinct(found)


def language_of(element: etree._Element, fields: Iterable[etree._Element]) -> str | None:
    """Find the language that an element states or inherits; ``fields`` are its children that state one."""
    for field in fields:
        if text := field_text(field):
            return text
    node: etree._Element | None = element
    while node is not None:
        if (stated := node.get(_LANGUAGE)) and (text := collapse(stated)):
            return text
        node = node.getparent()
    return None


def _comments(fields: Fields, base: str) -> str | None:
    for element in fields.each(fields.at.comments):
        if text := field_text(element):
            return _completed(element, base, text)
    return _atom_link(fields, "replies", base)


def _enclosures(fields: Fields, base: str) -> tuple[Resource, ...]:
    nodes = [(node, "url", _FILE_FACTS) for node in fields.each(fields.at.enclosures)]
    nodes += [
        (link, "href", _FILE_FACTS)
        for link in fields.each(fields.at.atom_links)
        if _is_relation(link.get("rel"), "enclosure")
    ]
    return _addressed([_resource(*each, base_of(each[0], base)) for each in nodes]) if nodes else ()


def _media(element: etree._Element, base: str) -> tuple[Resource, ...]:
    nodes = list(element.iterdescendants(*MEDIA))
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
