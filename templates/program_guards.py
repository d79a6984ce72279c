"""Guards of a program's groups: their numbers, what they read, and the variables that they guard."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from xscl.templates.columns import Int32s, Int64s
from xscl.templates.guards import Guard
from xscl.templates.template import Group

__all__ = ["OPERATORS", "UNGUARDED", "GuardTable", "ProgramGuards", "guard_set"]

UNGUARDED = 0
"""The number of no guard."""
OPERATORS = ("has", "<", "<=", ">", ">=", "length >", "length >=")
"""Operators of literals by their numbers."""


class GuardTable(NamedTuple):
    """Alternatives and literals of all guards, in columns."""

    starts: Int64s
    """The first alternative of each guard by its number, and the end."""
    literal_starts: Int64s
    """The first literal of each alternative, and the end."""
    variable: Int64s
    place: Int64s
    """The place of the variable among ``facts_read``, or among ``compared``."""
    operator: Int32s
    constant: npt.NDArray[np.float64]


class ProgramGuards:
    """Guards with the groups that have them; groups come and go."""

    def __init__(self) -> None:
        self._numbers: dict[Guard, int] = {}
        self._guards: dict[int, Guard] = {}
        self._uses: Counter[int] = Counter()
        """Blocks of groups by the number of their guard."""
        self._next = UNGUARDED + 1
        self._alike: Counter[tuple[int, tuple[int, ...]]] = Counter()
        """Groups by their instance and the numbers of their guards."""
        self._facts: Counter[tuple[int, int]] = Counter()
        """(variable of a fact, variable of the rows that have it with others), and for how many guards."""
        self._compared: Counter[int] = Counter()
        """Variables whose numbers are compared, likewise."""
        self._variables: dict[int, dict[int, frozenset[int]]] = {}
        """Variables of each block by the number of the instance."""
        self._of_blocks: defaultdict[tuple[int, int], Counter[int]] = defaultdict(Counter)
        """Instance and block to the block's guards, ``UNGUARDED`` among them, and for how many ``_alike``."""
        self._blocks: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
        """Variable of a pattern to the blocks that have it."""

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name not in _MADE}

    def __bool__(self) -> bool:
        return bool(self._numbers)

    @cached_property
    def facts_read(self) -> Int64s:
        """The variables of facts, rising."""
        return np.array(sorted({variable for variable, _ in self._facts}), dtype=np.int64)

    @cached_property
    def compared(self) -> Int64s:
        """The variables whose numbers are compared, rising."""
        return np.array(sorted(self._compared), dtype=np.int64)

    @cached_property
    def facts_rows(self) -> list[int]:
        """The variables of the rows that have all facts of a document."""
        return sorted({together for _, together in self._facts})

    @cached_property
    def only_read(self) -> Int64s:
        """The variables of rows that nothing but guards reads, rising."""
        read = {*self.facts_rows, *self._compared}
        return np.array(sorted(read - self._blocks.keys()), dtype=np.int64)

    @cached_property
    def rows_read(self) -> Int64s:
        """The variables of the rows that have each of ``facts_read`` with all other facts of a document."""
        of = dict(self._facts.keys())
        return np.array([of[variable] for variable in self.facts_read.tolist()], dtype=np.int64)

    def numbers(self, group: Group) -> tuple[int, int]:
        """Return the numbers of the guards of a group's first two blocks."""
        first, second, *_ = (*group.guards, None, None)
        return self._number(first), self._number(second)

    def _all_numbers(self, group: Group) -> tuple[int, ...]:
        return tuple(map(self._number, group.guards))

    def _number(self, guard: Guard | None) -> int:
        return UNGUARDED if guard is None else self._numbers[guard]

    def guards_of(self, variable: int) -> frozenset[int]:
        """Return the guards of blocks that have a variable, ``UNGUARDED`` among them if some block has none."""
        return frozenset().union(*(self._of_blocks[block] for block in self._blocks.get(variable, ()))) or _NO_GUARD

    def add(self, iid: int, group: Group) -> None:
        """Take in the guards of a group of an instance with a number."""
        for guard in filter(None, group.guards):
            number = self._numbers.get(guard)
            if number is None:
                number = self._numbers[guard] = self._next
                self._guards[number] = guard
                self._next += 1
                self._count(guard, 1)
            self._uses[number] += 1
        self._count_variables(iid, group, 1)

    def remove(self, iid: int, group: Group) -> None:
        """Let go of the guards of a group that was taken in."""
        self._count_variables(iid, group, -1)
        for guard in filter(None, group.guards):
            number = self._numbers[guard]
            self._uses[number] -= 1
            if not self._uses[number]:
                del self._uses[number], self._numbers[guard], self._guards[number]
                self._count(guard, -1)

    def _count(self, guard: Guard, by: int) -> None:
        for name in _MADE:
            self.__dict__.pop(name, None)
        for variable in guard.facts_read:
            _change(self._facts, (variable, guard.facts), by)
        for variable in guard.numbers_read:
            _change(self._compared, variable, by)

    def sets(self) -> Iterator[tuple[int, frozenset[int]]]:
        """Iterate over variables with the guards, by number, of all blocks of a group that have the variable.

        Groups in which a block with the variable has no guard are left out.
        """
        found: set[tuple[int, frozenset[int]]] = set()
        for iid, numbers in self._alike:
            of: defaultdict[int, set[int]] = defaultdict(set)
            for block, variables in self._variables[iid].items() if any(numbers) else ():
                for variable in variables:
                    of[variable].add(numbers[block])
            found.update((variable, frozenset(each)) for variable, each in of.items() if UNGUARDED not in each)
        yield from found

    def names(self, numbers: Iterable[int]) -> str:
        """Return the names of some guards, as ``guard_set`` does."""
        return _together(self._guards[number] for number in numbers)

    def _count_variables(self, iid: int, group: Group, by: int) -> None:
        # Groups that differ in windows alone count once.
        numbers = self._all_numbers(group)
        _change(self._alike, (iid, numbers), by)
        if self._alike.get((iid, numbers), 0) != max(by, 0):
            return
        blocks = self._variables.get(iid)
        if blocks is None:
            blocks = self._variables[iid] = _variables(group)
        for block, variables in blocks.items():
            counts = self._of_blocks[iid, block]
            if not counts:
                self._note_block(iid, block, variables)
            _change(counts, numbers[block] if numbers else UNGUARDED, by)
            if not counts:
                self._forget_block(iid, block, variables)

    def _note_block(self, iid: int, block: int, variables: Iterable[int]) -> None:
        self.__dict__.pop("only_read", None)
        for variable in variables:
            self._blocks[variable].add((iid, block))

    def _forget_block(self, iid: int, block: int, variables: Iterable[int]) -> None:
        self.__dict__.pop("only_read", None)
        del self._of_blocks[iid, block]
        self._variables.pop(iid, None)
        for variable in variables:
            self._blocks[variable].discard((iid, block))
            if not self._blocks[variable]:
                del self._blocks[variable]

    @cached_property
    def table(self) -> GuardTable:
        """The guards in columns."""
        return _table(self._guards, self._next, self.facts_read, self.compared)


