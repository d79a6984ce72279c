"""Sets of conditions that many rows satisfy, found in one pass over columns.

Every set is filed as its alternatives (``column_conditions``).  Each text of a column is ranked once for each reading
among the constants of all sets; what an entry asks is then spans of ranks, and the rows of a span are found by the
order of the ranks.  An alternative is looked up by the entry that the fewest rows of this batch satisfy, as counting
tells for all of them at once, and these rows are checked for its other entries.  (The idea is the grouped filter of
Madden et al., *Continuously Adaptive Continuous Queries over Streams*, 2002, turned round: many rows at a time.)

So a batch costs its rows times the readings, what it finds, and some additions a set; nothing is done set by set.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from xscl.xpath.column_conditions import Alternative, Dimension, Single, Sought, satisfies
from xscl.xpath.intervals import Key, Reading
from xscl.xpath.row_columns import RowColumns, ranks
from xscl.xpath.runs import Int64s, gather, starts
from xscl.xpath.span_tables import Compiled, Ends, Ranked, number_array
from xscl.xpath.span_words import WordsOfColumns

__all__ = ["SpanIndex"]

_CANDIDATES = 500_000
"""Rows that are checked at a time, which should stay in the processor's memory."""


_NOT_COUNTED = 1 << 40
"""Stands for the rows of an entry that no reading tells."""


class SpanIndex:
    """Sets of conditions by number; those of a row are found together."""

    def __init__(self) -> None:
        self._dimensions: dict[Dimension, int] = {}
        self._constants: list[dict[Key, int]] = []
        """Constants of each dimension, numbered in the order in which they came."""
        self._seeking = 0
        """Number of dimensions that seek words."""
        self._live: set[int] = set()
        self._filed = 0
        """Sets in the arrays, those that are gone among them."""
        self._alternative_set = array("q")
        self._entry_alternative = array("q")
        self._entry_dimension = array("q")
        self._span_entry = array("q")
        self._words = WordsOfColumns()
        # Boundaries: a rank, or a constant and whether behind it.
        self._span_ends = (Ends(), Ends())
        self._compiled: Compiled | None = None

    @property
    def dimensions(self) -> int:
        """Return the number of ways to read columns; words that are sought in the same texts are one."""
        return len(self._dimensions) - self._seeking + len(self._words)

    @property
    def worn(self) -> bool:
        """Whether most of what is here is of sets that are gone."""
        return self._filed > 2 * len(self._live) + 100

    def add(self, number: int, alternatives: Iterable[Alternative]) -> None:
        """File a set; its number was never here."""
        self._compiled = None
        self._live.add(number)
        self._filed += 1
        for alternative in alternatives:
            for dimension, values in alternative.items():
                of = self._dimensions.setdefault(dimension, len(self._dimensions))
                if of == len(self._constants):
                    self._constants.append({})
                    if isinstance(dimension.reading, Sought):
                        self._words.add(of, dimension)
                        self._seeking += 1
                for span in values:
                    self._span_entry.append(len(self._entry_dimension))
                    for ends, boundary in zip(self._span_ends, span, strict=True):
                        ends.append(boundary, self._constants[of])
                self._entry_alternative.append(len(self._alternative_set))
                self._entry_dimension.append(of)
            self._alternative_set.append(number)

    def remove(self, number: int) -> None:
        """Take a set out."""
        self._live.remove(number)
        if self._compiled is not None:
            self._compiled.drop(number)

    def satisfied(self, columns: RowColumns) -> Iterator[tuple[Int64s, Int64s]]:
        """(rows, sets) that go together, each pair once, some at a time."""
        if self._compiled is None:
            self._compiled = self._compile()
        yield from _Search(self._compiled, columns).found()

    def _compile(self) -> Compiled:
        return Compiled.of(
            list(self._dimensions),
            self._constants,
            number_array(self._alternative_set),
            number_array(self._entry_alternative),
            number_array(self._entry_dimension),
            number_array(self._span_entry),
            self._span_ends,
            self._live,
            self._words,
        )


