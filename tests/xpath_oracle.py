"""What the nodes, values and chains of definitions should be, by lxml's XPath alone.

A definition becomes one XPath text, compiled once; the nodes of a document are numbered here by a walk of its own.
Nothing in this module calls the matcher: of xscl it uses the records of patterns, and the functions of values, which
are tested by themselves.
"""

from __future__ import annotations

import operator
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import elementpath
from elementpath.xpath1 import XPath1Parser
from lxml import etree
from oracle.words import words
from strategies import NAMESPACES

from xscl.base.mixed import read_value
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.base.values import apply_functions, to_number
from xscl.xpath.automaton.automaton import WitnessSpec
from xscl.xpath.automaton.row_template import ChainEntry
from xscl.xpath.document_witnesses import Witness
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Definition,
    Exists,
    Expression,
    Here,
    Negation,
    NodeTest,
    OfColumns,
    Step,
    Truth,
)

PREFIXES = {**DEFAULT_NAMESPACES, **NAMESPACES, "nar": "http://iptc.org/std/nar/2006-10-01/"}
"""Of the XPath texts; ``prefix_of`` adds to it."""
PREFIX_OF = {uri: prefix for prefix, uri in PREFIXES.items()}
OURS = "urn:xscl-tests"
"""Namespace of the functions that XPath 1.0 lacks, by prefix ``ours``."""

_PREFIX = re.compile(r"([A-Za-z][\w.-]*):[\w*]")
_NUMBER = re.compile(r"\s*(-?)([0-9]+\.?[0-9]*|\.[0-9]+)\s*\Z", re.ASCII)
_FRACTION = re.compile(r"-?[0-9]+/[0-9]+\Z")
_OPERATORS = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


# -- to XPath --------------------------------------------------------------------------------------------------


def prefix_of(uri: str) -> str:
    """The prefix of a namespace in XPath texts; an unknown one gets a new prefix."""
    if uri not in PREFIX_OF:
        PREFIX_OF[uri] = f"ns{len(PREFIX_OF)}"
        PREFIXES[PREFIX_OF[uri]] = uri
    return PREFIX_OF[uri]


def literal(text: str) -> str:
    """A string in XPath 1.0, which has no escapes."""
    if "'" not in text:
        return f"'{text}'"
    if '"' not in text:
        return f'"{text}"'
    return "concat(" + ', "\'", '.join(f"'{part}'" for part in text.split("'")) + ")"


def name_text(test: NodeTest) -> str:
    if test.kind == "text":
        return "text()"
    at = "@" if test.kind == "attribute" else ""
    if test.uri is None:
        return f"{at}*" if test.local is None else f"{at}*[local-name() = '{test.local}']"
    return at + (f"{prefix_of(test.uri)}:" if test.uri else "") + (test.local or "*")


def step_text(step: Step) -> str:
    axis = "/" if step.axis == "child" else "//"
    return axis + name_text(step.test) + "".join(f"[{condition_text(part)}]" for part in step.conditions)


def steps_text(steps: Sequence[Step]) -> str:
    return "".join(map(step_text, steps))


def expression_text(expression: Expression) -> str:
    match expression:
        case Here(steps):
            return "." + steps_text(steps)
        case Constant(value, is_number):
            return value if is_number else literal(value)
        case Call("lower", (arg,)):
            return f"ours:lower(string({expression_text(arg)}))"
        case Call("contains-word", (arg, *asked)):
            return f"ours:contains-word(string({expression_text(arg)}), {', '.join(map(expression_text, asked))})"
        case Call(name, args):
            return f"{name}({', '.join(map(expression_text, args))})"


