"""Limits of documents, and the checks of markup and trees by them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, cast

from lxml import etree

from xscl.base.errors import DocumentLimitError
from xscl.base.settings import DEFAULT_MAX_BYTES, DEFAULT_MAX_NODES
from xscl.base.xml_bounds import longest_tag, may_have_long_namespace, most_values

__all__ = [
    "DEFAULT_LIMITS",
    "Limits",
    "check_nodes",
    "check_tree",
    "may_be_over",
    "may_have_long_text",
    "over_limit",
]


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one document, all inclusive.

    Whatever is set here, libxml2 takes no more than 256 levels, 10,000,000 bytes of one text or value and 50,000 of one
    name, and lets entities make a document at most five times as long (or 1,000,000 bytes).
    """

    max_bytes: int = DEFAULT_MAX_BYTES
    max_depth: int = 200
    """Levels of elements; fewer than libxml2's, so that what a query makes of the document can be parsed again."""
    max_nodes: int = DEFAULT_MAX_NODES
    """Elements, attributes, namespace declarations, comments and processing instructions; a tree takes up to
    some 400 bytes for each, with the texts beside it."""
    max_attributes: int = 1_000
    """Attributes and namespace declarations of one element: lxml's time to read them grows with their square."""
    max_text: int = 1024 * 1024
    """Characters of one text, attribute value, comment or processing instruction in the root element; written out, a
    character may take six bytes, and libxml2 would not take back what has more than its 10,000,000."""
    max_names: int = 10_000
    """Distinct names of elements, attributes and processing instructions."""
    max_namespace: int = 500
    """Characters of one namespace: each name in it is read with all of them."""
    max_namespaces: int = 200
    """Distinct declarations of namespaces: the time to look one up grows with their number."""
    max_declaring_bytes: int = 1024 * 1024
    """Bytes of a document with declarations of its own (``<!DOCTYPE a [...]>``), because its entities may make it five
    times as long before anything of it can be counted."""


DEFAULT_LIMITS = Limits()

_WIDER = etree.XPath("boolean(//*[count(@*) > $than])")
_LONGER = etree.XPath(
    " or ".join(
        f"boolean(/descendant::{node}[string-length() > $than])"
        for node in ("text()", "*/@*", "comment()", "processing-instruction()")
    )
)

_MARKUP = re.compile(
    rb"""<(?:
        (?P<comment>!--.*?(?:-->|\Z))
        | !\[CDATA\[.*?(?:\]\]>|\Z)
        | (?P<pi>\?.*?(?:\?>|\Z))
        | !DOCTYPE(?>[^>"']+|"[^"]*(?:"|\Z)|'[^']*(?:'|\Z))*
        | (?P<tag>[^\s/>!?<](?>[^<>"']+|"[^"<]*"|'[^'<]*')*)
    )""",
    re.DOTALL | re.VERBOSE,
)
_VALUE = re.compile(rb""""[^"]*"|'[^']*'""")


def may_have_long_text(markup: bytes, root: etree._Element, most: int) -> bool:
    """Whether a text, value, comment or instruction of a document may have more characters than these."""
    return longest_tag(markup) > most and bool(_LONGER(root, than=most))


def may_be_over(markup: bytes, root: etree._Element, limits: Limits) -> bool:
    """Whether a document of few nodes and short texts may nest too deeply, or have an element with too much in it."""
    # Each level has two tags, but for the lowest, which may have one.
    if markup.count(b"<") > 2 * limits.max_depth and _below(limits.max_depth)(root):
        return True
    declared = markup.count(b"xmlns")
    if declared > limits.max_namespaces or (declared and may_have_long_namespace(markup, limits.max_namespace)):
        return True
    if markup.count(b"=") <= limits.max_attributes or most_values(markup) <= limits.max_attributes:
        return False
    # XPath sees no declarations of namespaces as attributes; all of the document's may be in one element.
    return bool(_WIDER(root, than=limits.max_attributes - declared))


def check_nodes(data: bytes, limits: Limits) -> None:
    """Count the nodes that the markup of a document without declarations makes, before memory is taken for them.

    Raises:
        DocumentLimitError: there are more than ``max_nodes``.
    """
    nodes = 0
    for found in _MARKUP.finditer(data):
        kind, tag = found.lastgroup, found["tag"]
        if kind is None:
            continue  # text between "<![CDATA[" and "]]>", or a document type
        nodes += 1
        if tag and b"=" in tag:
            nodes += len(_VALUE.findall(tag))
        if nodes > limits.max_nodes:
            line = data.count(b"\n", 0, found.start()) + 1
            raise over_limit(line, nodes, "elements, attributes and other nodes", limits.max_nodes, "max_nodes")


