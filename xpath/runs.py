"""Runs of places in arrays: several that stand one behind another, and what is in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["Int64s", "distinct", "gather", "starts"]

Int64s = npt.NDArray[np.int64]


def starts(counts: list[int] | Int64s) -> Int64s:
    """Return the begin of each of several runs that stand one behind the other."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])[:-1]


def gather(begins: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return the places of several runs, each from a start on; and to which run each belongs."""
    run = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(run)) - (starts(counts) - begins)[run], run


def distinct(rows: Int64s) -> tuple[Int64s, Int64s]:
    """Return the distinct ones of some row numbers, rising, and the place of each row among these.

    Row numbers are small, so none is sorted.

    >>> [found.tolist() for found in distinct(np.array([7, 2, 7]))]
    [[2, 7], [1, 0, 1]]
    """
    here = np.zeros(int(rows.max(initial=-1)) + 1, dtype=np.bool_)
    here[rows] = True
    return np.flatnonzero(here), (np.cumsum(here) - 1)[rows]
