"""Matches of a part as queries with windows ask of them: each column and each grouping is made once.

Queries that differ in conditions, or in which groups are told, share all of it.
"""

from __future__ import annotations

from copy import copy
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.number_order import order_of
from xscl.batches.windows.values import NOTHING, Column, Texts, column_of, dictionaries
from xscl.language.aggregates import Counted
from xscl.language.terms import Term
from xscl.templates.columns import Bools, Int64s

__all__ = ["BEHIND", "Doubles", "Groups", "Matches", "Partial", "Runs", "Values"]

Doubles = npt.NDArray[np.float64]
BEHIND = 1 << 62
"""Place of a match whose time is not settled: behind all that are."""
_GREAT = 1 << 53
"""Whole numbers up to it are doubles."""
_VIEWS = 8
"""Views of matches that are held: whoever came at another place sees other matches."""


class Partial(NamedTuple):
    """An aggregate of the matches of a bucket; windows merge those of their buckets (``buckets``)."""

    function: str
    """``count``, ``numbers`` (how many values are numbers), ``sum``, ``min`` or ``max``."""
    term: Term | None
    """None: of the matches themselves."""


class Matches:
    """Matches of a part, by time and in the order of their documents."""

    def __init__(self, rows: pa.Table) -> None:
        """Begin with rows (``rows.ROW_SCHEMA``) that are in order, as if they were all that ever came."""
        self._rows = rows
        self.whole: tuple[Matches, Int64s] | None = None
        """Matches that these are some of, and their places among those."""
        self.merged = False
        """Whether these are buckets of matches."""
        self.numbers = np.arange(len(rows), dtype=np.int64)
        """Rows of these among all."""
        self._hold(rows.column("ts").to_numpy(), rows.column("first").to_numpy(), self.numbers)

    def _hold(self, ts: Int64s, first: Int64s, order: Int64s) -> None:
        self.ts = ts
        self.first = first
        """Least place of a member."""
        self.order = order
        """Places among all settled matches of the part; of those that are not settled, behind all."""
        self._columns: dict[Term | Partial, Column] = {}
        self._groups: dict[tuple[Term, ...], Groups] = {}
        self._runs: dict[tuple[tuple[Term, ...], tuple[Term, ...]], Runs] = {}
        self._views: dict[int, Matches] = {}

    @cached_property
    def received(self) -> Int64s:
        """Return when each was received."""
        times: Int64s = self._rows.column("received").to_numpy()
        return times[self.numbers]

    @cached_property
    def _firsts(self) -> Int64s:
        return np.sort(self.first)

    @cached_property
    def _dictionaries(self) -> list[pa.DictionaryArray]:
        return dictionaries(self._rows.column("texts"))

    def __len__(self) -> int:
        return len(self.ts)

    def unseen(self, sees: Int64s) -> Int64s:
        """Return how many matches nobody sees who sees what comes after each of some places."""
        if len(self.first) and sees.max(initial=-1) < self.first.min():
            return np.zeros(len(sees), dtype=np.int64)  # mostly all queries are older than all matches
        return np.searchsorted(self._firsts, sees, "right")

    def without(self, unseen: int) -> Matches:
        """Return the matches that are seen by those who do not see so many."""
        if not unseen:
            return self
        if unseen not in self._views:
            if len(self._views) == _VIEWS:
                self._views.clear()
            self._views[unseen] = self.some(np.flatnonzero(self.first > self._firsts[unseen - 1]))
        return self._views[unseen]

    def stream(self, rows: Int64s, order: Int64s) -> Matches:
        """Return some of the matches, ascending, whose places among all settled ones are others."""
        if len(rows) < len(self):
            found = self.some(rows)
        else:
            found = copy(self)  # columns and groups are the same, places are not
            found._runs, found._views = {}, {}
        found.order = order
        return found

    def some(self, rows: Int64s) -> Matches:
        """Return some of the matches, ascending."""
        found = Matches.__new__(Matches)
        found._rows, found.whole, found.numbers = self._rows, (self, rows), self.numbers[rows]
        found.merged = self.merged
        found._hold(self.ts[rows], self.first[rows], self.order[rows])
        return found

    def since(self, time: int) -> slice:
        """Return the matches of a time or a later one."""
        return slice(int(np.searchsorted(self.ts, time, "left")), None)

    def name(self, row: int) -> str:
        """Return what tells the members of a match from others."""
        return str(self._rows.column("name")[int(self.numbers[row])].as_py())

    def column(self, term: Term | Partial) -> Column:
        """Return a value of each match."""
        if not len(self.ts):
            return Column(self.ts, ())
        if term not in self._columns:
            if self.whole is None:
                assert isinstance(term, Term)
                made = column_of(self._dictionaries[term.place], term)
            else:
                whole, rows = self.whole
                made = whole.column(term).some(rows)
            self._columns[term] = made
        return self._columns[term]

    def groups(self, operands: tuple[Term, ...]) -> Groups:
        """Return which matches have equal values of operands."""
        if operands not in self._groups:
            self._groups[operands] = Groups(self, operands)
        return self._groups[operands]

    def runs(self, operands: tuple[Term, ...], per: tuple[Term, ...] = ()) -> Runs:
        """Return the matches by groups that have equal values of operands, and by parts of these by others."""
        if (operands, per) not in self._runs:
            self._runs[operands, per] = Runs(self, operands, per)
        return self._runs[operands, per]


