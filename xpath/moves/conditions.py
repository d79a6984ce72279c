"""Conditions of nodes in columns: which of many sets of conditions hold at each of many nodes.

A condition becomes a formula over columns of its node (``columns.nodes``), and all sets are one index of spans
(``spans.index``), as those of rows are.  A path without conditions is a column of all texts that it reaches.  Where a
step has conditions of its own, sets of these are asked for at the nodes that it reaches, and so on down.

The law, tested against lxml: the answers are those of ``xscl.xpath.conditions.condition.holds`` for each node.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import order_of
from xscl.base.values import to_number
from xscl.xpath.columns.conditions import MAX_ALTERNATIVES, Alternative, TooManyAlternatives, alternatives
from xscl.xpath.columns.formulas import NEVER, All, Any_, Formula, Not, Single, There, Told
from xscl.xpath.columns.nodes import (
    Below,
    Combined,
    Counted,
    First,
    Name,
    NodeColumn,
    NodeColumns,
    Own,
    OwnSets,
    Reached,
    RowColumn,
)
from xscl.xpath.columns.steps import ChunkSteps, Kind
from xscl.xpath.conditions.condition import Memo, holds
from xscl.xpath.nodes import TextNode
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
    OfColumns,
    Step,
    Truth,
    exists_chain,
    own_paths,
)
from xscl.xpath.runs import Int64s
from xscl.xpath.spans.index import SpanIndex

__all__ = ["Asked", "NodeConditions", "TooManyPairs"]

_MOST_PAIRS = 1 << 23
"""Pairs of a node and a set that are told of nodes below others together."""

Steps = tuple[Step, ...]
Conditions = tuple[Condition, ...]


class TooManyPairs(Exception):
    """More sets hold than are kept in memory together."""


class Asked(NamedTuple):
    """A set of conditions, which holds where all of them do."""

    conditions: Conditions
    name: str | None = None
    """Name in Clark's form that nodes must have, elements or attributes; None: any."""


