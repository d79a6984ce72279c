"""States with conditions on their way, followed over many documents at once.

At nodes where the path automaton leads to guarded states, all sets of conditions on nodes of a kind are answered
together (``guard_sets``).  From the states that are reached, one step at a time leads on: all states with a step of one
axis and node test take it together.  So the arrays grow with what is reached, and Python sees steps, not states.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import each_once, order_of
from xscl.xpath.automaton.row_template import RowTemplate, template_columns
from xscl.xpath.automaton.states import DOCUMENT_NODE, Branch, State
from xscl.xpath.automaton.trie import Trie
from xscl.xpath.columns.steps import ChunkSteps, Kind
from xscl.xpath.moves.branch_sets import BranchSets
from xscl.xpath.moves.guard_sets import GuardSets
from xscl.xpath.pattern import Axis, NodeTest
from xscl.xpath.runs import Int64s, distinct, gather

__all__ = ["GuardedStates", "Reached", "Seeds"]

_NONE = -1


class Reached(NamedTuple):
    """Nodes of one kind at which guarded states are reached."""

    kind: Kind
    rows: Int64s
    states: Int64s


class Seeds(NamedTuple):
    """Nodes of one kind with branches that lead from plain states to guarded ones."""

    kind: Kind
    rows: Int64s
    branches: list[Branch]
    begins: Int64s
    """Begin of each branch's nodes among the rows; those of several may be the same."""
    counts: Int64s


class GuardedStates:
    """All states with conditions on their way, and what leads to them, in arrays; of one version of a trie."""

    def __init__(self, trie: Trie, guards: GuardSets) -> None:
        """``guards`` are the sets of conditions of some version of the trie; they become those of this one."""
        self.changes = trie.changes
        self._tests: dict[int, NodeTest] = {number: test for test, number in trie.tests.numbers.items()}
        self._guards = guards
        guards.keep(trie.guards.sets(), self._tests)
        self._states: dict[State, int] = {}
        self._branches: dict[Branch, int] = {}
        free: list[int] = []
        asked: list[tuple[int, int, int]] = []
        for branch, test in _branches(trie):
            number = self._branches[branch] = len(self._branches)
            known = branch.free if branch.free is not None and not branch.free.plain else None
            free.append(_NONE if known is None else self._number(known))
            asked += [
                (number, guards.number(test, guard), self._number(state)) for guard, state in branch.guarded.items()
            ]
        self._leads = self._leads_of_states()
        self._free = np.array(free, dtype=np.int64)
        self._sets = BranchSets(asked, len(self._branches))
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

    def _leads_of_states(self) -> _Leads:
        steps: dict[tuple[Axis, int], int] = {}
        begins, step_of, branch_of = [0], [], []
        for state in self._states:
            axes: tuple[tuple[Axis, dict[int, Branch]], ...] = ("child", state.child), ("descendant", state.descendant)
            for axis, branches in axes:
                for test, branch in branches.items():
                    step_of.append(steps.setdefault((axis, test), len(steps)))
                    branch_of.append(self._branches[branch])
            begins.append(len(step_of))
        return _Leads(list(steps), *(np.array(column, dtype=np.int64) for column in (begins, step_of, branch_of)))

    def reached(self, steps: ChunkSteps, seeds: Sequence[Seeds]) -> Iterator[Reached]:
        """Yield the nodes at which guarded states are reached, from nodes with branches of plain states to these."""
        ways = [self._sown(each) for each in seeds]
        # A branch is so many steps from the first conditions, so no pass has the branches of another.
        while ways:
            found = [self._entered(steps, way) for way in _together(ways)]
            yield from found
            ways = [way for each in found if each.kind in ("document", "element") for way in self._led_on(steps, each)]

    def _sown(self, seeds: Seeds) -> _Way:
        branches = np.array([self._branches[branch] for branch in seeds.branches], dtype=np.int64)
        at, which = gather(seeds.begins, seeds.counts)
        return _Way(seeds.kind, seeds.rows[at], branches[which])

    def _entered(self, steps: ChunkSteps, way: _Way) -> Reached:
        """Return the states that branches lead to: those without conditions, and those whose conditions hold."""
        free = self._free[way.branches]
        kept = free != _NONE
        rows, states = [way.rows[kept]], [free[kept]]
        asking = self._sets.asking(way.branches)
        if len(asking):
            branches, (nodes, which) = way.branches[asking], distinct(way.rows[asking])
            held = self._guards.holding(steps, way.kind, nodes)
            for of, led in self._sets.led(branches, which, held, len(nodes)):
                rows.append(way.rows[asking[of]])
                states.append(led)
        # A state belongs to one branch, so no pair comes twice.
        return Reached(way.kind, np.concatenate(rows), np.concatenate(states))

    def _led_on(self, steps: ChunkSteps, found: Reached) -> Iterator[_Way]:
        leads = self._leads
        lead, of_found = gather(leads.begins[found.states], np.diff(leads.begins)[found.states])
        order = order_of(leads.steps[lead], len(leads.distinct))
        lead, of_found = lead[order], of_found[order]
        asked, first = np.unique(leads.steps[lead], return_index=True)
        bounds = [*first.tolist(), len(lead)]
        for number, low, high in zip(asked.tolist(), bounds, bounds[1:], strict=False):
            axis, test = leads.distinct[number]
            leading, branches = of_found[low:high], leads.branches[lead[low:high]]
            rows_once, which = distinct(found.rows[leading])
            node_test = self._tests[test]
            place, rows = steps.step(found.kind, rows_once, axis, node_test)
            begin = np.searchsorted(place, np.arange(len(rows_once) + 1))
            at, pair = gather(begin[which], np.diff(begin)[which])
            rows, of = rows[at], branches[pair]
            if axis == "descendant":  # a child has one parent, and a branch one state
                both = each_once(rows * len(self._branches) + of)
                rows, of = both // len(self._branches), both % len(self._branches)
            if len(rows):
                yield _Way(node_test.kind, rows, of)


class _Way(NamedTuple):
    """Nodes of a kind, each with a branch that leads to it."""

    kind: Kind
    rows: Int64s
    branches: Int64s
    """No pair of a node and a branch comes twice."""


class _Leads(NamedTuple):
    """Steps that lead on from states, state by state."""

    distinct: list[tuple[Axis, int]]
    """Axis and test of each step, by the step's number."""
    begins: Int64s
    """Begin of each state's steps, and the end."""
    steps: Int64s
    branches: Int64s


def _together(ways: Sequence[_Way]) -> list[_Way]:
    """Make ways of one kind one."""
    parts: dict[Kind, list[_Way]] = {}
    for way in ways:
        parts.setdefault(way.kind, []).append(way)
    return [
        _Way(kind, np.concatenate([way.rows for way in some]), np.concatenate([way.branches for way in some]))
        for kind, some in parts.items()
    ]


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
