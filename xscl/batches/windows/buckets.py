"""Buckets of matches: what aggregates need of the matches of a group in a short time, in place of the matches.

Windows with EVERY begin and end at multiples of a common divisor of their lengths and steps, so each has whole buckets.
A bucket of a group has counts, sums and extremes, and a window merges those of its buckets.  All families of a part
with the same groups share buckets, whatever the lengths, steps, conditions and TOP of their windows are.

A bucket is made once, when its time is settled: nothing comes into it any more.  Queries that were registered at
different places see different matches.  So a bucket has matches that the same queries see, and a time has a bucket for
each such choice.  A later query sees none of the matches that are in buckets by then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import gcd, lcm
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.number_order import each_once
from xscl.base.values import digest_text
from xscl.batches.windows.groups import Matches, Partial
from xscl.batches.windows.values import NOTHING, Column, exact_text, whole_multiples
from xscl.language.aggregates import Counted, Definition
from xscl.language.terms import Term
from xscl.templates.columns import Bools, Int64s

__all__ = ["Buckets", "Shape", "folded", "key_of", "partials_of", "pays", "shape_of", "together", "width_of"]

LEAST_ROWS = 1_000
"""Matches for which buckets are worth their while, at least."""
FEWER = 8
"""Matches of a bucket, at least, on average: those of a bucket are read at once, but its values are texts."""
OLDER = 0.5
"""Share of them that were there before the batch, at least: others would be read once in either way."""
PER_WINDOW = 64
"""Buckets of the longest window, about."""
_UNMERGED = ("first", "last")
_PARTIALS = {"avg": ("sum", "numbers"), "sum": ("sum",), "min": ("min",), "max": ("max",), "count": ("count",)}
_WHOLE = r"^-?[0-9]{1,18}$"


@dataclass(frozen=True, slots=True)
class Shape:
    """Values by which matches are in the same bucket, of those of a time."""

    group: tuple[Term, ...]
    distinct: tuple[Term, ...]
    """Values whose different ones are counted, apart from those of the group."""


def shape_of(definition: Definition) -> Shape | None:
    """Return how buckets serve a definition; None: they do not, because it is a question of single matches."""
    if definition.every is None or definition.crossing:
        return None
    if any(each.function in _UNMERGED for each in definition.aggregates):
        return None
    distinct = dict.fromkeys(each.term for each in definition.aggregates if each.distinct and each.term is not None)
    return Shape(definition.group, tuple(sorted((set(distinct) - set(definition.group)), key=repr)))


@lru_cache(maxsize=1 << 12)
def key_of(of: Shape | Partial | Term) -> str:
    """Return a name of a shape, or of a column of buckets, that stays the same."""
    return digest_text(repr(of))


def partials_of(aggregates: Iterable[Counted]) -> tuple[Partial, ...]:
    """Return what buckets need to have for some aggregates; they always have the number of their matches."""
    found = {Partial("count", None): None}
    for each in aggregates:
        if each.term is not None and not each.distinct:
            found.update((Partial(name, each.term), None) for name in _PARTIALS[each.function])
    return tuple(found)


def width_of(windows: Iterable[tuple[int, int]]) -> int:
    """Return the length of buckets for some windows, each a length and a step.

    >>> width_of([(3600, 600)]), width_of([(3600, 600), (90, 90)]), width_of([(64, 64)])
    (60, 30, 1)
    """
    windows = list(windows)
    whole, longest = gcd(*(time for of in windows for time in of)), max(length for length, _ in windows)
    parts = range(PER_WINDOW, 1, -1)
    return next((whole // n for n in parts if not whole % n and whole // n * PER_WINDOW >= longest), whole)


@dataclass(frozen=True)
class Buckets:
    """Buckets of a shape for the windows over a part, by time."""

    until: int
    """Time before which matches are in buckets."""
    rows: pa.Table
    """Their times, the least place of a member of one of their matches, and when the last of these was received."""
    columns: Mapping[str, pa.Array]
    """Texts by ``key_of``: of the group, of values whose different ones are counted, and of partial aggregates."""

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    @property
    def nbytes(self) -> int:
        """Return its bytes, about."""
        return int(self.rows.nbytes + sum(column.nbytes for column in self.columns.values()))

    @cached_property
    def matches(self) -> Matches:
        """Return the buckets as matches are asked for."""
        return _InBuckets(self)

    def since(self, time: int) -> Buckets:
        """Return those that begin at a time or later."""
        behind = int(np.searchsorted(self.rows.column("ts").to_numpy(), time))
        if not behind:
            return self
        columns = {name: column.slice(behind) for name, column in self.columns.items()}
        return Buckets(self.until, self.rows.slice(behind), columns)


class _InBuckets(Matches):
    """Buckets, each in place of its matches."""

    def __init__(self, buckets: Buckets) -> None:
        super().__init__(buckets.rows)
        self.merged, self._texts = True, buckets.columns

    def column(self, term: Term | Partial) -> Column:
        """Return a value of each bucket."""
        if term not in self._columns:
            self._columns[term] = self._made(term)
        return self._columns[term]

    def _made(self, term: Term | Partial) -> Column:
        if not len(self):
            return Column(self.ts, ())
        encoded = self._texts[key_of(term)].dictionary_encode()
        numbers, texts = encoded.indices.to_numpy().astype(np.int64), encoded.dictionary.to_pylist()
        nothing = np.array([not text for text in texts], dtype=np.bool_)
        # A text begins with a mark, so nothing is another text than the empty one.
        found = np.where(nothing[numbers], NOTHING, numbers)
        if isinstance(term, Partial):
            return _Numbers(found, texts)
        return Column(found, [text[1:] for text in texts])


@dataclass
class _Numbers(Column):
    """Partial aggregates, which are numbers or nothing."""

    @cached_property
    def numbers(self) -> tuple[npt.NDArray[Any], Bools, int]:
        """Return the numbers of the texts as multiples of a fraction, which texts are numbers, and its denominator."""
        there = [bool(text) for text in self.texts]
        texts = pa.array([text or "0" for text in self.texts], pa.string())
        if pc.all(pc.match_substring_regex(texts, _WHOLE)).as_py():
            whole, scale = texts.cast(pa.int64()).to_pylist(), 1
        else:
            found = [Fraction(text) for text in texts.to_pylist()]
            scale = lcm(*(number.denominator for number in found))
            whole = [int(number * scale) for number in found]
        return whole_multiples(whole, len(self.codes)), np.array(there, dtype=np.bool_), scale


# -- made of matches -----------------------------------------------------------------------------------------------


def folded(
    matches: Matches, shape: Shape, partials: Sequence[Partial], width: int, until: int, sees: Int64s
) -> Buckets:
    """Return the buckets of matches before a time.

    Args:
        matches: matches whose times are settled.
        shape: what they are grouped by.
        partials: what is made of those of a bucket.
        width: length of a bucket.
        until: the time, a multiple of it.
        sees: places after which queries see matches, ascending.
    """
    cells = _Cells(matches, shape, width, sees)
    rows = pa.table(
        {
            "ts": matches.ts[cells.one] // width * width,
            "first": matches.first[cells.one],
            "received": np.maximum.reduceat(matches.received[cells.order], cells.begins) if len(cells) else cells.one,
        }
    )
    columns = {key_of(term): _marked(matches.column(term), cells.one) for term in (*shape.group, *shape.distinct)}
    columns |= {key_of(partial): cells.partial(partial) for partial in partials}
    return Buckets(until, rows, columns)


def together(old: Buckets, new: Buckets) -> Buckets:
    """Return buckets and those behind them, with the columns of the latter.

    Whoever needs a column that the old ones lack came after their matches.
    """
    columns = {}
    for name, column in new.columns.items():
        before = old.columns.get(name)
        before = pa.array([""] * len(old), pa.string()) if before is None else before
        columns[name] = pa.concat_arrays([before, column])
    rows = pa.concat_tables([old.rows, new.rows]).combine_chunks()
    found = rows.column("ts").to_numpy()
    if (np.diff(found) < 0).any():  # buckets were shorter before
        order = pa.array(np.argsort(found, kind="stable"))
        rows, columns = rows.take(order), {name: column.take(order) for name, column in columns.items()}
    return Buckets(new.until, rows, columns)


def pays(matches: Matches, shape: Shape, width: int, until: int, before: int) -> bool:
    """Tell whether buckets cost less than matches: these are many, most are there longer, and a bucket has several.

    Args:
        matches: matches of a part.
        shape: what buckets would be of.
        width: length of a bucket.
        until: time before which buckets would be.
        before: time up to which windows were answered by the last batch.
    """
    end, old = np.searchsorted(matches.ts, [until, min(before, until)]).tolist()
    if end < max(LEAST_ROWS, 1) or old < OLDER * end:
        return False
    begin = min(int(np.searchsorted(matches.ts, matches.ts[end - 1] // width * width)), end - LEAST_ROWS)
    some = matches.some(np.arange(max(begin, 0), end))
    return len(_Cells(some, shape, width, np.empty(0, np.int64))) * FEWER <= len(some)


class _Cells:
    """Matches by buckets, groups and who sees them."""

    def __init__(self, matches: Matches, shape: Shape, width: int, sees: Int64s) -> None:
        self._matches = matches
        groups = matches.groups(shape.group)
        rows = np.flatnonzero(groups.there)
        times = matches.ts[rows] // width
        codes = _numbered(times) * (len(sees) + 1) + np.searchsorted(sees, matches.first[rows], "left")
        codes = _numbered(codes) * (int(groups.codes.max(initial=0)) + 1) + groups.codes[rows]
        for term in shape.distinct:
            column = matches.column(term)
            codes = _numbered(codes) * (len(column.texts) + 1) + column.codes[rows] + 1
        _, cells, counts = np.unique(codes, return_inverse=True, return_counts=True)
        order = np.argsort(cells.reshape(-1), kind="stable")
        self.order: Int64s = rows[order]
        """Matches by buckets."""
        self.begins: Int64s = np.cumsum(counts) - counts
        self.one: Int64s = self.order[self.begins]
        """A match of each bucket."""
        self._counts = counts.astype(np.int64)
        self._cells: Int64s = cells.reshape(-1)[order]

    def __len__(self) -> int:
        return len(self.one)

    def partial(self, partial: Partial) -> pa.Array:
        """Return an aggregate of each bucket as a text; of no value an empty one."""
        if partial.term is None:
            return pa.array(self._counts).cast(pa.string())
        column = self._matches.column(partial.term)
        codes = column.codes[self.order]
        there = codes != NOTHING
        if partial.function == "count":
            return pa.array(np.bincount(self._cells[there], minlength=len(self))).cast(pa.string())
        numbers, are_numbers, scale = column.numbers
        there[there] = are_numbers[codes[there]]
        cells = self._cells[there]
        if partial.function == "numbers":
            return pa.array(np.bincount(cells, minlength=len(self))).cast(pa.string())
        begins = np.flatnonzero(np.diff(cells, prepend=-1))
        made = {"sum": np.add, "min": np.minimum, "max": np.maximum}[partial.function]
        values = made.reduceat(numbers[codes[there]], begins) if len(begins) else numbers[:0]
        texts = [str(value) if scale == 1 else exact_text(Fraction(value, scale)) for value in values.tolist()]
        found = np.full(len(self), "", dtype=object)
        found[cells[begins]] = texts
        return pa.array(found.tolist(), pa.string())


def _numbered(codes: Int64s) -> Int64s:
    """Return small numbers for codes, in their order."""
    return np.searchsorted(each_once(codes), codes)


def _marked(column: Column, which: Int64s) -> pa.Array:
    """Return texts of some matches with a mark; of no value an empty one."""
    texts = pa.array([*(f"={text}" for text in column.texts), ""], pa.string())
    return texts.take(pa.array(column.codes[which] % len(texts)))  # NOTHING is the last
