"""Records in columns: named tuples of numpy arrays of equal length, and what is done with all columns alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["Bools", "Floats", "Int32s", "Int64s", "gather", "numbered", "numbered_rows", "stacked", "take", "within"]

Bools = npt.NDArray[np.bool_]
Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

_Columns = TypeVar("_Columns", bound=tuple[npt.NDArray[Any], ...])


def take(columns: _Columns, at: Int64s | Bools) -> _Columns:
    """Return some of the records."""
    return type(columns)(*(column[at] for column in columns))


def stacked(parts: Sequence[_Columns]) -> _Columns:
    """Return the records of all parts; there is at least one part."""
    return type(parts[0])(*map(np.concatenate, zip(*parts, strict=True)))


def within(numbers: Int64s, some: Int64s) -> Bools:
    """Tell which numbers are among some that rise; numpy's own ``isin`` hashes all of them.

    >>> within(np.array([3, 9, 4]), np.array([3, 5, 9])).tolist()
    [True, True, False]
    """
    at = np.searchsorted(some, numbers)
    found: Bools = at < len(some)
    found[found] = some[at[found]] == numbers[found]
    return found


def numbered(numbers: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """Return the different ones as they first come, the first place of each, and which of them each is.

    Arrow hashes them, in a fraction of the time in which numpy's ``unique`` tells as much.
    """
    encoded = pa.array(numbers).dictionary_encode()
    which = encoded.indices.to_numpy().astype(np.int64)
    first = np.empty(len(encoded.dictionary), dtype=np.int64)
    first[which[::-1]] = np.arange(len(which) - 1, -1, -1)  # of several the last is written
    return encoded.dictionary.to_numpy(), first, which


def numbered_rows(columns: Iterable[Int64s]) -> tuple[Int64s, Int64s]:
    """Return the first place of each different row, in this order, and which of them each is."""
    code: Int64s | None = None
    for column in columns:
        of, first, which = numbered(column)
        if code is not None:
            _, first, which = numbered(code * len(of) + which)
        code = which
    assert code is not None
    return first, code


def gather(starts: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return the places of several spans, one span after another; and to which span each belongs."""
    span = np.repeat(np.arange(len(counts)), counts)
    before = np.cumsum(counts) - counts
    return np.arange(len(span)) + (starts - before)[span], span
