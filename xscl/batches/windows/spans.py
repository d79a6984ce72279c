"""Aggregates over spans of matches: windows of groups, all of them at once.

Matches stand group by group, each group in its order, so a window of a group is a span of them.  Both ends of the
windows of a group move forward.  Sums, counts, different values and extremes of all spans are made together, in time
that grows with the matches and the spans, however long these are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from xscl.batches.windows.groups import Partial, Runs, Values
from xscl.batches.windows.values import NOTHING, Aggregates, Numbers, Texts, whole_numbers
from xscl.language.aggregates import Counted
from xscl.language.terms import Term
from xscl.templates.columns import Int64s

__all__ = ["Spans"]


class Spans:
    """Spans of runs, whose ends do not go back: from each ``low`` on, before its ``high``."""

    def __init__(self, runs: Runs, low: Int64s, high: Int64s) -> None:
        self.runs, self.low, self.high = runs, low, high
        self._aggregates: dict[Counted, Aggregates] = {}
        self._whole: Spans | None = None
        self._which: Int64s | None = None

    def __len__(self) -> int:
        return len(self.low)

    def some(self, which: Int64s | None) -> Spans:
        """Return some of the spans, ascending; None: all."""
        if which is None:
            return self
        found = Spans(self.runs, self.low[which], self.high[which])
        found._whole, found._which = self, which
        return found

    def without_last(self) -> Spans:
        """Return the spans without the last match of each; of one match nothing stays."""
        return Spans(self.runs, self.low, self.high - 1)

    def aggregates(self, counted: Counted) -> Aggregates:
        """Return an aggregate over each span."""
        if counted not in self._aggregates:
            if self._whole is not None and counted in self._whole._aggregates:
                assert self._which is not None
                made = self._whole._aggregates[counted].some(self._which)
            else:
                made = self._made(counted)
            self._aggregates[counted] = made
        return self._aggregates[counted]

    def group(self, place: int) -> tuple[str, ...]:
        """Return what the group of a span is grouped by."""
        return self.runs.group(int(self.low[place]))

    def operand(self, place: int) -> Texts:
        """Return the value of an operand that spans are grouped by, in each span."""
        return self.runs.operand(place, self.low)

    def key(self, place: int) -> tuple[int, int]:
        """Return numbers that tell the matches of a span from others that end alike."""
        low, high = int(self.low[place]), int(self.high[place])
        return int(self.runs.matches.numbers[self.runs.rows[low]]), high - low

    def latest(self, place: int) -> int:
        """Return when the last match of a span was received."""
        return self.runs.latest(int(self.low[place]), int(self.high[place]))

    def _made(self, counted: Counted) -> Aggregates:
        if self.runs.matches.merged:
            return self._merged(counted)
        if counted.term is None:
            return whole_numbers(self.high - self.low)
        of = self.runs.of(counted.term)
        match counted.function:
            case "count":
                return whole_numbers(self._different(of) if counted.distinct else np.subtract(*self._ends(of.texts[1])))
            case "first" | "last":
                codes, before = of.texts
                high, low = self._ends(before)
                place = low if counted.function == "first" else high - 1
                found = np.full(len(low), NOTHING)
                there = high > low
                found[there] = codes[place[there]]
                return Texts(found, of.column)
        return self._computed(counted.function, of)

    def _merged(self, counted: Counted) -> Aggregates:
        """Return an aggregate of the matches of whose buckets spans are."""
        term, function = counted.term, counted.function
        if function == "count" and counted.distinct:
            assert term is not None
            return whole_numbers(self._different(self.runs.of(term)))
        if function == "count":
            return whole_numbers(self._summed("count", term).numerators)
        if function == "avg":
            found, counts = self._summed("sum", term), self._summed("numbers", term).numerators
            return Numbers(found.numerators, _times(found.denominators, np.maximum(counts, 1)), found.there)
        return self._computed(function, self.runs.of(Partial(function, term)))

    def _summed(self, function: str, term: Term | None) -> Numbers:
        return self._computed("sum", self.runs.of(Partial(function, term)))

    def _ends(self, before: Int64s) -> tuple[Int64s, Int64s]:
        return before[self.high], before[self.low]

    def _computed(self, function: str, of: Values) -> Numbers:
        numbers, before = of.numbers
        scale = of.column.numbers[2]
        high, low = self._ends(before)
        counts = high - low
        if function in ("min", "max"):
            found = _extremes(numbers, low, high, np.minimum if function == "min" else np.maximum)
        else:
            found = of.sums[high] - of.sums[low]
        denominators = np.full(len(low), scale, dtype=np.int64 if scale < (1 << 62) // max(1, len(before)) else object)
        if function == "avg":
            denominators = denominators * np.maximum(counts, 1)
        return Numbers(found, denominators, counts > 0)

    def _different(self, of: Values) -> Int64s:
        """Return how many different values each span has: values less those that stand there again."""
        high, low = self._ends(of.texts[1])
        here, again = of.links
        # A value and the next that equals it are in the spans from the one that has the next, up to the one that has
        # the first no longer.
        begin, end = np.searchsorted(high, again, "right"), np.searchsorted(low, here, "right")
        met = begin < end
        changes = np.bincount(begin[met], minlength=len(low) + 1) - np.bincount(end[met], minlength=len(low) + 1)
        return high - low - np.cumsum(changes)[: len(low)]


def _times(numbers: npt.NDArray[Any], counts: Int64s) -> npt.NDArray[Any]:
    greatest = int(numbers.max(initial=0)) * int(counts.max(initial=0))
    return (numbers if greatest < 1 << 62 else numbers.astype(object)) * counts


def _extremes(values: npt.NDArray[Any], low: Int64s, high: Int64s, least: Callable[..., Any]) -> npt.NDArray[Any]:
    """Return the least or greatest value of each span, from those of spans of 1, 2, 4 … values."""
    found = np.zeros(len(low), dtype=values.dtype)
    levels = np.frexp((high - low).astype(np.float64))[1] - 1
    for level in range(int(levels.max(initial=-1)) + 1):
        width = 1 << level
        if level:
            values = least(values[: -(width >> 1)], values[width >> 1 :])
        mine = np.flatnonzero(levels == level)
        found[mine] = least(values[low[mine]], values[high[mine] - width])
    return found
