"""The place of a witness in its document, as one number: its node and the rows of R_bin that it carries (its chain)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.templates.columns import Int32s, Int64s, numbered

__all__ = ["OWN", "ChainEntry", "Shape", "Shapes", "bundle_hashes", "mixed", "row_hashes"]

ChainEntry = tuple[int, int, int, int]
"""A row of R_bin: var1, var2, node1, node2."""

_FIELDS = ("var1", "var2", "node1", "node2")
_SEEDS = tuple(secrets.randbits(64) for _ in range(3))
"""Secrets of this process: nobody can make documents whose rows are taken for each other's."""
OWN = -2
"""Stands for the node of a row itself; no node has this number."""


class Shape(NamedTuple):
    """The nodes of one value that stand alike in their document, and the chain of the first of them.

    The chain of another one is the same, but that it speaks of that node.
    """

    nodes: tuple[int, ...]
    """Rising; more than one only in a bundle."""
    chain: tuple[ChainEntry, ...]

    def chain_of(self, node: int, variable: int) -> tuple[ChainEntry, ...]:
        """Return the chain of any of the nodes, which are of this variable."""
        first = self.nodes[0]
        if node == first:
            return self.chain
        return tuple(
            (
                var1,
                var2,
                node if var1 == variable and node1 == first else node1,
                node if var2 == variable and node2 == first else node2,
            )
            for var1, var2, node1, node2 in self.chain
        )


def mixed(columns: Sequence[npt.NDArray[np.signedinteger]], seed: int) -> npt.NDArray[np.uint64]:
    """Return 64 bits for each row of some columns of whole numbers; equal rows have equal bits, others hardly ever."""
    found = np.full(len(columns[0]), seed, dtype=np.uint64)
    for column in columns:
        found ^= column.astype(np.int64, copy=False).view(np.uint64)
        found *= np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(32)
    return found


def row_hashes(nodes: pa.Array, chains: pa.ListArray) -> Int64s:
    """Return a hash of each node with its chain (``xscl.base.arrow_schemas.CHAIN``), for this process only."""
    return _row_hashes(_places(nodes), _Entries.of(chains))


def _row_hashes(places: Int64s, entries: _Entries) -> Int64s:
    found: Int64s = mixed([places, entries.sums(entries.columns, _SEEDS[0])], _SEEDS[1]).view(np.int64)
    return found


def bundle_hashes(rows: Int64s, counts: Int64s) -> Int64s:
    """Return the hashes of bundles of so many rows each, one after another, whose ``row_hashes`` are given."""
    begin = np.cumsum(counts) - counts
    found: Int64s = rows[begin]
    several = np.flatnonzero(counts > 1)
    if len(several):
        # A bundle is a set of rows, so its hash is a sum.
        sums = np.add.reduceat(rows.view(np.uint64), begin)[several].view(np.int64)
        found[several] = mixed([sums, counts[several]], _SEEDS[2]).view(np.int64)
    return found


class Shapes:
    """Gives each distinct shape, or bundle of shapes, a number, the same for as long as it is remembered.

    No number is given twice.  A *bundle* stands for all rows of a document with one value of one variable and function.
    """

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        """Numbers by hash."""
        self._known: dict[int, tuple[Shape, ...]] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> tuple[Shape, ...]:
        return self._known[number]

    def numbers(self, nodes: pa.Array, chains: pa.ListArray) -> Int32s:
        """Return the number of each node with its chain (``xscl.base.arrow_schemas.CHAIN``)."""
        if not len(nodes):
            return np.empty(0, dtype=np.int32)
        places = _places(nodes)
        entries = _Entries.of(chains)

        def shapes(at: int) -> tuple[Shape, ...]:
            return (Shape((int(places[at]),), entries.chain(at)),)

        return self._numbers_of(_row_hashes(places, entries), shapes)

    def bundles(self, variables: Int64s, nodes: pa.Array, chains: pa.ListArray, counts: Int64s) -> Int32s:
        """Return the numbers of bundles of so many rows each, one after another; ``variables`` are those of the
        rows.
        """
        places = _places(nodes)
        entries = _Entries.of(chains)
        alike = entries.sums(entries.without(variables, places), _SEEDS[0])
        begin = np.cumsum(counts) - counts

        def shapes(at: int) -> tuple[Shape, ...]:
            rows = np.arange(begin[at], begin[at] + counts[at])
            rows = rows[np.lexsort((places[rows], alike[rows]))]
            cuts = np.flatnonzero(np.diff(alike[rows])) + 1
            parts = (part.tolist() for part in np.split(rows, cuts))
            return tuple(Shape(tuple(dict.fromkeys(places[part].tolist())), entries.chain(part[0])) for part in parts)

        return self._numbers_of(bundle_hashes(_row_hashes(places, entries), counts), shapes)

    def keep(self, numbers: Int32s) -> None:
        """Forget all other shapes."""
        kept = set(np.unique(numbers).tolist())
        self._known = {number: shape for number, shape in self._known.items() if number in kept}
        self._numbers = {hash_: number for hash_, number in self._numbers.items() if number in kept}

    def _numbers_of(self, hashes: Int64s, make: Callable[[int], tuple[Shape, ...]]) -> Int32s:
        distinct, first, which = numbered(hashes)
        found = [self._number(hash_, make, at) for hash_, at in zip(distinct.tolist(), first.tolist(), strict=True)]
        return np.array(found, dtype=np.int32)[which]

    def _number(self, hash_: int, make: Callable[[int], tuple[Shape, ...]], at: int) -> int:
        number = self._numbers.get(hash_)
        if number is None:
            number = self._numbers[hash_] = self._next
            self._next += 1
            self._known[number] = make(at)
        return number


class _Entries(NamedTuple):
    """The chain entries of some rows, in columns."""

    columns: tuple[Int64s, ...]
    at: Int64s
    """The first entry of each row, and the end."""

    @classmethod
    def of(cls, chains: pa.ListArray) -> Self:
        """Return the flat form of a column."""
        offsets = chains.offsets.to_numpy()
        entries = chains.values.slice(offsets[0], offsets[-1] - offsets[0])
        columns = (entries.field(name).to_numpy(zero_copy_only=False).astype(np.int64) for name in _FIELDS)
        return cls(tuple(columns), (offsets - offsets[0]).astype(np.int64))

    def sums(self, columns: Sequence[Int64s], seed: int) -> Int64s:
        """Return a hash of each row's entries: a chain is a set, so it is a sum."""
        hashes = mixed(columns, seed)
        # Sums of runs are differences of running sums, which may wrap round.
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        found: Int64s = (sums[self.at[1:]] - sums[self.at[:-1]]).view(np.int64)
        return found

    def without(self, variables: Int64s, nodes: Int64s) -> tuple[Int64s, ...]:
        """Return the columns with one mark in place of each row's own node."""
        counts = np.diff(self.at)
        variable, node = np.repeat(variables, counts), np.repeat(nodes, counts)
        var1, var2, node1, node2 = self.columns
        own1, own2 = (var1 == variable) & (node1 == node), (var2 == variable) & (node2 == node)
        return var1, var2, np.where(own1, OWN, node1), np.where(own2, OWN, node2)

    def chain(self, row: int) -> tuple[ChainEntry, ...]:
        """Return the chain of a row."""
        of = slice(int(self.at[row]), int(self.at[row + 1]))
        return tuple(zip(*(column[of].tolist() for column in self.columns), strict=True))


def _places(nodes: pa.Array) -> Int64s:
    found: Int64s = nodes.to_numpy(zero_copy_only=False).astype(np.int64)
    return found