class NodeConditions:
    """Sets of conditions by number."""

    def __init__(self, sets: Mapping[int, Asked] | None = None) -> None:
        self._sets: dict[int, Asked] = {}
        self._start()
        self.keep(sets or {})

    def _start(self) -> None:
        self._index = SpanIndex()
        self._columns: dict[NodeColumn, int] = {Own(): 0}
        self._told: dict[NodeColumn, NodeConditions | _CombinedConditions] = {}
        self._filters: dict[Conditions, NodeConditions] = {}
        self._numbers: dict[Conditions, int] = {}
        """Sets by their conditions, where nobody gave them a number."""

    def __len__(self) -> int:
        return len(self._sets)

    def keep(self, sets: Mapping[int, Asked]) -> None:
        """Ask for these sets and no others; a number has always the same conditions."""
        for number in self._sets.keys() - sets.keys():
            del self._sets[number]
            self._index.remove(number)
        if self._index.worn:
            self._start()
            self._sets = {}
        for number in sets.keys() - self._sets.keys():
            self._add(number, sets[number])

    def number(self, conditions: Conditions) -> int:
        """Return the number of a set, which is asked for from now on."""
        found = self._numbers.get(conditions)
        if found is None:
            found = self._numbers[conditions] = len(self._numbers)
            self._add(found, Asked(conditions))
        return found

    def _add(self, number: int, asked: Asked) -> None:
        self._sets[number] = asked
        name = frozenset[Formula]() if asked.name is None else frozenset([self._named(asked.name)])
        self._index.add(number, self._alternatives(asked.conditions, name))

    def _named(self, name: str) -> Formula:
        return Single(self._column(Name()), Comparison(Here(), "=", Constant(name, is_number=False)))

    def holding(self, steps: ChunkSteps, kind: Kind, rows: Int64s, most: int | None = None) -> tuple[Int64s, Int64s]:
        """Return all pairs (place among the nodes, number of a set) where the set holds at the node, by place.

        ``rows`` are distinct nodes of a kind.

        Raises:
            TooManyPairs: there are more than ``most``, if that is given.
        """
        try:
            return self._found(steps, kind, rows, most, _MOST_PAIRS if len(rows) > 1 else None)
        except _TooManyBelow:
            middle = len(rows) // 2
            low, high = (self.holding(steps, kind, part, most) for part in (rows[:middle], rows[middle:]))
            return np.concatenate([low[0], high[0] + middle]), np.concatenate([low[1], high[1]])

    def _found(
        self, steps: ChunkSteps, kind: Kind, rows: Int64s, most: int | None, most_below: int | None
    ) -> tuple[Int64s, Int64s]:
        columns = NodeColumns(steps, kind, rows, list(self._columns), self._told, self._filters, most_below)
        places, numbers, count = [], [], 0
        try:
            for some, of in self._index.satisfied(columns):
                places.append(some)
                numbers.append(of)
                count += len(some)
                if most is not None and count > most:
                    break
        except TooManyPairs:
            raise _TooManyBelow from None
        if most is not None and count > most:
            raise TooManyPairs
        if not places:
            return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
        place, number = np.concatenate(places), np.concatenate(numbers)
        order = order_of(place, len(rows))
        return place[order], number[order]

    def combined(self, values: Sequence[tuple[str, ...]]) -> tuple[Int64s, Int64s]:
        """Return nothing: these are conditions of nodes."""
        raise AssertionError(values)

    # -- from conditions to formulas -------------------------------------------------------------------------------

    def _alternatives(self, conditions: Conditions, others: frozenset[Formula]) -> list[Alternative]:
        try:
            return alternatives(All(others.union(map(self._formula, conditions))))
        except TooManyAlternatives:
            if len(conditions) == 1:
                return alternatives(All(others | {self._cut(conditions[0])}))
            return alternatives(All(others.union(self._own_set((part,)) for part in conditions)))

    def _own_set(self, conditions: Conditions) -> Told:
        """Return a formula that has one alternative."""
        return self._tell(OwnSets(), conditions)

    def _cut(self, condition: Condition) -> Formula:
        """Return a formula that has few alternatives, for a condition whose own are too many."""
        match condition:
            case Negation(part):
                return Not(self._own_set((part,)))
            case AllOf(parts):
                return self._own_set(parts)
            case AnyOf(parts) if len(parts) > MAX_ALTERNATIVES:
                middle = len(parts) // 2
                return Any_(frozenset(self._own_set((AnyOf(half),)) for half in (parts[:middle], parts[middle:])))
            case AnyOf(parts):
                return Any_(frozenset(self._own_set((part,)) for part in parts))
            case OfColumns(names, part, otherwise):
                return self._by_column(names, self._own_set((part,)), self._own_set((otherwise,)))
        raise AssertionError(condition)

    def _formula(self, condition: Condition) -> Formula:
        path = _some_path(condition)
        if path is not None:
            return self._on_path(*path)
        match condition:
            case Negation(part):
                return Not(self._formula(part))
            case AllOf(parts):
                return All(frozenset(map(self._formula, parts)))
            case AnyOf(parts):
                return Any_(frozenset(map(self._formula, parts)))
            case OfColumns(names, part, otherwise):
                return self._by_column(names, self._formula(part), self._formula(otherwise))
            case Exists(step):
                return self._tell(Below(Step(step.axis, step.test)), step.conditions)
            case Comparison(Here(steps), op, right):
                return self._formula(exists_chain(steps, (Comparison(Here(), op, right),)))
            case Comparison(Call("count", (Here(steps),)), op, right):
                return self._count(steps, op, right)
            case Truth(Call("count", (Here(steps),))):
                return self._count(steps, ">", Constant("0", True))
            case Comparison(left):
                return self._called(condition, left)
            case Truth(call):
                return self._called(condition, call)
        raise AssertionError(condition)

    def _on_path(self, steps: Steps, test: Condition | None) -> Formula:
        number = self._column(Reached(steps) if steps else Own())
        return There(number, bool(steps)) if test is None else Single(number, test, several=bool(steps))

    def _by_column(self, names: tuple[str, ...], part: Formula, otherwise: Formula) -> Formula:
        is_one = There(self._column(RowColumn(names)))
        return Any_(frozenset([All(frozenset([is_one, part])), All(frozenset([Not(is_one), otherwise]))]))

    def _count(self, steps: Steps, op: str, right: Constant) -> Formula:
        number = to_number(right.value)
        if number is None:
            return All(frozenset()) if op == "!=" else NEVER
        self._filter(steps)
        column = self._column(Counted(steps))
        return Single(column, Comparison(Here(), op, Constant(right.value, is_number=True)))

    def _called(self, condition: Comparison | Truth, expression: Expression) -> Formula:
        """File a condition on functions by the paths that they read."""
        there = frozenset(self._formula(exists_chain(path.steps)) for path in own_paths(expression))
        found = self._of_values(condition, expression)
        return All(there | {found}) if there else found

    def _of_values(self, condition: Comparison | Truth, expression: Expression) -> Formula:
        leaves = list(dict.fromkeys(_leaves(expression)))
        for leaf in leaves:
            self._filter(_steps(leaf))
        if all(leaf == Here() for leaf in leaves):
            return Single(0, condition)
        if len(leaves) == 1 and isinstance(leaves[0], Here):
            column = self._column(First(leaves[0].steps))
            return Single(column, _with(condition, {leaves[0]: Here()}))
        asked = Combined((Own(), *(_column_of(leaf) for leaf in leaves if leaf != Here())))
        together = self._told.get(asked)
        if together is None:
            together = self._told[asked] = _CombinedConditions([leaf for leaf in leaves if leaf != Here()])
        assert isinstance(together, _CombinedConditions)
        return Told(self._column(asked), together.number(condition), several=False)

    def _tell(self, column: Below | OwnSets, conditions: Conditions) -> Told:
        sets = self._told.get(column)
        if sets is None:
            sets = self._told[column] = NodeConditions()
        assert isinstance(sets, NodeConditions)
        return Told(self._column(column), sets.number(conditions), several=isinstance(column, Below))

    def _column(self, column: NodeColumn) -> int:
        return self._columns.setdefault(column, len(self._columns))

    def _filter(self, steps: Steps) -> None:
        for step in steps:
            if step.conditions and step.conditions not in self._filters:
                self._filters[step.conditions] = NodeConditions({0: Asked(step.conditions)})


