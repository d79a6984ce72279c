"""The conditions that nodes are asked for, apart from the states that ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from xscl.xpath.conditions.condition import Memo, holds
from xscl.xpath.conditions.predicates import PredicateIndex
from xscl.xpath.conditions.shared import shared
from xscl.xpath.nodes import Node
from xscl.xpath.pattern import Condition

__all__ = ["FREE", "Guards"]

FREE = 0
"""The number of no conditions."""


class Guards:
    """The sets of conditions that nodes of one test are asked for, each with a number, in one predicate index a test.

    So each node is looked up once, whatever the number of states that ask for conditions on it.  The indexes are for
    walks: sets wait to be filed until a document is walked.
    """

    def __init__(self) -> None:
        self._numbers: dict[tuple[Condition, ...], int] = {}
        self._conditions: dict[int, tuple[Condition, ...]] = {}
        self._uses: Counter[tuple[int, int]] = Counter()
        """States by test and number."""
        self._tests: Counter[int] = Counter()
        """Number of tests under which each set is asked for."""
        self._indexes: dict[int, PredicateIndex[int]] = {}
        self._waiting: dict[int, dict[int, None]] = {}
        """Sets of each test that are still to be filed."""
        self._next = FREE + 1

    def number(self, conditions: tuple[Condition, ...]) -> int | None:
        """Return the number of a set of conditions; None if no state has it."""
        return self._numbers.get(conditions) if conditions else FREE

    def add(self, test: int, conditions: tuple[Condition, ...]) -> int:
        """Note one more state that has these conditions on a node of a test; their number."""
        if not conditions:
            return FREE
        guard = self._numbers.get(conditions)
        if guard is None:
            conditions = tuple(map(shared, conditions))
            guard = self._numbers[conditions] = self._next
            self._conditions[guard] = conditions
            self._next += 1
        self._uses[test, guard] += 1
        if self._uses[test, guard] == 1:
            self._tests[guard] += 1
            self._waiting.setdefault(test, {})[guard] = None
        return guard

    def remove(self, test: int, guard: int) -> None:
        """Note that there is one such state less."""
        if guard == FREE:
            return
        self._uses[test, guard] -= 1
        if not self._uses[test, guard]:
            del self._uses[test, guard]
            self._take_out(test, guard)
            self._tests[guard] -= 1
            if not self._tests[guard]:
                del self._tests[guard]
                del self._numbers[self._conditions.pop(guard)]

    def _take_out(self, test: int, guard: int) -> None:
        waiting = self._waiting.get(test, {})
        if guard in waiting:
            del waiting[guard]
            return
        self._indexes[test].remove(guard)
        if not self._indexes[test]:
            del self._indexes[test]

    def _filed(self, test: int) -> PredicateIndex[int] | None:
        """Return the index of a test with all its sets; None: it has none."""
        waiting = self._waiting.pop(test, None)
        if waiting:
            index = self._indexes.setdefault(test, PredicateIndex())
            for guard in waiting:
                index.add(self._conditions[guard], guard)
        return self._indexes.get(test)

    def __len__(self) -> int:
        return len(self._conditions)

    def sets(self) -> dict[int, dict[int, tuple[Condition, ...]]]:
        """Return the sets of conditions by test and number."""
        found: dict[int, dict[int, tuple[Condition, ...]]] = {}
        for test, guard in self._uses:
            found.setdefault(test, {})[guard] = self._conditions[guard]
        return found

    def holding(self, wanted: Collection[int] | None, tests: Iterable[int], node: Node, memo: Memo) -> set[int]:
        """Return the numbers of the sets of conditions that a node satisfies, among ``wanted`` or all of its tests."""
        if wanted is not None:
            held_of = ((guard, self._conditions[guard]) for guard in wanted)
            return {guard for guard, conditions in held_of if all(holds(each, node, memo) for each in conditions)}
        held: set[int] = set()
        for test in tests:
            index = self._filed(test)
            if index:
                held |= index.satisfied(node, memo)
        return held
