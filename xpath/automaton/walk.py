"""The one pass over a document.

Elements are looked at in document order; the path automaton says at each what is reached there.  Most of it is noted
as a *visit* of a row template, from which ``xscl.xpath.witness`` makes rows for all documents of a batch together.
States with conditions are followed here, and nodes that chains need are noted.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from lxml import etree

from xscl.base.errors import DocumentLimitError
from xscl.base.mixed import of_column
from xscl.xpath.automaton.automaton import Automaton, Move
from xscl.xpath.automaton.chains import chain, check_characters, check_entries, too_many_entries
from xscl.xpath.automaton.names import TEXT, attribute
from xscl.xpath.automaton.row_template import ChainEntry, RowTemplate
from xscl.xpath.automaton.states import DOCUMENT_NODE, Branch, State
from xscl.xpath.conditions.condition import Memo
from xscl.xpath.nodes import (
    DOCUMENT,
    AttributeNode,
    DocumentNode,
    Node,
    NodeNumbers,
    TextNode,
    column_name,
    string_value,
    text_nodes,
)
from xscl.xpath.pattern import Axis

__all__ = ["DeferredRow", "Visit", "Walk"]

MAX_WAYS = 10_000_000
"""Greatest number of ways of one spec in one document: conditions under several descendant steps multiply."""

_FEW = 4
"""Guarded states, and branches to them, whose conditions are sooner checked one by one than looked up."""
_WIDE = 64
"""Next steps of a state that are too many to be listed whenever it is reached."""

_DESCENDANTS = etree.XPath("count(descendant::*)")


Visit = tuple[RowTemplate, str | None, tuple[int, ...]]
"""A node at which a template's rows are due: its string value, where a row asks for it; and its number, behind those of
the open nodes if the template's chains speak of them."""


class DeferredRow(NamedTuple):
    """A leaf's node whose rows, one for each function, are not of a template."""

    variable: int
    functions: Collection[str | None]
    node: int
    text: str | None
    """The string value, where a row asks for it."""
    chain: list[ChainEntry]


class Ahead:
    """Guarded states that lead on from open nodes by one axis, by the node tests of their next steps."""

    __slots__ = ("_branches", "_wide", "attributes", "axis", "count", "texts")

    def __init__(self, axis: Axis) -> None:
        self.axis: Axis = axis
        self._branches: dict[int, list[tuple[Branch, int]]] = {}
        self._wide: list[tuple[dict[int, Branch], int]] = []
        """Branches of states with more than ``_WIDE`` next steps, which are looked up when they are needed."""
        self.count = 0
        # States among them that have steps to attributes, and to texts.
        self.attributes = 0
        self.texts = 0

    def open(self, state: State, node: int) -> None:
        """Note that a state was reached at a node that is open now."""
        branches = state.branches(self.axis)
        self.count += 1
        self.attributes += state.attributes
        self.texts += state.texts
        if len(branches) > _WIDE:
            self._wide.append((branches, node))
        else:
            for test, branch in branches.items():
                self._branches.setdefault(test, []).append((branch, node))

    def close(self, state: State) -> None:
        """Forget a state; the last one that was opened comes first."""
        branches = state.branches(self.axis)
        self.count -= 1
        self.attributes -= state.attributes
        self.texts -= state.texts
        if len(branches) > _WIDE:
            self._wide.pop()
        else:
            for test in branches:
                self._branches[test].pop()

    def ways(self, tests: tuple[int, ...]) -> list[tuple[Branch, int]]:
        """Return the branches that lead to nodes which pass the tests, each with the node it comes from."""
        found: list[tuple[Branch, int]] = []
        for test in tests:
            found += self._branches.get(test, ())
            found += [(branches[test], node) for branches, node in self._wide if test in branches]
        return found


