"""Nodes of one document: their numbers and string values.

Elements are numbered in document order from 0 at the root.  Attribute and text nodes go on after the last element, in
document order (attributes of an element before the text inside it), so that a number is unique in its document.  The
document node, which can be the least common ancestor of two branches, is -1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lxml import etree

__all__ = [
    "DOCUMENT",
    "AttributeNode",
    "DocumentNode",
    "Node",
    "NodeNumbers",
    "TextNode",
    "children",
    "column_name",
    "document_order",
    "node_at",
    "nodes_within",
    "string_value",
    "text_nodes",
]

DOCUMENT = -1

_LOCATOR = re.compile(r"(\d+)/(?:@(.+)|text\(\)\[(\d+)\])\Z", re.DOTALL)
_STRING = etree.XPath("string()")


@dataclass(frozen=True, slots=True)
class AttributeNode:
    """An attribute, by its element and its name in Clark's form."""

    owner: etree._Element
    name: str


@dataclass(frozen=True, slots=True)
class TextNode:
    """A text node, by its element and its 1-based place among the element's text nodes."""

    owner: etree._Element
    place: int
    text: str


@dataclass(frozen=True, slots=True)
class DocumentNode:
    """The document node, above the root element."""

    root: etree._Element


def column_name(node: Node) -> str | None:
    """Return the name of the column that a node is in the document of a row; None: it is none."""
    if isinstance(node, (AttributeNode, TextNode, DocumentNode)):
        return None
    root = node.getparent()
    return str(node.tag) if root is not None and root.getparent() is None else None


Node = etree._Element | AttributeNode | TextNode | DocumentNode


def children(element: etree._Element) -> Iterator[etree._Element]:
    """Yield the child elements, without comments and processing instructions."""
    for child in element:
        if type(child.tag) is str:
            yield child


def text_nodes(element: etree._Element) -> Iterator[TextNode]:
    """Yield the text nodes that are children of an element, in document order."""
    place = 0
    if element.text:
        place += 1
        yield TextNode(element, place, element.text)
    for child in element:
        if child.tail:
            place += 1
            yield TextNode(element, place, child.tail)


def string_value(node: Node) -> str:
    """Return XPath's string value."""
    if isinstance(node, TextNode):
        return node.text
    if isinstance(node, AttributeNode):
        return str(node.owner.attrib[node.name])
    if isinstance(node, DocumentNode):
        return string_value(node.root)
    if len(node) == 0:
        return node.text or ""
    return str(_STRING(node))


class NodeNumbers:
    """The numbers of all nodes of one document; each kind is counted when first asked for."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self._elements: list[etree._Element] | None = None
        self._others: dict[tuple[int, str], int] | None = None
        self._places: list[tuple[int, str]] | None = None

    def locator(self, number: int) -> int | str:
        """Name a node as matches do: an element by its number, another node as ``3/@href`` or ``3/text()[2]``.

        Raises:
            LookupError: the document has no such node.
        """
        if self._elements is None:
            self._elements = list(self.elements())
        count = len(self._elements)
        if 0 <= number < count:
            return number
        if self._places is None:
            self._places = list(self.others)
        if not count <= number < count + len(self._places):
            raise LookupError(f"the document has no node {number}")
        owner, label = self._places[number - count]
        return f"{owner}/{label}"

    def node(self, number: int) -> Node:
        """Find the node of a number.

        Raises:
            LookupError: the document has no such node.
        """
        place = self.locator(number)
        assert self._elements is not None
        return self._elements[place] if isinstance(place, int) else _beside(self._elements, place)

    def elements(self) -> Iterator[etree._Element]:
        """Yield all elements in document order, that is by number."""
        return self.root.iter(etree.Element)

    def of(self, owner: int, node: AttributeNode | TextNode) -> int:
        """Return the number of an attribute or text node of the element numbered ``owner``."""
        return self.others[owner, _label(node)]

    @property
    def others(self) -> dict[tuple[int, str], int]:
        """(element number, label) of every attribute and text node to its number."""
        if self._others is None:
            number = {element: index for index, element in enumerate(self.elements())}
            found = [
                (number[node.owner], _label(node))
                for node in document_order(self.root)
                if isinstance(node, (AttributeNode, TextNode))
            ]
            self._others = {place: len(number) + offset for offset, place in enumerate(found)}
        return self._others


def document_order(node: Node) -> Iterator[Node]:
    """Yield every element, attribute and text node of the node's document, in document order.

    An element's attributes come before what is inside it, its later text nodes after the children before them.
    """
    element = node.root if isinstance(node, DocumentNode) else node
    owner = element.owner if isinstance(element, (AttributeNode, TextNode)) else element
    return nodes_within(owner.getroottree().getroot())


def nodes_within(element: etree._Element) -> Iterator[Node]:
    """Yield an element and all that is inside it, in document order."""
    yield element
    opened = [_inside(element)]
    while opened:
        for found in opened[-1]:
            yield found
            if isinstance(found, etree._Element):
                opened.append(_inside(found))
                break
        else:
            opened.pop()


def _inside(element: etree._Element) -> Iterator[etree._Element | AttributeNode | TextNode]:
    """Yield the attributes of an element, then its child elements and text nodes as they come."""
    for name in element.attrib:
        yield AttributeNode(element, str(name))
    place = 0
    if element.text:
        place += 1
        yield TextNode(element, place, element.text)
    for child in element:
        if type(child.tag) is str:
            yield child
        if child.tail:
            place += 1
            yield TextNode(element, place, child.tail)


def _label(node: AttributeNode | TextNode) -> str:
    return f"@{node.name}" if isinstance(node, AttributeNode) else f"text()[{node.place}]"


def node_at(root: etree._Element, place: int | str) -> Node:
    """Return the node that a locator names.

    Raises:
        LookupError: the document has no such node.
    """
    elements = list(root.iter(etree.Element))
    if isinstance(place, int):
        if not 0 <= place < len(elements):
            raise LookupError(f"the document has no node {place!r}")
        return elements[place]
    return _beside(elements, place)


def _beside(elements: Sequence[etree._Element], place: str) -> AttributeNode | TextNode:
    """Find the attribute or text that a locator names; ``elements`` are all of the document."""
    absent = LookupError(f"the document has no node {place!r}")
    found = _LOCATOR.match(place)
    if not found or int(found[1]) >= len(elements):
        raise absent
    owner = elements[int(found[1])]
    if found[2]:
        if found[2] not in owner.attrib:
            raise absent
        return AttributeNode(owner, found[2])
    for node in text_nodes(owner):
        if node.place == int(found[3]):
            return node
    raise absent
