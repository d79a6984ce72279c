"""Aggregates over the last matches of each part of a group (``LAST n PER x``).

A match is in the window that it ends, and in later ones of its group, until n matches of its part have come behind it.
So it covers an interval of the places of its group.  An aggregate of all windows is made of the beginnings and ends of
these intervals, in time that grows with the matches, however many of them a window has.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from xscl.batches.windows.groups import Runs
from xscl.batches.windows.values import NOTHING, Aggregates, Numbers, Texts, whole_numbers
from xscl.language.aggregates import Counted
from xscl.templates.columns import Bools, Int64s

__all__ = ["LastOfParts", "last_of_parts"]


def last_of_parts(runs: Runs, last: int, looked_back: int, ends: Int64s) -> LastOfParts:
    """Return the windows that end at some places of runs, with the last matches of each part.

    Args:
        runs: matches by groups, with parts.
        last: number of matches of a part.
        looked_back: number of matches of all groups among which they are.
        ends: places of the matches that end the windows.
    """
    places = np.arange(len(runs))
    behind = np.searchsorted(runs.codes, runs.codes, "right")
    order = np.argsort(runs.parts, kind="stable")
    same = runs.parts[order[last:]] == runs.parts[order[:-last]]
    behind[order[:-last][same]] = order[last:][same]
    known = runs.matches.order[runs.rows]
    until = np.minimum(behind, runs.first_numbered(runs.codes, known + looked_back))
    return LastOfParts(_Covered(runs, places, until), ends)


class LastOfParts:
    """Windows of groups by the places of their last matches."""

    def __init__(self, covered: _Covered, ends: Int64s) -> None:
        self._covered, self._ends = covered, ends
        self.runs = covered.runs
        self._aggregates: dict[Counted, Aggregates] = {}

    def __len__(self) -> int:
        return len(self._ends)

    def some(self, which: Int64s | None) -> LastOfParts:
        """Return some of the windows, ascending; None: all."""
        return self if which is None else LastOfParts(self._covered, self._ends[which])

    def without_last(self) -> LastOfParts:
        """Return the windows without the last match of each; of one match nothing stays."""
        return LastOfParts(self._covered.without_last, self._ends)

    def aggregates(self, counted: Counted) -> Aggregates:
        """Return an aggregate over each window."""
        if counted not in self._aggregates:
            self._aggregates[counted] = self._covered.aggregates(counted).some(self._ends)
        return self._aggregates[counted]

    def group(self, place: int) -> tuple[str, ...]:
        """Return what the group of a window is grouped by."""
        return self.runs.group(int(self._ends[place]))

    def operand(self, place: int) -> Texts:
        """Return the value of an operand that windows are grouped by, in each window."""
        return self.runs.operand(place, self._ends)

    def key(self, place: int) -> tuple[int, int]:
        """Return numbers that tell the matches of a window from others that end alike."""
        end = self._ends[place]
        return int(self._covered.marks[end]), int(self._covered.counts[end])

    def latest(self, place: int) -> int:
        """Return when the last match of a window was received."""
        return int(self._covered.received[self._ends[place]])


class _Covered:
    """Intervals of places of runs, one for each match: from ``begin`` on, before ``end``."""

    def __init__(self, runs: Runs, begin: Int64s, end: Int64s) -> None:
        self.runs = runs
        self._begin, self._end = begin, end
        self._aggregates: dict[Counted, Aggregates] = {}

    @cached_property
    def without_last(self) -> _Covered:
        """Return the same without the window that each match ends."""
        return _Covered(self.runs, self._begin + 1, self._end)

    @cached_property
    def counts(self) -> Int64s:
        """Return the number of matches of each window."""
        return self._sums(np.ones(len(self.runs), dtype=np.int64))

    @cached_property
    def marks(self) -> Int64s:
        """Return a number for each window that different matches make different."""
        numbers = self.runs.matches.numbers[self.runs.rows].astype(np.uint64)
        # Bits are mixed as in SplitMix64, so that no sums of a few are equal by their order.
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
        return self._sums((numbers ^ (numbers >> np.uint64(31))).view(np.int64))

    @cached_property
    def received(self) -> Int64s:
        """Return when the last match of each window was received."""
        times, ranks = np.unique(self.runs.matches.received[self.runs.rows], return_inverse=True)
        return np.asarray(times[self._extremes(np.arange(len(self.runs)), ranks.reshape(-1), np.maximum)])

    def aggregates(self, counted: Counted) -> Aggregates:
        """Return an aggregate over the window at each place."""
        if counted not in self._aggregates:
            self._aggregates[counted] = self._made(counted)
        return self._aggregates[counted]

    def _made(self, counted: Counted) -> Aggregates:
        if counted.term is None:
            return whole_numbers(self.counts)
        column = self.runs.matches.column(counted.term)
        codes = column.codes[self.runs.rows]
        there = codes != NOTHING
        match counted.function:
            case "count":
                return whole_numbers(self._different(codes, there) if counted.distinct else self._sums(there + 0))
            case "first" | "last":
                places = np.flatnonzero(there)
                least = np.minimum if counted.function == "first" else np.maximum
                found = self._extremes(places, places, least)
                has = self._sums(there + 0) > 0
                return Texts(np.where(has, codes[np.where(has, found, 0)], NOTHING), column)
        numbers, are_numbers, scale = column.numbers
        there[there] = are_numbers[codes[there]]
        counts = self._sums(there + 0)
        # There may be no value at all.
        values = np.append(numbers, np.zeros(1, dtype=numbers.dtype))[np.where(there, codes, -1)]
        if counted.function in ("min", "max"):
            known, ranks = np.unique(values[there], return_inverse=True)
            least = np.minimum if counted.function == "min" else np.maximum
            best = self._extremes(np.flatnonzero(there), ranks.reshape(-1), least)
            found = np.append(known, np.zeros(1, dtype=known.dtype))[np.where(counts > 0, best, -1)]
        else:
            found = self._sums(np.where(there, values, 0))
        small = scale < (1 << 62) // max(1, len(counts))
        denominators = np.full(len(counts), scale, dtype=np.int64 if small else object)
        if counted.function == "avg":
            denominators = denominators * np.maximum(counts, 1)
        return Numbers(found, denominators, counts > 0)

    def _sums(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the sum of the values of the matches of each window."""
        covers = self._begin < self._end
        return _covering(len(self.runs), self._begin[covers], self._end[covers], values[covers])

    def _different(self, codes: Int64s, there: Bools) -> Int64s:
        """Return how many different values each window has: intervals of equal values of a group are put together."""
        covers = np.flatnonzero(there & (self._begin < self._end))
        keys = self.runs.codes[covers] * (int(codes.max(initial=0)) + 1) + codes[covers]
        order = np.argsort(keys, kind="stable")
        keys, begin, end = keys[order], self._begin[covers][order], self._end[covers][order]
        first = np.append(True, keys[1:] != keys[:-1])[: len(keys)]
        base = np.cumsum(first) * (len(self.runs) + 1)
        reached = np.maximum.accumulate(base + end) - base
        begin[~first] = np.maximum(begin[~first], reached[np.flatnonzero(~first) - 1])
        new = begin < end
        return _covering(len(self.runs), begin[new], end[new], np.ones(int(new.sum()), dtype=np.int64))

    def _extremes(self, places: Int64s, ranks: Int64s, least: Callable[..., Any]) -> Int64s:
        """Return the least or greatest rank of some matches over each window that has one of them.

        An interval is two of a length that is a power of two, which may overlap; these are halved step by step.
        """
        begin, end = self._begin[places], self._end[places]
        found = np.full(len(self.runs), np.iinfo(np.int64).max if least is np.minimum else -1)
        levels = np.where(begin < end, np.frexp(np.maximum(end - begin, 1).astype(np.float64))[1] - 1, -1)
        for level in range(int(levels.max(initial=-1)), -1, -1):
            width, mine = 1 << level, np.flatnonzero(levels == level)
            least.at(found, begin[mine], ranks[mine])  # type: ignore[attr-defined]
            least.at(found, end[mine] - width, ranks[mine])  # type: ignore[attr-defined]
            if half := width >> 1:
                found[half:] = least(found[half:], found[:-half].copy())
        return found


def _covering(size: int, begin: Int64s, end: Int64s, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return at each place the sum of the values of the intervals that have it."""
    changes = np.zeros(size + 1, dtype=values.dtype)
    np.add.at(changes, begin, values)
    np.subtract.at(changes, end, values)
    return np.cumsum(changes, dtype=values.dtype)[:size]
