"""Inequalities of many plans, looked up together: a plan is found where all of its inequalities may hold.

A band ``q >= 1.02 * p AND q <= 1.05 * p`` has two edges, and two values satisfy one of the two for nearly all queries.
So plans with as many inequalities on the same values stand in a tree: each part of it knows the ends of its factors and
addends, and a part is left out where one of the inequalities holds at none of these ends.
Bounds are wide enough for what doubles do not tell; whoever asks compares exactly what is found.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.templates.columns import Bools, Floats, Int32s, Int64s
from xscl.templates.joins.families import CLOSE, TINY, Families, families_of, is_line
from xscl.templates.plans import Edge

__all__ = ["LineSearch", "LookUps", "Ranges", "look_ups_of"]

_FEW = 8
"""Plans up to which each inequality is looked up by itself."""
_LEAF = 4
"""Plans of the least parts of a tree, about."""
_MANY = 1 << 19
"""Pairs of documents and parts, each with the other, that are looked at together."""

_Compared = tuple[int, str | None, int, str | None, str]
"""Variables and functions of both sides, and the operator."""
_Column = npt.NDArray[np.float64]


class Ranges(NamedTuple):
    """Ends of the numbers that an inequality compares, by pair of documents."""

    left: tuple[Floats, Floats]
    """The least and the greatest number."""
    right: tuple[Floats, Floats]
    some: Bools
    """Whether there is a number on both sides."""


class _Ends(NamedTuple):
    """Ends of the constants of parts of a tree, by inequality and part."""

    f: tuple[Floats, Floats]
    add: tuple[Floats, Floats]

    def of(self, inequality: int, part: Int64s) -> tuple[Floats, Floats, Floats, Floats]:
        """Return the ends of one inequality in some parts."""
        least, most, begin, end = (column[inequality][part] for column in (*self.f, *self.add))
        return least, most, begin, end


class LineSearch(NamedTuple):
    """A tree of plans that have inequalities on the same values."""

    likes: tuple[Edge, ...]
    """An edge of each inequality, of any plan."""
    edges: tuple[Int32s, ...]
    """Numbers of edges by inequality, plan by plan in the order of the tree."""
    levels: tuple[_Ends, ...]
    """Ends of all parts, from the whole on; each part has two on the next level."""
    plans: _Ends
    """Ends of each plan, which are its constants."""
    starts: Int64s
    """The first plan of each part of the last level, and the end."""

    def found(self, ranges: Sequence[Ranges]) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield places of pairs, and a plan each whose inequalities may all hold there.

        ``ranges`` are those of each inequality.
        """
        some = np.logical_and.reduce([each.some for each in ranges])
        pairs = np.flatnonzero(some)
        waiting = [(0, pairs, np.zeros(len(pairs), dtype=np.int64))]
        while waiting:
            level, pair, part = waiting.pop()
            if len(pair) > _MANY:
                half = len(pair) // 2
                waiting += [(level, pair[:half], part[:half]), (level, pair[half:], part[half:])]
                continue
            held = self._may_hold(self.levels[level], ranges, pair, part)
            pair, part = pair[held], part[held]
            if level + 1 < len(self.levels):
                waiting.append((level + 1, np.repeat(pair, 2), np.repeat(2 * part, 2) + np.arange(2 * len(part)) % 2))
                continue
            begin, counts = self.starts[part], self.starts[part + 1] - self.starts[part]
            which = np.repeat(np.arange(len(part)), counts)
            plan = np.arange(len(which)) + (begin - np.cumsum(counts) + counts)[which]
            held = self._may_hold(self.plans, ranges, pair[which], plan)
            yield pair[which[held]], plan[held]

    def _may_hold(self, ends: _Ends, ranges: Sequence[Ranges], pair: Int64s, part: Int64s) -> Int64s:
        """Return where all inequalities may hold for some constants of a part."""
        at = np.arange(len(pair))
        for number, (like, of) in enumerate(zip(self.likes, ranges, strict=True)):
            sides = [column[pair[at]] for column in (*of.left, *of.right)]
            at = at[_possible(like.key.op, sides, ends.of(number, part[at]))]
        return at


