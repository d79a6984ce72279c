"""Brackets on one node, with the meaning of XPath 1.0 (sections 3.4 and 4).

``lower`` is ours; everything else is compared with lxml in the tests.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from lxml import etree

from xscl.values import apply_functions, column_text, normalize_space, number_text, to_number
from xscl.xpath.nodes import (
    AttributeNode,
    DocumentNode,
    Node,
    TextNode,
    children,
    document_order,
    string_value,
    text_nodes,
)
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
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

__all__ = ["Memo", "clark_name", "holds", "matches_name", "name_parts", "reach", "select"]

Value = str | float | bool
"""What an expression gives."""

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Memo:
    """What is known of one document: conditions that were evaluated, and document order once it was asked for.

    Without it, nested brackets over nested elements would be evaluated over and over again.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[int, Node], bool] = {}
        self.order: dict[Node, int] = {}


def holds(condition: Condition, node: Node, memo: Memo | None = None) -> bool:
    """Whether the node satisfies the condition; ``memo`` is shared by calls for one document and one automaton."""
    memo = memo or Memo()
    match condition:
        case Exists(step):
            # Conditions live as long as the automaton, so their identity names them.
            key = id(condition), node
            if key not in memo.known:
                memo.known[key] = any(True for _ in select(step, node, memo))
            return memo.known[key]
        case Comparison(left, op, right):
            return _compare(left, op, right, node, memo)
        case Compared():
            return _compare_atom(condition, string_value(node))
        case Truth(call):
            value = _value(call, node, memo)
            return bool(value) and not (isinstance(value, float) and math.isnan(value))
        case Negation(part):
            return not holds(part, node, memo)
        case AllOf(parts):
            return all(holds(part, node, memo) for part in parts)
        case AnyOf(parts):
            return any(holds(part, node, memo) for part in parts)


def name_parts(name: str) -> tuple[str, str]:
    """URI and local name of a name in Clark's form."""
    uri, _, local = name[1:].rpartition("}") if name[0] == "{" else ("", "", name)
    return uri, local


def clark_name(test: NodeTest) -> str | None:
    """The one name that passes the test, in Clark's form; None if there are several, or the test is for text."""
    if test.uri is None or test.local is None:
        return None
    return f"{{{test.uri}}}{test.local}" if test.uri else test.local


def matches_name(test: NodeTest, name: str) -> bool:
    """Whether a name in Clark's form passes the test."""
    uri, local = name_parts(name)
    return (test.uri is None or test.uri == uri) and (test.local is None or test.local == local)


def select(step: Step, node: Node, memo: Memo | None = None) -> Iterator[Node]:
    """The nodes one step reaches, conditions included; each once, in no promised order."""
    if isinstance(node, (AttributeNode, TextNode)):
        return
    memo = memo or Memo()
    for found in _candidates(step, node):
        if all(holds(condition, found, memo) for condition in step.conditions):
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


def reach(steps: tuple[Step, ...], node: Node, memo: Memo) -> list[Node]:
    """The node set of a path: one step after another, because '//' reaches a node in several ways."""
    found: list[Node] = [node]
    for step in steps:
        highest = _outermost(found) if step.axis == "descendant" else found
        found = list(dict.fromkeys(low for high in highest for low in select(step, high, memo)))
    return found


def _outermost(nodes: list[Node]) -> list[Node]:
    """The nodes that are not inside another one; what '//' reaches from the others, it reaches from these."""
    if len(nodes) < 2:
        return nodes
    known = set(nodes)
    return [node for node in nodes if not isinstance(node, etree._Element) or known.isdisjoint(node.iterancestors())]


def _compare(left: Expression, op: str, right: Constant, node: Node, memo: Memo) -> bool:
    if isinstance(left, Here):
        return any(_compare_value(string_value(found), op, right) for found in reach(left.steps, node, memo))
    return _compare_value(_value(left, node, memo), op, right)


def _compare_atom(condition: Compared, text: str) -> bool:
    value = apply_functions(condition.functions, text)
    if value is None:
        return False
    compare, constant = _OPERATORS[condition.op], condition.right
    if not condition.numeric and condition.op in ("=", "!="):
        return compare(value, constant.value)
    number = number_text(value)
    other = constant.value if constant.is_number else number_text(constant.value)
    return number is not None and other is not None and compare(Fraction(number), Fraction(other))


def _compare_value(value: Value, op: str, right: Constant) -> bool:
    if isinstance(value, str) and not right.is_number and op in ("=", "!="):
        return (value == right.value) is (op == "=")
    return _OPERATORS[op](_number(value), _number(right.value))


def _number(value: Value) -> float:
    if isinstance(value, str):
        number = to_number(value)
        return math.nan if number is None else number
    return float(value)


def _value(expression: Expression, node: Node, memo: Memo) -> Value:
    match expression:
        case Constant(value, is_number):
            return float(value) if is_number else value
        case Here(steps):
            return _first_string(reach(steps, node, memo), node, memo)
        case Call("count", (Here(steps),)):
            return float(len(reach(steps, node, memo)))
        case Call(name, args):
            texts = [_string(_value(arg, node, memo)) for arg in args] or [string_value(node)]
            return _FUNCTIONS[name](*texts)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "contains": lambda text, part: part in text,
    "starts-with": lambda text, part: text.startswith(part),
    "normalize-space": normalize_space,
    "string-length": lambda text: float(len(text)),
    "lower": str.lower,
}


def _first_string(nodes: list[Node], context: Node, memo: Memo) -> str:
    """XPath's ``string()`` of a node set: the string value of its first node in document order."""
    if len(nodes) > 1:
        if not memo.order:
            memo.order = {node: place for place, node in enumerate(document_order(context))}
        return string_value(min(nodes, key=memo.order.__getitem__))
    return string_value(nodes[0]) if nodes else ""


def _string(value: Value) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isnan(value):
        return "NaN"
    return column_text(value)
