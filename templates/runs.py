"""Runs: witness rows of some documents in order of their values, never changed.

A run has all rows of its documents (law R1), so two runs share none.  Runs stand in memory, or in files that are
memory-mapped and never loaded (``run_files``).  A **slice** is the rows of one value of one key: a new witness of that
value meets them (the slices R_L,s of the thesis, section 6.5).  A **key** is a variable and a function.

A row stands for all nodes of a document with one value of one key (a bundle, ``shapes``).  Nothing is found by hash
alone: where two runs meet, the texts of equal hashes are compared (``equal_values``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import CHAIN
from xscl.templates.columns import Bools, Int32s, Int64s, gather, numbered, rising
from xscl.templates.results import Member
from xscl.templates.shapes import Shapes, bundle_hashes, row_hashes

__all__ = [
    "KEY_BITS",
    "Key",
    "Run",
    "RunShapes",
    "built_run",
    "different_shapes",
    "empty_run",
    "equal_values",
    "group_starts",
    "ranked_values",
    "run_of",
    "witness_keys",
]

Key = tuple[int, str | None]
"""A variable and a function."""
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
    def value_slices(self) -> Int64s:
        """The first slice of each value, and the end."""
        values = self.slice_codes >> KEY_BITS
        return np.searchsorted(values, np.arange(len(self.hashes) + 1))

    @cached_property
    def shared_hashes(self) -> Int64s:
        """The hashes that several values have."""
        return rising(self.hashes[1:][self.hashes[1:] == self.hashes[:-1]])

    @cached_property
    def plain(self) -> bool:
        """Whether every document is an item by itself, and no version of another."""
        return bool((self.items == self.docs).all())

    @cached_property
    def has_members(self) -> bool:
        """Whether some document belongs to a stream."""
        return bool(self.memberships.any())

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
    if not len(other.hashes):
        return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
    at = np.minimum(np.searchsorted(other.hashes, one.hashes), len(other.hashes) - 1)
    mine = np.flatnonzero(other.hashes[at] == one.hashes)
    if one is other:
        return mine, mine
    others = at[mine]
    shared = rising(np.concatenate([one.shared_hashes, other.shared_hashes]))
    if len(shared):
        # Several values have one hash, of which the search finds the first: these are found by their texts.
        of_mine, of_others = (np.flatnonzero(np.isin(run.hashes, shared)) for run in (one, other))
        found = pc.index_in(one.texts.take(of_mine), value_set=other.texts.take(of_others))
        some = np.flatnonzero(found.is_valid().to_numpy(zero_copy_only=False))
        alone = ~np.isin(one.hashes[mine], shared)
        mine = np.concatenate([mine[alone], of_mine[some]])
        others = np.concatenate([others[alone], of_others[found.take(some).to_numpy()]])
    equal = _equal_texts(one.texts.take(mine), other.texts.take(others))
    return mine[equal], others[equal]


def _equal_texts(left: pa.Array, right: pa.Array) -> Bools:
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


# -- making runs ---------------------------------------------------------------------------------------------------


def run_of(table: pa.Table) -> Run:
    """Make a run of witness rows in any order, which are not late and are all that their documents have."""
    if not table.num_rows:
        return empty_run()
    columns = {name: table.column(name).combine_chunks() for name in table.schema.names}
    docid, ts = _ints(columns["docid"]), _ints(columns["ts"])
    rank, first = ranked_values(_ints(columns["h"]), columns["strval"])
    keys, key = witness_keys(table)
    order = np.lexsort((docid, ts, rank << KEY_BITS | key))
    begin = group_starts(rank[order], key[order], docid[order])
    lead = order[begin[:-1]]
    shape, members = _bundles(columns, order, begin)
    _, first_of_docs = np.unique(docid, return_index=True)
    at = pa.array(first_of_docs)
    return built_run(
        keys=keys,
        docs=docid[first_of_docs],
        items=_ints(columns["item"])[first_of_docs],
        times=ts[first_of_docs],
        places=columns["place"].take(at),
        memberships=columns["membership"].take(at).to_numpy(zero_copy_only=False),
        hashes=_ints(columns["h"])[first],
        texts=columns["strval"].take(pa.array(first)),
        codes=(rank << KEY_BITS | key)[lead],
        numbers=columns["num"].to_numpy(zero_copy_only=False).astype(np.float64)[lead],
        docids=docid[lead],
        shape=shape,
        shapes=members,
    )


def built_run(
    *,
    keys: tuple[Key, ...],
    docs: Int64s,
    items: Int64s,
    times: Int64s,
    places: pa.Array,
    memberships: Int32s,
    hashes: Int64s,
    texts: pa.Array,
    codes: Int64s,
    numbers: npt.NDArray[np.float64],
    docids: Int64s,
    shape: Int32s,
    shapes: RunShapes,
) -> Run:
    """Make a run of its documents, its values, and its rows in order of (value, key, time, document).

    Args:
        keys: as in the run, like all columns that have its names.
        docs: see there.
        items: see there.
        times: see there.
        places: see there.
        memberships: see there.
        hashes: see there.
        texts: see there.
        codes: the slice code of each row, rising.
        numbers: the value of each row as a number.
        docids: the document of each row.
        shape: the shape of each row.
        shapes: see there.
    """
    starts = group_starts(codes)
    doc = np.searchsorted(docs, docids)
    by_document = doc << KEY_BITS | codes & ((1 << KEY_BITS) - 1)
    order = np.argsort(by_document, kind="stable")
    return Run(
        keys,
        docs,
        items,
        times,
        places,
        memberships,
        hashes,
        texts,
        slice_codes=codes[starts[:-1]],
        slice_starts=starts,
        numbers=numbers[starts[:-1]],
        ts=times[doc],
        doc=doc.astype(np.int32),
        shape=shape,
        by_document=order.astype(np.int32),
        document_codes=by_document[order],
        shapes=shapes,
    )


def empty_run() -> Run:
    """Return the run without a document."""
    none, few = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    texts, chains = pa.array([], pa.string()), pa.array([], CHAIN)
    return built_run(
        keys=(),
        docs=none,
        items=none,
        times=none,
        places=texts,
        memberships=few,
        hashes=none,
        texts=texts,
        codes=none,
        numbers=np.empty(0),
        docids=none,
        shape=few,
        shapes=RunShapes(none, np.zeros(1, dtype=np.int64), few, chains),
    )


def ranked_values(hashes: Int64s, texts: pa.Array) -> tuple[Int64s, Int64s]:
    """Rank values by (hash, text), equal ones alike: the rank of each row's value, and a row of each rank."""
    distinct, first, which = numbered(hashes)
    other = np.flatnonzero(~_equal_texts(texts, texts.take(pa.array(first[which]))))
    if not len(other):
        order = np.argsort(distinct)
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return rank[which], first[order]
    # Another value of the same hash; texts are told apart by a number.
    text = np.zeros(len(hashes), dtype=np.int64)
    text[other] = _ints(texts.take(pa.array(other)).dictionary_encode("encode").indices) + 1
    order = np.lexsort((text, hashes))
    starts = group_starts(hashes[order], text[order])
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    return rank, order[starts[:-1]]


