"""Brackets on one node, with the meaning of XPath 1.0 (sections 3.4 and 4).

``lower`` is ours; everything else is compared with lxml in the tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction

from lxml import etree

from xscl.base.own_functions import is_own, returns_numbers
from xscl.base.values import (
    COMPARISONS,
    apply_functions,
    column_text,
    normalize_space,
    number_text,
    own_value,
    to_number,
)
from xscl.base.words import folded_words
from xscl.xpath.nodes import (
    AttributeNode,
    DocumentNode,
    Node,
    TextNode,
    children,
    column_name,
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
    OfColumns,
    Step,
    Truth,
    own_path,
)

__all__ = [
    "Memo",
    "as_number",
    "as_text",
    "clark_name",
    "holds",
    "matches_name",
    "name_parts",
    "reach",
    "select",
    "text_of",
]

Value = str | float | bool | None
"""The value of an expression; None: a function of one's own has none."""

_MOST_CHARACTERS = 1 << 25
"""Characters that are kept of one document: nested elements have the same text again and again."""


class Memo:
    """Everything known of one document: conditions that were evaluated, texts that were read, and document order once
    it was asked for.

    Without it, nested brackets over nested elements would be evaluated over and over again, and the text of a path
    would be read for each of the conditions on it.  Conditions live as long as the automaton, and equal expressions in
    them are one object (``shared``), so their identity names them.
    """

    def __init__(self) -> None:
        self.known: dict[tuple[int, Node], bool] = {}
        self.order: dict[Node, int] = {}
        self._texts: dict[Node, str] = {}
        self._of_paths: dict[tuple[int, Node], list[str]] = {}
        self._values: dict[tuple[int, Node], Value] = {}
        self._applied: dict[tuple[str, Node], str | None] = {}
        self._words: dict[str, set[str]] = {}
        self._characters = 0

    def text(self, node: Node) -> str:
        """Return the string value of a node."""
        found = self._texts.get(node)
        if found is None:
            found = string_value(node)
            if self._keeps(len(found)):
                self._texts[node] = found
        return found

    def texts(self, path: Here, node: Node) -> list[str]:
        """Return the string values of the nodes that a path reaches from a node, in no promised order."""
        if not path.steps:
            return [self.text(node)]
        key = id(path.steps), node
        found = self._of_paths.get(key)
        if found is None:
            found = [self.text(reached) for reached in reach(path.steps, node, self)]
            if self._keeps(sum(map(len, found))):
                self._of_paths[key] = found
        return found

    def value(self, expression: Expression, node: Node) -> Value:
        """Return the value of an expression that other expressions may share, at a node."""
        key = id(expression), node
        found = self._values.get(key)
        if found is None:
            found = _value(expression, node, self)
            if self._keeps(len(found) if isinstance(found, str) else 0):
                self._values[key] = found
        return found

    def words(self, text: str) -> set[str]:
        """Return the words of a text, case folded."""
        found = self._words.get(text)
        if found is None:
            found = folded_words(text)
            if self._keeps(2 * len(text)):
                self._words[text] = found
        return found

    def applied(self, functions: str, node: Node) -> str | None:
        """Return the string value of a node with functions of atoms applied; None if they give none."""
        key = functions, node
        if key in self._applied:
            return self._applied[key]
        found = apply_functions(functions, self.text(node))
        if self._keeps(len(found or "")):
            self._applied[key] = found
        return found

    def _keeps(self, characters: int) -> bool:
        """Tell whether so many characters more are kept, and count them."""
        if self._characters + characters > _MOST_CHARACTERS:
            return False
        self._characters += characters
        return True


def holds(condition: Condition, node: Node, memo: Memo | None = None) -> bool:
    """Whether the node satisfies the condition; ``memo`` is shared by calls for one document and one automaton."""
    memo = memo or Memo()
    match condition:
        case Exists(step):
            key = id(condition), node
            if key not in memo.known and step.child is not None and isinstance(node, etree._Element):
                memo.known[key] = next(node.iterchildren(step.child), None) is not None
            elif key not in memo.known:
                memo.known[key] = any(True for _ in select(step, node, memo))
            return memo.known[key]
        case Comparison(left, op, right):
            return _compare(left, op, right, node, memo)
        case Compared():
            return _compare_atom(condition, memo.applied(condition.functions, node))
        case Truth(call):
            value = _value(call, node, memo)
            return bool(value) and not (isinstance(value, float) and math.isnan(value))
        case Negation(part):
            return not holds(part, node, memo)
        case AllOf(parts):
            return all(holds(part, node, memo) for part in parts)
        case AnyOf(parts):
            return any(holds(part, node, memo) for part in parts)
        case OfColumns(columns, part, otherwise):
            return holds(part if column_name(node) in columns else otherwise, node, memo)


def name_parts(name: str) -> tuple[str, str]:
    """Return the URI and the local name of a name in Clark's form."""
    uri, _, local = name[1:].rpartition("}") if name[0] == "{" else ("", "", name)
    return uri, local


