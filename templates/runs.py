"""Runs: rows of join state in order of their values, never changed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.templates.columns import Bools, Int32s, Int64s, gather, rising, stacked, take
from xscl.templates.results import Member

__all__ = [
    "HASH_BYTES",
    "ROW_BYTES",
    "STATE_COLUMNS",
    "Rows",
    "Run",
    "group_starts",
    "int_column",
    "is_in",
    "merged_run",
    "run_part",
    "sorted_run",
    "value_bytes",
]

STATE_COLUMNS = (
    "docid",
    "ts",
    "item",
    "place",
    "late",
    "membership",
    "var",
    "node",
    "fn",
    "strval",
    "num",
    "h",
    "chain",
)
"""Columns of witness rows that are read here."""


ROW_BYTES = 160
"""Bytes that a row takes beside its value: columns, indexes, the list of its chain."""


HASH_BYTES = 16
"""Bytes of a slice that is in files only."""


class Rows(NamedTuple):
    """Witness rows in columns."""

    h: Int64s
    key: Int32s
    """The number of variable and function."""
    ts: Int64s
    doc: Int64s
    item: Int64s
    shape: Int32s
    """Number of node and chain; of a bundle (``Shapes``) for all such rows of a document."""
    number: npt.NDArray[np.float64]
    again: Bools
    """Whether its document has another bundle with the same value of the same key, which came in another part."""


@dataclass
class Run:
    """Rows in order of (h, key, ts), with what finds them."""

    rows: Rows
    texts: pa.Array
    """The value of each of ``values``; None for rows without one."""
    places: pa.Array
    """Channel and id of each of ``docs``."""
    memberships: pa.Array
    """The number of the membership of each of ``docs``."""
    used: Int64s
    """The number of the batch that asked last, by value."""

    @cached_property
    def values(self) -> Int64s:
        """The distinct hashes, rising."""
        return self.rows.h[self.value_starts[:-1]]

    @cached_property
    def value_starts(self) -> Int64s:
        """The first row of each value, and the end."""
        return group_starts(self.rows.h)

    @cached_property
    def slice_starts(self) -> Int64s:
        """The first row of each value and key, and the end."""
        return group_starts(self.rows.h, self.rows.key)

    @cached_property
    def value_slices(self) -> Int64s:
        """The first place in ``slice_starts`` of each value, and the end."""
        return np.searchsorted(self.slice_starts, self.value_starts)

    @cached_property
    def slice_codes(self) -> Int64s:
        """The rank of each slice's value, and its key, in one rising number."""
        value = np.repeat(np.arange(len(self.values)), np.diff(self.value_slices))
        return value << 32 | self.rows.key[self.slice_starts[:-1]]

    @cached_property
    def docs(self) -> Int64s:
        """The documents, rising."""
        return rising(self.rows.doc)

    def member(self, doc: int) -> Member | None:
        """One of its documents; None if it has no row of it."""
        at = int(np.searchsorted(self.docs, doc))
        if at == len(self.docs) or self.docs[at] != doc:
            return None
        row = int(self._by_document[0][np.searchsorted(self._by_document[1], at << 32)])
        place, membership = self.places[at].as_py(), self.memberships[at].as_py()
        return Member(doc, int(self.rows.item[row]), int(self.rows.ts[row]), place, membership)

    @cached_property
    def plain(self) -> bool:
        """Whether every document is an item by itself, and no version of another."""
        return bool((self.rows.item == self.rows.doc).all())

    @cached_property
    def has_members(self) -> bool:
        """Whether some document belongs to a stream."""
        return bool(pc.any(pc.not_equal(self.memberships, 0)).as_py())

    @cached_property
    def distinct_shapes(self) -> tuple[Int32s, Int32s]:
        """The shapes of its rows, and which of them each row has."""
        distinct, which = np.unique(self.rows.shape, return_inverse=True)
        return distinct, which.astype(np.int32)

    @cached_property
    def _ranks(self) -> tuple[Int64s, Int64s]:
        """The distinct times, rising; and for each row slice and rank of its time, in one rising number."""
        times, rank = np.unique(self.rows.ts, return_inverse=True)
        counts = np.diff(self.slice_starts)
        return times, np.repeat(np.arange(len(counts)) << 32, counts) + rank

    @cached_property
    def _by_document(self) -> tuple[Int64s, Int64s]:
        """An order of rows by (document, key); and both in one rising number, documents by their rank."""
        rows = self.rows
        place = np.searchsorted(self.docs, rows.doc)
        both = place << 32 | rows.key
        order = np.argsort(both, kind="stable")
        return order, both[order]

    def within(self, slices: Int64s, least: Int64s, greatest: Int64s) -> tuple[Int64s, Int64s]:
        """Tell of each of some slices where the rows whose times lie between two bounds begin, and end."""
        begin, end = self.slice_starts[slices], self.slice_starts[slices + 1]
        oldest, newest = self.rows.ts[begin], self.rows.ts[end - 1]
        none = (oldest > greatest) | (newest < least)
        begin, end = begin.copy(), np.where(none, begin, end)
        some = np.flatnonzero(~none & ((oldest < least) | (newest > greatest)))
        if len(some):
            times, ranks = self._ranks
            of = slices[some] << 32
            begin[some] = np.searchsorted(ranks, of + np.searchsorted(times, least[some], side="left"), side="left")
            end[some] = np.searchsorted(ranks, of + np.searchsorted(times, greatest[some], side="right"), side="left")
        return begin, end

    def of_documents(self, docs: Int64s, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows of a key in each of some documents, a key for each: places of documents, rising, and of
        rows.
        """
        place = np.searchsorted(self.docs, docs)
        here = np.flatnonzero(self.docs[np.minimum(place, len(self.docs) - 1)] == docs) if len(self.docs) else place[:0]
        order, both = self._by_document
        wanted = place[here] << 32 | keys[here]
        begin = np.searchsorted(both, wanted, side="left")
        counts = np.searchsorted(both, wanted, side="right") - begin
        at, span = gather(begin, counts)
        return here[span], order[at]

    def text(self, rows: Int64s) -> pa.Array:
        """Return the values of some rows."""
        return self.texts.take(pa.array(np.searchsorted(self.values, self.rows.h[rows])))

    def place(self, docs: Int64s) -> pa.Array:
        """Channel and id of some of its documents."""
        return self.places.take(pa.array(np.searchsorted(self.docs, docs)))

    @property
    def size(self) -> int:
        """The bytes that it takes, about."""
        return len(self.rows.h) * ROW_BYTES + int(self.texts.nbytes) + int(self.places.nbytes)


def group_starts(*columns: npt.NDArray[np.integer]) -> Int64s:
    """Tell where runs of equal rows begin, and the end."""
    count = len(columns[0])
    if not count:
        return np.zeros(1, dtype=np.int64)
    new = np.zeros(count - 1, dtype=np.bool_)
    for column in columns:
        new |= column[1:] != column[:-1]
    return np.concatenate([[0], np.flatnonzero(new) + 1, [count]])


def sorted_run(rows: Rows, texts: pa.Array, places: pa.Array, memberships: pa.Array, *, batch: int) -> Run:
    """Make a run of rows in any order, whose values a batch has asked for."""
    order = np.lexsort((rows.doc, rows.ts, rows.key, rows.h))
    rows = take(rows, order)
    run = Run(rows, texts, places, memberships, np.empty(0, dtype=np.int64))
    run.texts = texts.take(pa.array(order[run.value_starts[:-1]]))
    run.used = np.full(len(run.values), batch)
    return run


def merged_run(first: Run, second: Run) -> Run:
    """Merge two runs."""
    rows = stacked([first.rows, second.rows])
    docs = rising(np.concatenate([first.docs, second.docs]))
    run = Run(
        take(rows, np.lexsort((rows.ts, rows.key, rows.h))),
        _either(
            rising(np.concatenate([first.values, second.values])),
            (first.values, first.texts),
            (second.values, second.texts),
        ),
        _either(docs, (first.docs, first.places), (second.docs, second.places)),
        _either(docs, (first.docs, first.memberships), (second.docs, second.memberships)),
        np.empty(0, dtype=np.int64),
    )
    run.used = np.full(len(run.values), np.iinfo(np.int64).min)
    for old in (first, second):
        at = np.searchsorted(run.values, old.values)
        run.used[at] = np.maximum(run.used[at], old.used)
    return run


def run_part(run: Run, kept: Bools) -> Run:
    """Return the run of some rows of a run."""
    part = Run(take(run.rows, kept), run.texts, run.places, run.memberships, run.used)
    at = np.searchsorted(run.values, part.values)
    part.texts, part.used = run.texts.take(pa.array(at)), run.used[at]
    docs = pa.array(np.searchsorted(run.docs, part.docs))
    part.places, part.memberships = run.places.take(docs), run.memberships.take(docs)
    return part


def _either(wanted: Int64s, *known: tuple[Int64s, pa.Array]) -> pa.Array:
    """Return the value of each of some numbers, from whichever of several lists has it."""
    all_texts = pa.concat_arrays([texts for _, texts in known])
    at = np.zeros(len(wanted), dtype=np.int64)
    offset = 0
    for numbers, texts in known:
        at[np.searchsorted(wanted, numbers)] = np.arange(len(numbers)) + offset
        offset += len(texts)
    return all_texts.take(pa.array(at))


def value_bytes(run: Run) -> npt.NDArray[np.float64]:
    """Return the bytes that the rows of each value take, about."""
    lengths = pc.binary_length(run.texts).fill_null(0).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.float64] = np.diff(run.value_starts) * float(ROW_BYTES) + lengths
    return found


def is_in(numbers: Int64s, sorted_numbers: Int64s) -> Bools:
    """Tell of each number whether a sorted array has it."""
    if not len(sorted_numbers):
        return np.zeros(len(numbers), dtype=np.bool_)
    at = np.minimum(np.searchsorted(sorted_numbers, numbers), len(sorted_numbers) - 1)
    found: Bools = sorted_numbers[at] == numbers
    return found


def int_column(column: pa.Array) -> Int64s:
    """Convert a column to 64-bit integers."""
    found: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found
