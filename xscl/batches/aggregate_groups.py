"""Matches of a part as what queries with windows ask of them: each column, grouping and aggregate is made once.

Queries that differ in conditions, or in which groups are told, share all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from xscl.batches.aggregate_values import Aggregates, Column, GroupValues, aggregated, column_of, dictionaries
from xscl.language.aggregates import Counted, Term
from xscl.templates.columns import Int64s

__all__ = ["Grouped", "Grouping", "Matches", "by_group"]


class Matches:
    """Matches of a part, by time and in the order of their documents."""

    def __init__(self, rows: pa.Table) -> None:
        """Begin with rows (``aggregate_rows.ROW_SCHEMA``) that are in order."""
        self.ts: Int64s = rows.column("ts").to_numpy()
        self.first: Int64s = rows.column("first").to_numpy()
        """Least place of a member."""
        self.received: Int64s = rows.column("received").to_numpy()
        self._names = rows.column("name")
        self._texts = rows.column("texts")
        self._dictionaries: list[pa.DictionaryArray] | None = None
        self._columns: dict[Term, Column] = {}
        self._groupings: dict[tuple[Term, ...], Grouping] = {}
        self._windows: dict[tuple[int, int, int, int], list[int]] = {}
        self._seen_by: dict[tuple[int, ...], Int64s] = {}

    def name(self, row: int) -> str:
        """Return what tells the members of a match from others."""
        return str(self._names[row].as_py())

    def column(self, term: Term) -> Column:
        """Return a value of each match."""
        if not len(self.ts):
            return Column(self.ts, ())
        if term not in self._columns:
            if self._dictionaries is None:
                self._dictionaries = dictionaries(self._texts)
            self._columns[term] = column_of(self._dictionaries[term.place], term)
        return self._columns[term]

    def grouping(self, operands: tuple[Term, ...]) -> Grouping:
        """Return the groups that have equal values of operands."""
        if operands not in self._groupings:
            self._groupings[operands] = Grouping(self, [self.column(term) for term in operands])
        return self._groupings[operands]

    def windows(self, every: int, window: int, least: int, most: int) -> list[int]:
        """Return the numbers of the windows that have matches, from one number to another, ascending."""
        asked = every, window, least, most
        if asked not in self._windows:
            first = np.maximum((self.ts - window) // every + 1, least)
            last = np.minimum(self.ts // every, most)
            # Both ascend with the times, so each match adds what is behind the windows of those before.
            differs = np.append(True, (first[1:] != first[:-1]) | (last[1:] != last[:-1]))[: len(first)]
            found: list[int] = []
            for low, high in zip(first[differs].tolist(), last[differs].tolist(), strict=True):
                found += range(max(low, found[-1] + 1) if found else low, high + 1)
            self._windows[asked] = found
        return self._windows[asked]

    def seen_by(self, sees: tuple[int, ...]) -> Int64s:
        """Return how many of some places each match is behind."""
        if sees not in self._seen_by:
            self._seen_by[sees] = np.searchsorted(np.array(sees, dtype=np.int64), self.first, "left")
        return self._seen_by[sees]


class Grouping:
    """Groups of matches."""

    def __init__(self, matches: Matches, operands: Sequence[Column]) -> None:
        self.matches = matches
        there = np.ones(len(matches.ts), dtype=np.bool_)
        codes = np.zeros(len(matches.ts), dtype=np.int64)
        for column in operands:
            there &= column.codes >= 0
            _, codes = np.unique(codes * max(1, len(column.texts)) + column.codes, return_inverse=True)
        self.codes: Int64s = np.where(there, codes, -1)
        """Group of each match; -1: it is in none."""
        known, rows = np.unique(self.codes, return_index=True)
        self.groups: dict[int, tuple[str, ...]] = {
            code: tuple(column.texts[column.codes[row]] for column in operands)
            for code, row in zip(known.tolist(), rows.tolist(), strict=True)
            if code >= 0
        }
        self._spans: dict[tuple[int, int], Grouped] = {}

    def between(self, low: int, high: int) -> Grouped:
        """Return the groups of the matches from one row on, before another."""
        if (low, high) not in self._spans:
            self._spans[low, high] = self.of(np.arange(low, high))
        return self._spans[low, high]

    def of(self, rows: Int64s) -> Grouped:
        """Return the groups of some matches, which are in their order."""
        codes = self.codes[rows]
        rows, codes = rows[codes >= 0], codes[codes >= 0]
        order = np.argsort(codes, kind="stable")
        starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
        return Grouped(self, rows[order], starts)


@dataclass
class Grouped:
    """Some matches, group by group."""

    grouping: Grouping
    rows: Int64s
    starts: Int64s
    """Place among them at which each group begins."""
    _aggregates: dict[Counted, Aggregates] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.starts)

    def aggregates(self, counted: Counted) -> Aggregates:
        """Return an aggregate over each group."""
        if counted not in self._aggregates:
            column = None if counted.term is None else self.grouping.matches.column(counted.term)
            self._aggregates[counted] = aggregated(counted, column, self.rows, self.starts)
        return self._aggregates[counted]

    def values(self, place: int, counted: Sequence[Counted]) -> GroupValues:
        """Return the values of a group."""
        return GroupValues(self.group(place), tuple(self.aggregates(each).value(place) for each in counted))

    def group(self, place: int) -> tuple[str, ...]:
        """Return what a group is grouped by."""
        return self.grouping.groups[int(self.grouping.codes[self.rows[self.starts[place]]])]

    def members(self, place: int) -> Int64s:
        """Return the matches of a group."""
        end = self.starts[place + 1] if place + 1 < len(self.starts) else len(self.rows)
        return self.rows[self.starts[place] : end]


def by_group(codes: Int64s, rows: Int64s) -> Iterator[Int64s]:
    """Yield some matches by their groups, each in their order."""
    mine = codes[rows]
    rows, mine = rows[mine >= 0], mine[mine >= 0]
    order = np.argsort(mine, kind="stable")
    cuts = np.flatnonzero(np.diff(mine[order])) + 1
    for some in np.split(order, cuts):
        if len(some):
            yield rows[some]
