"""Answers of windows: matches that were found, put together by windows and groups, as far as times are settled.

A window with an end of its own is answered at the first place of the intake order at which all times before the end
are settled, and a match that ends a window at the first place at which its time is.  No event in time comes into it
then.  So answers and their places do not depend on how the intake is cut into batches.

Queries that were registered at different places see different matches.  A window is answered once for all of them if
each sees all of its matches, and else once for those that see the same.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.batches.aggregate_groups import Grouped, Matches, by_group
from xscl.batches.aggregate_values import Aggregates, GroupValues, Value, compared, moved
from xscl.language.aggregates import Definition
from xscl.templates.columns import Bools, Int64s

__all__ = ["Answer", "Frontier", "Told", "answers", "reach_of"]

_LEAST = -(1 << 62)
Told = dict[tuple[int, tuple[str, ...]], int]
"""Time of the last answer by the place after which a query sees matches, and by group."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Times up to which windows are answered, by places of a batch."""

    before: int
    """Time up to which they were answered before."""
    places: Int64s
    """Places at which it grows, ascending."""
    times: Int64s

    @property
    def now(self) -> int:
        """Time up to which windows are answered by the end of the batch."""
        return max(self.before, int(self.times[-1])) if len(self.times) else self.before

    def beyond(self, time: int) -> int:
        """Return the first place at which a time is settled that is by the end of the batch."""
        return int(self.places[np.searchsorted(self.times, time, side="right")])


@dataclass(frozen=True, slots=True)
class Answer:
    """Values of a group of matches, told at a time."""

    values: GroupValues
    ts: int
    place: int
    received: int
    name: str
    """Mark of answers of equal values: the end of the window, or the members of the match that ends it."""
    sees: tuple[int, ...]
    """Places after which the queries see matches that have it."""


