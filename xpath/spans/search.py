"""The search for the sets of spans that many rows satisfy, over columns (``index`` says how).

A row may have several values in a column.  Then an entry holds where one of them lies in its spans, or, negated, where
none does.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from xscl.base.number_order import each_once, order_of
from xscl.xpath.columns.conditions import Dimension, satisfies
from xscl.xpath.columns.formulas import Single
from xscl.xpath.conditions.intervals import Reading
from xscl.xpath.ranks import Constants
from xscl.xpath.runs import Int64s, distinct, gather, starts
from xscl.xpath.spans.column_rows import ColumnRows
from xscl.xpath.spans.crossings import crossings
from xscl.xpath.spans.tables import Compiled, Ranked, in_parts
from xscl.xpath.spans.words import Columns

__all__ = ["found_sets"]

_NOT_COUNTED = 1 << 40
"""Stands for the rows of an entry that no reading tells."""

Bools = npt.NDArray[np.bool_]


def found_sets(sets: Compiled, columns: Columns) -> Iterator[tuple[Int64s, Int64s]]:
    """Yield (rows, sets) that go together, each pair once, some at a time."""
    yield from _Search(sets, columns).found()


class _Search:
    """One batch of rows."""

    def __init__(self, sets: Compiled, columns: Columns) -> None:
        self.sets = sets
        self.columns = columns

    def found(self) -> Iterator[tuple[Int64s, Int64s]]:
        sets = self.sets
        if not len(sets.set_) or not self.columns.count:
            return
        self.column_rows = ColumnRows(self.columns, sets.column)
        self._rank()
        sizes = self._sizes()
        chosen, counts = self._choose(sizes)
        self._cross(sizes, chosen, counts)
        wanted = np.flatnonzero((sets.set_ >= 0) & (counts > 0))
        amounts = np.where(counts == _NOT_COUNTED, self.columns.count, counts)
        for some in in_parts(wanted, amounts[wanted], sets.set_[wanted]):
            rows, alternative = self._candidates(some, chosen)
            rows, alternative = self._checked(rows, alternative, chosen)
            number = sets.set_[alternative]
            again = sets.several[alternative]
            if self.column_rows.several:
                by = chosen[alternative]
                again = again | ((by >= 0) & self.column_rows.is_several[sets.column[sets.dimension[by]]])
            if again.any():
                both = each_once(number[again] * self.columns.count + rows[again])
                rows = np.concatenate([rows[~again], both % self.columns.count])
                number = np.concatenate([number[~again], both // self.columns.count])
            if len(rows):
                yield rows, number

    # -- ranks -----------------------------------------------------------------------------------------------------

    def _rank(self) -> None:
        sets = self.sets
        told = np.flatnonzero(sets.told).tolist()
        ranked = [self._ranked(sets.dimensions[number], sets.constants[number]) for number in told]
        empty = np.zeros(1, dtype=np.int64)
        # Of each dimension; of those that are not told nothing, before all others.
        self.last, self.offsets, self.texts, self.told = (np.zeros(len(sets.told), dtype=np.int64) for _ in range(4))
        self.last[told] = [len(each.below) - 1 for each in ranked]
        self.offsets[told] = 1 + starts([len(each.below) for each in ranked])
        self.below = np.concatenate([empty, *(each.below for each in ranked)])
        self.begin = np.concatenate([empty, *(each.begin for each in ranked)])
        # All orders of texts, and the ranks of all rows, one dimension after another.
        self.texts[told] = starts([len(each.order) for each in ranked])
        self.all_orders = np.concatenate([empty[:0], *(each.order for each in ranked)])
        self.told[told] = np.arange(len(told))
        count = self.columns.count
        self.rank_of_row = np.zeros(len(told) * count, dtype=np.int32)
        for place, (number, each) in enumerate(zip(told, ranked, strict=True)):
            of = self.rank_of_row[place * count : (place + 1) * count]
            column = sets.dimensions[number].column
            if column not in self.column_rows.several:
                of[:] = each.rank[self.columns.codes(column)]
        self.rank_of_text = np.concatenate([empty[:0], *(each.rank for each in ranked)])
        """Ranks of all texts, and of NULL, one dimension after another."""
        self.ranked_from = np.zeros(len(sets.told), dtype=np.int64)
        self.ranked_from[told] = starts([len(each.rank) for each in ranked])
        self._seek()

    def _seek(self) -> None:
        """Find the texts that have the words which dimensions seek, and count their rows."""
        sets = self.sets
        asked = np.flatnonzero(np.bincount(sets.column[sets.sought])).tolist()
        rows = {column: self.column_rows.counts(column) for column in asked}
        self.words = sets.words.texts(self.columns, rows, len(sets.sought))
        self.rows_with_words = self.words.rows(sets.column, rows)

    def _ranked(self, dimension: Dimension, constants: Constants) -> Ranked:
        rank = np.zeros(self.columns.size(dimension.column) + 1, dtype=np.int64)  # NULL is the last
        if isinstance(dimension.reading, Reading):
            rank[:-1] = constants.ranks(self.columns.texts(dimension.column))
            count = 3 + 2 * len(constants)
        else:
            rank[:-1] = 1
            count = 2
        rows = self.column_rows.counts(dimension.column)
        texts_below = np.cumsum(np.bincount(rank, minlength=count))
        rows_below = np.cumsum(np.bincount(rank, weights=rows, minlength=count)).astype(np.int64)
        first = np.zeros(1, dtype=np.int64)
        return Ranked(
            rank,
            order_of(rank, count),
            np.concatenate([first, texts_below]),
            np.concatenate([first, rows_below]),
        )

    # -- access ----------------------------------------------------------------------------------------------------

    def _sizes(self) -> Int64s:
        """Count the rows that satisfy each entry."""
        sets = self.sets
        of_entry = np.diff(sets.spans)
        dimension = np.repeat(sets.dimension, of_entry)
        last = self.last[dimension]
        base = self.offsets[dimension]
        low, high = np.minimum(sets.low, last), np.minimum(sets.high, last)
        self.low, self.high = low, high
        size: Int64s = self.below[base + high] - self.below[base + low]
        self._of_all = np.zeros(len(sets.dimension), dtype=np.bool_)
        """Entries that all rows satisfy."""
        if not len(size):
            return size
        of_words = np.flatnonzero(sets.sought[dimension])
        with_words = self.rows_with_words[dimension[of_words]]
        without = np.where(self.column_rows.is_several[sets.column[dimension[of_words]]], 0, with_words)
        size[of_words] = np.where(sets.low[of_words] > 0, with_words, self.columns.count - without)
        sizes = np.add.reduceat(size, sets.spans[:-1])
        sizes[sets.negated] = self.columns.count
        by_rank = sets.told[sets.dimension] & ~self.column_rows.is_several[sets.column[sets.dimension]]
        self._of_all = by_rank & ~sets.negated & (sizes == self.columns.count)
        found: Int64s = np.where((sets.told | sets.sought)[sets.dimension], sizes, _NOT_COUNTED)
        return found

    def _choose(self, sizes: Int64s) -> tuple[Int64s, Int64s]:
        """Choose for each alternative the entry that the fewest rows satisfy, and count them; -1 where it has none, or
        one that says what its rows have not.
        """
        sets = self.sets
        chosen = np.full(len(sets.set_), -1, dtype=np.int64)
        counts = np.full(len(sets.set_), self.columns.count, dtype=np.int64)
        some = np.flatnonzero(np.diff(sets.entries))
        if len(some):
            starts = sets.entries[some]
            counts[some] = np.minimum.reduceat(sizes, starts)
            least = np.flatnonzero(sizes == np.repeat(counts[some], np.diff(sets.entries)[some]))
            found = least[np.searchsorted(least, starts)]
            without = sets.sought[sets.dimension[found]] & (sets.low[sets.spans[found]] == 0)
            chosen[some] = np.where(without | sets.negated[found], -1, found)
        return chosen, counts

    def _cross(self, sizes: Int64s, chosen: Int64s, counts: Int64s) -> None:
        """Find the rows of alternatives by two entries, where this is sooner done."""
        sets = self.sets
        single = sets.told & ~self.column_rows.is_several[sets.column]
        self._crossings = crossings(
            sets, sizes, counts, self.low, self.high, single, self.columns.count, self._ranks_of_rows
        )
        if self._crossings is not None:
            crossed = self._crossings.begin >= 0
            counts[crossed] = self._crossings.count[crossed]
            chosen[crossed] = self._crossings.by[crossed]

    def _ranks_of_rows(self, dimension: int) -> Int64s:
        begin = self.told[dimension] * self.columns.count
        return self.rank_of_row[begin : begin + self.columns.count].astype(np.int64)

    def _candidates(self, some: Int64s, chosen: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows that satisfy the chosen entries of some alternatives; (rows, alternatives)."""
        sets, count = self.sets, self.columns.count
        parts: list[tuple[Int64s, Int64s]] = []
        if self._crossings is not None:
            crossed = self._crossings.begin[some] >= 0
            parts.append(self._crossings.of(some[crossed]))
            some = some[~crossed]
        entries = chosen[some]
        free = some[entries < 0]
        if len(free):
            parts.append((np.tile(np.arange(count), len(free)), np.repeat(free, count)))
        some, entries = some[entries >= 0], entries[entries >= 0]
        told = sets.told[sets.dimension[entries]]
        have = sets.sought[sets.dimension[entries]]
        parts.append(self._rows_with_words(some[have], entries[have]))
        others = ~(told | have)
        for alternative, entry in zip(some[others].tolist(), entries[others].tolist(), strict=True):
            rows = self._rows_by_evaluation(entry)
            parts.append((rows, np.full(len(rows), alternative)))
        some, entries = some[told], entries[told]
        dimension = sets.dimension[entries]
        columns = sets.column[dimension]
        for column in np.flatnonzero(np.bincount(columns)).tolist():
            of = columns == column
            parts.append(self._slices(column, some[of], entries[of]))
        return (
            np.concatenate([np.empty(0, dtype=np.int64), *(rows for rows, _ in parts)]),
            np.concatenate([np.empty(0, dtype=np.int64), *(of for _, of in parts)]),
        )

    def _slices(self, column: int, some: Int64s, entries: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows that satisfy the chosen entries of one column; (rows, alternatives)."""
        sets = self.sets
        span, of = gather(sets.spans[entries], np.diff(sets.spans)[entries])
        dimension = sets.dimension[entries][of]
        base = self.offsets[dimension]
        first, behind = self.begin[base + self.low[span]], self.begin[base + self.high[span]]
        at, back = gather(self.texts[dimension] + first, behind - first)
        of, text = of[back], self.all_orders[at]
        order, begin = self.column_rows.ordered(column)
        row, back = gather(begin[text], self.column_rows.counts(column)[text])
        return order[row], some[of[back]]

    def _rows_with_words(self, some: Int64s, entries: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows that have the words of the chosen entries; (rows, alternatives)."""
        parts = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
        dimension = self.sets.dimension[entries]
        columns = self.sets.column[dimension]
        for column in np.flatnonzero(np.bincount(columns)).tolist():
            of = np.flatnonzero(columns == column)
            text, at = self.words.of(dimension[of])
            order, begin = self.column_rows.ordered(column)
            row, back = gather(begin[text], self.column_rows.counts(column)[text])
            parts.append((order[row], some[of[at[back]]]))
        rows, alternatives = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(alternatives)

    def _rows_by_evaluation(self, entry: int) -> Int64s:
        """Return the rows that satisfy an entry whose rows are not told by order."""
        number = int(self.sets.dimension[entry])
        column = self.sets.dimensions[number].column
        rows = self.column_rows.counts(column)
        present = np.flatnonzero(rows)
        held = self._inside(self._evaluated(number, present), np.full(len(present), entry))
        order, begin = self.column_rows.ordered(column)
        texts = present[held]
        return order[gather(begin[texts], rows[texts])[0]]

    def _evaluated(self, number: int, texts: Int64s) -> Int64s:
        """Return the ranks of some texts in a dimension where a condition is true or false."""
        dimension = self.sets.dimensions[number]
        assert isinstance(dimension.reading, Single)
        known = self.columns.texts(dimension.column)
        values = (known[text].as_py() if text < len(known) else None for text in texts.tolist())
        return np.array([satisfies(dimension.reading, value) for value in values], dtype=np.int64)

    # -- the other entries -----------------------------------------------------------------------------------------

    def _checked(self, rows: Int64s, alternative: Int64s, chosen: Int64s) -> tuple[Int64s, Int64s]:
        """Return the candidates that satisfy all entries."""
        sets = self.sets
        others = np.diff(sets.entries)[alternative] - (chosen[alternative] >= 0)
        if not others.any():
            return rows, alternative
        # One entry after another: what does not satisfy one is not asked for the next.
        done = [np.flatnonzero(others == 0)]
        left, nth = np.flatnonzero(others), 0
        while len(left):
            of = alternative[left]
            entry = sets.entries[of] + nth
            there = entry < sets.entries[of + 1]
            if not there.all():
                done.append(left[~there])
                left, entry, of = left[there], entry[there], of[there]
            asked = np.flatnonzero((entry != chosen[of]) & ~self._of_all[entry])
            holds = np.ones(len(left), dtype=np.bool_)
            holds[asked] = self._holding(rows[left[asked]], entry[asked])
            left = left[holds]
            nth += 1
        kept = np.concatenate(done)
        return rows[kept], alternative[kept]

    def _holding(self, rows: Int64s, entries: Int64s) -> Bools:
        """Whether each of some rows satisfies the entry beside it."""
        sets = self.sets
        dimension = sets.dimension[entries]
        rank = np.zeros(len(rows), dtype=np.int64)
        told = sets.told[dimension]
        rank[told] = self.rank_of_row[self.told[dimension[told]] * self.columns.count + rows[told]]
        self._rank_by_words(rank, rows, dimension)
        untold = np.flatnonzero(~(told | sets.sought[dimension]) & ~self.column_rows.is_several[sets.column[dimension]])
        for number in np.flatnonzero(np.bincount(dimension[untold])).tolist():
            of = untold[dimension[untold] == number]
            text = self.columns.codes(sets.dimensions[number].column)[rows[of]]
            known, which = distinct(text)
            rank[of] = self._evaluated(number, known)[which]
        held = self._inside(rank, entries)
        if self.column_rows.several:
            self._hold_several(held, rows, entries)
        return held ^ sets.negated[entries]

    def _hold_several(self, held: Bools, rows: Int64s, entries: Int64s) -> None:
        """Tell which rows have a value in the spans of entries on columns of several values, words apart."""
        sets = self.sets
        dimension = sets.dimension[entries]
        asked = np.flatnonzero(self.column_rows.is_several[sets.column[dimension]] & ~sets.sought[dimension])
        for column in np.flatnonzero(np.bincount(sets.column[dimension[asked]])).tolist():
            of = asked[sets.column[dimension[asked]] == column]
            value, back = self.column_rows.values(column, rows[of])
            inner = dimension[of][back]
            rank = np.zeros(len(value), dtype=np.int64)
            told = sets.told[inner]
            rank[told] = self.rank_of_text[self.ranked_from[inner[told]] + value[told]]
            for number in np.flatnonzero(np.bincount(inner[~told])).tolist():
                these = np.flatnonzero(inner == number)
                known, which = distinct(value[these])
                rank[these] = self._evaluated(number, known)[which]
            inside = self._inside(rank, entries[of][back])
            held[of] = np.bincount(back[inside], minlength=len(of)) > 0

    def _rank_by_words(self, rank: Int64s, rows: Int64s, dimension: Int64s) -> None:
        """Set the ranks in dimensions that seek words: 1 for rows that have them."""
        of_words = np.flatnonzero(self.sets.sought[dimension])
        columns = self.sets.column[dimension[of_words]]
        for column in np.flatnonzero(np.bincount(columns)).tolist():
            of = of_words[columns == column]
            if column in self.column_rows.several:
                value, back = self.column_rows.values(column, rows[of])
                has = self.words.holds(dimension[of][back], value)
                rank[of] = np.bincount(back[has], minlength=len(of)) > 0
            else:
                rank[of] = self.words.holds(dimension[of], self.columns.codes(column)[rows[of]])

    def _inside(self, rank: npt.NDArray[np.integer], entries: Int64s) -> Bools:
        """Whether each rank lies in a span of the entry beside it."""
        sets = self.sets
        span, behind = sets.spans[entries], sets.spans[entries + 1]
        held: Bools = (sets.low[span] <= rank) & (rank < sets.high[span])
        more = np.flatnonzero(behind - span > 1)
        if len(more):
            at, back = gather(span[more], (behind - span)[more])
            inside = (sets.low[at] <= rank[more][back]) & (rank[more][back] < sets.high[at])
            held[more] = np.bincount(back[inside], minlength=len(more)) > 0
        return held
