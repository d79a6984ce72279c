"""The sets of conditions that guarded states ask for, in columns: all tests of one kind of nodes in one index.

A test for one name is a condition on the name of the node, as any other is.  So a batch costs its columns and readings
once, whatever the number of tests that ask for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from xscl.xpath.automaton.states import DOCUMENT_NODE
from xscl.xpath.columns.steps import ChunkSteps, Kind
from xscl.xpath.conditions.condition import clark_name
from xscl.xpath.moves.conditions import Asked, NodeConditions
from xscl.xpath.pattern import Condition, NodeTest
from xscl.xpath.runs import Int64s

__all__ = ["GuardSets"]

_WORN, _FEW = 4, 1_000
"""Numbers for each set, beside some, from which on all sets are numbered again."""


class GuardSets:
    """Sets of conditions by node test and guard, each with a number of its own."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, int], int] = {}
        self._next = 0
        self._conditions: defaultdict[Kind, NodeConditions] = defaultdict(NodeConditions)

    def keep(self, sets: Mapping[int, Mapping[int, tuple[Condition, ...]]], tests: Mapping[int, NodeTest]) -> None:
        """Ask for these sets, by test and guard, and no others; a guard has always the same conditions."""
        if self._next > _WORN * sum(map(len, sets.values())) + _FEW:
            # Numbers are places in arrays, which would grow with all sets that there ever were.
            self._numbers, self._next = {}, 0
            self._conditions.clear()
        asked: dict[Kind, dict[int, Asked]] = {kind: {} for kind in self._conditions}
        numbers: dict[tuple[int, int], int] = {}
        for test, guards in sets.items():
            kind: Kind = "document" if test == DOCUMENT_NODE else tests[test].kind
            name = None if test == DOCUMENT_NODE else clark_name(tests[test])
            of_kind = asked.setdefault(kind, {})
            for guard, conditions in guards.items():
                number = self._numbers.get((test, guard))
                if number is None:
                    number, self._next = self._next, self._next + 1
                numbers[test, guard] = number
                of_kind[number] = Asked(conditions, name)
        self._numbers = numbers
        for kind, some in asked.items():
            self._conditions[kind].keep(some)

    def number(self, test: int, guard: int) -> int:
        """Return the number of a set that is asked for."""
        return self._numbers[test, guard]

    def holding(self, steps: ChunkSteps, kind: Kind, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return pairs (place among the nodes, number of a set), by place: all whose test the node passes and whose
        conditions hold at it, and others whose conditions hold.

        ``rows`` are distinct nodes of a kind.
        """
        return self._conditions[kind].holding(steps, kind, rows)