def condition_text(condition: Condition) -> str:
    match condition:
        case Exists(step):
            return "." + step_text(step)
        case Comparison(left, op, right):
            return f"{expression_text(left)} {op} {expression_text(right)}"
        case Compared(functions, op, right, numeric):
            sides = f"string(.), '{functions}', '{op}', {literal(right.value)}"
            return f"ours:atom({sides}, {'true' if numeric else 'false'}())"
        case Truth(call):
            # A predicate that is a number would be a position, and that of a string is its boolean.
            return f"boolean({expression_text(call)})"
        case Negation(part):
            return f"not({condition_text(part)})"
        case AllOf(parts):
            return "(" + " and ".join(map(condition_text, parts)) + ")"
        case AnyOf(parts):
            return "(" + " or ".join(map(condition_text, parts)) + ")"
        case OfColumns(columns, part, otherwise):
            is_one = f"(count(ancestor::*) = 1 and ({' or '.join(f'self::{name}' for name in columns)}))"
            return f"({is_one} and {condition_text(part)} or not{is_one} and {condition_text(otherwise)})"


def definition_text(definition: Definition) -> str:
    """An absolute XPath of the definition's nodes."""
    return steps_text(definition.steps)


def _exact(text: str) -> Fraction | None:
    found = _NUMBER.match(text)
    return Fraction(Decimal(found[1] + found[2])) if found else None


def _atom(_: object, text: str, functions: str, op: str, constant: str, numeric: bool) -> bool:
    value = apply_functions(functions, text)
    if value is None:
        return False
    if not numeric and op in ("=", "!="):
        return bool(_OPERATORS[op](value, constant))
    left = _exact(value)
    right = Fraction(constant) if _FRACTION.match(constant) else _exact(constant)
    return left is not None and right is not None and bool(_OPERATORS[op](left, right))


def _contains_word(_: object, text: str, *asked: str) -> bool:
    return not set(words(text)).isdisjoint(asked)


_EXTENSIONS = {
    (OURS, "lower"): lambda _, text: text.lower(),
    (OURS, "atom"): _atom,
    (OURS, "contains-word"): _contains_word,
}


@lru_cache(maxsize=20_000)
def compiled(xpath: str) -> etree.XPath:
    """One path, compiled with the prefixes it uses."""
    used = {prefix: PREFIXES[prefix] for prefix in _PREFIX.findall(xpath) if prefix in PREFIXES}
    if "ours:" not in xpath:
        return etree.XPath(xpath, namespaces=used or None)
    return etree.XPath(xpath, namespaces={**used, "ours": OURS}, extensions=_EXTENSIONS)


# -- nodes of lxml ---------------------------------------------------------------------------------------------


class Numbered:
    """A document whose nodes are numbered here, by a walk of its own; lxml selects."""

    def __init__(self, root: etree._Element) -> None:
        self.root = root
        self.tree = root.getroottree()
        self.kept = list(root.iter())  # lxml's nodes keep their identity only while someone holds them
        elements = [node for node in self.kept if isinstance(node.tag, str)]
        self.number: dict[object, int] = {node: place for place, node in enumerate(elements)}
        self.count = len(elements)
        self._walk(root)
        self.node = {number: key for key, number in self.number.items()}
        self._selected: dict[tuple[str, int], frozenset[int]] = {}
        self._nodes: dict[int, tuple[Definition, frozenset[int]]] = {}

    def _walk(self, element: etree._Element) -> None:
        keys: list[object] = [(element, str(name)) for name in element.attrib]
        for key in [*keys, *([(element, "text")] if element.text else [])]:
            self.number[key] = len(self.number)
        for child in element:
            if isinstance(child.tag, str):
                self._walk(child)
            if child.tail:
                self.number[child, "tail"] = len(self.number)

    def _number(self, found: Any) -> int:
        if isinstance(found, etree._Element):
            return self.number[found]
        name = found.attrname if found.is_attribute else "text" if found.is_text else "tail"
        return self.number[found.getparent(), name]

    def select(self, xpath: str, start: int = -1) -> frozenset[int]:
        """The numbers of the nodes that a path like ``//a/@k`` selects from a node, -1 for the document node."""
        known = self._selected.get((xpath, start))
        if known is None:
            known = self._selected[xpath, start] = self._select(xpath, start)
        return known

    def _select(self, xpath: str, start: int) -> frozenset[int]:
        context = self.tree if start < 0 else self.node[start]
        if isinstance(context, tuple):
            return frozenset()
        found: Any = compiled(xpath if start < 0 else "." + xpath)(context)
        return frozenset(map(self._number, found))

    def is_true(self, xpath: str) -> bool:
        return bool(compiled(f"boolean({xpath})")(self.root))

    def value(self, number: int) -> str:
        if number < 0:
            return str(self.root.xpath("string(/)"))
        key = self.node[number]
        if isinstance(key, tuple):
            node, name = key
            return str({"text": node.text, "tail": node.tail}.get(name) or node.attrib[name])
        return str(key.xpath("string()"))  # type: ignore[attr-defined]

    def nodes(self, definition: Definition) -> frozenset[int]:
        # By identity: a definition's hash is that of all its steps and conditions.
        known = self._nodes.get(id(definition))
        if known is None:
            known = self._nodes[id(definition)] = definition, self._nodes_of(definition)
        return known[1]

    def _nodes_of(self, definition: Definition) -> frozenset[int]:
        if not self.stands(definition):
            return frozenset()
        return self.select(definition_text(definition)) if definition.steps else frozenset([-1])

    def stands(self, definition: Definition) -> bool:
        """Whether the conditions on the document node hold."""
        return all(self.is_true(f"/self::node()[{condition_text(part)}]") for part in definition.conditions)

    def above(self, number: int) -> set[int]:
        """The document node, the elements around a node, and the node itself."""
        found = {-1, number}
        if number < 0:
            return found
        key = self.node[number]
        element = key
        if isinstance(key, tuple):
            element = key[0].getparent() if key[1] == "tail" else key[0]
        while element is not None:
            found.add(self.number[element])
            element = element.getparent()  # type: ignore[attr-defined]
        return found


