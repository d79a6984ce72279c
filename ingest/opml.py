"""Subscription lists in OPML 2.0, both ways.

Outlines within outlines are folders.  Attributes that we do not know are kept and written again; what only we know of a
subscription is in attributes of the namespace ``XSCL``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from lxml import etree

from xscl.base.errors import DocumentError, SourceError
from xscl.base.safe_xml import parse_xml
from xscl.ingest.markup import collapse

__all__ = ["XSCL", "Outline", "read_opml", "write_opml"]

XSCL = "urn:xscl:opml"
"""Namespace of ``channel``, ``interval`` and ``status``."""
_KNOWN = frozenset({"type", "text", "title", "xmlUrl", "htmlUrl"})


@dataclass(frozen=True, slots=True)
class Outline:
    """One feed of a subscription list; texts are on one line."""

    url: str
    title: str | None = None
    home: str | None = None
    """Address of its web page."""
    folder: tuple[str, ...] = ()
    """Titles of the outlines around it, from the outside."""
    own: Mapping[str, str] = field(default_factory=dict)
    """Attributes of our namespace by their local names."""
    other: Mapping[str, str] = field(default_factory=dict)
    """All other attributes; names as lxml writes them: ``{namespace}name``."""
    line: int = 0
    """Line in which the start tag ends, from 1."""


def read_opml(data: bytes, *, source: str) -> Iterator[Outline]:
    """Return the feeds of a list, in document order.

    Raises:
        SourceError: ``XSCL_BAD_OPML``: the document is no OPML.
        DocumentError: it is not well-formed, or over a limit.
    """
    try:
        root = parse_xml(data)
    except DocumentError as error:
        raise type(error)(error.condition, f"{source}: {error.message}", hint=error.hint) from None
    body = next(root.iterchildren("body"), None)
    if root.tag != "opml" or body is None:
        raise SourceError("XSCL_BAD_OPML", f"{source}: the document is no OPML: its root is not 'opml' with a 'body'")
    return _below(body, ())


def _below(parent: etree._Element, folder: tuple[str, ...]) -> Iterator[Outline]:
    for element in parent.iterchildren("outline"):
        attributes = {str(name): str(value) for name, value in element.attrib.items()}
        if "xmlUrl" in attributes:
            yield _outline(element, attributes, folder)
            yield from _below(element, folder)
        else:
            name = collapse(attributes.get("text") or attributes.get("title") or "")
            yield from _below(element, (*folder, name) if name else folder)


def _outline(element: etree._Element, attributes: dict[str, str], folder: tuple[str, ...]) -> Outline:
    prefix = f"{{{XSCL}}}"
    own = {name.removeprefix(prefix): value for name, value in attributes.items() if name.startswith(prefix)}
    url = attributes["xmlUrl"].strip()
    title = collapse(attributes.get("title") or attributes.get("text") or "") or None
    return Outline(
        url,
        None if title == url and "title" not in attributes else title,
        attributes.get("htmlUrl", "").strip() or None,
        folder,
        own,
        {name: value for name, value in attributes.items() if name not in _KNOWN and not name.startswith(prefix)},
        element.sourceline or 0,
    )


def write_opml(outlines: Iterable[Outline], *, title: str = "xscl") -> bytes:
    """Return a list that ``read_opml`` reads to the same feeds, folder by folder; ``line`` is not kept."""
    root = etree.Element("opml", {"version": "2.0"}, nsmap={"xscl": XSCL})
    etree.SubElement(etree.SubElement(root, "head"), "title").text = title
    folders: dict[tuple[str, ...], etree._Element] = {(): etree.SubElement(root, "body")}
    for outline in outlines:
        element = etree.SubElement(_folder(folders, outline.folder), "outline")
        element.attrib.update({"type": "rss", "text": outline.title or outline.url, "xmlUrl": outline.url})
        if outline.title:
            element.set("title", outline.title)
        if outline.home:
            element.set("htmlUrl", outline.home)
        for name, value in outline.own.items():
            element.set(f"{{{XSCL}}}{name}", value)
        for name, value in outline.other.items():
            element.set(name, value)
    etree.indent(root)
    return etree.tostring(root, xml_declaration=True, encoding="utf-8")


def _folder(folders: dict[tuple[str, ...], etree._Element], path: tuple[str, ...]) -> etree._Element:
    if path not in folders:
        around = _folder(folders, path[:-1])
        folders[path] = etree.SubElement(around, "outline", {"text": path[-1]})
    return folders[path]
