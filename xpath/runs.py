"""Runs of places in arrays: several that stand one behind another, and what is in them."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Int64s", "distinct", "each_once", "gather", "order_of", "starts"]

Int64s = npt.NDArray[np.int64]
_Key = TypeVar("_Key", np.int64, np.uint64)


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


def each_once(keys: npt.NDArray[_Key]) -> npt.NDArray[_Key]:
    """Return the distinct keys, rising.

    >>> each_once(np.array([7, 2, 7])).tolist()
    [2, 7]
    """
    rising = np.sort(keys)
    first = np.ones(len(rising), dtype=np.bool_)
    first[1:] = rising[1:] != rising[:-1]
    return rising[first]


def order_of(numbers: Int64s, below: int) -> Int64s:
    """Return the places of numbers in their order, equal ones as they stand; all are at least 0 and ``below``.

    Short numbers are sorted by their digits.

    >>> order_of(np.array([7, 2, 7, 0]), 8).tolist()
    [3, 1, 0, 2]
    """
    return np.argsort(numbers.astype(np.uint16) if below <= 1 << 16 else numbers, kind="stable")