def witness_keys(table: pa.Table) -> tuple[tuple[Key, ...], Int64s]:
    """Return the different keys of witness rows, and the number of each row's key among them."""
    encoded = table.column("fn").combine_chunks().dictionary_encode("encode")
    names: Sequence[str | None] = encoded.dictionary.to_pylist()
    distinct, _, which = numbered(_ints(table.column("var").combine_chunks()))
    both, _, where = numbered(which * (len(names) + 1) + _ints(encoded.indices))
    keys = [(int(distinct[at // (len(names) + 1)]), names[at % (len(names) + 1)]) for at in both.tolist()]
    return tuple(keys), where


def _bundles(columns: dict[str, pa.Array], order: Int64s, begin: Int64s) -> tuple[Int32s, RunShapes]:
    """Return the shape of each bundle, the rows ``order[begin[i]:begin[i + 1]]``, and the different shapes."""
    nodes, chains = columns["node"], columns["chain"]
    hashes = bundle_hashes(row_hashes(nodes, chains)[order], np.diff(begin))
    variables = _ints(columns["var"])[order[begin[:-1]]]
    places: Int32s = nodes.to_numpy(zero_copy_only=False)
    # Most bundles share their shapes, so only rows of different ones are brought into order.
    which, first, rows, starts = different_shapes(hashes, begin)
    rows = order[rows]
    return which, RunShapes(variables[first], starts, places[rows], chains.take(pa.array(rows)))


def different_shapes(hashes: Int64s, begin: Int64s) -> tuple[Int32s, Int64s, Int64s, Int64s]:
    """Tell shapes apart by their hashes; ``begin`` has the first row of each, and the end.

    Returns:
        the number of each shape among the different ones; of these the first of each, their rows, one shape after
        another, and where each one's rows begin, and the end.
    """
    _, first, which = numbered(hashes)
    counts = begin[first + 1] - begin[first]
    rows, _ = gather(begin[first], counts)
    return which.astype(np.int32), first, rows, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _ints(column: pa.Array) -> Int64s:
    found: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found
