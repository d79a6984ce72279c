"""Brackets on one node, with the meaning of XPath 1.0 (sections 3.4 and 4).

``lower`` is ours; everything else is compared with lxml in the tests.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator

from lxml import etree

from xscl.values import canonical_url, host, normalize_space, to_number
from xscl.xpath.nodes import AttributeNode, DocumentNode, Node, TextNode, children, string_value, text_nodes
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Here,
    Negation,
    NodeTest,
    Step,
    Truth,
)

__all__ = ["holds", "matches_name", "select"]

Value = str | float | bool | None
"""What an expression gives; None where a function has no value, which satisfies no comparison."""

_OPERATORS: dict[str, Callable[[float, float], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def holds(condition: Condition, node: Node) -> bool:
    """Whether the node satisfies the condition."""
    match condition:
        case Exists(step):
            return any(True for _ in select(step, node))
        case Comparison(left, op, right):
            return _compare(left, op, right, node)
        case Truth(call):
            value = _value(call, node)
            return bool(value) and not (isinstance(value, float) and math.isnan(value))
        case Negation(part):
            return not holds(part, node)
        case AllOf(parts):
            return all(holds(part, node) for part in parts)
        case AnyOf(parts):
            return any(holds(part, node) for part in parts)


def matches_name(test: NodeTest, name: str) -> bool:
    """Whether a name in Clark's form passes the test."""
    uri, _, local = name[1:].rpartition("}") if name[0] == "{" else ("", "", name)
    return (test.uri is None or test.uri == uri) and (test.local is None or test.local == local)


def select(step: Step, node: Node) -> Iterator[Node]:
    """The nodes one step reaches, conditions included; each once, in no promised order."""
    if isinstance(node, (AttributeNode, TextNode)):
        return
    for found in _candidates(step, node):
        if all(holds(condition, found) for condition in step.conditions):
            yield found


def _candidates(step: Step, node: etree._Element | DocumentNode) -> Iterator[Node]:
    test = step.test
    if isinstance(node, DocumentNode):
        if step.axis == "descendant" and test.kind != "element":
            yield from _candidates(step, node.root)
        elif test.kind == "element":
            elements = [node.root] if step.axis == "child" else node.root.iter(etree.Element)
            yield from (element for element in elements if matches_name(test, str(element.tag)))
        return
    element = node
    if test.kind == "element":
        source = children(element) if step.axis == "child" else element.iterdescendants(etree.Element)
        for child in source:
            if matches_name(test, str(child.tag)):
                yield child
        return
    # '//' is descendant-or-self::node() followed by the child or attribute step, so the element itself counts.
    owners = [element] if step.axis == "child" else element.iter(etree.Element)
    for owner in owners:
        if test.kind == "text":
            yield from text_nodes(owner)
        else:
            for name in owner.attrib:
                if matches_name(test, str(name)):
                    yield AttributeNode(owner, str(name))


def _reach(steps: tuple[Step, ...], node: Node) -> Iterator[Node]:
    if not steps:
        yield node
        return
    seen: set[object] = set()
    for found in select(steps[0], node):
        for last in _reach(steps[1:], found):
            # '//' may reach a node by several ways; a node set holds it once.
            if last not in seen:
                seen.add(last)
                yield last


def _compare(left: Expression, op: str, right: Constant, node: Node) -> bool:
    if isinstance(left, Here):
        return any(_compare_value(string_value(found), op, right) for found in _reach(left.steps, node))
    return _compare_value(_value(left, node), op, right)


def _compare_value(value: Value, op: str, right: Constant) -> bool:
    if value is None:
        return False
    if isinstance(value, str) and not right.is_number and op in ("=", "!="):
        return (value == right.value) is (op == "=")
    return _OPERATORS[op](_number(value), _number(right.value))


def _number(value: Value) -> float:
    if isinstance(value, str):
        number = to_number(value)
        return math.nan if number is None else number
    return math.nan if value is None else float(value)


def _value(expression: Expression, node: Node) -> Value:
    match expression:
        case Constant(value, is_number):
            return float(value) if is_number else value
        case Here(steps):
            return _first_string(steps, node)
        case Call("count", (Here(steps),)):
            return float(sum(1 for _ in _reach(steps, node)))
        case Call(name, args):
            texts = [_string(_value(arg, node)) for arg in args] or [string_value(node)]
            return _FUNCTIONS[name](*texts)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "contains": lambda text, part: part in text,
    "starts-with": lambda text, part: text.startswith(part),
    "normalize-space": normalize_space,
    "string-length": lambda text: float(len(text)),
    "lower": str.lower,
    "host": host,
    "url": canonical_url,
}


def _first_string(steps: tuple[Step, ...], node: Node) -> str:
    """XPath's ``string()`` of a node set: the string value of its first node in document order."""
    found = list(_reach(steps, node))
    if not found:
        return ""
    if len(found) == 1:
        return string_value(found[0])
    return string_value(min(found, key=_document_order(found)))


def _document_order(nodes: list[Node]) -> Callable[[Node], tuple[int, int, int]]:
    first = nodes[0]
    owner = first.owner if isinstance(first, (AttributeNode, TextNode)) else _element(first)
    order = {element: index for index, element in enumerate(owner.getroottree().iter(etree.Element))}

    def place(node: Node) -> tuple[int, int, int]:
        if isinstance(node, AttributeNode):
            return order[node.owner], 1, list(node.owner.attrib).index(node.name)
        if isinstance(node, TextNode):
            # Behind every element that precedes the text inside its owner.
            before = [c for c in node.owner.iter(etree.Element) if c is not node.owner and _precedes(c, node)]
            return (order[before[-1]] if before else order[node.owner]), 2, node.place
        return order[_element(node)], 0, 0

    return place


def _element(node: etree._Element | DocumentNode) -> etree._Element:
    return node.root if isinstance(node, DocumentNode) else node


def _precedes(element: etree._Element, text: TextNode) -> bool:
    child: etree._Element | None = element
    while child is not None and child.getparent() is not text.owner:
        child = child.getparent()
    if child is None:
        return False
    seen = 1 if text.owner.text else 0
    for sibling in text.owner:
        if sibling.tail:
            seen += 1
        if sibling is child:
            # The child lies before the text if the text's place is counted with or after the child's own tail.
            return text.place > seen - (1 if sibling.tail else 0)
    return False


def _string(value: Value) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isnan(value):
        return "NaN"
    return str(int(value)) if value == int(value) else repr(value)
