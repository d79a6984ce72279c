"""Answers about absence that nothing makes final, in files that never change.

A query that answers before it is certain has a row for each answer, which a forbidden document takes back.  Where
nothing settles the times of its channels, such rows stay, and more come with each batch.  So they go into *runs*, and
a batch reads those rows alone whose members its forbidden documents speak of.  A run has all rows of the members that
it names; the newest run that names members counts, also where it has no row of them any more.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xscl.base.failpoints import step
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.store.compaction import tier_of
from xscl.store.state_files import StateFile, facts_of_held_file
from xscl.templates.absence import PENDING_SCHEMA
from xscl.templates.columns import Bools, Int64s

__all__ = ["Runs", "channels_waited_for"]

_SCHEMA = PENDING_SCHEMA.append(pa.field("first", pa.int64()))
"""Rows by the number of their first member."""
_GONE = 0
"""Stands for a group in a row that only names members."""
_READ_TOGETHER = 8_192
"""Rows that are read together."""
_FAN = 6
"""Runs of one size that become one."""
_SMALL = 1_000
"""Rows of the smallest size."""
_LARGEST = 1_000_000
"""Rows of a run that is not brought together with others."""
_OPEN = 1_024


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a home."""

    root: Path
    files: tuple[StateFile, ...]
    """The oldest one first."""

    @property
    def waits(self) -> frozenset[str]:
        """Return the texts that say what rows wait for."""
        return frozenset().union(*(_waits(check_file(self.root / file.path)) for file in self.files))

    def rows(self) -> pa.Table:
        """Return all rows."""
        return _pending(_newest([_read(check_file(self.root / file.path)) for file in self.files]))

    def of(self, members: pa.Array) -> pa.Table:
        """Return the rows of some members."""
        wanted = pc.unique(members)
        found = []
        for file in reversed(self.files):
            if not len(wanted):
                break
            some = _read(check_file(self.root / file.path), _firsts(wanted))
            some = some.filter(pc.is_in(some.column("members"), wanted))
            found.append(some)
            wanted = wanted.filter(pc.invert(pc.is_in(wanted, pc.unique(some.column("members")))))
        return _pending(_newest(found[::-1]))

    def after(self, rows: pa.Table, read: pa.Table, path: Path, batch: int, kept: Callable[[pa.Table], Bools]) -> Runs:
        """Return the runs behind a batch.

        Args:
            rows: rows that come, and those that are left of the rows that were read.
            read: rows that were read, all of their members.
            path: name of a new file.
            batch: the batch.
            kept: tells which rows a query may still ask for.
        """
        named = pc.unique(read.column("members"))
        # Rows of the same members that were not read stay beside those that come.
        old = self.of(rows.column("members").combine_chunks())
        old = old.filter(pc.invert(pc.is_in(old.column("members"), named)))
        table = _named(_with_first(pa.concat_tables([rows, old])), named)
        if not table.num_rows:
            return self
        files = list(self.files)
        while (begin := _merged_from([*(file.rows for file in files), table.num_rows])) < len(files):
            every = [_read(check_file(self.root / file.path)) for file in files[begin:]]
            whole = _newest([*every, table])
            rest = whole.filter(pc.not_equal(whole.column("gid"), _GONE))
            table = rest.filter(pa.array(kept(rest)))
            if begin:
                table = _named(table, pc.unique(whole.column("members")))
            del files[begin:]
        if not table.num_rows:
            return Runs(self.root, tuple(files))
        table = table.sort_by("first")
        options = {"row_group_size": _READ_TOGETHER, **PAGE_CHECKSUMS}
        made = write_sealed(path, lambda target: pq.write_table(table, target, **options))
        step("batch.answered")
        return Runs(self.root, (*files, facts_of_held_file(self.root, made, "answered", batch)))


def channels_waited_for(path: Path) -> Iterator[str]:
    """Yield the channels that rows of a file of pending rows wait for."""
    for text in _waits(check_file(path)):
        yield from json.loads(text)[0]


@lru_cache(maxsize=_OPEN)
def _waits(path: Path) -> frozenset[str]:
    texts = pq.read_table(path, columns=["waits"]).column("waits")
    return frozenset(text for text in pc.unique(texts).to_pylist() if text)


@lru_cache(maxsize=_OPEN)
def _footer(path: Path) -> pq.FileMetaData:
    return pq.read_metadata(path)


def _read(path: Path, firsts: Int64s | None = None) -> pa.Table:
    """Return the rows of a file; with ``firsts`` those of parts that may have a row of one of these."""
    footer = _footer(path)
    with pq.ParquetFile(path, metadata=footer, page_checksum_verification=True) as file:
        if firsts is None:
            return file.read().cast(_SCHEMA)
        at = _SCHEMA.get_field_index("first")
        spans = [footer.row_group(number).column(at).statistics for number in range(footer.num_row_groups)]
        wanted = [
            number
            for number, span in enumerate(spans)
            if np.searchsorted(firsts, span.min, "left") < np.searchsorted(firsts, span.max, "right")
        ]
        return file.read_row_groups(wanted).cast(_SCHEMA)


def _firsts(members: pa.Array) -> Int64s:
    """Return the numbers of the first of some members, rising."""
    words = b"".join(pc.binary_slice(members, 0, 8).to_pylist())
    return np.unique(np.frombuffer(words, dtype=np.int64))


def _with_first(rows: pa.Table) -> pa.Table:
    docs = rows.column("docs").combine_chunks()
    return rows.append_column(_SCHEMA.field("first"), pc.list_element(docs, 0)).cast(_SCHEMA)


def _named(rows: pa.Table, members: pa.Array) -> pa.Table:
    """Return rows, and one for each of some members without a row, which only names these."""
    alone = members.filter(pc.invert(pc.is_in(members, pc.unique(rows.column("members")))))
    columns = {field.name: pa.nulls(len(alone), field.type) for field in _SCHEMA}
    words = b"".join(pc.binary_slice(alone, 0, 8).to_pylist())
    columns |= {"members": alone, "first": pa.array(np.frombuffer(words, dtype=np.int64))}
    columns["gid"] = pa.array(np.full(len(alone), _GONE, dtype=np.int64))
    return pa.concat_tables([rows, pa.table(columns, schema=_SCHEMA)])


def _newest(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the rows of tables, the oldest one first, whose members no newer table names."""
    found, named = [_SCHEMA.empty_table()], pa.array([], pa.binary())
    for table in reversed(tables):
        found.append(table.filter(pc.invert(pc.is_in(table.column("members"), named))))
        named = pc.unique(pa.chunked_array([named, *table.column("members").chunks]))
    return pa.concat_tables(found)


def _pending(rows: pa.Table) -> pa.Table:
    """Return rows as they wait, without those that only name members."""
    return rows.filter(pc.not_equal(rows.column("gid"), _GONE)).select(PENDING_SCHEMA.names)


def _merged_from(sizes: Sequence[int]) -> int:
    """Return the place from which on runs of these sizes become one; the last place: none do.

    >>> _merged_from([90_000, 9, 8, 900, 9, 9, 8]), _merged_from([90_000, 9, 8, 9, 9, 8])
    (1, 5)
    """
    last = len(sizes) - 1
    first = last
    while first and sizes[first - 1] < _LARGEST and _tier(sizes[first - 1]) <= _tier(sizes[last]):
        first -= 1
    return first if last - first + 1 >= _FAN else last


def _tier(size: int) -> int:
    return tier_of(size, _SMALL, _FAN)
