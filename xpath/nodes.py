"""Nodes of one document: their numbers and string values.

Elements are numbered in document order from 0 at the root.  Attribute and text nodes go on after the last element, in
document order (attributes of an element before the text inside it), so that a number is unique in its document.  The
document node, which can be the least common ancestor of two branches, is -1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
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
    "locator",
    "string_value",
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


Node = etree._Element | AttributeNode | TextNode | DocumentNode


def children(element: etree._Element) -> Iterator[etree._Element]:
    """Child elements, without comments and processing instructions."""
    for child in element:
        if type(child.tag) is str:
            yield child


def text_nodes(element: etree._Element) -> Iterator[TextNode]:
    """The text nodes that are children of an element, in document order."""
    place = 0
    if element.text:
        place += 1
        yield TextNode(element, place, element.text)
    for child in element:
        if child.tail:
            place += 1
            yield TextNode(element, place, child.tail)


def string_value(node: Node) -> str:
    """XPath's string value."""
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
    """Numbers of all nodes of one document; those of attributes and text are counted when first asked for."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self._others: dict[tuple[int, str], int] | None = None

    def elements(self) -> Iterator[etree._Element]:
        """All elements in document order, that is by number."""
        return self.root.iter(etree.Element)

    def of(self, owner: int, node: AttributeNode | TextNode) -> int:
        """The number of an attribute or text node of the element numbered ``owner``."""
        return self.others[owner, _label(node)]

    @property
    def others(self) -> dict[tuple[int, str], int]:
        """(element number, label) of every attribute and text node to its number."""
        if self._others is None:
            places = []
            following: list[tuple[etree._Element, int]] = []
            number = {element: index for index, element in enumerate(self.elements())}
            self._others = {}
            # Document order over attributes and text: walk with an explicit stack, because an element's later text
            # nodes come after everything inside the children before them.
            for event, element in etree.iterwalk(self.root, events=("start", "end", "comment", "pi")):
                if event == "start":
                    index = number[element]
                    places += [(index, f"@{name}") for name in element.attrib]
                    following.append((element, 0))
                    self._add_text(places, following, number, element.text)
                elif event == "end":
                    following.pop()
                    self._add_text(places, following, number, element.tail)
                else:
                    self._add_text(places, following, number, element.tail)
            for offset, place in enumerate(places, start=len(number)):
                self._others[place] = offset
        return self._others

    @staticmethod
    def _add_text(
        places: list[tuple[int, str]],
        stack: list[tuple[etree._Element, int]],
        number: dict[etree._Element, int],
        text: str | None,
    ) -> None:
        # Text outside the root (the tail of the root or of a comment beside it) is no node.
        if text and stack:
            element, count = stack[-1]
            stack[-1] = (element, count + 1)
            places.append((number[element], f"text()[{count + 1}]"))


def _label(node: AttributeNode | TextNode) -> str:
    return f"@{node.name}" if isinstance(node, AttributeNode) else f"text()[{node.place}]"


def locator(root: etree._Element, number: int) -> int | str:
    """How a match names a node: an element by its number, another node as ``3/@href`` or ``3/text()[2]``."""
    count = sum(1 for _ in root.iter(etree.Element))
    if number < count:
        return number
    for (owner, label), other in NodeNumbers(root).others.items():
        if other == number:
            return f"{owner}/{label}"
    raise LookupError(f"the document has no node {number}")


def node_at(root: etree._Element, place: int | str) -> Node:
    """The node that a locator names."""
    elements = list(root.iter(etree.Element))
    if isinstance(place, int):
        return elements[place]
    found = _LOCATOR.match(place)
    if not found:
        raise LookupError(f"{place!r} names no node")
    owner = elements[int(found[1])]
    if found[2]:
        return AttributeNode(owner, found[2])
    return next(node for node in text_nodes(owner) if node.place == int(found[3]))
