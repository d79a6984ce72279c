"""Documents as plain trees with node ids, and the steps of paths on them (docs/reference/language.md, Blocks).

Slow and obvious on purpose: this is what the engine is held against, so it shares no code with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from lxml import etree

from xscl.language.syntax import ast

Namespaces = Mapping[str, str]

NAMESPACES: Namespaces = {
    "atom": "http://www.w3.org/2005/Atom",
    "cap": "urn:oasis:names:tc:emergency:cap:1.2",
    "content": "http://purl.org/rss/1.0/modules/content/",
    "dc": "http://purl.org/dc/elements/1.1/",
    "georss": "http://www.georss.org/georss",
    "itunes": "http://www.itunes.com/dtds/podcast-1.0.dtd",
    "media": "http://search.yahoo.com/mrss/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "rss": "http://purl.org/rss/1.0/",
    "xhtml": "http://www.w3.org/1999/xhtml",
    "xlink": "http://www.w3.org/1999/xlink",
    "xml": "http://www.w3.org/XML/1998/namespace",
}
"""The prefixes that need no declaration."""


@dataclass(eq=False)
class Node:
    """A document, element, attribute or text node; ``children`` are elements and texts in document order."""

    kind: str
    uri: str = ""
    local: str = ""
    text: str = ""
    depth: int = 0
    children: list[Node] = field(default_factory=list)
    attributes: list[Node] = field(default_factory=list)
    id: int = -1

    def string(self) -> str:
        """XPath's string value."""
        return self.text if self.kind in ("attribute", "text") else "".join(c.string() for c in self.children)

    def branch(self) -> Iterator[Node]:
        """``descendant-or-self::node()``, in document order."""
        yield self
        for child in self.children:
            yield from child.branch()


@lru_cache(maxsize=2000)
def parse(xml: str) -> Node:
    """The document node of a text, with every node numbered; nobody changes it."""
    document = Node("document")
    document.children.append(_element(etree.fromstring(xml.encode()), 1))
    elements = [node for node in document.branch() if node.kind == "element"]
    others = [
        other
        for node in document.branch()
        for other in (node.attributes if node.kind == "element" else [node] if node.kind == "text" else [])
    ]
    for number, node in enumerate([*elements, *others]):
        node.id = number
    return document


def _element(source: etree._Element, depth: int) -> Node:
    node = Node("element", *_name(str(source.tag)), depth=depth)
    for name, value in source.attrib.items():
        node.attributes.append(Node("attribute", *_name(str(name)), str(value), depth + 1))
    # A comment or processing instruction is no node here, but it ends the text node before it.
    texts: list[etree._Element | str | None] = [source.text]
    for child in source:
        texts += [child, child.tail]
    for part in texts:
        if isinstance(part, str):
            node.children.append(Node("text", text=part, depth=depth + 1))
        elif part is not None and isinstance(part.tag, str):
            node.children.append(_element(part, depth + 1))
    return node


def _name(clark: str) -> tuple[str, str]:
    uri, _, local = clark.rpartition("}")
    return uri.removeprefix("{"), local


def step_nodes(step: ast.Step, node: Node, namespaces: Namespaces) -> list[Node]:
    """What ``/test`` or ``//test`` reaches from one node, brackets not looked at."""
    origins = [node] if step.axis == "child" else list(node.branch())
    kind = step.test.kind
    reached = [n for o in origins for n in (o.attributes if kind == "attribute" else o.children)]
    return [n for n in reached if n.kind == kind and _passes(step.test, n, namespaces)]


def _passes(test: ast.Test, node: Node, namespaces: Namespaces) -> bool:
    if test.kind == "text":
        return True
    if test.local not in ("*", node.local):
        return False
    if test.prefix is None:
        return test.local == "*" or node.uri == ""
    return test.prefix == "*" or node.uri == namespaces[test.prefix]