def _possible(op: str, sides: Sequence[Floats], ends: Sequence[Floats]) -> Bools:
    """Tell where ``left op f * right + add`` may hold for some numbers and constants between these ends.

    Where doubles cannot tell, it may.
    """
    (left_least, left_most, *right), (f_least, f_most, add_least, add_most) = sides, ends
    with np.errstate(all="ignore"):
        products = [f * number for f in (f_least, f_most) for number in right]
        least, most = _least(products), _most(products)
        size = np.maximum(np.abs(left_least), np.abs(left_most)) + np.maximum(np.abs(least), np.abs(most))
        size += np.maximum(np.abs(add_least), np.abs(add_most))
        room = CLOSE * size + TINY * (4 + np.maximum(np.abs(right[0]), np.abs(right[1])))
        fails = np.zeros(len(least), dtype=np.bool_)
        if op in (">", ">=", "="):
            fails |= left_most < least + add_least - room
        if op in ("<", "<=", "="):
            fails |= left_least > most + add_most + room
    return ~fails


def _least(columns: Sequence[Floats]) -> _Column:
    found: _Column = np.minimum.reduce(columns)
    return found


def _most(columns: Sequence[Floats]) -> _Column:
    found: _Column = np.maximum.reduce(columns)
    return found


class LookUps(NamedTuple):
    """Ways to look the edges of some plans up on pairs."""

    searches: tuple[LineSearch, ...]
    families: Families
    """The edges that no search finds."""


def look_ups_of(edges: Mapping[int, Edge], needs: Collection[frozenset[int]]) -> LookUps:
    """Return how the edges of some plans are looked up.

    Args:
        edges: all edges by their numbers.
        needs: the edges that each plan needs; those of two plans may be equal.
    """
    alike: defaultdict[tuple[_Compared, ...], set[tuple[int, ...]]] = defaultdict(set)
    by_itself = frozenset[int]()
    for need in needs:
        lines = sorted((_compared(edges[number]), number) for number in need if is_line(edges[number]))
        alike[tuple(compared for compared, _ in lines)].add(tuple(number for _, number in lines))
        by_itself |= need - {number for _, number in lines}
    searched = []
    for plans in alike.values():
        if _is_worth_it(edges, plans):
            searched.append(plans)
        else:
            by_itself = by_itself.union(*plans)
    # An edge that is looked up by itself is not looked for twice.
    searches = (_search(edges, sorted(plans)) for plans in searched)
    found = tuple(
        each._replace(edges=tuple(np.where(np.isin(of, list(by_itself)), -1, of) for of in each.edges))
        for each in searches
    )
    return LookUps(found, families_of(edges, by_itself))


def _is_worth_it(edges: Mapping[int, Edge], plans: Collection[tuple[int, ...]]) -> bool:
    """Tell whether plans are many, and no family has their edges in order."""
    if len(plans) <= _FEW:
        return False
    many = {number for plan in plans for number in plan[:1]}
    several = len(next(iter(plans))) > 1
    return several or all(len({getattr(edges[each].key, name) for each in many}) > _FEW for name in ("f", "add"))


def _compared(edge: Edge) -> _Compared:
    key = edge.key
    return key.lvar, key.lfn, key.rvar, key.rfn, key.op


def _search(edges: Mapping[int, Edge], plans: Sequence[tuple[int, ...]]) -> LineSearch:
    numbers = np.array(plans, dtype=np.int32).T
    f, add = (
        np.array([[float(getattr(edges[each].key, name)) for each in row] for row in numbers.tolist()])
        for name in ("f", "add")
    )
    depth = 0
    while len(plans) >> depth > _LEAF:
        depth += 1
    bounds = [(np.arange((1 << level) + 1) * len(plans)) >> level for level in range(depth + 1)]
    order = _tree_order(np.concatenate([f, add]), bounds)
    f, add = f[:, order], add[:, order]
    likes = tuple(edges[each] for each in plans[0])
    levels = tuple(_Ends(_ends(f, starts), _ends(add, starts)) for starts in bounds)
    return LineSearch(likes, tuple(numbers[:, order]), levels, _Ends((f, f), (add, add)), bounds[-1])


def _ends(columns: Floats, starts: Int64s) -> tuple[Floats, Floats]:
    return np.minimum.reduceat(columns, starts[:-1], axis=1), np.maximum.reduceat(columns, starts[:-1], axis=1)


def _tree_order(columns: Floats, bounds: Sequence[Int64s]) -> Int64s:
    """Return an order of plans in which each part of a level has like constants.

    Each part is cut in two where its plans are in order of the column in which they differ the most.
    """
    ranks = np.stack([np.searchsorted(np.unique(column), column) for column in columns])
    order = np.arange(columns.shape[1])
    for starts, _ in pairwise(bounds):
        mine = ranks[:, order]
        spread = np.maximum.reduceat(mine, starts[:-1], axis=1) - np.minimum.reduceat(mine, starts[:-1], axis=1)
        part = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        widest = spread.argmax(axis=0)[part]
        order = order[np.lexsort((mine[widest, np.arange(len(order))], part))]
    return order
