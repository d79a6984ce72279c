"""The rows of each column by the texts that they have there."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from xscl.base.number_order import order_of
from xscl.xpath.runs import Int64s, gather
from xscl.xpath.spans.words import Columns

__all__ = ["ColumnRows"]


class _Pairs(NamedTuple):
    """The values of a column of several values."""

    begin: Int64s
    """Begin of each row's values, and the end."""
    values: Int64s


class ColumnRows:
    """The rows of one batch, counted and ordered by texts in columns that are asked for."""

    def __init__(self, columns: Columns, asked: Int64s) -> None:
        """``asked`` are the numbers of columns, each as often as it is asked for."""
        self._columns = columns
        self._by_text: dict[int, tuple[Int64s, Int64s]] = {}
        """Rows of each column in order of their texts, and the begin of each text's rows."""
        self._counts: dict[int, Int64s] = {}
        self.several: dict[int, _Pairs] = {}
        """Columns in which some row has several values."""
        self.is_several = np.zeros(asked.max(initial=0) + 1, dtype=np.bool_)
        for column in np.flatnonzero(np.bincount(asked)).tolist():
            pairs = columns.pairs(column)
            if pairs is not None:
                rows, values = pairs
                self.is_several[column] = True
                self.several[column] = _Pairs(np.searchsorted(rows, np.arange(columns.count + 1)), values)

    def counts(self, column: int) -> Int64s:
        """Count the rows that have each text of a column, and NULL."""
        if column not in self._counts:
            codes = self._codes(column)
            self._counts[column] = np.bincount(codes, minlength=self._columns.size(column) + 1)
        return self._counts[column]

    def ordered(self, column: int) -> tuple[Int64s, Int64s]:
        """Return the rows of a column in order of their texts, and the begin of each text's rows."""
        if column not in self._by_text:
            codes = self._codes(column)
            counts = self.counts(column)
            begin = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            order = order_of(codes, len(counts))
            if column in self.several:
                order = np.repeat(np.arange(self._columns.count), np.diff(self.several[column].begin))[order]
            self._by_text[column] = order, begin
        return self._by_text[column]

    def values(self, column: int, rows: Int64s) -> tuple[Int64s, Int64s]:
        """Return all values of some rows in a column of several, and the place of each one's row."""
        pairs = self.several[column]
        at, back = gather(pairs.begin[rows], np.diff(pairs.begin)[rows])
        return pairs.values[at], back

    def _codes(self, column: int) -> Int64s:
        return self.several[column].values if column in self.several else self._columns.codes(column)
