"""Records in columns: named tuples of numpy arrays of equal length, and what is done with all columns alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Bools", "Int32s", "Int64s", "gather", "rising", "stacked", "take"]

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]

_Columns = TypeVar("_Columns", bound=tuple[npt.NDArray[Any], ...])


def take(columns: _Columns, at: Int64s | Bools) -> _Columns:
    """Some of the records."""
    return type(columns)(*(column[at] for column in columns))


def stacked(parts: Sequence[_Columns]) -> _Columns:
    """The records of all parts, of which there is one at least."""
    return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))


def rising(numbers: Int64s) -> Int64s:
    """The different ones, rising; numpy's own ``unique`` hashes, which takes several times as long."""
    ordered = np.sort(numbers)
    new = np.ones(len(ordered), dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


def gather(starts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """The places of several spans, one span after another; and to which span each belongs."""
    span = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return np.arange(len(span)) + (starts - before)[span], span
