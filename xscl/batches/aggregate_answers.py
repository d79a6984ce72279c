"""Answers of windows: matches that were found, put together by windows and groups, as far as times are settled.

A window with an end of its own is answered at the first place of the intake order at which all times before the end
are settled, and a match that ends a window at the first place at which its time is.  No event in time comes into it
then.  So answers and their places do not depend on how the intake is cut into batches.

Queries that were registered at different places see different matches.  A window is answered once for all of them if
each sees all of its matches, and else once for those that see the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa

from xscl.base.types import LAST_TIME
from xscl.batches.aggregate_values import Column, GroupValues, Value, aggregated, columns_of
from xscl.language.aggregates import Counted, Definition
from xscl.templates.columns import Int64s

__all__ = ["Answer", "Frontier", "Matches", "Told", "answers", "matches_of", "reach_of"]

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


@dataclass
class Matches:
    """Matches of a part, by time and in the order of their documents, in columns."""

    ts: Int64s
    first: Int64s
    """Least place of a member."""
    received: Int64s
    names: Sequence[str]
    """Digest of the members of each."""
    operands: Sequence[Column]
    """Values that are grouped by."""
    counted: Sequence[Column | None]
    """Values that aggregates are over."""
    codes: Int64s = field(init=False)
    """Group of each; -1: it is in none."""
    groups: list[tuple[str, ...]] = field(init=False)

    def __post_init__(self) -> None:
        there = np.ones(len(self.ts), dtype=np.bool_)
        for column in self.operands:
            there &= column.codes >= 0
        codes = np.zeros(len(self.ts), dtype=np.int64)
        for column in self.operands:
            _, codes = np.unique(codes * max(1, len(column.texts)) + column.codes, return_inverse=True)
        self.codes = np.where(there, codes, -1)
        known, rows = np.unique(self.codes, return_index=True)
        self.groups = [()] * (int(known[-1]) + 1 if len(known) and known[-1] >= 0 else 0)
        for code, row in zip(known.tolist(), rows.tolist(), strict=True):
            if code >= 0:
                self.groups[code] = tuple(column.texts[column.codes[row]] for column in self.operands)


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
    whole: bool
    """Whether all queries have it that are there."""


def reach_of(definition: Definition, now: int, matches: Matches, sees: Sequence[int]) -> Int64s:
    """Return the matches that windows not answered yet may have, when they are answered up to a time."""
    if definition.window is not None:
        if definition.every is None:
            least = now - definition.window
        else:
            least = ((now - definition.window) // definition.every + 1) * definition.every
        return np.flatnonzero(matches.ts >= max(least, _LEAST))
    kept = [np.flatnonzero(matches.ts >= now)]
    assert definition.last is not None
    for since in sees:
        settled = np.flatnonzero((matches.ts < now) & (matches.first > since))
        kept += [mine[-definition.last :] for mine in _by_group(matches.codes, settled)]
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
        self.sees = np.array(sees, dtype=np.int64)
        self.seen_by = np.searchsorted(self.sees, matches.first, "left")
        """Number of the places that each match is behind."""

    def values(self, rows: Int64s) -> GroupValues:
        """Return the values of a group that has some matches, one at least."""
        return self.over(self.matches.groups[self.matches.codes[rows[0]]], rows)

    def over(self, group: tuple[str, ...], rows: Int64s) -> GroupValues:
        found: list[Value] = []
        for counted, column in zip(self.definition.aggregates, self.matches.counted, strict=True):
            found.append(aggregated(counted, column, rows))
        return GroupValues(group, tuple(found))

    def there(self, place: int) -> int:
        """Return how many of the places are before one."""
        return int(np.searchsorted(self.sees, place, "left"))

    def shared(self, rows: Int64s, place: int) -> list[tuple[tuple[int, ...], Int64s]]:
        """Return the matches of a window that is answered at a place, by the queries that see the same."""
        there = self.there(place)
        seen_by = np.minimum(self.seen_by[rows], there)
        found: list[tuple[tuple[int, ...], Int64s]] = []
        begin = 0
        for end in [*np.unique(seen_by).tolist(), there]:
            if end > begin:
                # Places from one to the next see the same: all matches that so many are behind.
                found.append((tuple(self.sees[begin:end].tolist()), rows[seen_by >= end]))
                begin = end
        return [(sees, some) for sees, some in found if len(some)]


class _Hopping(_Windows):
    """Windows with beginnings of their own."""

    def answers(self) -> Iterator[Answer]:
        every, window = self.definition.every, self.definition.window
        assert every is not None and window is not None
        for number in self._numbers(every, window):
            begin, end = number * every, number * every + window
            low, high = np.searchsorted(self.matches.ts, [begin, end])
            rows = np.arange(low, high)
            rows = rows[self.matches.codes[rows] >= 0]
            place = self.frontier.beyond(end - 1)
            for sees, some in self.shared(rows, place):
                whole = len(sees) == self.there(place)
                for values, mine in self._told(some):
                    received = int(self.matches.received[mine].max())
                    yield Answer(values, min(end, LAST_TIME), place, received, str(end), sees, whole)

    def _numbers(self, every: int, window: int) -> list[int]:
        """Return the numbers of the windows that have matches and are answered."""
        before = (max(self.frontier.before, _LEAST) - window) // every
        first = np.maximum((self.matches.ts - window) // every, before) + 1
        last = np.minimum(self.matches.ts // every, (self.frontier.now - window) // every)
        spans = np.unique(np.stack([first, last], axis=1)[first <= last], axis=0)
        return sorted({number for low, high in spans.tolist() for number in range(low, high + 1)})

    def _told(self, rows: Int64s) -> Iterator[tuple[GroupValues, Int64s]]:
        found = [(self.values(mine), mine) for mine in _by_group(self.matches.codes, rows)]
        found = [each for each in found if each[0].satisfies(self.definition.having)]
        if self.definition.top is None or self.definition.by is None:
            return iter(found)
        by = self.definition.by
        found.sort(key=lambda each: each[0].group)
        found.sort(key=lambda each: _rank(each[0].value(by)), reverse=True)
        return iter(found[: self.definition.top])


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
        ts = self.matches.ts
        for mine in _by_group(self.matches.codes, np.arange(len(ts))):
            times = ts[mine]
            settled = np.flatnonzero((times >= self.frontier.before) & (times < self.frontier.now))
            for at in settled.tolist():
                yield from self._ended_by(mine, times, at)

    def _ended_by(self, mine: Int64s, times: Int64s, at: int) -> Iterator[Answer]:
        """Yield the answers to the match at a place of its group."""
        row, ts = int(mine[at]), int(times[at])
        place = self.frontier.beyond(ts)
        low = 0
        if self.definition.window is not None:
            low = int(np.searchsorted(times, max(ts - self.definition.window, _LEAST), "left"))
        high = at + 1 if self.ordered else int(np.searchsorted(times, ts, "right"))
        for sees, seen in self.shared(mine[low:high], place):
            # Who does not see the match itself has no window that it ends.
            sees = tuple(since for since in sees if since < self.matches.first[row])
            rows = seen if self.definition.last is None else seen[-self.definition.last :]
            values = self.values(rows) if sees else None
            if values is None or not self._tells(values, rows):
                continue
            sees = self._once(sees, values.group, ts)
            if sees:
                received = int(self.matches.received[rows].max())
                name, whole = self.matches.names[row], len(sees) == self.there(place)
                yield Answer(values, ts, place, received, name, sees, whole)

    def _tells(self, values: GroupValues, rows: Int64s) -> bool:
        having = self.definition.having
        if not values.satisfies(having):
            return False
        return not (self.definition.crossing and self.over(values.group, rows[:-1]).satisfies(having))

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


def _by_group(codes: Int64s, rows: Int64s) -> Iterator[Int64s]:
    """Yield some matches by their groups, each in their order."""
    mine = codes[rows]
    rows, mine = rows[mine >= 0], mine[mine >= 0]
    order = np.argsort(mine, kind="stable")
    cuts = np.flatnonzero(np.diff(mine[order])) + 1
    for some in np.split(order, cuts):
        if len(some):
            yield rows[some]


def matches_of(rows: pa.Table, definition: Definition) -> Matches:
    """Return rows, which are in order, as what is told of them needs them."""
    counted: list[Counted] = [each for each in definition.aggregates if each.term is not None]
    terms = [*definition.group, *(each.term for each in counted if each.term is not None)]
    columns = columns_of(rows.column("texts"), terms) if terms else []
    left = iter(columns[len(definition.group) :])
    return Matches(
        rows.column("ts").to_numpy(),
        rows.column("first").to_numpy(),
        rows.column("received").to_numpy(),
        rows.column("name").to_pylist(),
        columns[: len(definition.group)],
        [None if each.term is None else next(left) for each in definition.aggregates],
    )
