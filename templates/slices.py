"""Join state in the driver: witness rows by value (the slices R_L,s of the thesis, section 6.5), in columns.

A **slice** is all rows of one value: what a new witness of that value meets.  Rows stand in a few sorted *runs*; a
batch adds one, and runs of similar size are merged, so a row is moved a logarithmic number of times.

The memory for rows is bounded.  When it is full, the slices that were not asked for longest are left to the files; of
these only the hashes of their values are kept, with the number of their rows, so that a value which nobody has seen is
known to have no slice, and a small batch often needs nothing from the files.

Rows of one hash have one value: a value whose hash stands for another one already gets a hash of its own, so that
whatever is found by hash is right, and no values need to be compared afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.values import value_hash
from xscl.templates.columns import Bools, Int32s, Int64s, gather, numbered, rising, stacked, take
from xscl.templates.results import Member
from xscl.templates.shapes import Shapes

__all__ = ["STATE_COLUMNS", "Rows", "Run", "SliceCache"]

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

_ROW_BYTES = 160
"""What a row takes beside its value: columns, indexes, the list of its chain."""
_MANY_SHAPES = 10_000
_NONE = np.empty(0, dtype=np.int64)
_TOGETHER = 1_000_000
"""Rows of a state that are taken in at once, at most; fewer where memory is small."""
_HASH_BYTES = 16
"""What a slice takes that is not here."""


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
    """When each of ``values`` was asked for last, as number of a batch."""

    @cached_property
    def values(self) -> Int64s:
        """The distinct hashes, rising."""
        return self.rows.h[self.value_starts[:-1]]

    @cached_property
    def value_starts(self) -> Int64s:
        """Where the rows of each value begin, and the end."""
        return _starts(self.rows.h)

    @cached_property
    def slice_starts(self) -> Int64s:
        """Where the rows of each value and key begin, and the end."""
        return _starts(self.rows.h, self.rows.key)

    @cached_property
    def value_slices(self) -> Int64s:
        """Which of ``slice_starts`` are the first of each value, and the end."""
        return np.searchsorted(self.slice_starts, self.value_starts)

    @cached_property
    def slice_codes(self) -> Int64s:
        """Of each slice the rank of its value, and its key, in one rising number."""
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
        """Of each of some slices, where the rows whose times lie between two bounds begin, and end."""
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
        """The rows of a key in each of some documents, a key for each: places of documents, rising, and of rows."""
        place = np.searchsorted(self.docs, docs)
        here = np.flatnonzero(self.docs[np.minimum(place, len(self.docs) - 1)] == docs) if len(self.docs) else place[:0]
        order, both = self._by_document
        wanted = place[here] << 32 | keys[here]
        begin = np.searchsorted(both, wanted, side="left")
        counts = np.searchsorted(both, wanted, side="right") - begin
        at, span = gather(begin, counts)
        return here[span], order[at]

    def text(self, rows: Int64s) -> pa.Array:
        """The values of some rows."""
        return self.texts.take(pa.array(np.searchsorted(self.values, self.rows.h[rows])))

    def place(self, docs: Int64s) -> pa.Array:
        """Channel and id of some of its documents."""
        return self.places.take(pa.array(np.searchsorted(self.docs, docs)))

    @property
    def size(self) -> int:
        """What it takes, about, in bytes."""
        return len(self.rows.h) * _ROW_BYTES + int(self.texts.nbytes) + int(self.places.nbytes)


def _starts(*columns: npt.NDArray[np.integer]) -> Int64s:
    """Where runs of equal rows begin, and the end."""
    count = len(columns[0])
    if not count:
        return np.zeros(1, dtype=np.int64)
    new = np.zeros(count - 1, dtype=np.bool_)
    for column in columns:
        new |= column[1:] != column[:-1]
    return np.concatenate([[0], np.flatnonzero(new) + 1, [count]])


@dataclass
class SliceCache:
    """The join state of a process, as far as its memory goes."""

    most_bytes: int
    shapes: Shapes = field(default_factory=Shapes)
    keys: dict[tuple[int, str | None], int] = field(default_factory=dict)
    """Numbers of (variable, function)."""
    runs: list[Run] = field(default_factory=list)
    absent: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Hashes of values with rows in files only, rising."""
    absent_docs: Int64s = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    """Documents some of whose rows are in files only, rising."""
    blind: bool = False
    """The lists of what is absent were too long: anything may be in files, and nothing is kept here."""
    hits: int = 0
    """Values asked for that were answered here, or known not to be anywhere."""
    asked: int = 0
    _apart: dict[tuple[int, str], int] = field(default_factory=dict)
    """Hashes of values whose own hash stands for another value."""

    def key(self, var: int, fn: str | None) -> int:
        """The number of a variable and function."""
        return self.keys.setdefault((var, fn), len(self.keys))

    def keys_of(self, table: pa.Table) -> Int32s:
        """The number of the variable and function of each witness row."""
        columns = {name: table.column(name).combine_chunks() for name in ("var", "fn")}
        return self._keys(columns["var"], columns["fn"])

    def run_of(self, table: pa.Table, batch: int) -> Run:
        """A run of witness rows (``STATE_COLUMNS``), which are not late; it is not part of the cache yet."""
        table = table.combine_chunks()
        columns = {name: table.column(name).combine_chunks() for name in STATE_COLUMNS}
        if table.num_rows == 0:
            columns = {name: pa.concat_arrays([pa.array([], table.schema.field(name).type)]) for name in STATE_COLUMNS}
        texts = columns["strval"]
        hashes = self._exact(_ints(columns["h"]), texts)
        keys, docs = self._keys(columns["var"], columns["fn"]), _ints(columns["docid"])
        at, shape = self._bundled(hashes, keys, docs, columns)
        rows = Rows(
            h=hashes[at],
            key=keys[at],
            ts=_ints(columns["ts"])[at],
            doc=docs[at],
            item=_ints(columns["item"])[at],
            shape=shape,
            number=columns["num"].to_numpy(zero_copy_only=False).astype(np.float64)[at],
            again=np.zeros(len(at), dtype=np.bool_),
        )
        texts = texts.take(pa.array(at))
        columns = {name: columns[name].take(pa.array(at)) for name in ("place", "membership")}
        _, first = np.unique(rows.doc, return_index=True)
        of_docs = (columns[name].take(pa.array(first)) for name in ("place", "membership"))
        return _sorted(rows, texts, *of_docs, batch=batch)

    def add(self, run: Run) -> None:
        """Take in a run; runs that are not much larger are merged with it."""
        self.append(run)
        self.merge()

    def append(self, run: Run) -> None:
        """Take in a run as it is; it may be purged before it is merged with others."""
        if len(run.rows.h):
            self.runs.append(run)

    def merge(self) -> None:
        """Merge the last runs with those that are not much larger."""
        while len(self.runs) > 1 and len(self.runs[-2].rows.h) < 2 * len(self.runs[-1].rows.h):
            last = self.runs.pop()
            self.runs[-1] = _merged(self.runs[-1], last)

    def load(self, parts: Iterable[pa.Table], batch: int) -> None:
        """Take in the state while there is room; values with rows beyond that are in files only."""
        hashes, docs = [_NONE], [_NONE]
        here: list[Int64s] = []
        for part in _larger(parts, min(_TOGETHER, self.most_bytes // (4 * _ROW_BYTES))):
            if self.size < self.most_bytes:
                run = self.run_of(part, batch)
                here.append(run.docs)
                self.add(run)
            else:
                hashes.append(rising(part.column("h").to_numpy()))
                docs.append(rising(part.column("docid").to_numpy()))
        if len(hashes) > 1:
            gone = rising(np.concatenate(hashes))
            own = [own for (shared, _), own in self._apart.items() if shared in gone]
            self._leave(np.union1d(gone, np.array(own, dtype=np.int64)), np.concatenate(docs))
        if len(here) > 1:
            found, counts = np.unique(np.concatenate(here), return_counts=True)
            self.find_again(found[counts > 1])

    def find_again(self, docs: Int64s) -> None:
        """Tell of the rows of some documents, rising, which have another one with the same value and key.

        The rows of a document came in several parts, as where some of them were added to the state later.
        """
        places = [np.flatnonzero(_in(run.rows.doc, docs)) for run in self.runs]
        parts = [take(run.rows, at) for run, at in zip(self.runs, places, strict=True)]
        if not sum(map(len, places)):
            return
        rows = stacked(parts)
        order = np.lexsort((rows.doc, rows.key, rows.h))
        same = np.ones(len(order) - 1, dtype=np.bool_)
        for column in (rows.h, rows.key, rows.doc):
            same &= column[order[1:]] == column[order[:-1]]
        again = np.zeros(len(order), dtype=np.bool_)
        again[order[1:][same]] = True
        again[order[:-1][same]] = True
        ends = np.cumsum([len(at) for at in places])
        for run, at, of_run in zip(self.runs, places, np.split(again, ends[:-1]), strict=True):
            run.rows.again[at] |= of_run

    def missing(self, hashes: Int64s) -> Int64s:
        """Which of some hashes, as files have them, have rows in files only; counts hits."""
        absent = hashes if self.blind else self.absent
        if self._apart and not self.blind:
            shared = {own: hash_ for (hash_, _), own in self._apart.items()}
            absent = np.unique(np.array([shared.get(own, own) for own in absent.tolist()], dtype=np.int64))
        found = hashes[_in(hashes, absent)]
        self.asked += len(hashes)
        self.hits += len(hashes) - len(found)
        return found

    def bring(self, table: pa.Table, batch: int) -> None:
        """Take in all rows of values that were missing."""
        run = self.run_of(table, batch)
        if self.blind:
            self.add(run)
            return
        # Another value of the same hash may have been here all the time.
        here = np.zeros(len(run.rows.h), dtype=np.bool_)
        for known in self.runs:
            here |= _in(run.rows.h, known.values)
        self.absent = self.absent[~_in(self.absent, run.values)]
        self.add(_part(run, ~here) if here.any() else run)

    @property
    def size(self) -> int:
        """What it takes, about, in bytes."""
        return sum(run.size for run in self.runs) + _HASH_BYTES * (len(self.absent) + len(self.absent_docs))

    @property
    def rows(self) -> int:
        """Rows that are here."""
        return sum(len(run.rows.h) for run in self.runs)

    def purge(self, keep: Callable[[Int64s, Int64s], Bools]) -> None:
        """Forget rows; ``keep`` tells by variables and event times which are kept."""
        variables = np.array([var for var, _ in self.keys], dtype=np.int64)
        self._keep(lambda run: keep(variables[run.rows.key], run.rows.ts))

    def shrink(self) -> None:
        """Leave slices to the files until what is here takes nine tenths of the memory that it may take."""
        if self.size <= self.most_bytes and not self.blind:
            return
        lists = _HASH_BYTES * (len(self.absent) + len(self.absent_docs))
        if self.blind or 2 * lists > self.most_bytes or not self.runs:
            self.blind = True
            self.runs, self.absent, self.absent_docs = [], _NONE, _NONE
            if len(self.shapes) > _MANY_SHAPES:
                self.shapes.keep(np.empty(0, np.int32))
            return
        wanted = self.most_bytes * 9 // 10
        # A value is as new as any of its rows' runs says.
        values = np.concatenate([run.values for run in self.runs])
        used = np.concatenate([run.used for run in self.runs])
        sizes = np.concatenate([_value_bytes(run) for run in self.runs])
        distinct, which = np.unique(values, return_inverse=True)
        last = np.full(len(distinct), np.iinfo(np.int64).min)
        np.maximum.at(last, which, used)
        taken = np.bincount(which, weights=sizes, minlength=len(distinct)) + _HASH_BYTES
        newest_first = np.argsort(-last, kind="stable")
        fits = np.cumsum(taken[newest_first]) <= wanted - lists
        gone = np.sort(distinct[newest_first[~fits]])
        self._leave(gone, _NONE)

    def has_room_to_list(self, rows: int) -> bool:
        """Whether the lists of what is absent are surely short enough for a state of so many rows."""
        return 2 * _HASH_BYTES * 2 * rows <= self.most_bytes

    def incomplete(self, docs: Int64s) -> Int64s:
        """Which of some documents may have rows in files only."""
        return docs if self.blind else docs[_in(docs, self.absent_docs)]

    # -- inside ------------------------------------------------------------------------------------------------

    def _leave(self, hashes: Int64s, docs: Int64s) -> None:
        """Have the slices of some values in files only, and be without some documents."""
        dropped = [run.rows.doc[_in(run.rows.h, hashes)] for run in self.runs]
        self._keep(lambda run: ~_in(run.rows.h, hashes))
        self.absent = rising(np.concatenate([self.absent, hashes]))
        self.absent_docs = rising(np.concatenate([self.absent_docs, docs, *dropped]))

    def _keep(self, kept: Callable[[Run], Bools]) -> None:
        runs = []
        for run in self.runs:
            rows = kept(run)
            runs.append(run if rows.all() else _part(run, rows))
        changed = any(new is not old for new, old in zip(runs, self.runs, strict=True))
        self.runs = [run for run in runs if len(run.rows.h)]
        if changed and len(self.shapes) > _MANY_SHAPES:
            self.shapes.keep(np.concatenate([np.empty(0, np.int32), *(run.rows.shape for run in self.runs)]))

    def _bundled(
        self, hashes: Int64s, keys: Int32s, docs: Int64s, columns: dict[str, pa.Array]
    ) -> tuple[Int64s, Int32s]:
        """One row for all rows of a document with one value of one key: which it is, and the number of its bundle."""
        order = np.lexsort((docs, keys, hashes))
        begin = _starts(hashes[order], keys[order], docs[order])
        counts = np.diff(begin)
        first = order[begin[:-1]]
        shape = np.empty(len(first), dtype=np.int32)
        alone = counts == 1
        of = pa.array(first[alone])
        shape[alone] = self.shapes.numbers(columns["node"].take(of), columns["chain"].take(of))
        if not alone.all():
            rows = order[gather(begin[:-1][~alone], counts[~alone])[0]]
            variables, of = _ints(columns["var"])[rows], pa.array(rows)
            shape[~alone] = self.shapes.bundles(
                variables, columns["node"].take(of), columns["chain"].take(of), counts[~alone]
            )
        return first, shape

    def _keys(self, variables: pa.Array, functions: pa.Array) -> Int32s:
        encoded = functions.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        function = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct, _, which = numbered(_ints(variables))
        both, _, where = numbered(which * (len(names) + 1) + function)
        numbers = [
            self.key(int(distinct[at // (len(names) + 1)]), [*names, None][at % (len(names) + 1)])
            for at in both.tolist()
        ]
        return np.array(numbers, dtype=np.int32)[where] if numbers else np.empty(0, dtype=np.int32)

    def _exact(self, hashes: Int64s, texts: pa.Array) -> Int64s:
        """Hashes that are equal only where the values are."""
        exact = hashes.copy()
        for at in np.flatnonzero(np.isin(hashes, [shared for shared, _ in self._apart])).tolist():
            exact[at] = self._apart.get((int(hashes[at]), texts[at].as_py()), hashes[at])
        for attempt in count():
            other = self._other_values(exact, texts)
            if not other.size:
                break
            for at in other.tolist():
                of = int(hashes[at]), texts[at].as_py()
                exact[at] = self._apart[of] = value_hash(f"{of[1]}\0{attempt}")
        return exact

    def _other_values(self, hashes: Int64s, texts: pa.Array) -> Int64s:
        """Where a hash stands for another value already, here or earlier in the list."""
        distinct, first, which = numbered(hashes)
        known = texts.take(pa.array(first))
        for run in self.runs:
            places = np.searchsorted(run.values, distinct)
            here = run.values[np.minimum(places, len(run.values) - 1)] == distinct
            if here.any():
                known = pc.if_else(pa.array(here), run.texts.take(pa.array(places, mask=~here)), known)
        known = known.take(pa.array(which))
        same = pc.or_(pc.equal(known, texts).fill_null(False), pc.and_(known.is_null(), texts.is_null()))
        return np.flatnonzero(~same.to_numpy(zero_copy_only=False))


def _larger(parts: Iterable[pa.Table], rows: int) -> Iterator[pa.Table]:
    """Neighbours together, until they have so many rows: they are sorted once then, and not merged again and again."""
    together: list[pa.Table] = []
    count = 0
    for part in parts:
        together.append(part)
        count += part.num_rows
        if count >= rows:
            yield pa.concat_tables(together)
            together, count = [], 0
    if together:
        yield pa.concat_tables(together)


def _sorted(rows: Rows, texts: pa.Array, places: pa.Array, memberships: pa.Array, *, batch: int) -> Run:
    order = np.lexsort((rows.doc, rows.ts, rows.key, rows.h))
    rows = take(rows, order)
    run = Run(rows, texts, places, memberships, np.empty(0, dtype=np.int64))
    run.texts = texts.take(pa.array(order[run.value_starts[:-1]]))
    run.used = np.full(len(run.values), batch)
    return run


def _merged(first: Run, second: Run) -> Run:
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


def _part(run: Run, kept: Bools) -> Run:
    part = Run(take(run.rows, kept), run.texts, run.places, run.memberships, run.used)
    at = np.searchsorted(run.values, part.values)
    part.texts, part.used = run.texts.take(pa.array(at)), run.used[at]
    docs = pa.array(np.searchsorted(run.docs, part.docs))
    part.places, part.memberships = run.places.take(docs), run.memberships.take(docs)
    return part


def _either(wanted: Int64s, *known: tuple[Int64s, pa.Array]) -> pa.Array:
    """The value of each of some numbers, from whichever of several lists has it."""
    all_texts = pa.concat_arrays([texts for _, texts in known])
    at = np.zeros(len(wanted), dtype=np.int64)
    offset = 0
    for numbers, texts in known:
        at[np.searchsorted(wanted, numbers)] = np.arange(len(numbers)) + offset
        offset += len(texts)
    return all_texts.take(pa.array(at))


def _value_bytes(run: Run) -> npt.NDArray[np.float64]:
    lengths = pc.binary_length(run.texts).fill_null(0).to_numpy(zero_copy_only=False)
    found: npt.NDArray[np.float64] = np.diff(run.value_starts) * float(_ROW_BYTES) + lengths
    return found


def _in(numbers: Int64s, sorted_numbers: Int64s) -> Bools:
    if not len(sorted_numbers):
        return np.zeros(len(numbers), dtype=np.bool_)
    at = np.minimum(np.searchsorted(sorted_numbers, numbers), len(sorted_numbers) - 1)
    found: Bools = sorted_numbers[at] == numbers
    return found


def _ints(column: pa.Array) -> Int64s:
    found: Int64s = column.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found