class Walk:
    """One document and the automaton; the next document may follow in the same object."""

    def __init__(self, automaton: Automaton) -> None:
        self.automaton = automaton
        self.visits: list[Visit] = []
        self.way: list[int] = []
        """Open nodes at which something is reached."""
        self.opened: list[int] = []
        """All open nodes."""
        self.open = Ahead("descendant")
        """Guarded states that wait for descendants of open nodes."""
        self.up: dict[State, dict[int, list[int]]] = {}
        """Noted state -> node -> the nodes of the state before from which it is reached."""
        self.nodes: dict[int, Node] = {}
        """Noted nodes."""
        self.number = DOCUMENT
        """Number of the last element."""

    def document(self, start: Move, root: etree._Element) -> None:
        """Look at a document; what is found is in ``visits`` and ``deferred_rows``, until the next one."""
        self.visits = []
        self.way.clear()
        self.opened.clear()
        self.open = Ahead("descendant")
        if self.nodes:
            self.up, self.nodes = {}, {}
        self.root = root
        self.numbers: NodeNumbers | None = None
        self.memo = Memo()
        self._down: dict[State, dict[int, list[int]]] = {}
        self.number = DOCUMENT
        self.skipped = 0
        self.bindings = 0
        """Number of bindings of states with conditions."""
        self.ways = 0
        """Number of ways from noted nodes to nodes above."""
        self.characters = 0
        """Number of characters in values of elements that have others inside, which repeat them."""
        states: tuple[State, ...] = ()
        if start.rows is not None or start.busy:
            node = DocumentNode(root)
            self._visit(start, node, DOCUMENT)
            self._note_reached(start, node, DOCUMENT)
            states = self._guarded(start, node, DOCUMENT, None, (DOCUMENT_NODE,))
        self._inside((root,), start, states, DOCUMENT)
        self.automaton.visits += self.number + 1 - self.skipped

    def _inside(self, children: Iterable[etree._Element], move: Move, guarded: tuple[State, ...], number: int) -> None:
        """Walk the children of an open node; the states ``guarded`` lead on from it."""
        way = self.way
        if move.on_way:
            way.append(number)
        self.opened.append(number)
        ahead: Ahead | None = None
        if guarded:
            ahead = Ahead("child")
            for state in guarded:
                if state.child:
                    ahead.open(state, number)
                if state.descendant:
                    self.open.open(state, number)
        followed = bool(ahead or self.open.count)
        if followed or move.attributes or move.texts:
            self._attributes_and_texts(children, move, ahead, number)
        known = move.next
        visits = self.visits
        for child in children:
            tag: str = child.tag  # type: ignore[assignment]  # that of a comment is a function
            below = known.get(tag)
            if below is None:
                below = self.automaton.enter(move, tag)
                if below is None:
                    continue
            here = self.number = self.number + 1
            rows = below.rows
            if rows is not None:
                if not rows.asked:
                    text = None
                elif len(child):
                    text = string_value(child)
                    self.characters += len(text)
                    check_characters(self.characters)
                else:
                    text = child.text or ""
                visits.append((rows, text, (*way, here) if rows.way else (here,)))
            if followed or below.busy:
                self._busy(child, below, ahead, here)
            elif len(child):
                if below.final:
                    self._skip(child)
                else:
                    self._inside(child, below, (), here)
        for state in reversed(guarded):
            if state.descendant:
                self.open.close(state)
        self.opened.pop()
        if move.on_way:
            way.pop()

    def _busy(self, element: etree._Element, move: Move, above: Ahead | None, number: int) -> None:
        """Look at an element that asks for more than rows of a template."""
        self._note_reached(move, element, number)
        states: tuple[State, ...] = ()
        if move.guarded or above or self.open.count:
            tests = self.automaton.trie.tests.passed(str(element.tag))
            states = self._guarded(move, element, number, above, tests)
        if states or self.open.count or not move.final:
            self._inside(element, move, states, number)
        else:
            self._skip(element)

    def _skip(self, element: etree._Element) -> None:
        """Count what is below an element where nothing can match."""
        count = int(_DESCENDANTS(element)) if len(element) else 0
        self.number += count
        self.skipped += count

    def _attributes_and_texts(
        self, element: Iterable[etree._Element], move: Move, ahead: Ahead | None, number: int
    ) -> None:
        if not isinstance(element, etree._Element):
            return  # the document node
        if element.attrib and (move.attributes or self.open.attributes or (ahead and ahead.attributes)):
            for name in map(str, element.attrib):
                self._beside(AttributeNode(element, name), attribute(name), move, ahead, number)
        if move.texts or self.open.texts or (ahead and ahead.texts):
            for text in text_nodes(element):
                self._beside(text, TEXT, move, ahead, number)

    def _beside(self, node: AttributeNode | TextNode, name: str, move: Move, ahead: Ahead | None, owner: int) -> None:
        """Look at an attribute or a text of an open element."""
        below = move.next.get(name) or self.automaton.enter(move, name)
        assert below is not None
        if below.on_way or ahead or self.open.count:
            self.numbers = self.numbers or NodeNumbers(self.root)
            number = self.numbers.of(owner, node)
            self._visit(below, node, number)
            self._note_reached(below, node, number)
            self._guarded(below, node, number, ahead, self.automaton.trie.tests.passed(name))

    def _visit(self, move: Move, node: Node, number: int) -> None:
        rows = move.rows
        if rows is not None:
            text = string_value(node) if rows.asked else None
            self.visits.append((rows, text, (*self.way, number) if rows.way else (number,)))

    def _note_reached(self, move: Move, node: Node, number: int) -> None:
        """Note a node for the plain states that ask for it."""
        if move.refused:
            raise too_many_entries()
        for state in move.climbed:
            origins = move.origins(state, move.place) if state.parent is not None else ()
            self._note(state, node, number, [self.way[place] for place in origins])

    def _note(self, state: State, node: Node, number: int, origins: list[int]) -> None:
        self.up.setdefault(state, {})[number] = origins
        self.nodes[number] = node
        self.ways += len(origins)
        if self.ways > MAX_WAYS:
            raise DocumentLimitError(
                "XSCL_DOCUMENT_LIMIT",
                f"the pattern leads over more than {MAX_WAYS:,} ways between nodes of this document",
            )

    # -- guarded states ----------------------------------------------------------------------------------------

    def _guarded(
        self,
        move: Move,
        node: Node,
        number: int,
        above: Ahead | None,
        tests: tuple[int, ...],
    ) -> tuple[State, ...]:
        """Return the states that are reached at a node and have conditions on their way; those of them that lead on.

        ``above`` are such states of the node's parent.
        """
        ways = self.open.ways(tests)
        if above:
            ways += above.ways(tests)
        held: set[int] = set()
        branches = [*move.guarded, *(branch for branch, _ in ways if branch.guarded)] if ways else move.guarded
        if branches:
            held = self.automaton.trie.guards.holding(_few_guards(branches), tests, node, self.memo)
        found: dict[State, list[int]] = {}
        if held:
            for branch in move.guarded:
                if branch.guarded.keys().isdisjoint(held):
                    continue
                for state in branch.holding(held):
                    origins = move.origins(state, move.place) if state.climbed and state.parent is not None else ()
                    found[state] = [self.way[place] for place in origins]
        for branch, origin in ways:
            if branch.free is not None:
                found.setdefault(branch.free, []).append(origin)
            if held:
                for state in branch.holding(held):
                    found.setdefault(state, []).append(origin)
        text: str | None = None
        for state, nodes in found.items():
            if state.climbed:
                self._note(state, node, number, nodes)
            template = state.template()
            if template is not None:
                if template.asked and text is None:
                    text = self.memo.text(node)
                above_it = self.opened[-template.way :] if template.way else ()
                self.visits.append((template, text if template.asked else None, (*above_it, number)))
                self.bindings += 1
        check_entries(self.bindings)
        return tuple(state for state in found if state.child or state.descendant)

    # -- rows of deferred leaves ---------------------------------------------------------------------------------

    def deferred_rows(self) -> Iterator[DeferredRow]:
        """Yield the leaves whose rows come from no template, once the document has been walked."""
        count = characters = 0
        for state, number, node, entries in self._deferred():
            assert state.leaf is not None
            count += len(entries)
            check_entries(count)
            valued = sum(function is not None for function in state.leaf.functions)
            text = self.memo.text(node) if valued else None
            characters += valued * len(text or "")
            check_characters(characters)
            column = column_name(node)
            functions = [name if name is None else of_column(name, column) for name in state.leaf.functions]
            yield DeferredRow(state.key, functions, number, text, entries)

    def _deferred(self) -> Iterator[tuple[State, int, Node, list[ChainEntry]]]:
        for state, found in self.up.items():
            if state.deferred and state.template() is None:
                for number in found:
                    entries = chain(state, number, origins=self._origins, below=self._below, reached=self.up.keys())
                    yield state, number, self.nodes[number], entries

    def _origins(self, state: State, node: int) -> list[int]:
        return self.up[state].get(node, []) if state in self.up else []

    def _below(self, state: State, node: int) -> list[int]:
        """Return the nodes whose ``_origins`` have a node."""
        if state not in self._down:
            below = self._down[state] = {}
            for low, origins in self.up.get(state, {}).items():
                for origin in origins:
                    below.setdefault(origin, []).append(low)
        return self._down[state].get(node, [])


def _few_guards(branches: Sequence[Branch]) -> set[int] | None:
    """Return the conditions of a few guarded states, to be checked one by one; None if the index is the sooner way."""
    if len(branches) > _FEW:
        return None
    found: set[int] = set()
    for branch in branches:
        if len(branch.guarded) > _FEW:
            return None
        found.update(branch.guarded)
    return found