def clark_name(test: NodeTest) -> str | None:
    """Return the one name that passes the test, in Clark's form; None if there are several, or the test is for text."""
    if test.uri is None or test.local is None:
        return None
    return f"{{{test.uri}}}{test.local}" if test.uri else test.local


def matches_name(test: NodeTest, name: str) -> bool:
    """Whether a name in Clark's form passes the test."""
    uri, local = name_parts(name)
    return (test.uri is None or test.uri == uri) and (test.local is None or test.local == local)


def select(step: Step, node: Node, memo: Memo | None = None) -> Iterator[Node]:
    """Yield the nodes one step reaches, conditions included; each once, in no promised order."""
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
    name = clark_name(test)
    if test.kind == "element" and name is not None:
        yield from element.iterchildren(name) if step.axis == "child" else element.iterdescendants(name)
        return
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
    """Return the node set of a path: one step after another, because '//' reaches a node in several ways."""
    if len(steps) == 1 and steps[0].child is not None and isinstance(node, etree._Element):
        return list(node.iterchildren(steps[0].child))
    found: list[Node] = [node]
    for step in steps:
        highest = _outermost(found) if step.axis == "descendant" else found
        found = list(dict.fromkeys(low for high in highest for low in select(step, high, memo)))
    return found


def _outermost(nodes: list[Node]) -> list[Node]:
    """Return the nodes that are not inside another one; what '//' reaches from the others, it reaches from these."""
    if len(nodes) < 2:
        return nodes
    known = set(nodes)
    return [node for node in nodes if not isinstance(node, etree._Element) or known.isdisjoint(node.iterancestors())]


def _compare(left: Expression, op: str, right: Constant, node: Node, memo: Memo) -> bool:
    if isinstance(left, Here):
        return any(_compare_value(text, op, right) for text in memo.texts(left, node))
    return _compare_value(_value(left, node, memo), op, right)


def _compare_atom(condition: Compared, value: str | None) -> bool:
    if value is None:
        return False
    compare, constant = COMPARISONS[condition.op], condition.right
    if not condition.of_numbers:
        return compare(value, constant.value)
    number = number_text(value)
    other = constant.value if constant.is_number else number_text(constant.value)
    return number is not None and other is not None and compare(Fraction(number), Fraction(other))


def _compare_value(value: Value, op: str, right: Constant) -> bool:
    if value is None:
        return False
    if isinstance(value, str) and not right.is_number and op in ("=", "!="):
        return (value == right.value) is (op == "=")
    return COMPARISONS[op](as_number(value), as_number(right.value))


def as_number(value: Value) -> float:
    """Return XPath's ``number()`` of a value."""
    if isinstance(value, str):
        number = to_number(value)
        return math.nan if number is None else number
    return math.nan if value is None else float(value)


def _value(expression: Expression, node: Node, memo: Memo) -> Value:
    match expression:
        case Constant(value, is_number):
            return float(value) if is_number else value
        case Here(steps):
            return _firstas_text(reach(steps, node, memo), node, memo)
        case Call("count", (Here(steps),)):
            return float(len(reach(steps, node, memo)))
        case Call("contains-word", (operand, *words)):
            folded = memo.words(as_text(memo.value(operand, node)))
            return any(as_text(memo.value(word, node)) in folded for word in words)
        case Call(name, args):
            if is_own(name) and not _is_there(args[0], node, memo):
                return None
            values = [memo.value(arg, node) for arg in args] or [memo.text(node)]
            if None in values:
                return None
            texts = list(map(as_text, values))
            return _own(name, *texts) if is_own(name) else _FUNCTIONS[name](*texts)


def _is_there(expression: Expression, node: Node, memo: Memo) -> bool:
    """Tell whether the path that an argument reads reaches a node; a function of one's own is not called for none."""
    path = own_path(expression)
    return path is None or not path.steps or bool(reach(path.steps, node, memo))


def _own(name: str, text: str) -> Value:
    found = own_value(name, text)
    return found if found is None or not returns_numbers(name) else to_number(found)


_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "contains": lambda text, part: part in text,
    "starts-with": lambda text, part: text.startswith(part),
    "normalize-space": normalize_space,
    "string-length": lambda text: float(len(text)),
    "lower": str.lower,
}


def _firstas_text(nodes: list[Node], context: Node, memo: Memo) -> str:
    """Return XPath's ``string()`` of a node set: the string value of its first node in document order."""
    if len(nodes) > 1:
        if not memo.order:
            memo.order = {node: place for place, node in enumerate(document_order(context))}
        return memo.text(min(nodes, key=memo.order.__getitem__))
    return memo.text(nodes[0]) if nodes else ""


def text_of(constant: Constant) -> str:
    """Return the text of a constant where a text is asked for."""
    return as_text(float(constant.value) if constant.is_number else constant.value)


def as_text(value: Value) -> str:
    """Return XPath's ``string()`` of a value."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if math.isnan(value):
        return "NaN"
    return column_text(value)
