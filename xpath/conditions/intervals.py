"""Intervals of values, and the intervals, among many, that hold a value."""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, NamedTuple, TypeVar

from xscl.base.values import apply_functions, number_text, to_number
from xscl.xpath.pattern import Step

__all__ = ["Interval", "Key", "Path", "Ranges", "Reading", "T"]

T = TypeVar("T")


Key = str | float | Fraction
"""A value as one reading has it; all keys of a reading are of one type."""


Path = tuple[Step, ...]
"""Steps without conditions; () is the node itself."""


class Reading(NamedTuple):
    """The way in which a string value becomes a key."""

    functions: str | None
    """Functions of an atom; None reads as XPath 1.0 does."""
    number: bool

    def key(self, text: str) -> Key | None:
        """Return the key of a text; None: no comparison of this reading is satisfied by it."""
        if self.functions is None:
            return to_number(text) if self.number else text
        value = apply_functions(self.functions, text)
        if value is None or not self.number:
            return value
        exact = number_text(value)
        return None if exact is None else Fraction(exact)


@dataclass(frozen=True, slots=True)
class Interval:
    """An end that is None is open to infinity."""

    low: Key | None = None
    high: Key | None = None
    with_low: bool = False
    with_high: bool = False

    def __contains__(self, key: Key) -> bool:
        above = self.low is None or self.low < key or (self.with_low and self.low == key)  # type: ignore[operator]
        return above and (
            self.high is None or key < self.high or (self.with_high and self.high == key)  # type: ignore[operator]
        )

    def meets(self, least: Key, greatest: Key) -> bool:
        """Whether each end lies on the right side of some value between two."""
        above = Interval(self.low, None, self.with_low)
        below = Interval(None, self.high, with_high=self.with_high)
        return greatest in above and least in below

    def __and__(self, other: Interval) -> Interval:
        low, with_low = _tighter((self.low, self.with_low), (other.low, other.with_low), greater=True)
        high, with_high = _tighter((self.high, self.with_high), (other.high, other.with_high), greater=False)
        return Interval(low, high, with_low, with_high)


def _tighter(one: tuple[Key | None, bool], other: tuple[Key | None, bool], *, greater: bool) -> tuple[Key | None, bool]:
    if one[0] is None or other[0] is None:
        return other if one[0] is None else one
    if one[0] == other[0]:
        return one[0], one[1] and other[1]
    return one if (one[0] > other[0]) is greater else other  # type: ignore[operator]


class Ranges(Generic[T]):
    """Items with intervals: those at a value are found in O(log n + found).

    The distinct constants c0 < c1 < … cut the line into cells: 2i+1 is c_i itself, 2i lies below it.  A segment tree
    over the cells keeps each interval at O(log n) places.  New items are tried one by one for a while, so that one more
    does not cost building the tree anew.
    """

    def __init__(self) -> None:
        self.intervals: dict[T, list[Interval]] = {}
        self._constants: list[Key] = []
        self._size = 1
        self._tree: dict[int, list[T]] = {}
        self._new: dict[T, None] = {}
        self._gone = 0
        self._tried = 0
        """Changes that were tried one by one since the tree was built."""

    def __len__(self) -> int:
        return len(self.intervals)

    def add(self, interval: Interval, item: T) -> None:
        """File an item; it may have several intervals, which are all added before it is asked for."""
        self.intervals.setdefault(item, []).append(interval)
        self._new[item] = None

    def remove(self, item: T) -> None:
        """Take an item out with all its intervals, if it is there."""
        if self.intervals.pop(item, None) is None:
            return
        if item in self._new:
            del self._new[item]
        else:
            self._gone += 1

    def at(self, key: Key) -> list[T]:
        """Return the items that have an interval which contains a key."""
        changes = len(self._new) + self._gone
        self._tried += changes
        # Many changes are built in at once; few when trying them has cost as much as building.
        if changes > 16 + math.isqrt(len(self.intervals)) or self._tried > 64 + 8 * len(self.intervals):
            self._build()
        cell = 2 * bisect_left(self._constants, key)
        if cell < 2 * len(self._constants) and self._constants[cell // 2] == key:
            cell += 1
        found: list[T] = []
        at = cell + self._size
        while at:
            if at in self._tree:
                found += self._tree[at]
            at >>= 1
        if self._gone:
            # What was taken out since the tree was built is still in it; what came back may have another interval.
            found = [item for item in found if item in self.intervals and item not in self._new]
        found += [item for item in self._new if any(key in interval for interval in self.intervals[item])]
        return found

    def _build(self) -> None:
        filed = [(interval, item) for item, intervals in self.intervals.items() for interval in intervals]
        ends = {end for interval, _ in filed for end in (interval.low, interval.high)}
        self._constants = sorted(end for end in ends if end is not None)
        self._size = 2 * len(self._constants) + 1
        self._tree, self._new, self._gone, self._tried = {}, {}, 0, 0
        place = {constant: 2 * index + 1 for index, constant in enumerate(self._constants)}
        for interval, item in filed:
            first = 0 if interval.low is None else place[interval.low] + (not interval.with_low)
            last = self._size - 1 if interval.high is None else place[interval.high] - (not interval.with_high)
            left, right = first + self._size, last + 1 + self._size
            while left < right:
                if left & 1:
                    self._tree.setdefault(left, []).append(item)
                    left += 1
                if right & 1:
                    right -= 1
                    self._tree.setdefault(right, []).append(item)
                left, right = left >> 1, right >> 1
