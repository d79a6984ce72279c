"""Rows of steps: matches of parts, and what NEXT and FOLD have made of them so far, as arrays.

A row has a place for every block and every variable of its query.  Places of parts that it has not come to are empty.
A FOLD writes each iteration over the one before, so an open run is one row, however long it is.  A row is there for
some of the queries that share the steps (``templates.sequences.member_sets``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.batches.windows.values import Value, number_of
from xscl.language.steps.terms import Computed, Filter, Fold, Next, Node, Part, StepsDefinition
from xscl.language.steps.terms import Value as AskedValue
from xscl.language.terms import Comparison, Term
from xscl.store.results import NO_DOC
from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.lanes import FAR

__all__ = [
    "Layout",
    "Objects",
    "Rows",
    "State",
    "Taking",
    "joined_rows",
    "layout_of",
    "numbered_nodes",
    "objects",
    "of_members",
    "parts_in",
    "terms_of",
    "double_of",
]

Objects = npt.NDArray[np.object_]


class Taking(NamedTuple):
    """Values that a function over iterations has taken."""

    function: str
    values: int = 0
    total: Fraction = Fraction(0)
    numbers: int = 0
    least: Fraction | None = None
    most: Fraction | None = None
    first: Value = None

    def add(self, value: Value, *, itself: bool) -> Taking:
        """Return it with one more; ``itself``: an iteration is counted, whatever its value is."""
        if value is None and not itself:
            return self
        number, first = number_of(value), value if self.values == 0 else self.first
        more = self._replace(values=self.values + 1, first=first)
        if number is None:
            return more
        return more._replace(
            total=self.total + number,
            numbers=self.numbers + 1,
            least=number if self.least is None else min(self.least, number),
            most=number if self.most is None else max(self.most, number),
        )

    @property
    def value(self) -> Value:
        """Value of the function."""
        match self.function:
            case "count":
                return Fraction(self.values)
            case "first":
                return self.first
            case "min":
                return self.least
            case "max":
                return self.most
        if not self.numbers:
            return None
        return self.total if self.function == "sum" else self.total / self.numbers


@dataclass(frozen=True, slots=True)
class Layout:
    """Places of blocks, variables and kept values of all parts and FOLDs of a query."""

    blocks: tuple[int, ...]
    """Place of the first block of each part, and behind them their number."""
    variables: tuple[int, ...]
    """Place of the first variable of each part, and behind them their number."""
    kept: Mapping[int, int]
    """Place of the first accumulator of each FOLD."""
    taken: Mapping[int, int]
    """Place of the first function over iterations of each FOLD."""
    folds: int
    values: int
    """Number of kept values."""
    dimensions: int = 0
    """Constants that differ by query, by whose ranges rows are cut."""

    def block(self, part: int, place: int) -> int:
        """Return the place of a part's block."""
        return self.blocks[part] + place

    def variable(self, part: int, place: int) -> int:
        """Return the place of a part's variable."""
        return self.variables[part] + place

    def of_parts(self, parts: frozenset[int]) -> tuple[Int64s, Int64s]:
        """Return the places of the blocks and of the variables of some parts."""
        blocks = [place for part in sorted(parts) for place in range(self.blocks[part], self.blocks[part + 1])]
        names = [place for part in sorted(parts) for place in range(self.variables[part], self.variables[part + 1])]
        return np.array(blocks, dtype=np.int64), np.array(names, dtype=np.int64)

    def of_folds(self, folds: Sequence[Fold]) -> Int64s:
        """Return the places of what some FOLDs keep."""
        sizes = [(self.kept[each.number], len(each.accumulators) + len(each.taken)) for each in folds]
        return np.array([place for begin, size in sizes for place in range(begin, begin + size)], dtype=np.int64)


def layout_of(definition: StepsDefinition) -> Layout:
    """Return the places of a query's steps."""
    blocks, variables = [0], [0]
    for part in definition.parts:
        blocks.append(blocks[-1] + len(part.channels))
        variables.append(variables[-1] + len(part.names))
    kept, taken, count = {}, {}, 0
    folds = [node for node in numbered_nodes(definition.root) if isinstance(node, Fold)]
    for fold in sorted(folds, key=lambda each: each.number):
        kept[fold.number] = count
        taken[fold.number] = count + len(fold.accumulators)
        count += len(fold.accumulators) + len(fold.taken)
    return Layout(tuple(blocks), tuple(variables), kept, taken, len(folds), count)


def numbered_nodes(root: Node) -> list[Node]:
    """Return the nodes of a tree in the order in which they are numbered."""
    match root:
        case Part():
            return [root]
        case Filter():
            return [root, *numbered_nodes(root.of)]
    return [root, *numbered_nodes(root.left), *numbered_nodes(root.right)]


def parts_in(node: Node) -> frozenset[int]:
    """Return the parts that a node is over."""
    return frozenset(each.number for each in numbered_nodes(node) if isinstance(each, Part))