class _TooManyBelow(Exception):
    """Too many sets hold at nodes below, or at too many parts of a set."""


class _CombinedConditions:
    """Conditions on what several columns have, asked once for all nodes that have the same."""

    def __init__(self, leaves: Sequence[Expression]) -> None:
        self._leaves = leaves
        self._conditions: dict[Comparison | Truth, int] = {}

    def number(self, condition: Comparison | Truth) -> int:
        """Return the number of a condition, which is asked for from now on."""
        return self._conditions.setdefault(condition, len(self._conditions))

    def holding(self, steps: ChunkSteps, kind: Kind, rows: Int64s, most: int | None = None) -> tuple[Int64s, Int64s]:
        """Return nothing: these are conditions of texts."""
        raise AssertionError(rows)

    def combined(self, values: Sequence[tuple[str, ...]]) -> tuple[Int64s, Int64s]:
        """Return all pairs (place among tuples of texts, number of a condition) where the condition holds."""
        found = []
        for place, (own, *others) in enumerate(values):
            told: dict[Expression, Expression] = {
                leaf: Constant(value, is_number=isinstance(leaf, Call))
                for leaf, value in zip(self._leaves, others, strict=True)
            }
            node = TextNode(None, 1, own)  # type: ignore[arg-type]
            for condition, number in self._conditions.items():
                if holds(_with(condition, told), node, Memo()):
                    found.append((place, number))
        pairs = np.array(found, dtype=np.int64).reshape(-1, 2)
        return pairs[:, 0], pairs[:, 1]


def _some_path(condition: Condition) -> tuple[Steps, Condition | None] | None:
    """Return the steps without conditions that lead to a node for which a condition on its own text must hold, or
    which must be there; None: the condition asks for something else.
    """
    match condition:
        case Exists(step):
            bare = Step(step.axis, step.test)
            if not step.conditions:
                return (bare,), None
            inner = _some_path(step.conditions[0]) if len(step.conditions) == 1 else None
            return None if inner is None else ((bare, *inner[0]), inner[1])
        case Comparison(Here(steps), op, right) if not any(step.conditions for step in steps):
            return steps, Comparison(Here(), op, right)
        case Compared():
            return (), condition
        case Comparison(Call() as call) | Truth(call) if all(leaf == Here() for leaf in _leaves(call)):
            return (), condition
    return None


def _leaves(expression: Expression) -> Iterator[Expression]:
    """Yield the paths that an expression reads, and the paths whose nodes it counts, with ``count``."""
    match expression:
        case Here():
            yield expression
        case Call("count", (Here(),)):
            yield expression
        case Call(_, ()):
            yield Here()
        case Call(_, args):
            for each in args:
                yield from _leaves(each)


def _steps(leaf: Expression) -> Steps:
    match leaf:
        case Here(steps) | Call("count", (Here(steps),)):
            return steps
    raise AssertionError(leaf)


def _column_of(leaf: Expression) -> First | Counted:
    return First(_steps(leaf)) if isinstance(leaf, Here) else Counted(_steps(leaf))


def _with(condition: Comparison | Truth, told: Mapping[Expression, Expression]) -> Comparison | Truth:
    """Return a condition on functions with other leaves."""
    match condition:
        case Comparison(left, op, right):
            return Comparison(_changed(left, told), op, right)
        case Truth(call):
            changed = _changed(call, told)
            assert isinstance(changed, Call)
            return replace(condition, call=changed)


def _changed(expression: Expression, told: Mapping[Expression, Expression]) -> Expression:
    if expression in told:
        return told[expression]
    if isinstance(expression, Call):
        return Call(expression.name, tuple(_changed(each, told) for each in expression.args))
    return expression