# -- the law ---------------------------------------------------------------------------------------------------


def on_the_way(upper: Definition, lower: Definition) -> bool:
    """Whether one definition is a prefix of another, or that itself."""
    return upper.conditions == lower.conditions and upper.steps == lower.steps[: len(upper.steps)]


class Edge(NamedTuple):
    """An edge above a definition; equal ends of all edges of a law are one object."""

    upper: Definition
    lower: Definition
    hangs: bool


class Law:
    """The rows that a set of specs must give; their texts are made once, for any number of documents."""

    def __init__(self, specs: Iterable[WitnessSpec]) -> None:
        self.functions: defaultdict[Definition, set[str | None]] = defaultdict(set)
        edges: defaultdict[Definition, set[tuple[Definition, Definition]]] = defaultdict(set)
        hanging: defaultdict[Definition, set[tuple[Definition, Definition]]] = defaultdict(set)
        for spec in specs:
            self.functions[spec.definition].update(spec.functions)
            edges[spec.definition].update([*spec.edges, *spec.hanging])
            hanging[spec.definition].update(spec.hanging)
        one: dict[Definition, Definition] = {}
        # Upper ends that hang off come after the edges that reach them.
        self._edges = {
            definition: [
                Edge(one.setdefault(upper, upper), one.setdefault(lower, lower), (upper, lower) in hanging[definition])
                for upper, lower in sorted(found, key=lambda pair: (len(pair[0].steps), len(pair[1].steps)))
            ]
            for definition, found in edges.items()
        }
        self._rest: dict[tuple[int, int], str] = {}

    def check(self, document: Numbered, rows: Sequence[Witness], *, chains: bool = True) -> None:
        """Compare the rows of one document with lxml's.

        Raises:
            AssertionError: naming what differs.
        """
        found = {(row.var, row.node, row.function): row for row in rows}
        assert len(found) == len(rows), "a row comes twice"
        expected = set()
        for definition, functions in self.functions.items():
            nodes = document.nodes(definition)
            edges = self._edges[definition]
            for node in nodes:
                for function in functions:
                    value = None if function is None else self._value(document, node, function)
                    if function is not None and value is None:
                        continue
                    key = definition.key, node, None if function is None else function.partition("|")[0]
                    expected.add(key)
                    assert key in found, f"lxml has node {node} of {definition} (function {function!r})"
                    row = found[key]
                    number = None if value is None else to_number(value)
                    assert (row.value, row.number) == (value, number), f"value of node {node} of {definition}"
                    if chains:
                        self._check_chain(document, definition, edges, row)
        names = {definition.key: str(definition) for definition in self.functions}
        more = [(names.get(var, var), node, function) for var, node, function in found.keys() - expected]
        assert not more, f"lxml does not have {more[:3]}"

    def _value(self, document: Numbered, node: int, function: str) -> str | None:
        name, _, kinds = function.partition("|")
        if not kinds:
            return apply_functions(name, document.value(node))
        kind, *columns = kinds.split()
        for column, other in (each.split("=") for each in columns):
            if node in document.select(f"/*/{column}"):
                kind = other
        return read_value(f"{name}|{kind}", document.value(node))

    def _check_chain(self, document: Numbered, definition: Definition, edges: Sequence[Edge], row: Witness) -> None:
        assert len(row.chain) == len(set(row.chain)), f"a chain entry of {definition} comes twice"
        wanted = self._chain(document, definition, edges, row.node)
        assert set(row.chain) == wanted, f"chain of node {row.node} of {definition}, {edges}"

    def _chain(self, document: Numbered, definition: Definition, edges: Sequence[Edge], node: int) -> set[ChainEntry]:
        """(var1, var2, node1, node2) by lxml alone."""
        if not edges:
            return set()
        reached: defaultdict[int, set[int]] = defaultdict(set)
        above = document.above(node)
        for end in {id(end): end for edge in edges for end in (edge.upper, edge.lower)}.values():
            if on_the_way(end, definition):
                near = document.nodes(end) & above
                reached[id(end)] = {high for high in near if node in self._below(document, end, definition, high)}
        way = {end: set(nodes) for end, nodes in reached.items()}
        found = set()
        for upper, lower, hanging in edges:
            hangs = hanging or id(lower) not in way
            for high in tuple(reached[id(upper)]):
                lows = self._below(document, upper, lower, high)
                lows = lows if hangs else lows & way[id(lower)]
                found |= {(upper.key, lower.key, high, low) for low in lows}
                if hangs:
                    reached[id(lower)] |= lows
        return found

    def _below(self, document: Numbered, upper: Definition, lower: Definition, high: int) -> frozenset[int]:
        if len(upper.steps) == len(lower.steps):
            return frozenset([high])
        rest = self._rest.get((id(upper), id(lower)))
        if rest is None:
            rest = self._rest[id(upper), id(lower)] = steps_text(lower.steps[len(upper.steps) :])
        return document.select(rest, high)