class Groups:
    """Groups of matches that have equal values of operands."""

    def __init__(self, matches: Matches, operands: tuple[Term, ...]) -> None:
        self._matches = matches
        self.columns = [matches.column(term) for term in operands]
        self.codes, self.there = self._found(operands)
        """Group of each match, and whether a match is in a group."""
        self._most: dict[Counted, Doubles | None] = {}

    def _found(self, operands: tuple[Term, ...]) -> tuple[Int64s, Bools]:
        if self._matches.whole is not None:
            whole, rows = self._matches.whole
            groups = whole.groups(operands)
            return groups.codes[rows], groups.there[rows]
        count = len(self._matches)
        codes, there = np.zeros(count, dtype=np.int64), np.ones(count, dtype=np.bool_)
        for column in self.columns:
            there &= column.codes != NOTHING
            codes = _compact(codes * max(1, len(column.texts)) + column.codes, there)
        return codes, there

    def most(self, counted: Counted) -> Doubles | None:
        """Return what an aggregate of some matches of each group is at most; None: that is not known."""
        if counted not in self._most:
            self._most[counted] = self._made(counted)
        return self._most[counted]

    def _made(self, counted: Counted) -> Doubles | None:
        size = int(self.codes.max(initial=-1)) + 1
        if counted.function == "count":
            return np.bincount(self.codes[self.there], minlength=size).astype(np.float64)
        if counted.term is None or counted.function in ("first", "last"):
            return None
        column = self._matches.column(counted.term)
        numbers, are_numbers, scale = column.numbers
        if numbers.dtype == object or scale >= _GREAT:
            return None
        rows = np.flatnonzero(self.there & (column.codes != NOTHING))
        rows = rows[are_numbers[column.codes[rows]]]
        values = numbers[column.codes[rows]] / scale
        if counted.function == "sum":
            sums = np.bincount(self.codes[rows], np.maximum(values, 0), minlength=size)
            # Doubles are added, so they may be a little less.
            return np.asarray(sums * (1 + 1e-15 * len(rows)), dtype=np.float64)
        found = np.full(size, -np.inf)
        np.maximum.at(found, self.codes[rows], values)
        return found