_MADE = ("facts_read", "compared", "facts_rows", "only_read", "table", "rows_read")
"""Names of columns that are made of the guards when they are asked for."""
_NO_GUARD = frozenset([UNGUARDED])
_Thing = TypeVar("_Thing")


def _change(counter: Counter[_Thing], thing: _Thing, by: int) -> None:
    count = counter.get(thing, 0) + by
    if count:
        counter[thing] = count
    else:
        del counter[thing]


def _variables(group: Group) -> dict[int, frozenset[int]]:
    """Return the variables of each block of a group's instance."""
    nodes = group.instance.nodes
    return {block: frozenset(node.var for node in nodes if node.block == block) for block in {n.block for n in nodes}}


def guard_set(group: Group, variable: int) -> str:
    """Return the names of the guards of a group's blocks that have a variable; ``''`` if one of them has none."""
    guards = {group.guard(node.block) for node in group.instance.nodes if node.var == variable}
    return "" if None in guards else _together(guard for guard in guards if guard is not None)


def _together(guards: Iterable[Guard]) -> str:
    return " ".join(sorted(guard.name for guard in guards))


def _table(guards: dict[int, Guard], end: int, facts: Int64s, compared: Int64s) -> GuardTable:
    starts = np.zeros(end + 1, dtype=np.int64)
    counts = np.zeros(end, dtype=np.int64)
    sizes: list[int] = []
    literals: list[tuple[int, int, float]] = []
    for number in sorted(guards):
        alternatives = guards[number].alternatives
        counts[number] = len(alternatives)
        for alternative in alternatives:
            sizes.append(len(alternative))
            literals += [(each.variable, OPERATORS.index(each.op), each.constant) for each in alternative]
    starts[1:] = np.cumsum(counts)
    variables, operators, constant = zip(*literals, strict=True) if literals else ((), (), ())
    variable, operator = np.array(variables, dtype=np.int64), np.array(operators, dtype=np.int32)
    return GuardTable(
        starts,
        np.concatenate([[0], np.cumsum(np.array(sizes, dtype=np.int64))]),
        variable,
        np.where(operator == 0, np.searchsorted(facts, variable), np.searchsorted(compared, variable)),
        operator,
        np.array(constant, dtype=np.float64),
    )
