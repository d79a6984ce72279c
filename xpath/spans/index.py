"""Sets of conditions that many rows satisfy, found in one pass over columns.

Every set is filed as its alternatives (``columns.conditions``).  Each text of a column is ranked once for each reading
among the constants of all sets; what an entry asks is then spans of ranks, and the rows of a span are found by the
order of the ranks.  An alternative is looked up by the entry that the fewest rows of this batch satisfy, as counting
tells for all of them at once, and these rows are checked for its other entries.  (The idea is the grouped filter of
Madden et al., *Continuously Adaptive Continuous Queries over Streams*, 2002, turned round: many rows at a time.)

So a batch costs its rows times the readings, what it finds, and some additions a set; nothing is done set by set.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import replace

from xscl.xpath.columns.conditions import FALSE, TRUE, Alternative, Dimension, Sought
from xscl.xpath.columns.formulas import Told
from xscl.xpath.conditions.intervals import Key
from xscl.xpath.runs import Int64s
from xscl.xpath.spans.search import found_sets
from xscl.xpath.spans.tables import Compiled, Ends, number_array
from xscl.xpath.spans.words import Columns, WordsOfColumns

__all__ = ["SpanIndex"]


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
        self._entry_negated = array("q")
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
                negated = False
                if dimension.is_truth and values not in (TRUE, FALSE):
                    continue  # true of all rows
                if (some := dimension.some) is not None:
                    negated = values == FALSE
                    dimension, values = replace(dimension, some=None), some
                of = self._dimensions.setdefault(dimension, len(self._dimensions))
                if of == len(self._constants):
                    self._constants.append({})
                    if isinstance(dimension.reading, Sought | Told):
                        self._words.add(of, dimension)
                        self._seeking += 1
                for span in values:
                    self._span_entry.append(len(self._entry_dimension))
                    for ends, boundary in zip(self._span_ends, span, strict=True):
                        ends.append(boundary, self._constants[of])
                self._entry_alternative.append(len(self._alternative_set))
                self._entry_dimension.append(of)
                self._entry_negated.append(negated)
            self._alternative_set.append(number)

    def remove(self, number: int) -> None:
        """Take a set out."""
        self._live.remove(number)
        if self._compiled is not None:
            self._compiled.drop(number)

    def satisfied(self, columns: Columns) -> Iterator[tuple[Int64s, Int64s]]:
        """Yield (rows, sets) that go together, each pair once, some at a time."""
        if self._compiled is None:
            self._compiled = self._compile()
        yield from found_sets(self._compiled, columns)

    def _compile(self) -> Compiled:
        return Compiled.of(
            list(self._dimensions),
            self._constants,
            number_array(self._alternative_set),
            number_array(self._entry_alternative),
            number_array(self._entry_dimension),
            number_array(self._entry_negated),
            number_array(self._span_entry),
            self._span_ends,
            self._live,
            self._words,
        )
