"""States with conditions on their way, followed over many documents at once.

At nodes where the path automaton leads to guarded states, all sets of conditions of a node test are answered together
(``node_conditions``).  From the states that are reached, one step at a time leads on: all states with a step of one
axis and node test take it together.  So the arrays grow with what is reached, and Python sees steps, not states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import each_once
from xscl.xpath.chunk_steps import ChunkSteps, Kind
from xscl.xpath.key_numbers import Keys
from xscl.xpath.node_conditions import NodeConditions
from xscl.xpath.pattern import Axis, NodeTest
from xscl.xpath.row_template import RowTemplate, template_columns
from xscl.xpath.runs import Int64s, distinct, gather
from xscl.xpath.states import DOCUMENT_NODE, Branch, State
from xscl.xpath.trie import Trie

__all__ = ["GuardedStates", "Reached"]

_NONE = -1


class Reached(NamedTuple):
    """Nodes of one kind at which guarded states are reached."""

    kind: Kind
    rows: Int64s
    states: Int64s


class GuardedStates:
    """All states with conditions on their way, and what leads to them, in arrays; of one version of a trie."""

    def __init__(self, trie: Trie, guards: dict[int, NodeConditions]) -> None:
        """``guards`` are the sets of conditions by test, of some version of the trie; they become those of this one."""
        self.changes = trie.changes
        self._tests: dict[int, NodeTest] = {number: test for test, number in trie.tests.numbers.items()}
        self._guards = guards
        sets = trie.guards.sets()
        for test in guards.keys() - sets.keys():
            del guards[test]
        for test, asked in sets.items():
            guards.setdefault(test, NodeConditions()).keep(asked)
        self._states: dict[State, int] = {}
        self._branches: dict[Branch, int] = {}
        self._test_of: list[int] = []
        free: list[int] = []
        keys: list[tuple[int, int, int]] = []
        leads: dict[tuple[Axis, int], list[tuple[int, int]]] = {}
        for branch, test in _branches(trie):
            number = self._branches[branch] = len(self._branches)
            self._test_of.append(test)
            known = branch.free if branch.free is not None and not branch.free.plain else None
            free.append(_NONE if known is None else self._number(known))
            keys += [(number, guard, self._number(state)) for guard, state in branch.guarded.items()]
        for state, number in self._states.items():
            axes: tuple[tuple[Axis, dict[int, Branch]], ...] = ("child", state.child), ("descendant", state.descendant)
            for axis, branches in axes:
                for test, branch in branches.items():
                    leads.setdefault((axis, test), []).append((number, self._branches[branch]))
        self._free = np.array(free, dtype=np.int64)
        table = np.array(sorted(keys), dtype=np.int64).reshape(-1, 3)
        self._keys: Keys = _keys(table[:, 0], table[:, 1])
        self._led = table[:, 2]
        self._leads = {step: self._lead(pairs) for step, pairs in leads.items()}
        self.templates: list[RowTemplate] = []
        self.template = np.full(len(self._states), _NONE)
        """Number of each state's template."""
        self.beyond = np.zeros(len(self._states), dtype=np.bool_)
        """States whose nodes are noted for chains."""
        for state, number in self._states.items():
            template = state.template()
            self.beyond[number] = bool(state.climbed) or (state.deferred and template is None)
            if template is not None:
                self.template[number] = len(self.templates)
                self.templates.append(template)

        self.columns = template_columns(self.templates)
        bare = [(number, int(template.variables[0])) for number, template in enumerate(self.templates) if template.bare]
        self.bare = np.array(bare, dtype=np.int64).reshape(-1, 2)
        """Templates whose rows are bare, and their variables."""

    def _number(self, state: State) -> int:
        return self._states.setdefault(state, len(self._states))

    def _lead(self, pairs: Sequence[tuple[int, int]]) -> Int64s:
        """Return the branch of each state that leads on by one step."""
        found = np.full(len(self._states), _NONE)
        for state, branch in pairs:
            found[state] = branch
        return found

    def reached(self, steps: ChunkSteps, seeds: Sequence[tuple[Kind, Int64s, Branch]]) -> Iterator[Reached]:
        """Yield the nodes at which guarded states are reached.

        ``seeds`` are nodes of a kind, each with a branch that leads from a plain state to guarded ones there.
        """
        together: dict[tuple[Kind, int], list[tuple[Int64s, Int64s]]] = {}
        for kind, rows, branch in seeds:
            number = self._branches[branch]
            pair = rows, np.full(len(rows), number)
            together.setdefault((kind, self._test_of[number]), []).append(pair)
        waiting = [
            _Way(kind, test, np.concatenate([rows for rows, _ in pairs]), np.concatenate([of for _, of in pairs]))
            for (kind, test), pairs in together.items()
        ]
        while waiting:
            way = waiting.pop()
            found = self._entered(steps, way)
            yield found
            if way.kind in ("document", "element"):
                waiting += self._led_on(steps, found)

    def _entered(self, steps: ChunkSteps, way: _Way) -> Reached:
        """Return the states that branches lead to at nodes that pass their test: those without conditions, and those
        whose conditions hold.
        """
        free = self._free[way.branches]
        kept = free != _NONE
        rows, states = [way.rows[kept]], [free[kept]]
        if way.test in self._guards:
            rows_once, which = distinct(way.rows)
            place, held = self._guards[way.test].holding(steps, way.kind, rows_once)
            begin = np.searchsorted(place, np.arange(len(rows_once) + 1))
            at, pair = gather(begin[which], np.diff(begin)[which])
            keys = _keys(way.branches[pair], held[at])
            found = np.minimum(np.searchsorted(self._keys, keys), max(len(self._keys) - 1, 0))
            known = np.flatnonzero(self._keys[found] == keys) if len(self._keys) else found
            rows.append(way.rows[pair[known]])
            states.append(self._led[found[known]])
        # A state belongs to one branch, so no pair comes twice.
        return Reached(way.kind, np.concatenate(rows), np.concatenate(states))

    def _led_on(self, steps: ChunkSteps, found: Reached) -> Iterator[_Way]:
        for (axis, test), lead in self._leads.items():
            branches = lead[found.states]
            leading = np.flatnonzero(branches != _NONE)
            if not len(leading):
                continue
            rows_once, which = distinct(found.rows[leading])
            node_test = self._tests[test]
            place, rows = steps.step(found.kind, rows_once, axis, node_test)
            begin = np.searchsorted(place, np.arange(len(rows_once) + 1))
            at, pair = gather(begin[which], np.diff(begin)[which])
            rows, of = rows[at], branches[leading[pair]]
            if axis == "descendant":  # a child has one parent, and a branch one state
                both = each_once(_keys(rows, of))
                rows, of = (both >> np.uint64(32)).astype(np.int64), (both & _LOW).astype(np.int64)
            if len(rows):
                yield _Way(node_test.kind, test, rows, of)


class _Way(NamedTuple):
    """Nodes of a kind that pass a test, each with a branch that leads to it."""

    kind: Kind
    test: int
    rows: Int64s
    branches: Int64s
    """No pair of a node and a branch comes twice."""


_LOW = np.uint64((1 << 32) - 1)


def _keys(high: Int64s, low: Int64s) -> Keys:
    return (high.astype(np.uint64) << np.uint64(32)) | low.astype(np.uint64)


def _branches(trie: Trie) -> Iterator[tuple[Branch, int]]:
    """Yield the branches that lead to guarded states, with the numbers of their tests."""
    waiting: list[State] = []
    for root in trie.roots.values():
        if root.guarded:
            yield root, DOCUMENT_NODE
        waiting += _members(root)
    while waiting:
        state = waiting.pop()
        for branches in (state.child, state.descendant):
            for test, branch in branches.items():
                if branch.guarded or not state.plain:
                    yield branch, test
                waiting += _members(branch)


def _members(branch: Branch) -> list[State]:
    return [*([branch.free] if branch.free is not None else []), *branch.guarded.values()]