class Runs:
    """Matches group by group, each in their order; without those that are in no group, or in no part of one."""

    def __init__(self, matches: Matches, operands: tuple[Term, ...], per: tuple[Term, ...] = ()) -> None:
        self.matches = matches
        groups, parts = matches.groups(operands), matches.groups(operands + per)
        self._operands = groups.columns
        rows = np.flatnonzero(parts.there)
        self.rows: Int64s = rows[order_of(groups.codes[rows])]
        self.codes: Int64s = groups.codes[self.rows]
        """Group of each."""
        self.parts: Int64s = parts.codes[self.rows]
        """Part of a group of each."""
        self.ts: Int64s = matches.ts[self.rows]
        self._keys = self.codes * len(matches.ts) + self.rows
        self._of: dict[Term | Partial, Values] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def first_at(self, codes: Int64s, times: Int64s) -> Int64s:
        """Return the first place of some groups that has a time or a later one; behind the group if none has."""
        return self._first(codes, np.searchsorted(self.matches.ts, times, "left"))

    def first_numbered(self, codes: Int64s, numbers: Int64s) -> Int64s:
        """Return the first place of some groups that has a number or a greater one."""
        return self._first(codes, np.searchsorted(self.matches.order, numbers, "left"))

    def _first(self, codes: Int64s, bounds: Int64s) -> Int64s:
        return np.searchsorted(self._keys, codes * len(self.matches.ts) + bounds, "left")

    def group(self, place: int) -> tuple[str, ...]:
        """Return what the group of a place is grouped by."""
        row = self.rows[place]
        return tuple(column.texts[column.codes[row]] for column in self._operands)

    def operand(self, place: int, places: Int64s) -> Texts:
        """Return the value of an operand of some places."""
        column = self._operands[place]
        return Texts(column.codes[self.rows[places]], column)

    def of(self, term: Term | Partial) -> Values:
        """Return the values of a term, in this order."""
        if term not in self._of:
            self._of[term] = Values(self.matches.column(term), self)
        return self._of[term]

    def latest(self, low: int, high: int) -> int:
        """Return when the last of some matches was received."""
        return int(self.matches.received[self.rows[low:high]].max())


def _compact(codes: Int64s, there: Bools) -> Int64s:
    """Return small numbers for codes, in their order."""
    found = np.zeros(len(codes), dtype=np.int64)
    most = int(codes.max(initial=0))
    if most < 4 * len(codes):
        known = np.zeros(most + 1, dtype=np.bool_)
        known[codes[there]] = True
        found[there] = (np.cumsum(known) - 1)[codes[there]]
    else:
        found[there] = np.unique(codes[there], return_inverse=True)[1].reshape(-1)
    return found


class Values:
    """Values of a column in the order of runs, without the matches that have none."""

    def __init__(self, column: Column, runs: Runs) -> None:
        self.column = column
        self._runs = runs
        self._codes = column.codes[runs.rows]

    @cached_property
    def texts(self) -> tuple[Int64s, Int64s]:
        """Return the codes of those that have a value, and how many are before each place."""
        there = self._codes != NOTHING
        return self._codes[there], _before(there)

    @cached_property
    def numbers(self) -> tuple[npt.NDArray[Any], Int64s]:
        """Return the numbers of those that are numbers, and how many are before each place."""
        numbers, are_numbers, _ = self.column.numbers
        there = self._codes != NOTHING
        there[there] = are_numbers[self._codes[there]]
        return numbers[self._codes[there]], _before(there)

    @cached_property
    def sums(self) -> npt.NDArray[Any]:
        """Return the sum of the numbers before each of them."""
        return _sums(self.numbers[0])

    @cached_property
    def links(self) -> tuple[Int64s, Int64s]:
        """Return where a value stands among ``texts``, and where it stands next in the same group."""
        codes, before = self.texts
        groups = self._runs.codes[np.diff(before) > 0]
        keys = groups * max(1, len(self.column.texts)) + codes
        order = np.argsort(keys, kind="stable")
        same = np.flatnonzero(keys[order[1:]] == keys[order[:-1]])
        return order[same], order[same + 1]


def _before(there: Bools) -> Int64s:
    return _sums(there.astype(np.int64))


def _sums(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(1, dtype=values.dtype), np.cumsum(values, dtype=values.dtype)])