def witness_rows_of(found: Sequence[Witness]) -> Mapping[tuple[object, ...], frozenset[ChainEntry]]:
    """Rows in a form that compares without their order, and without that of their chains."""
    rows = {(row.var, row.node, row.function, row.value, row.number, row.hash): frozenset(row.chain) for row in found}
    assert len(rows) == len(found), "a row comes twice"
    return rows


# -- elementpath -----------------------------------------------------------------------------------------------

# elementpath differs from lxml, and from the specification, in these: its string values lack texts behind comments
# (left out of the documents), its functions take empty nodes for none, it does not compare texts with numbers, and it
# reaches an attribute from itself.
_DISPUTED = re.compile(r"[<>]|= -?[0-9]|!= -?[0-9]|ours:|count|length|contains|with|space\(|@[^][/]*\[|text\(\)\[")


def is_undisputed(definition: Definition) -> bool:
    """Whether elementpath and lxml should agree, in a document without comments and processing instructions."""
    return bool(definition.steps) and not definition.conditions and not _DISPUTED.search(definition_text(definition))


def count_by_elementpath(document: Numbered, definition: Definition) -> int:
    """How many nodes a definition has."""
    nodes = elementpath.select(document.tree, definition_text(definition), namespaces=PREFIXES, parser=XPath1Parser)
    assert isinstance(nodes, list)
    return len(nodes)
