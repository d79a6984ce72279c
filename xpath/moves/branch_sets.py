"""The sets of conditions that branches ask for at their nodes, joined with the sets that hold there, in arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from xscl.base.number_order import each_once
from xscl.xpath.runs import Int64s, gather

__all__ = ["BranchSets"]

_CELLS = 1 << 23
"""Cells of a table of nodes and the sets that hold at them."""
_SPARSE = 32
"""Cells for each look-up from which on a table costs more than a search among sorted keys."""


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
        asked, back = gather(self._begins[branches[of]], self._counts[branches[of]])
        if len(asked) and len(at):
            of, asked_sets = of[back], self._sets[asked]
            holds = self._searched if count * self._many > _SPARSE * len(asked) else self._looked_up
            kept = holds(at, sets, nodes[of], asked_sets)
            yield of[kept], self._states[asked[kept]]

    def _searched(self, at: Int64s, sets: Int64s, nodes: Int64s, asked: Int64s) -> Int64s:
        """Return the places of the nodes at which the set that is asked for holds, by a search for each."""
        keys, sought = np.sort(at * self._many + sets), nodes * self._many + asked
        places = np.minimum(np.searchsorted(keys, sought), len(keys) - 1)
        return np.flatnonzero(keys[places] == sought)

    def _looked_up(self, at: Int64s, sets: Int64s, nodes: Int64s, asked: Int64s) -> Int64s:
        """Return the same by tables of nodes and sets, each of some nodes."""
        some = max(1, _CELLS // self._many)
        order = np.argsort(nodes, kind="stable")
        nodes, found = nodes[order], [order[:0]]
        end = int(nodes[-1]) + 1
        for low in range(0, end, some):
            # Nodes behind the last one that is asked for may have sets, too.
            bounds = (low, min(low + some, end))
            these, here = slice(*np.searchsorted(nodes, bounds)), slice(*np.searchsorted(at, bounds))
            holds = np.zeros((bounds[1] - low, self._many), dtype=np.bool_)
            holds[at[here] - low, sets[here]] = True
            found.append(order[these][holds[nodes[these] - low, asked[order[these]]]])
        return np.concatenate(found)

    def _found(self, branches: Int64s, of: Int64s, sets: Int64s) -> tuple[Int64s, Int64s]:
        """Return those of some pairs, of the place of a branch and a set, where the branch asks for the set."""
        keys = branches[of] * self._many + sets
        asked = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        known = np.flatnonzero(self._keys[asked] == keys)
        return of[known], self._states[asked[known]]
