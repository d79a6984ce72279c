"""One document and the automaton to witness rows (R_docW and R_binW of the thesis, 6.4, in one relation).

A row is one node of one wanted variable with one of its values, and ``chain``: the rows of R_bin on the way from the
document node to it, and those that hang off that way towards output nodes.  Every leaf of a reduced pattern is joined,
so the chains of matched rows hold every structural fact a match can use, and stage 2 needs no look-up by document.
``r_doc`` and ``r_bin`` are views of this relation.

The law, tested against lxml: the rows of a variable are the nodes that its definition selects as an XPath; a chain
entry (u, w, a, b) says that a is selected by u's definition and b by the rest of w's definition from a.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lxml import etree

from xscl.errors import DocumentLimitError
from xscl.values import apply_functions, to_number, value_hash
from xscl.xpath.automaton import Automaton, LeafSpec, Move
from xscl.xpath.condition import Memo, holds, matches_name
from xscl.xpath.nodes import DOCUMENT, AttributeNode, DocumentNode, Node, NodeNumbers, string_value, text_nodes

__all__ = ["ChainEntry", "Witness", "match_document"]

MAX_CHAIN_ENTRIES = 1_000_000
"""For one document: many results beside many joined nodes multiply."""

ChainEntry = tuple[int, int, int, int]
"""(var1, var2, node1, node2): a row of R_bin."""


@dataclass(frozen=True, slots=True)
class Witness:
    """One row: a node of a variable, one value of it and the bindings of R_bin around it."""

    var: int
    node: int
    function: str | None
    """The function applied, '' for none; None: a row without a value."""
    value: str | None
    number: float | None
    """XPath ``number()`` of the value, None where it is none."""
    hash: int
    """64 bits of the value, for joining; 0 without a value."""
    chain: tuple[ChainEntry, ...]


def match_document(automaton: Automaton, channel: str, root: etree._Element) -> list[Witness]:
    """All witness rows of one document of ``channel``."""
    start = automaton.start(channel)
    if start is None:
        return []
    walk = _Walk(automaton, start, root)
    walk.visit(root, start, DOCUMENT)
    return list(_Rows(automaton, start, walk).rows())


class _Walk:
    """The one pass over a document: which nodes reach which states by structure."""

    def __init__(self, automaton: Automaton, start: Move, root: etree._Element) -> None:
        self.automaton = automaton
        self.document = DocumentNode(root)
        self.numbers = NodeNumbers(root)
        self.hits: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self.nodes: dict[int, Node] = {}
        # State -> numbers of the open nodes that reached it and wait for descendants, outermost first.
        self.open: defaultdict[int, list[int]] = defaultdict(list)
        self.count = 0
        for state in start.reached:
            self.open[state].append(DOCUMENT)

    def visit(self, element: etree._Element, above: Move, parent: int) -> None:
        move = self.automaton.enter(above, str(element.tag))
        number = self.count
        self.count += 1
        if move.dead:
            self.count += sum(1 for _ in element.iterdescendants(etree.Element))
            return
        for arrival in move.arrivals:
            origins: Iterable[int] = (parent,) if arrival.by_child else self.open[arrival.parent]
            self.hits[arrival.state].extend((number, origin) for origin in origins)
            self.nodes[number] = element
        for state in move.opens:
            self.open[state].append(number)
        if move.attributes and element.attrib:
            self._attributes(element, move, number)
        if move.texts:
            self._texts(element, move, number)
        for child in element:
            if type(child.tag) is str:
                self.visit(child, move, number)
        for state in move.opens:
            self.open[state].pop()

    def _attributes(self, element: etree._Element, move: Move, number: int) -> None:
        for name in map(str, element.attrib):
            for test, arrival in move.attributes:
                if matches_name(test, name):
                    node = AttributeNode(element, name)
                    self._hit(arrival.state, arrival.parent, arrival.by_child, number, node)

    def _texts(self, element: etree._Element, move: Move, number: int) -> None:
        for node in text_nodes(element):
            for arrival in move.texts:
                self._hit(arrival.state, arrival.parent, arrival.by_child, number, node)

    def _hit(self, state: int, parent: int, by_child: bool, owner: int, node: AttributeNode | object) -> None:
        number = self.numbers.of(owner, node)  # type: ignore[arg-type]
        origins = (owner,) if by_child else tuple(self.open[parent])
        self.hits[state].extend((number, origin) for origin in origins)
        self.nodes[number] = node  # type: ignore[assignment]


class _Rows:
    """From structural hits to rows: conditions, then values and chains of the wanted states."""

    def __init__(self, automaton: Automaton, start: Move, walk: _Walk) -> None:
        self.automaton = automaton
        self.nodes = walk.nodes
        self.up: dict[int, dict[int, list[int]]] = {}
        """state -> node -> the nodes of the state before from which it is reached, conditions included"""
        self.down: dict[int, dict[int, list[int]]] = {}
        self.memo = Memo()
        self.entries = 0
        for root in start.reached:
            if all(holds(condition, walk.document, self.memo) for condition in automaton.states[root].conditions):
                self.up[root] = {DOCUMENT: []}
        # States are numbered after their parents, so one pass in order settles all conditions.
        for state in sorted(walk.hits):
            self.up[state] = self._valid(state, walk.hits[state])

    def _valid(self, state: int, hits: list[tuple[int, int]]) -> dict[int, list[int]]:
        above = self.up.get(self.automaton.states[state].parent, {})
        conditions = self.automaton.states[state].conditions
        found: dict[int, list[int]] = {}
        failed: set[int] = set()
        for node, origin in hits:
            if origin not in above or node in failed:
                continue
            if node not in found and not all(holds(c, self.nodes[node], self.memo) for c in conditions):
                failed.add(node)
                continue
            found.setdefault(node, []).append(origin)
        return found

    def rows(self) -> Iterator[Witness]:
        for state, found in sorted(self.up.items()):
            leaf = self.automaton.leaves.get(state)
            if leaf is None:
                continue
            key = self.automaton.states[state].key
            for node in found:
                chain = self._chain(state, node, leaf)
                for function in sorted(leaf.functions, key=lambda name: name or ""):
                    row = self._row(key, node, function, chain)
                    if row is not None:
                        yield row

    def _row(self, key: int, node: int, function: str | None, chain: tuple[ChainEntry, ...]) -> Witness | None:
        if function is None:
            return Witness(key, node, None, None, None, 0, chain)
        value = apply_functions(function, string_value(self.nodes[node]))
        if value is None:
            return None
        return Witness(key, node, function, value, to_number(value), value_hash(value), chain)

    def _chain(self, state: int, node: int, leaf: LeafSpec) -> tuple[ChainEntry, ...]:
        states = self.automaton.states
        # Nodes on the way up from `node`, by state; and those that hang off it.
        way: dict[int, set[int]] = {state: {node}}
        at = state
        while states[at].parent >= 0:
            above = {origin for below in way[at] for origin in self.up[at][below]}
            at = states[at].parent
            way[at] = above
        hung: dict[int, set[int]] = {}
        found: set[ChainEntry] = set()
        # Upper ends are settled before the edges below them, because states are numbered after their parents.
        for upper, lower in sorted(leaf.edges | leaf.hanging):
            uppers = way.get(upper, set()) | hung.get(upper, set())
            pairs = {(high, low) for low in way.get(lower, ()) for high in self._climb(lower, upper, low)}
            if lower not in way or (upper, lower) in leaf.hanging:
                below = {(high, low) for high in uppers for low in self._descend(upper, lower, high)}
                hung.setdefault(lower, set()).update(low for _, low in below)
                pairs |= below
            keys = states[upper].key, states[lower].key
            found.update((*keys, high, low) for high, low in pairs if high in uppers)
        self.entries += len(found)
        if self.entries > MAX_CHAIN_ENTRIES:
            raise DocumentLimitError(
                "XSCL_DOCUMENT_LIMIT",
                f"the queries' patterns have more than {MAX_CHAIN_ENTRIES:,} pairs of bindings in this document",
            )
        return tuple(sorted(found))

    def _climb(self, lower: int, upper: int, node: int) -> set[int]:
        nodes = {node}
        while lower != upper:
            nodes = {origin for low in nodes for origin in self.up[lower][low]}
            lower = self.automaton.states[lower].parent
        return nodes

    def _descend(self, upper: int, lower: int, node: int) -> set[int]:
        path = []
        while lower != upper:
            path.append(lower)
            lower = self.automaton.states[lower].parent
        nodes = {node}
        for state in reversed(path):
            nodes = {low for high in nodes for low in self._below(state).get(high, ())}
        return nodes

    def _below(self, state: int) -> dict[int, list[int]]:
        """``up`` the other way round: node of the state before to nodes of the state."""
        if state not in self.down:
            below = self.down[state] = {}
            for node, origins in self.up.get(state, {}).items():
                for origin in origins:
                    below.setdefault(origin, []).append(node)
        return self.down[state]
