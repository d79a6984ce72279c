"""A document as text for people, in lines with indents, some of whose nodes are marked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

from xscl.base.safe_xml import in_fresh_dictionary, parse_stored
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode, node_at

if TYPE_CHECKING:
    from lxml.etree import _Element

__all__ = ["Piece", "marked_document"]

_TEXT = 2_000
"""Characters of one text or value that are shown."""
_ALL = 60_000
"""Characters of a document that are shown."""
_XML = "{http://www.w3.org/XML/1998/namespace}"


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a document's text."""

    text: str
    mark: str = ""
    """Mark of the node whose text it is; empty where it has none."""
    is_markup: bool = False


def marked_document(document: str, marks: Mapping[int | str, str] | None = None) -> list[Piece]:
    """Write a document in lines, and mark some nodes; long texts are cut.

    Args:
        document: as it is stored.
        marks: mark of each node that is to have one, by its name as in ``Match.nodes``.
    """
    return in_fresh_dictionary(_pieces, document, marks or {})


def _pieces(document: str, marks: Mapping[int | str, str]) -> list[Piece]:
    root = parse_stored(document)
    writer = _Writer({node_at(root, place): mark for place, mark in marks.items()})
    found: list[Piece] = []
    left = _ALL
    for (mark, is_markup), pieces in groupby(writer.element(root, 0), lambda piece: (piece.mark, piece.is_markup)):
        piece = Piece("".join(each.text for each in pieces), mark, is_markup)
        if left < len(piece.text):
            return [*found, Piece(piece.text[:left] + "\n… the document goes on")]
        found.append(piece)
        left -= len(piece.text)
    return found


class _Writer:
    """Writes elements; whatever a document brings is text here."""

    def __init__(self, marks: Mapping[Node, str]) -> None:
        self._marks = {node.root if isinstance(node, DocumentNode) else node: mark for node, mark in marks.items()}

    def element(self, element: _Element, depth: int) -> Iterator[Piece]:
        """Write an element in lines of its own."""
        inside = [child for child in element if isinstance(child.tag, str)]
        texts = [element.text, *(child.tail for child in element)]
        indent = "  " * depth
        if not inside or any(text and not text.isspace() for text in texts):
            yield Piece(indent, is_markup=True)
            yield from self._inline(element)
            yield Piece("\n")
            return
        yield from self._open(element, indent, ">\n")
        for child in inside:
            yield from self.element(child, depth + 1)
        yield Piece(f"{indent}</{_name(element)}>\n", is_markup=True)

    def _inline(self, element: _Element) -> Iterator[Piece]:
        """Write an element in one line."""
        if not len(element) and not element.text:
            yield from self._open(element, "", "/>")
            return
        yield from self._open(element, "", ">")
        whole, place = self._marks.get(element, ""), 0
        if element.text:
            place += 1
            yield self._text(element, place, element.text, whole)
        for child in element:
            if isinstance(child.tag, str):
                yield from self._inline(child)
            if child.tail:
                place += 1
                yield self._text(element, place, child.tail, whole)
        yield Piece(f"</{_name(element)}>", is_markup=True)

    def _text(self, owner: _Element, place: int, text: str, whole: str) -> Piece:
        return Piece(_escaped(text), whole or self._marks.get(TextNode(owner, place, text), ""))

    def _open(self, element: _Element, before: str, after: str) -> Iterator[Piece]:
        yield Piece(f"{before}<", is_markup=True)
        # The mark of an element with others inside stands at its name.
        yield Piece(_name(element), self._marks.get(element, "") if len(element) else "", is_markup=True)
        for prefix, uri in element.nsmap.items():
            above = element.getparent()
            if above is None or above.nsmap.get(prefix) != uri:
                yield Piece(f' xmlns{":" + prefix if prefix else ""}="{_escaped(uri)}"', is_markup=True)
        for name, value in element.attrib.items():
            yield Piece(f' {_attribute(element, str(name))}="', is_markup=True)
            yield Piece(
                _escaped(str(value)).replace('"', "&quot;"), self._marks.get(AttributeNode(element, str(name)), "")
            )
            yield Piece('"', is_markup=True)
        yield Piece(after, is_markup=True)


def _name(element: _Element) -> str:
    local = str(element.tag).rpartition("}")[2]
    return f"{element.prefix}:{local}" if element.prefix else local


def _attribute(element: _Element, name: str) -> str:
    uri, _, local = name.rpartition("}")
    if not uri:
        return local
    if name.startswith(_XML):
        return f"xml:{local}"
    prefixes = (prefix for prefix, known in element.nsmap.items() if prefix and known == uri[1:])
    return f"{next(prefixes, '?')}:{local}"


def _escaped(text: str) -> str:
    cut = text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
    return cut.replace("&", "&amp;").replace("<", "&lt;").replace("]]>", "]]&gt;")
