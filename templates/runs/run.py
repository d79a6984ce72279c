"""Runs: witness rows of some documents in order of their values, never changed.

A run has all rows of its documents (law R1), so two runs share none.  Runs stand in memory, or in files that are
memory-mapped and never loaded (``files``).  A **slice** is the rows of one value of one key: a new witness of that
value meets them (the slices R_L,s of the thesis, section 6.5).  A **key** is a variable and a function.

A row stands for all nodes of a document with one value of one key (a bundle, ``shapes``).  Nothing is found by hash
alone: where two runs meet, the texts of equal hashes are compared (``equal_values``).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int32s, Int64s, gather
from xscl.templates.results import Member
from xscl.templates.shapes import Shapes

__all__ = [
    "KEY_BITS",
    "Key",
    "Run",
    "RunShapes",
    "equal_texts",
    "equal_values",
    "group_starts",
]

Key = tuple[int, str | None]
"""A variable and a function."""
_MANY = 8
"""A run's values for each that is asked for, where all are looked at."""
KEY_BITS = 32
"""Bits of the key in a slice's code."""


class RunShapes(NamedTuple):
    """Shapes of a run, each told by the witness rows of one bundle that has it."""

    variables: Int64s
    """The variable of each shape."""
    starts: Int64s
    """The first row of each shape in the columns below, and the end."""
    nodes: Int32s
    chains: pa.Array
    """Column ``CHAIN``."""

    def members(self, which: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows of some shapes, one shape after another, and how many each has."""
        counts = self.starts[which + 1] - self.starts[which]
        return gather(self.starts[which], counts)[0], counts

    def numbers(self, which: Int64s, shapes: Shapes) -> Int32s:
        """Return the numbers that ``shapes`` gives some of them."""
        rows, counts = self.members(which)
        begin = np.cumsum(counts) - counts
        found = np.empty(len(which), dtype=np.int32)
        alone = counts == 1
        of = pa.array(rows[begin[alone]])
        nodes, chains = pa.array(self.nodes), self.chains
        found[alone] = shapes.numbers(nodes.take(of), chains.take(of))
        if not alone.all():
            several, _ = gather(begin[~alone], counts[~alone])
            of = pa.array(rows[several])
            variables = np.repeat(self.variables[which], counts)[several]
            found[~alone] = shapes.bundles(variables, nodes.take(of), chains.take(of), counts[~alone])
        return found


@dataclass(frozen=True)
class Run:
    """Rows of some documents, with all that finds them; a row is told by its place."""

    keys: tuple[Key, ...]
    """Keys by their numbers in the run."""
    docs: Int64s
    """Documents, rising; the columns up to ``memberships`` are theirs."""
    items: Int64s
    times: Int64s
    """Event times, microseconds."""
    places: pa.Array
    """Channel and id of each."""
    memberships: Int32s
    """Number of each one's membership."""
    hashes: Int64s
    """Hashes of values, rising; different values may have one hash."""
    texts: pa.Array
    """The values; None for rows without one."""
    slice_codes: Int64s
    """The place of each slice's value, and its key, in one rising number."""
    slice_starts: Int64s
    """The first row of each slice, and the end."""
    numbers: npt.NDArray[np.float64]
    """The value of each slice as a number."""
    ts: Int64s
    """Event times of rows, rising within a slice."""
    doc: Int32s
    """The place in ``docs`` of each row's document."""
    shape: Int32s
    """The shape of each row, by its number in the run."""
    by_document: Int32s
    """Rows by document and key."""
    document_codes: Int64s
    """The document's place and the key of each of these, in one rising number."""
    shapes: RunShapes

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.ts)

    @cached_property
    def key_numbers(self) -> dict[Key, int]:
        """The number of each key in the run."""
        return {key: number for number, key in enumerate(self.keys)}

    @cached_property
    def shared_hashes(self) -> Int64s:
        """The hashes that several values have."""
        return each_once(self.hashes[1:][self.hashes[1:] == self.hashes[:-1]])

    @cached_property
    def plain(self) -> bool:
        """Whether every document is an item by itself, and no version of another."""
        return bool((self.items == self.docs).all())

    @cached_property
    def has_members(self) -> bool:
        """Whether some document belongs to a stream."""
        return bool(self.memberships.any())

    def slices_of_values(self, values: Int64s) -> tuple[Int64s, Int64s]:
        """Return the first slice of each of some values, and how many it has.

        A batch meets few of the values of a large run, so each is searched for and none of the others is read.
        """
        if _MANY * len(values) > len(self.hashes):
            begin = np.zeros(len(self.hashes) + 1, dtype=np.int64)
            np.cumsum(np.bincount(self.slice_codes >> KEY_BITS, minlength=len(self.hashes)), out=begin[1:])
            return begin[values], begin[values + 1] - begin[values]
        wanted = values << KEY_BITS
        first = np.searchsorted(self.slice_codes, wanted)
        return first, np.searchsorted(self.slice_codes, wanted + (1 << KEY_BITS)) - first

    def slice_keys(self, slices: Int64s) -> Int64s:
        """Return the keys of some slices."""
        return self.slice_codes[slices] & ((1 << KEY_BITS) - 1)

    def slices_of(self, rows: Int64s) -> Int64s:
        """Return the slice of each of some rows."""
        return np.searchsorted(self.slice_starts, rows, side="right") - 1

    def row_keys(self) -> Int64s:
        """Return the key of every row."""
        return np.repeat(self.slice_codes & ((1 << KEY_BITS) - 1), np.diff(self.slice_starts))

    def within(self, slices: Int64s, least: Int64s, greatest: Int64s) -> tuple[Int64s, Int64s]:
        """Tell of each of some slices where the rows whose times lie between two bounds begin, and end."""
        begin, end = self.slice_starts[slices], self.slice_starts[slices + 1]
        return _first(self.ts, begin, end, least, beyond=False), _first(self.ts, begin, end, greatest, beyond=True)

    def places_of(self, docs: Int64s) -> tuple[Int64s, Bools]:
        """Return the places of some documents, and which of them it has."""
        if not len(self.docs):
            return np.zeros(len(docs), dtype=np.int64), np.zeros(len(docs), dtype=np.bool_)
        place = np.minimum(np.searchsorted(self.docs, docs), len(self.docs) - 1)
        return place, self.docs[place] == docs

    def of_documents(self, docs: Int64s, keys: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows of a key in each of some documents, a key for each: places of documents, rising, and of
        rows.
        """
        place, known = self.places_of(docs)
        here = np.flatnonzero(known & (keys >= 0))
        if not len(here):
            return here, here
        wanted = place[here] << KEY_BITS | keys[here]
        begin = np.searchsorted(self.document_codes, wanted, side="left")
        counts = np.searchsorted(self.document_codes, wanted, side="right") - begin
        at, span = gather(begin, counts)
        return here[span], self.by_document[at].astype(np.int64)

    def member(self, doc: int) -> Member | None:
        """Return one of its documents; None if it has no row of it."""
        place, known = self.places_of(np.array([doc], dtype=np.int64))
        if not known[0]:
            return None
        at = int(place[0])
        return Member(doc, int(self.items[at]), int(self.times[at]), self.places[at].as_py(), int(self.memberships[at]))


def _first(ts: Int64s, begin: Int64s, end: Int64s, bound: Int64s, *, beyond: bool) -> Int64s:
    """Return the first place of each rising span of ``ts`` whose time reaches a bound, or is beyond it.

    Most spans lie wholly on one side.  All others are halved together, so only as many rows are looked at as a search
    by hand looks at.
    """

    def before(at: Int64s, of: Int64s) -> Bools:
        return ts[at] <= bound[of] if beyond else ts[at] < bound[of]

    low, high = begin.copy(), end.copy()
    open_ = np.flatnonzero(low < high)
    whole = before(high[open_] - 1, open_)
    low[open_[whole]] = high[open_[whole]]
    open_ = open_[~whole]
    some = before(low[open_], open_)
    high[open_[~some]] = low[open_[~some]]
    open_ = open_[some]
    while len(open_):
        middle = (low[open_] + high[open_]) >> 1
        below = before(middle, open_)
        low[open_] = np.where(below, middle + 1, low[open_])
        high[open_] = np.where(below, high[open_], middle)
        open_ = open_[low[open_] < high[open_]]
    return low


def equal_values(one: Run, other: Run) -> tuple[Int64s, Int64s]:
    """Return the places of the values that two runs share."""
    if len(other.hashes) < len(one.hashes):
        # Fewer are searched for among more.
        others, mine = equal_values(other, one)
        return mine, others
    if not len(one.hashes):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    if one is other:
        return np.arange(len(one.hashes)), np.arange(len(one.hashes))
    at = np.minimum(np.searchsorted(other.hashes, one.hashes), len(other.hashes) - 1)
    mine = np.flatnonzero(other.hashes[at] == one.hashes)
    others = at[mine]
    shared = each_once(np.concatenate([one.shared_hashes, other.shared_hashes]))
    if len(shared):
        # Several values have one hash, of which the search finds the first: these are found by their texts.
        of_mine, of_others = (np.flatnonzero(np.isin(run.hashes, shared)) for run in (one, other))
        found = pc.index_in(one.texts.take(of_mine), value_set=other.texts.take(of_others))
        some = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        alone = ~np.isin(one.hashes[mine], shared)
        mine = np.concatenate([mine[alone], of_mine[some]])
        others = np.concatenate([others[alone], of_others[found.take(some).to_numpy()]])
    equal = equal_texts(one.texts.take(mine), other.texts.take(others))
    return mine[equal], others[equal]


def equal_texts(left: pa.Array, right: pa.Array) -> Bools:
    """Tell where texts are equal; None equals None."""
    same = pc.or_(pc.equal(left, right).fill_null(False), pc.and_(left.is_null(), right.is_null()))
    found: Bools = same.to_numpy(zero_copy_only=False)
    return found


def group_starts(*columns: npt.NDArray[np.integer]) -> Int64s:
    """Tell where runs of equal rows begin, and the end."""
    count = len(columns[0])
    if not count:
        return np.zeros(1, dtype=np.int64)
    new = np.zeros(count - 1, dtype=np.bool_)
    for column in columns:
        new |= column[1:] != column[:-1]
    return np.concatenate([[0], np.flatnonzero(new) + 1, [count]])
