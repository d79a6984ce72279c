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
from itertools import count

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.values import value_hash
from xscl.templates.columns import Bools, Int32s, Int64s, gather, numbered, rising, stacked, take
from xscl.templates.runs import (
    HASH_BYTES,
    ROW_BYTES,
    STATE_COLUMNS,
    Rows,
    Run,
    group_starts,
    int_column,
    is_in,
    merged_run,
    run_part,
    sorted_run,
    value_bytes,
)
from xscl.templates.shapes import Shapes

__all__ = ["SliceCache"]

_MANY_SHAPES = 10_000


_NONE = np.empty(0, dtype=np.int64)


_TOGETHER = 1_000_000
"""Rows of a state that are taken in at once, at most; fewer where memory is small."""


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
        """Return the number of a variable and function."""
        return self.keys.setdefault((var, fn), len(self.keys))

    def keys_of(self, table: pa.Table) -> Int32s:
        """Return the number of the variable and function of each witness row."""
        columns = {name: table.column(name).combine_chunks() for name in ("var", "fn")}
        return self._keys(columns["var"], columns["fn"])

    def run_of(self, table: pa.Table, batch: int) -> Run:
        """Return a run of witness rows (``STATE_COLUMNS``), which are not late; it is not part of the cache yet."""
        table = table.combine_chunks()
        columns = {name: table.column(name).combine_chunks() for name in STATE_COLUMNS}
        if table.num_rows == 0:
            columns = {name: pa.concat_arrays([pa.array([], table.schema.field(name).type)]) for name in STATE_COLUMNS}
        texts = columns["strval"]
        hashes = self._exact(int_column(columns["h"]), texts)
        keys, docs = self._keys(columns["var"], columns["fn"]), int_column(columns["docid"])
        at, shape = self._bundled(hashes, keys, docs, columns)
        rows = Rows(
            h=hashes[at],
            key=keys[at],
            ts=int_column(columns["ts"])[at],
            doc=docs[at],
            item=int_column(columns["item"])[at],
            shape=shape,
            number=columns["num"].to_numpy(zero_copy_only=False).astype(np.float64)[at],
            again=np.zeros(len(at), dtype=np.bool_),
        )
        texts = texts.take(pa.array(at))
        columns = {name: columns[name].take(pa.array(at)) for name in ("place", "membership")}
        _, first = np.unique(rows.doc, return_index=True)
        of_docs = (columns[name].take(pa.array(first)) for name in ("place", "membership"))
        return sorted_run(rows, texts, *of_docs, batch=batch)

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
            self.runs[-1] = merged_run(self.runs[-1], last)

    def load(self, parts: Iterable[pa.Table], batch: int) -> None:
        """Take in the state while there is room; values with rows beyond that are in files only."""
        hashes, docs = [_NONE], [_NONE]
        here: list[Int64s] = []
        for part in _larger(parts, min(_TOGETHER, self.most_bytes // (4 * ROW_BYTES))):
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
        places = [np.flatnonzero(is_in(run.rows.doc, docs)) for run in self.runs]
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
        """Tell which of some hashes, as files have them, have rows in files only; counts hits."""
        absent = hashes if self.blind else self.absent
        if self._apart and not self.blind:
            shared = {own: hash_ for (hash_, _), own in self._apart.items()}
            absent = np.unique(np.array([shared.get(own, own) for own in absent.tolist()], dtype=np.int64))
        found = hashes[is_in(hashes, absent)]
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
            here |= is_in(run.rows.h, known.values)
        self.absent = self.absent[~is_in(self.absent, run.values)]
        self.add(run_part(run, ~here) if here.any() else run)

    @property
    def size(self) -> int:
        """The bytes that it takes, about."""
        return sum(run.size for run in self.runs) + HASH_BYTES * (len(self.absent) + len(self.absent_docs))

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
        lists = HASH_BYTES * (len(self.absent) + len(self.absent_docs))
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
        sizes = np.concatenate([value_bytes(run) for run in self.runs])
        distinct, which = np.unique(values, return_inverse=True)
        last = np.full(len(distinct), np.iinfo(np.int64).min)
        np.maximum.at(last, which, used)
        taken = np.bincount(which, weights=sizes, minlength=len(distinct)) + HASH_BYTES
        newest_first = np.argsort(-last, kind="stable")
        fits = np.cumsum(taken[newest_first]) <= wanted - lists
        gone = np.sort(distinct[newest_first[~fits]])
        self._leave(gone, _NONE)

    def has_room_to_list(self, rows: int) -> bool:
        """Tell whether the lists of what is absent are surely short enough for a state of so many rows."""
        return 2 * HASH_BYTES * 2 * rows <= self.most_bytes

    def incomplete(self, docs: Int64s) -> Int64s:
        """Tell which of some documents may have rows in files only."""
        return docs if self.blind else docs[is_in(docs, self.absent_docs)]

    # -- inside ------------------------------------------------------------------------------------------------

    def _leave(self, hashes: Int64s, docs: Int64s) -> None:
        """Have the slices of some values in files only, and be without some documents."""
        dropped = [run.rows.doc[is_in(run.rows.h, hashes)] for run in self.runs]
        self._keep(lambda run: ~is_in(run.rows.h, hashes))
        self.absent = rising(np.concatenate([self.absent, hashes]))
        self.absent_docs = rising(np.concatenate([self.absent_docs, docs, *dropped]))

    def _keep(self, kept: Callable[[Run], Bools]) -> None:
        runs = []
        for run in self.runs:
            rows = kept(run)
            runs.append(run if rows.all() else run_part(run, rows))
        changed = any(new is not old for new, old in zip(runs, self.runs, strict=True))
        self.runs = [run for run in runs if len(run.rows.h)]
        if changed and len(self.shapes) > _MANY_SHAPES:
            self.shapes.keep(np.concatenate([np.empty(0, np.int32), *(run.rows.shape for run in self.runs)]))

    def _bundled(
        self, hashes: Int64s, keys: Int32s, docs: Int64s, columns: dict[str, pa.Array]
    ) -> tuple[Int64s, Int32s]:
        """One row for all rows of a document with one value of one key: which it is, and the number of its bundle."""
        order = np.lexsort((docs, keys, hashes))
        begin = group_starts(hashes[order], keys[order], docs[order])
        counts = np.diff(begin)
        first = order[begin[:-1]]
        shape = np.empty(len(first), dtype=np.int32)
        alone = counts == 1
        of = pa.array(first[alone])
        shape[alone] = self.shapes.numbers(columns["node"].take(of), columns["chain"].take(of))
        if not alone.all():
            rows = order[gather(begin[:-1][~alone], counts[~alone])[0]]
            variables, of = int_column(columns["var"])[rows], pa.array(rows)
            shape[~alone] = self.shapes.bundles(
                variables, columns["node"].take(of), columns["chain"].take(of), counts[~alone]
            )
        return first, shape

    def _keys(self, variables: pa.Array, functions: pa.Array) -> Int32s:
        encoded = functions.dictionary_encode()
        names = encoded.dictionary.to_pylist()
        function = encoded.indices.fill_null(len(names)).to_numpy(zero_copy_only=False).astype(np.int64)
        distinct, _, which = numbered(int_column(variables))
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
        """Tell where a hash stands for another value already, here or earlier in the list."""
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