def _events_of(root: etree._Element) -> Iterator[tuple[str, Any]]:
    """List the nodes of a tree, comments and instructions last: among elements, lxml takes quadratic time for them."""
    yield from etree.iterwalk(root, events=("start", "end", "start-ns"))
    yield from (("comment", node) for node in root.iter(etree.Comment))
    yield from (("pi", node) for node in root.iter(etree.ProcessingInstruction))
    yield "end", root


def check_tree(root: etree._Element, limits: Limits) -> None:
    """Count the nodes of a document in its order.

    Raises:
        DocumentLimitError: over a limit, at the first node that is.
    """
    seen = _Seen(limits)
    before: tuple[str, Any] | None = None
    for event, node in _events_of(root):
        if event == "start-ns":  # comes before its element
            seen.declare(*node)
            continue
        line = node.sourceline
        if before is not None:
            # The text between two events is complete with the second one.
            text = before[1].text if before[0] == "start" else before[1].tail
            _check_text(line, text, limits)
        before = event, node
        if event == "end":
            seen.depth -= 1
        else:
            seen.count(event, node, line)


@dataclass(slots=True)
class _Seen:
    """Nodes and names of a document so far."""

    limits: Limits
    nodes: int = 0
    depth: int = 0
    names: set[str] = field(default_factory=set)
    declared: set[tuple[str, str]] = field(default_factory=set)
    spaces: list[str] = field(default_factory=list)
    """Namespaces that the next element declares."""

    def declare(self, prefix: str, namespace: str) -> None:
        """Note a declaration of the element that comes next."""
        self.spaces.append(namespace)
        self.declared.add((prefix, namespace))

    def count(self, event: str, node: etree._Element, line: int) -> None:
        """Count an element, comment or instruction that begins on a line; refuse it over a limit."""
        limits = self.limits
        self.nodes += 1
        if event == "start":
            self._count_element(node, line)
        else:
            _check_text(line, node.text, limits)
            if event == "pi":
                self.names.add(node.target)  # type: ignore[attr-defined]  # that of an instruction
        if len(self.names) > limits.max_names:
            raise over_limit(line, len(self.names), "distinct names", limits.max_names, "max_names")
        if self.nodes > limits.max_nodes:
            raise over_limit(line, self.nodes, "elements, attributes and other nodes", limits.max_nodes, "max_nodes")

    def _count_element(self, node: etree._Element, line: int) -> None:
        limits = self.limits
        self.depth += 1
        if self.depth > limits.max_depth:
            raise over_limit(line, self.depth, "levels of elements", limits.max_depth, "max_depth")
        attributes = len(self.spaces) + len(node.attrib)
        self.nodes += attributes
        if attributes > limits.max_attributes:
            what = "attributes of one element"
            raise over_limit(line, attributes, what, limits.max_attributes, "max_attributes")
        self.names.add(cast("str", node.tag))
        if attributes:
            self.names.update(node.keys())
            for value in node.values():
                _check_text(line, value, limits)
        if self.spaces:
            _check_namespaces(line, self.spaces, len(self.declared), limits)
            self.spaces.clear()


def _check_namespaces(line: int, spaces: Sequence[str], declared: int, limits: Limits) -> None:
    longest = max(map(len, spaces))
    if longest > limits.max_namespace:
        raise over_limit(line, longest, "characters in one namespace", limits.max_namespace, "max_namespace")
    if declared > limits.max_namespaces:
        raise over_limit(line, declared, "declarations of namespaces", limits.max_namespaces, "max_namespaces")


def _check_text(line: int | None, text: str | None, limits: Limits) -> None:
    if text is not None and len(text) > limits.max_text:
        raise over_limit(line, len(text), "characters in one text or value", limits.max_text, "max_text")


def over_limit(line: int | None, found: int, what: str, allowed: int, name: str) -> DocumentLimitError:
    """Make a refusal; ``found`` is what was counted up to the line."""
    place = "the document has" if line is None else f"line {line}:"
    return DocumentLimitError("XSCL_DOCUMENT_LIMIT", f"{place} {found:,} {what}; the limit {name} is {allowed:,}")


@lru_cache(maxsize=8)
def _below(depth: int) -> etree.XPath:
    """Whether a document has elements below a depth."""
    return etree.XPath(f"boolean({'/*' * (depth + 1)})")
