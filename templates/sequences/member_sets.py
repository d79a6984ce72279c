"""Sets of the queries that share a row: numbered sets, cut by ranges of the constants in which queries differ.

A row has the number of a set, and a range of ranks for each dimension, which is a constant of the queries.  Queries
have a row if they are in its set and their ranks are in all ranges.  So a row is moved once, however many have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int64s, gather

__all__ = ["MemberSets", "Pieces"]


_FEW = 100
"""Members up to which all of a set are looked at."""


class Pieces(NamedTuple):
    """Rows, cut up by a partition of the members."""

    row: Int64s
    """Row of each piece."""
    part: Int64s
    """Part of the partition that it has."""
    base: Int64s
    """Its set."""


class MemberSets:
    """Sets of some members, which are numbered from 0 on."""

    def __init__(self, count: int, ranks: Sequence[Int64s] = ()) -> None:
        """Begin with the set of all, whose number is 0; ``ranks`` has the ranks of the members by dimension."""
        self.count, self.ranks = count, list(ranks)
        self._sets: list[Int64s] = []
        self._known: dict[bytes, int] = {}
        self._ranked: dict[tuple[int, int], Int64s] = {}
        self._ordered: dict[int, list[tuple[Int64s, Int64s]]] = {}
        """Members of sets by rank, for each dimension, with these ranks."""
        self._unions: dict[tuple[int, ...], int] = {}
        self.add(np.arange(count))

    def add(self, members: Int64s) -> int:
        """Return the number of a set of members, which rise."""
        key = members.tobytes()
        if key not in self._known:
            self._known[key] = len(self._sets)
            self._sets.append(members)
        return self._known[key]

    def of(self, base: int) -> Int64s:
        """Return the members of a set."""
        return self._sets[base]

    def members(self, base: int, box: Sequence[int] | Int64s) -> Int64s:
        """Return the members of a set whose ranks are in some ranges: two ends for each dimension."""
        found = self._sets[base]
        if not self.ranks:
            return found
        if len(found) > _FEW:
            # Those of the dimension with the fewest in its range are looked at.
            slices = [
                order[slice(*np.searchsorted(ranks, box[2 * at : 2 * at + 2]))]
                for at, (order, ranks) in enumerate(self._in_order(base))
            ]
            found = np.sort(min(slices, key=len))
        for dimension, rank in enumerate(self.ranks):
            mine = rank[found]
            found = found[(box[2 * dimension] <= mine) & (mine < box[2 * dimension + 1])]
        return found

    def _in_order(self, base: int) -> list[tuple[Int64s, Int64s]]:
        """Return the members of a set by rank, for each dimension, with these ranks."""
        if base not in self._ordered:
            mine = self._sets[base]
            orders = [np.argsort(rank[mine], kind="stable") for rank in self.ranks]
            self._ordered[base] = [
                (mine[order], rank[mine[order]]) for order, rank in zip(orders, self.ranks, strict=True)
            ]
        return self._ordered[base]

    def united(self, bases: Sequence[int]) -> int:
        """Return the set of all members of some sets."""
        key = tuple(sorted(set(bases)))
        if len(key) == 1:
            return key[0]
        if key not in self._unions:
            self._unions[key] = self.add(each_once(np.concatenate([self._sets[base] for base in key])))
        return self._unions[key]

    def there(self, base: Int64s, box: Int64s) -> Bools:
        """Tell which rows have members in their ranges, for each dimension by itself."""
        good = np.ones(len(base), dtype=np.bool_)
        if not self.ranks or not len(base):
            return good
        order = np.argsort(base, kind="stable")
        begins = np.flatnonzero(np.diff(base[order], prepend=-1))
        for rows in np.split(order, begins[1:]):
            number = int(base[rows[0]])
            for dimension in range(len(self.ranks)):
                ranks = self._ranks(number, dimension)
                low, high = box[rows, 2 * dimension], box[rows, 2 * dimension + 1]
                good[rows] &= np.searchsorted(ranks, low) < np.searchsorted(ranks, high)
        return good

    def ranks_between(self, dimension: int, base: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
        """Return the different ranks of the members of sets between two, each with the place of its set."""
        of, ranks = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
        for number in np.unique(base).tolist():
            mine, known = np.flatnonzero(base == number), self._ranks(number, dimension)
            begins = np.searchsorted(known, low[mine])
            at, which = gather(begins, np.maximum(np.searchsorted(known, high[mine]) - begins, 0))
            of.append(mine[which])
            ranks.append(known[at])
        return np.concatenate(of), np.concatenate(ranks)

    def _ranks(self, base: int, dimension: int) -> Int64s:
        key = base, dimension
        if key not in self._ranked:
            self._ranked[key] = each_once(self.ranks[dimension][self._sets[base]])
        return self._ranked[key]

    def partition(self, bases: Int64s, finer: Int64s | None = None) -> Int64s:
        """Return for each member the number of its part: members of one part are in the same of some sets.

        ``finer`` has numbers in which members of one part are alike, too.
        """
        part = np.zeros(self.count, dtype=np.int64) if finer is None else finer.copy()
        behind = int(part.max(initial=0)) + 1
        for base in np.unique(bases).tolist():
            mine = self._sets[base]
            if len(mine) < self.count:
                old, code = np.unique(part[mine], return_inverse=True)
                part[mine] = behind + code.reshape(-1)
                behind += len(old)
        return np.unique(part, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def pieces(self, bases: Int64s, part: Int64s) -> Pieces:
        """Cut rows with some sets up, so that each piece is of one part of a partition."""
        numbers, code = np.unique(bases, return_inverse=True)
        cut = [self._cut(base, part) for base in numbers.tolist()]
        counts = np.array([len(parts) for parts, _ in cut], dtype=np.int64)
        begins = np.cumsum(counts) - counts
        each = counts[code.reshape(-1)]
        row = np.repeat(np.arange(len(bases)), each)
        at = np.arange(len(row)) - np.repeat(np.cumsum(each) - each, each) + begins[code.reshape(-1)][row]
        parts = np.array([place for found, _ in cut for place in found], dtype=np.int64)
        sets = np.array([base for _, found in cut for base in found], dtype=np.int64)
        return Pieces(row, parts[at], sets[at])

    def _cut(self, base: int, part: Int64s) -> tuple[list[int], list[int]]:
        mine = self._sets[base]
        of = part[mine]
        if not len(of):
            return [], []
        order = np.argsort(of, kind="stable")
        begins = np.flatnonzero(np.diff(of[order], prepend=-1))
        if len(begins) == 1:
            return [int(of[0])], [base]
        return of[order[begins]].tolist(), [self.add(mine[rows]) for rows in np.split(order, begins[1:])]

    def together(self, row: Int64s, base: Int64s) -> tuple[Int64s, Int64s]:
        """Return rows, once each, with the sets of all their pieces; pieces are in the order of rows."""
        begins = np.flatnonzero(np.diff(row, prepend=-1))
        if len(begins) == len(row):
            return row, base
        found = [self.united(each.tolist()) for each in np.split(base, begins[1:])] if len(row) else []
        return row[begins], np.array(found, dtype=np.int64)
