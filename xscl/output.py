"""Output documents: what a match shows of its members (language.md, section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

from lxml import etree

from xscl.safexml import serialize
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode, string_value

__all__ = ["output_document"]


def output_document(results: Sequence[Node]) -> str:
    """The default output: the result node itself for one block, a new root over the result nodes for a join.

    A result that is no element is wrapped: ``<result href="…"/>``, ``<result>text</result>``.
    """
    if len(results) == 1:
        return serialize(_element(results[0]))
    root = etree.Element("result")
    for node in results:
        child = deepcopy(_element(node))
        child.tail = None
        root.append(child)
    return serialize(root)


def _element(node: Node) -> etree._Element:
    if isinstance(node, (AttributeNode, TextNode)):
        wrapped = etree.Element("result")
        if isinstance(node, AttributeNode):
            wrapped.set(node.name, string_value(node))
        else:
            wrapped.text = node.text
        return wrapped
    assert not isinstance(node, DocumentNode)  # a result node is an element, an attribute or a text
    return node