class _Search:
    """One batch of rows."""

    def __init__(self, sets: Compiled, columns: RowColumns) -> None:
        self.sets = sets
        self.columns = columns
        self._by_text: dict[int, tuple[Int64s, Int64s]] = {}
        """Rows of each column in order of their texts, and the begin of each text's rows."""
        self._rows_of_text: dict[int, Int64s] = {}

    def found(self) -> Iterator[tuple[Int64s, Int64s]]:
        sets = self.sets
        if not len(sets.set_) or not self.columns.count:
            return
        self._rank()
        sizes = self._sizes()
        chosen, counts = self._choose(sizes)
        wanted = np.flatnonzero((sets.set_ >= 0) & (counts > 0))
        for some in _parts(wanted, np.minimum(counts[wanted], self.columns.count), sets.set_[wanted]):
            rows, alternative = self._candidates(some, chosen)
            rows, alternative = self._checked(rows, alternative, chosen)
            number = sets.set_[alternative]
            again = sets.several[alternative]
            if again.any():
                both = np.unique(number[again] * self.columns.count + rows[again])
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
            of[:] = each.rank[self.columns.codes(sets.dimensions[number].column)]
        self._seek()

    def _seek(self) -> None:
        """Find the texts that have the words which dimensions seek, and count their rows."""
        sets = self.sets
        asked = np.flatnonzero(np.bincount(sets.column[sets.sought])).tolist()
        rows = {column: self._rows(column) for column in asked}
        self.words = sets.words.texts(self.columns, rows, len(sets.sought))
        self.rows_with_words = self.words.rows(sets.column, rows)

    def _ranked(self, dimension: Dimension, constants: Sequence[Key]) -> Ranked:
        texts = self.columns.texts(dimension.column)
        rank = np.zeros(len(texts) + 1, dtype=np.int64)  # NULL is the last
        if isinstance(dimension.reading, Reading):
            rank[:-1] = ranks(dimension.reading, texts, constants)
            count = 3 + 2 * len(constants)
        else:
            rank[:-1] = 1
            count = 2
        rows = self._rows(dimension.column)
        texts_below = np.cumsum(np.bincount(rank, minlength=count))
        rows_below = np.cumsum(np.bincount(rank, weights=rows, minlength=count)).astype(np.int64)
        first = np.zeros(1, dtype=np.int64)
        return Ranked(
            rank,
            np.argsort(rank, kind="stable"),
            np.concatenate([first, texts_below]),
            np.concatenate([first, rows_below]),
        )

    def _rows(self, column: int) -> Int64s:
        """Count the rows that have each text of a column, and NULL."""
        if column not in self._rows_of_text:
            codes = self.columns.codes(column)
            self._rows_of_text[column] = np.bincount(codes, minlength=len(self.columns.texts(column)) + 1)
        return self._rows_of_text[column]

    def _ordered(self, column: int) -> tuple[Int64s, Int64s]:
        if column not in self._by_text:
            codes = self.columns.codes(column)
            rows = self._rows(column)
            small = codes.astype(np.uint16) if len(rows) <= 1 << 16 else codes  # sorted by their digits
            begin = np.concatenate([[0], np.cumsum(rows)]).astype(np.int64)
            self._by_text[column] = np.argsort(small, kind="stable"), begin
        return self._by_text[column]

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
        if not len(size):
            return size
        of_words = np.flatnonzero(sets.sought[dimension])
        with_words = self.rows_with_words[dimension[of_words]]
        size[of_words] = np.where(sets.low[of_words] > 0, with_words, self.columns.count - with_words)
        sizes = np.add.reduceat(size, sets.spans[:-1])
        found: Int64s = np.where((sets.told | sets.sought)[sets.dimension], sizes, _NOT_COUNTED)
        return found

    def _choose(self, sizes: Int64s) -> tuple[Int64s, Int64s]:
        """Choose for each alternative the entry that the fewest rows satisfy, and count them; -1 and all where it has
        none.
        """
        sets = self.sets
        chosen = np.full(len(sets.set_), -1, dtype=np.int64)
        counts = np.full(len(sets.set_), self.columns.count, dtype=np.int64)
        some = np.flatnonzero(np.diff(sets.entries))
        if len(some):
            starts = sets.entries[some]
            counts[some] = np.minimum.reduceat(sizes, starts)
            least = np.flatnonzero(sizes == np.repeat(counts[some], np.diff(sets.entries)[some]))
            chosen[some] = least[np.searchsorted(least, starts)]
        return chosen, counts

    def _candidates(self, some: Int64s, chosen: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows that satisfy the chosen entries of some alternatives; (rows, alternatives)."""
        sets, count = self.sets, self.columns.count
        entries = chosen[some]
        parts: list[tuple[Int64s, Int64s]] = []
        free = some[entries < 0]
        if len(free):
            parts.append((np.tile(np.arange(count), len(free)), np.repeat(free, count)))
        some, entries = some[entries >= 0], entries[entries >= 0]
        told = sets.told[sets.dimension[entries]]
        have = sets.sought[sets.dimension[entries]] & (sets.low[sets.spans[entries]] > 0)
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
        order, begin = self._ordered(column)
        row, back = gather(begin[text], self._rows(column)[text])
        return order[row], some[of[back]]

    def _rows_with_words(self, some: Int64s, entries: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows that have the words of the chosen entries; (rows, alternatives)."""
        parts = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))]
        dimension = self.sets.dimension[entries]
        columns = self.sets.column[dimension]
        for column in np.flatnonzero(np.bincount(columns)).tolist():
            of = np.flatnonzero(columns == column)
            text, at = self.words.of(dimension[of])
            order, begin = self._ordered(column)
            row, back = gather(begin[text], self._rows(column)[text])
            parts.append((order[row], some[of[at[back]]]))
        rows, alternatives = zip(*parts, strict=True)
        return np.concatenate(rows), np.concatenate(alternatives)

    def _rows_by_evaluation(self, entry: int) -> Int64s:
        """Return the rows that satisfy an entry whose rows are not told by order."""
        number = int(self.sets.dimension[entry])
        column = self.sets.dimensions[number].column
        rows = self._rows(column)
        present = np.flatnonzero(rows)
        held = self._inside(self._evaluated(number, present), np.full(len(present), entry))
        order, begin = self._ordered(column)
        texts = present[held]
        return order[gather(begin[texts], rows[texts])[0]]

    def _evaluated(self, number: int, texts: Int64s) -> Int64s:
        """Return the ranks of some texts in a dimension where a condition is true or false."""
        dimension = self.sets.dimensions[number]
        if isinstance(dimension.reading, Sought):
            return self.words.holds(np.full(len(texts), number), texts).astype(np.int64)
        assert isinstance(dimension.reading, Single)
        known = self.columns.texts(dimension.column)
        values = (known[text].as_py() if text < len(known) else None for text in texts.tolist())
        return np.array([satisfies(dimension.reading, value) for value in values], dtype=np.int64)

    # -- the other entries -----------------------------------------------------------------------------------------

    def _checked(self, rows: Int64s, alternative: Int64s, chosen: Int64s) -> tuple[Int64s, Int64s]:
        """Return the candidates that satisfy all entries."""
        sets = self.sets
        others = np.diff(sets.entries)[alternative]
        if not (others > 1).any():
            return rows, alternative
        # One entry after another: what does not satisfy one is not asked for the next.
        done = [np.flatnonzero(others <= 1)]
        left, nth = np.flatnonzero(others > 1), 0
        while len(left):
            of = alternative[left]
            entry = sets.entries[of] + nth
            there = entry < sets.entries[of + 1]
            if not there.all():
                done.append(left[~there])
                left, entry, of = left[there], entry[there], of[there]
            asked = np.flatnonzero(entry != chosen[of])
            holds = np.ones(len(left), dtype=np.bool_)
            holds[asked] = self._holding(rows[left[asked]], entry[asked])
            left = left[holds]
            nth += 1
        kept = np.concatenate(done)
        return rows[kept], alternative[kept]

    def _holding(self, rows: Int64s, entries: Int64s) -> npt.NDArray[np.bool_]:
        """Whether each of some rows satisfies the entry beside it."""
        sets = self.sets
        dimension = sets.dimension[entries]
        rank = np.zeros(len(rows), dtype=np.int64)
        told = sets.told[dimension]
        rank[told] = self.rank_of_row[self.told[dimension[told]] * self.columns.count + rows[told]]
        self._rank_by_words(rank, rows, dimension)
        if not (sets.told | sets.sought).all():
            untold = ~(sets.told | sets.sought) & (np.bincount(dimension, minlength=len(sets.told)) > 0)
            for number in np.flatnonzero(untold).tolist():
                of = np.flatnonzero(dimension == number)
                text = self.columns.codes(sets.dimensions[number].column)[rows[of]]
                distinct, which = np.unique(text, return_inverse=True)
                rank[of] = self._evaluated(number, distinct)[which]
        return self._inside(rank, entries)

    def _rank_by_words(self, rank: Int64s, rows: Int64s, dimension: Int64s) -> None:
        """Set the ranks in dimensions that seek words: 1 for rows that have them."""
        of_words = np.flatnonzero(self.sets.sought[dimension])
        columns = self.sets.column[dimension[of_words]]
        for column in np.flatnonzero(np.bincount(columns)).tolist():
            of = of_words[columns == column]
            rank[of] = self.words.holds(dimension[of], self.columns.codes(column)[rows[of]])

    def _inside(self, rank: npt.NDArray[np.integer], entries: Int64s) -> npt.NDArray[np.bool_]:
        """Whether each rank lies in a span of the entry beside it."""
        sets = self.sets
        span, behind = sets.spans[entries], sets.spans[entries + 1]
        held: npt.NDArray[np.bool_] = (sets.low[span] <= rank) & (rank < sets.high[span])
        more = np.flatnonzero(behind - span > 1)
        if len(more):
            at, back = gather(span[more], (behind - span)[more])
            inside = (sets.low[at] <= rank[more][back]) & (rank[more][back] < sets.high[at])
            held[more] = np.bincount(back[inside], minlength=len(more)) > 0
        return held


def _parts(wanted: Int64s, counts: Int64s, sets: Int64s) -> Iterator[Int64s]:
    """Yield some alternatives at a time, whose counts are together about ``_CANDIDATES``; a set's stay together."""
    if not len(wanted):
        return
    number = (np.cumsum(counts) - counts) // _CANDIDATES
    cuts = (np.diff(number) > 0) & (np.diff(sets) != 0)
    yield from np.split(wanted, np.flatnonzero(cuts) + 1)