def reach_of(definition: Definition, now: int, matches: Matches, sees: Sequence[int]) -> slice | Int64s:
    """Return the matches that windows not answered yet may have, when they are answered up to a time."""
    if definition.window is not None:
        if definition.every is None:
            least = now - definition.window
        else:
            least = ((now - definition.window) // definition.every + 1) * definition.every
        return slice(int(np.searchsorted(matches.ts, max(least, _LEAST), "left")), None)
    kept = [np.flatnonzero(matches.ts >= now)]
    assert definition.last is not None
    codes = matches.grouping(definition.group).codes
    for since in sees:
        settled = np.flatnonzero((matches.ts < now) & (matches.first > since))
        kept += [mine[-definition.last :] for mine in by_group(codes, settled)]
    return np.unique(np.concatenate(kept))


def answers(
    definition: Definition, matches: Matches, frontier: Frontier, sees: Sequence[int], told: Told
) -> Iterator[Answer]:
    """Yield what is answered in a batch.

    Args:
        definition: what is told.
        matches: all that windows may have.
        frontier: how far times are settled.
        sees: places after which the queries see matches, each once, ascending.
        told: answers of before, for ``ONCE PER``; it is brought up to date.
    """
    if frontier.now <= frontier.before or not len(matches.ts):
        return
    if definition.every is not None:
        yield from _Hopping(definition, matches, frontier, sees).answers()
    else:
        yield from _Sliding(definition, matches, frontier, sees, told).answers()


class _Windows:
    def __init__(self, definition: Definition, matches: Matches, frontier: Frontier, sees: Sequence[int]) -> None:
        self.definition = definition
        self.matches = matches
        self.frontier = frontier
        self.sees = tuple(sees)
        self.seen_by = matches.seen_by(self.sees)
        """Number of the places that each match is behind."""
        self.grouping = matches.grouping(definition.group)

    def there(self, place: int) -> int:
        """Return how many of the places are before one."""
        return bisect_left(self.sees, place)

    def shared(self, rows: Int64s, place: int) -> list[tuple[tuple[int, ...], Int64s]]:
        """Return the matches of a window that is answered at a place, by the queries that see the same."""
        there = self.there(place)
        seen_by = np.minimum(self.seen_by[rows], there)
        found: list[tuple[tuple[int, ...], Int64s]] = []
        begin = 0
        for end in [*np.unique(seen_by).tolist(), there]:
            if end > begin:
                # Places from one to the next see the same: all matches that so many are behind.
                found.append((self.sees[begin:end], rows[seen_by >= end]))
                begin = end
        return [(sees, some) for sees, some in found if len(some)]

    def chosen(self, grouped: Grouped) -> list[tuple[int, GroupValues]]:
        """Return the places and values of the groups that satisfy all conditions."""
        definition = self.definition
        asked = {each.place for one in definition.having for each in (one.left, one.right) if each.kind == "aggregate"}
        known = [grouped.aggregates(e) if n in asked else None for n, e in enumerate(definition.aggregates)]
        mask, all_told = compared(definition.having, known, len(grouped))
        found = [(at, grouped.values(at, definition.aggregates)) for at in np.flatnonzero(mask).tolist()]
        return found if all_told else [each for each in found if each[1].satisfies(definition.having)]


class _Hopping(_Windows):
    """Windows with beginnings of their own."""

    def answers(self) -> Iterator[Answer]:
        every, window = self.definition.every, self.definition.window
        assert every is not None and window is not None
        for number in self._numbers(every, window):
            begin, end = number * every, number * every + window
            low, high = np.searchsorted(self.matches.ts, [begin, end]).tolist()
            place = self.frontier.beyond(end - 1)
            for sees, grouped in self._parts(low, high, place):
                for at, values in self._told(grouped):
                    received = int(self.matches.received[grouped.members(at)].max())
                    yield Answer(values, min(end, LAST_TIME), place, received, str(end), sees)

    def _parts(self, low: int, high: int, place: int) -> Iterator[tuple[tuple[int, ...], Grouped]]:
        there = self.there(place)
        if (self.seen_by[low:high] >= there).all():
            if there:
                yield self.sees[:there], self.grouping.between(low, high)
            return
        for sees, rows in self.shared(np.arange(low, high), place):
            yield sees, self.grouping.of(rows)

    def _numbers(self, every: int, window: int) -> list[int]:
        """Return the numbers of the windows that have matches and are answered."""
        least = (max(self.frontier.before, _LEAST) - window) // every + 1
        most = (self.frontier.now - window) // every
        return self.matches.windows(every, window, least, most)

    def _told(self, grouped: Grouped) -> list[tuple[int, GroupValues]]:
        found = self.chosen(grouped)
        if self.definition.top is None or self.definition.by is None:
            return found
        by = self.definition.by
        found.sort(key=lambda each: each[1].group)
        found.sort(key=lambda each: _rank(each[1].value(by)), reverse=True)
        return found[: self.definition.top]


def _rank(value: Value) -> tuple[int, Fraction, str]:
    """Return what values are ordered by: none, then texts, then numbers."""
    if isinstance(value, str):
        return 1, Fraction(0), value
    return (0, Fraction(0), "") if value is None else (2, value, "")


class _Sliding(_Windows):
    """Windows that matches end."""

    def __init__(
        self, definition: Definition, matches: Matches, frontier: Frontier, sees: Sequence[int], told: Told
    ) -> None:
        super().__init__(definition, matches, frontier, sees)
        self.told = told
        self.ordered = definition.crossing or definition.window is None
        """Whether a window has no match behind the one that ends it, of those of the same time."""

    def answers(self) -> Iterator[Answer]:
        for mine in by_group(self.grouping.codes, np.arange(len(self.matches.ts))):
            times = self.matches.ts[mine]
            settled = np.flatnonzero((times >= self.frontier.before) & (times < self.frontier.now))
            if not len(settled):
                continue
            low, high = self._ends(times, settled)
            may = np.ones(len(settled), dtype=np.bool_)
            if (self.seen_by[mine] >= len(self.sees)).all():
                may = self._may_tell(mine, low, high)
            for at, first, last in zip(settled[may].tolist(), low[may].tolist(), high[may].tolist(), strict=True):
                yield from self._ended_by(int(mine[at]), mine[first:last])

    def _ends(self, times: Int64s, settled: Int64s) -> tuple[Int64s, Int64s]:
        """Return where the window of each match begins and ends among those of its group."""
        low = np.zeros(len(settled), dtype=np.int64)
        if self.definition.window is not None:
            window = min(self.definition.window, LAST_TIME - FIRST_TIME)
            low = np.searchsorted(times, times[settled] - window, "left")
        high = settled + 1 if self.ordered else np.searchsorted(times, times[settled], "right")
        return low, high

    def _may_tell(self, mine: Int64s, low: Int64s, high: Int64s) -> Bools:
        """Tell which windows may be told of, where all queries see all matches of a group."""
        if self.definition.last is not None:
            low = np.maximum(low, high - self.definition.last)
        asked = {e.place for c in self.definition.having for e in (c.left, c.right) if e.kind == "aggregate"}

        def known(high: Int64s) -> list[Aggregates | None]:
            return [
                moved(each, None if each.term is None else self.matches.column(each.term), mine, low, high)
                if number in asked
                else None
                for number, each in enumerate(self.definition.aggregates)
            ]

        may, _ = compared(self.definition.having, known(high), len(low))
        if self.definition.crossing and may.any():
            held, all_told = compared(self.definition.having, known(high - 1), len(low))
            may &= ~held if all_told else True
        return may

    def _ended_by(self, row: int, window: Int64s) -> Iterator[Answer]:
        """Yield the answers to a match that ends a window."""
        ts = int(self.matches.ts[row])
        place = self.frontier.beyond(ts)
        for sees, seen in self.shared(window, place):
            # Who does not see the match itself has no window that it ends.
            sees = tuple(since for since in sees if since < self.matches.first[row])
            rows = seen if self.definition.last is None else seen[-self.definition.last :]
            values = self.values(rows) if sees else None
            if values is None or not self._tells(values, rows):
                continue
            sees = self._once(sees, values.group, ts)
            if sees:
                received = int(self.matches.received[rows].max())
                yield Answer(values, ts, place, received, self.matches.name(row), sees)

    def values(self, rows: Int64s) -> GroupValues:
        """Return the values of a window of a group, of one match at least."""
        return Grouped(self.grouping, rows, np.zeros(1, dtype=np.int64)).values(0, self.definition.aggregates)

    def _tells(self, values: GroupValues, rows: Int64s) -> bool:
        having = self.definition.having
        if not values.satisfies(having):
            return False
        if not self.definition.crossing:
            return True
        if len(rows) == 1:
            empty = tuple(Fraction(0) if each.function == "count" else None for each in self.definition.aggregates)
            return not GroupValues(values.group, empty).satisfies(having)
        return not self.values(rows[:-1]).satisfies(having)

    def _once(self, sees: tuple[int, ...], group: tuple[str, ...], ts: int) -> tuple[int, ...]:
        """Return the places whose queries were not told of a group shortly before, and note that they are."""
        if self.definition.once_per is None:
            return sees
        free = tuple(
            since
            for since in sees
            if (since, group) not in self.told or ts - self.told[since, group] > self.definition.once_per
        )
        self.told.update({(since, group): ts for since in free})
        return free
