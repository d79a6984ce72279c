"""Where a witness stands in its document, as one number: its node and the rows of R_bin that it carries (its chain)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.templates.columns import Int32s, numbered

__all__ = ["ChainEntry", "Shape", "Shapes", "mixed"]

ChainEntry = tuple[int, int, int, int]
"""A row of R_bin: var1, var2, node1, node2."""

_FIELDS = ("var1", "var2", "node1", "node2")


class Shape(NamedTuple):
    """What stage 2 needs of a witness beside its value; documents of one layout have few different ones."""

    node: int
    chain: tuple[ChainEntry, ...]


def mixed(columns: Sequence[npt.NDArray[np.signedinteger]], seed: int) -> npt.NDArray[np.uint64]:
    """64 bits of each row of some columns of whole numbers; equal rows have equal bits, others hardly ever.

    The seed is secret to a process, so nobody can make documents whose rows are taken for each other's.
    """
    found = np.full(len(columns[0]), seed, dtype=np.uint64)
    for column in columns:
        found ^= column.astype(np.int64, copy=False).view(np.uint64)
        found *= np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
        found ^= found >> np.uint64(32)
    return found


class Shapes:
    """Gives each distinct shape a number, the same for as long as it is remembered; no number is given twice."""

    def __init__(self) -> None:
        self._seeds = secrets.randbits(64), secrets.randbits(64)
        self._numbers: dict[int, int] = {}
        """By hash."""
        self._known: dict[int, Shape] = {}
        self._next = 0

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, number: int) -> Shape:
        return self._known[number]

    def numbers(self, nodes: pa.Array, chains: pa.ListArray) -> Int32s:
        """The number of each node with its chain (``xscl.arrow.CHAIN``)."""
        if not len(nodes):
            return np.empty(0, dtype=np.int32)
        offsets = chains.offsets.to_numpy()
        entries = chains.values.slice(offsets[0], offsets[-1] - offsets[0])
        hashes = mixed([entries.field(name).to_numpy(zero_copy_only=False) for name in _FIELDS], self._seeds[0])
        # A chain is a set, so its hash is a sum; sums of runs are differences of running sums, which may wrap round.
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        at = offsets - offsets[0]
        of_chains = (sums[at[1:]] - sums[at[:-1]]).view(np.int64)
        both = mixed([nodes.to_numpy(zero_copy_only=False), of_chains], self._seeds[1])
        distinct, first, which = numbered(both.view(np.int64))
        found = [
            self._number(hash_, nodes, chains, place)
            for hash_, place in zip(distinct.tolist(), first.tolist(), strict=True)
        ]
        return np.array(found, dtype=np.int32)[which]

    def keep(self, numbers: Int32s) -> None:
        """Forget all other shapes."""
        kept = set(np.unique(numbers).tolist())
        self._known = {number: shape for number, shape in self._known.items() if number in kept}
        self._numbers = {hash_: number for hash_, number in self._numbers.items() if number in kept}

    def _number(self, hash_: int, nodes: pa.Array, chains: pa.ListArray, place: int) -> int:
        number = self._numbers.get(hash_)
        if number is None:
            number = self._numbers[hash_] = self._next
            self._next += 1
            rows = chains[place].as_py()
            chain = tuple((row["var1"], row["var2"], row["node1"], row["node2"]) for row in rows)
            self._known[number] = Shape(nodes[place].as_py(), chain)
        return number
