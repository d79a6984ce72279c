"""Many whole numbers in order, by their digits or by a table: comparing them takes several times as long.

numpy compares 64-bit numbers, and sorts 16-bit ones by counting.  So long numbers are sorted by 16 bits after 16 bits,
the lowest first.  Numbers that lie close together, as those of documents do, are looked up in a table of all between.
"""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["each_once", "order_by", "order_of", "places_in"]

_Ints = npt.NDArray[np.int64]
_Number = TypeVar("_Number", np.int64, np.uint64)

_FEW = 1_500
"""Numbers that are compared as fast as sorted by their digits."""
_SPREAD = 4
"""Places of a table for each number that is looked up."""
_DIGIT = 16
_LAST = np.iinfo(np.int64).max


def order_of(numbers: npt.NDArray[np.integer], below: int | None = None) -> _Ints:
    """Return the places of numbers in their order, equal ones as they stand.

    Args:
        numbers: 64 bits each.
        below: if given, all are at least 0 and below it.

    >>> order_of(np.array([7, 2, 7, 0])).tolist(), order_of(np.array([7, 2, 7, 0]), 8).tolist()
    ([3, 1, 0, 2], [3, 1, 0, 2])
    """
    if below is not None and below <= 1 << _DIGIT:
        return np.argsort(numbers.astype(np.uint16), kind="stable")
    if len(numbers) < _FEW:
        return np.argsort(numbers, kind="stable")
    if (numbers[1:] >= numbers[:-1]).all():
        return np.arange(len(numbers))
    least, most = int(numbers.min()), int(numbers.max())
    rest = numbers.astype(np.int64, copy=False).view(np.uint64) - np.uint64(least % (1 << 64))
    order: _Ints = np.argsort(rest.astype(np.uint16), kind="stable")
    for done in range(_DIGIT, (most - least).bit_length(), _DIGIT):
        digits = (rest >> np.uint64(done)).astype(np.uint16)
        order = order[np.argsort(digits[order], kind="stable")]
    return order


def order_by(*columns: npt.NDArray[np.integer]) -> _Ints:
    """Return the places of rows in order of their first column, equal ones in order of the second, and so on.

    >>> order_by(np.array([1, 0, 1]), np.array([5, 7, 4])).tolist()
    [1, 2, 0]
    """
    *others, last = columns
    order = order_of(last)
    for column in reversed(others):
        order = order[order_of(column[order])]
    return order


def each_once(numbers: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    """Return the different ones, rising.

    >>> each_once(np.array([7, 2, 7])).tolist()
    [2, 7]
    """
    if (numbers[1:] >= numbers[:-1]).all():
        ordered = numbers
    elif len(numbers) < _FEW:
        ordered = np.sort(numbers)
    else:
        least = numbers.min()
        span = int(numbers.max()) - int(least)
        if span < _SPREAD * len(numbers):
            here = np.zeros(span + 1, dtype=np.bool_)
            here[numbers - least] = True
            found: npt.NDArray[_Number] = np.flatnonzero(here).astype(numbers.dtype) + least
            return found
        ordered = numbers[order_of(numbers)] if span.bit_length() <= 3 * _DIGIT else np.sort(numbers)
    new = np.ones(len(ordered), dtype=np.bool_)
    new[1:] = ordered[1:] != ordered[:-1]
    return ordered[new]


def places_in(rising: _Ints, wanted: _Ints) -> _Ints:
    """Return how many of some rising numbers are below each wanted one, as ``searchsorted`` does.

    >>> places_in(np.array([3, 5, 9]), np.array([9, 1, 5, 6, 12])).tolist()
    [2, 0, 1, 2, 3]
    """
    if len(wanted) < _FEW or not len(rising):
        return np.searchsorted(rising, wanted)
    least, most = int(rising[0]), int(rising[-1])
    if most - least >= _SPREAD * len(wanted) or most == _LAST:
        return np.searchsorted(rising, wanted)
    table = np.zeros(most - least + 2, dtype=np.int64)
    np.cumsum(np.bincount(rising - least, minlength=most - least + 1), out=table[1:])
    return table[np.clip(wanted, least, most + 1) - least]
