"""The sets of conditions that branches ask for at their nodes, joined with the sets that hold there, in arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xscl.base.number_order import each_once
from xscl.xpath.runs import Int64s, gather

__all__ = ["BranchSets"]

_CELLS = 1 << 23
"""Cells of a table of nodes and the sets that hold at them."""


class BranchSets:
    """Sets of conditions by branch, and the state that each leads to."""

    def __init__(self, asked: Sequence[tuple[int, int, int]], branches: int) -> None:
        """``asked`` are (branch, number of a set, state), of so many branches."""
        table = np.array(sorted(asked), dtype=np.int64).reshape(-1, 3)
        self._begins = np.searchsorted(table[:, 0], np.arange(branches + 1))
        self._counts = np.diff(self._begins)
        numbers = each_once(table[:, 1])
        self._many = len(numbers)
        self._places = np.zeros(numbers.max(initial=-1) + 1, dtype=np.int64)
        """Place of each number among those that are asked for."""
        self._places[numbers] = np.arange(len(numbers))
        self._sets = self._places[table[:, 1]]
        self._keys = table[:, 0] * self._many + self._sets
        self._states = table[:, 2]

    def asking(self, branches: Int64s) -> Int64s:
        """Return the places of the branches that ask for sets."""
        return np.flatnonzero(self._counts[branches])

    def led(
        self, branches: Int64s, nodes: Int64s, held: tuple[Int64s, Int64s], count: int
    ) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield (place of a branch, state) for each set of a branch that holds at the branch's node.

        The sets that hold at a node are looked up among those of the branch, or these among those, whichever are
        fewer.

        Args:
            branches: branches that ask for sets.
            nodes: the node of each, among ``count`` nodes.
            held: nodes, rising, and the numbers of sets that hold at them.
            count: number of nodes.
        """
        at, sets = held[0], self._places[held[1]]
        begins = np.searchsorted(at, np.arange(count + 1))
        counts = np.diff(begins)
        fewer = counts[nodes] < self._counts[branches]
        of = np.flatnonzero(fewer)
        if len(of):
            pair, back = gather(begins[nodes[of]], counts[nodes[of]])
            yield self._found(branches, of[back], sets[pair])
        of = np.flatnonzero(~fewer)
        some = max(1, _CELLS // self._many)
        for low in range(0, count if len(of) else 0, some):
            these = of[(low <= nodes[of]) & (nodes[of] < low + some)]
            pairs = slice(*np.searchsorted(at, (low, low + some)))
            holds = np.zeros((min(some, count), self._many), dtype=np.bool_)
            holds[at[pairs] - low, sets[pairs]] = True
            asked, back = gather(self._begins[branches[these]], self._counts[branches[these]])
            kept = np.flatnonzero(holds[nodes[these[back]] - low, self._sets[asked]])
            yield these[back[kept]], self._states[asked[kept]]

    def _found(self, branches: Int64s, of: Int64s, sets: Int64s) -> tuple[Int64s, Int64s]:
        """Return those of some pairs, of the place of a branch and a set, where the branch asks for the set."""
        keys = branches[of] * self._many + sets
        asked = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known = np.flatnonzero(self._keys[asked] == keys)
        return of[known], self._states[asked[known]]
