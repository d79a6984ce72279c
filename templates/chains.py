"""Chains as numbers: rows of R_bin that a witness carries, told apart without looking at them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["ChainCodes", "ChainEntry", "mixed"]

ChainEntry = tuple[int, int, int, int]
"""A row of R_bin: var1, var2, node1, node2."""

_FIELDS = ("var1", "var2", "node1", "node2")


def mixed(columns: Sequence[npt.NDArray[np.generic]], seed: int) -> npt.NDArray[np.uint64]:
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


class ChainCodes:
    """Gives each distinct chain a number, the same for as long as the object lives."""

    def __init__(self) -> None:
        self._seed = secrets.randbits(64)
        self._known: dict[int, tuple[ChainEntry, ...]] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __getitem__(self, code: int) -> tuple[ChainEntry, ...]:
        return self._known[code]

    def codes(self, chains: pa.ListArray) -> npt.NDArray[np.int64]:
        """The code of each chain of a column (``xscl.arrow.CHAIN``)."""
        if not len(chains):
            return np.empty(0, dtype=np.int64)
        offsets = chains.offsets.to_numpy()
        entries = chains.values.slice(offsets[0], offsets[-1] - offsets[0])
        hashes = mixed([entries.field(name).to_numpy(zero_copy_only=False) for name in _FIELDS], self._seed)
        # A chain is a set, so its code is a sum; sums of runs are differences of running sums, which may wrap round.
        sums = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(hashes, dtype=np.uint64)])
        at = offsets - offsets[0]
        codes: npt.NDArray[np.int64] = (sums[at[1:]] - sums[at[:-1]]).view(np.int64)
        distinct, first = np.unique(codes, return_index=True)
        for code, place in zip(distinct.tolist(), first.tolist(), strict=True):
            if code not in self._known:
                rows = chains[place].as_py()
                self._known[code] = tuple((row["var1"], row["var2"], row["node1"], row["node2"]) for row in rows)
        return codes

    def keep(self, codes: npt.NDArray[np.int64]) -> None:
        """Forget all other chains."""
        self._known = {code: self._known[code] for code in np.unique(codes).tolist()}
