"""Edges that find pairs by value or time, by the keys of their sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xscl.templates.columns import Int32s, Int64s

__all__ = ["HALF_BITS", "LOW_BITS", "EdgeTable"]

HALF_BITS = 32


LOW_BITS = (1 << HALF_BITS) - 1
"""Bits of each half of a number that stands for two."""


@dataclass(frozen=True, slots=True)
class EdgeTable:
    """The edges that find pairs by value or time, by the keys of their sides."""

    codes: Int64s
    """Left key and right key in one number, rising."""
    numbers: Int32s
    lo: Int64s
    hi: Int64s
    by_right: Int64s
    """The places in order of the right keys."""

    def of_keys(self, keys: Int64s, *, left: bool) -> tuple[Int64s, Int64s, Int64s]:
        """Return the edges with some keys on one side: an order of places, and of each key where they begin there, and
        how many they are.
        """
        order = np.arange(len(self.codes)) if left else self.by_right
        side = self.codes >> HALF_BITS if left else self.codes[order] & LOW_BITS
        begin = np.searchsorted(side, keys, side="left")
        return order, begin, np.searchsorted(side, keys, side="right") - begin

    def lookup(self, left: Int64s, right: Int64s) -> tuple[Int64s, Int64s]:
        """Tell which of some pairs of keys have an edge; and its place in the table."""
        wanted = left << HALF_BITS | right
        at = np.minimum(np.searchsorted(self.codes, wanted), max(len(self.codes) - 1, 0))
        some = np.flatnonzero(self.codes[at] == wanted) if len(self.codes) else np.empty(0, dtype=np.int64)
        return some, at[some]