@dataclass
class Rows:
    """Rows of steps, by columns."""

    start: Int64s
    ts: Int64s
    place: Int64s
    first: Int64s
    end: Int64s
    seen: Int64s
    """Right sides before this time were looked at, and none of them is what the row waits for."""
    docs: Int64s
    """A place for each block."""
    times: Int64s
    nodes: Int64s
    """A place for each block's result node, then for each variable's."""
    texts: Objects
    """A place for each variable."""
    taken: Int64s
    """Iterations of each FOLD."""
    kept: Objects
    events: Objects
    """All documents of each, those of all iterations too, in tuples of tuples (``members``); None: of steps without a
    FOLD, whose rows have no others than ``docs``.
    """
    base: Int64s
    """The set of queries that have it."""
    box: Int64s
    """Two ends of a range of ranks for each dimension: queries in the set that are in all ranges have it."""
    _numbers: dict[int, tuple[npt.NDArray[np.float64], Bools]] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.ts)

    @classmethod
    def empty(cls, layout: Layout, count: int = 0) -> Rows:
        """Return rows with nothing in them."""
        blocks, names = layout.blocks[-1], layout.variables[-1]
        return cls(
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.zeros(count, dtype=np.int64),
            np.full(count, FAR),
            np.full(count, -FAR),
            np.full((count, blocks), NO_DOC),
            np.zeros((count, blocks), dtype=np.int64),
            np.full((count, blocks + names), -1),
            np.full((count, names), None, dtype=object),
            np.zeros((count, layout.folds), dtype=np.int64),
            np.full((count, layout.values), None, dtype=object),
            np.full(count, None, dtype=object),
            np.zeros(count, dtype=np.int64),
            np.tile(np.array([0, FAR]), (count, layout.dimensions)),
        )

    def take(self, at: Int64s | Bools) -> Rows:
        """Return some of them."""
        return Rows(**{name: getattr(self, name)[at] for name in _COLUMNS})

    def numbers(self, variable: int) -> tuple[npt.NDArray[np.float64], Bools]:
        """Return a variable's values as doubles, and which of them are these numbers exactly; NaN is no number."""
        if variable not in self._numbers:
            texts = self.texts[:, variable].tolist()
            found = np.array([_double_of_text(text) for text in texts], dtype=np.float64).reshape(-1, 2)
            self._numbers[variable] = found[:, 0], found[:, 1] == 1.0
        return self._numbers[variable]


def of_members(rows: Rows, layout: Layout, definition: StepsDefinition) -> Rows:
    """Return decided rows with the blocks of members alone; all that must not be there stands behind these."""
    count = layout.blocks[len(definition.members)]
    found = rows.take(np.arange(len(rows)))
    found.docs, found.times = found.docs[:, :count], found.times[:, :count]
    return found


State = dict[str, Rows]
"""Rows that steps keep, by the number of the step and what for."""
_COLUMNS = [each.name for each in fields(Rows) if not each.name.startswith("_")]


@lru_cache(maxsize=1 << 16)
def _double_of_text(text: str | None) -> tuple[float, bool]:
    return double_of(number_of(text))


def double_of(number: Fraction | None) -> tuple[float, bool]:
    """Return the nearest double, and whether it is a whole number that doubles compute with exactly."""
    if number is None:
        return np.nan, True
    try:
        found = float(number)
    except OverflowError:
        return np.inf if number > 0 else -np.inf, False
    return found, number.denominator == 1 and abs(found) < 1 << 40


def objects(values: Sequence[object]) -> Objects:
    """Return values as an array of one dimension, whatever they are."""
    return np.fromiter(values, dtype=object, count=len(values))


def joined_rows(parts: Sequence[Rows]) -> Rows:
    """Return the rows of all parts; there is at least one part."""
    if len(parts) == 1:
        return parts[0]
    columns: dict[str, Any] = {name: np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS}
    return Rows(**columns)


def terms_of(root: Node) -> Iterator[Term]:
    """Yield the values that steps speak of."""
    waiting: list[AskedValue | None] = []
    for node in numbered_nodes(root):
        if isinstance(node, Next | Fold):
            waiting += [side for key in node.skip.keys for side in (key.left, key.right)]
        comparisons: tuple[Comparison, ...] = ()
        match node:
            case Filter():
                comparisons = node.comparisons
            case Next():
                comparisons = node.skip.comparisons
            case Fold():
                comparisons = (*node.skip.comparisons, *node.conditions)
                waiting += [kept.value for kept in node.accumulators]
                waiting += [side for taken in node.taken for side in (taken.term, taken.first)]
        waiting += [side for each in comparisons for side in (each.left, each.right)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, Computed):
            waiting += (value.left, value.right)
        elif value is not None:
            yield value
            waiting.append(value.first)
