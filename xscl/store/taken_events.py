"""Events of a batch in memory: rows that many ask about are read once, and those just taken in here not at all.

A process that takes events in and runs batches, too, keeps what it has written until a batch has had it.  A file has
a name of its own and never changes, so the rows that are kept under its name are those in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.store.parquet import read_columns, rows_where
from xscl.templates.columns import Bools, Int64s

__all__ = ["TakenEvents", "keep_written", "taken_events", "written_events"]

_MOST_BYTES = 1 << 26
"""Bytes of the files of events that are held; larger files are read again, some events at a time."""
_LEFT_OUT = ("version", "declared", "time_source")
_READ = [name for name in EVENT_SCHEMA.names if name not in _LEFT_OUT]
_MOST_WRITTEN = 1 << 25
"""Bytes of events that are kept for the next batch; of more, the newest are kept."""

_written: dict[str, pa.Table] = {}
"""Rows of files that were written here, and that no batch has had, the oldest first."""
_asked: set[Path] = set()
"""Folders of the files that batches of this process have asked for."""
_lock = Lock()
"""Held by whoever looks at both: a service takes events in beside its batches."""


@dataclass(frozen=True, eq=False)
class TakenEvents:
    """All events of a range, by their numbers."""

    first: int
    last: int
    pieces: pa.Table
    """Columns of ``EVENT_SCHEMA`` that a batch reads, in pieces, for readers of few columns."""

    @cached_property
    def rows(self) -> pa.Table:
        """The same in one piece, made once for all readers."""
        return self.pieces.combine_chunks()

    def counts(self) -> dict[str, int]:
        """Return the number of events of each channel that has some."""
        found = pc.value_counts(self.pieces.column("channel"))
        return dict(zip(found.field("values").to_pylist(), found.field("counts").to_pylist(), strict=True))

    def has(self, numbers: Int64s) -> Bools:
        """Tell which events are of the range."""
        found: Bools = (numbers >= self.first) & (numbers <= self.last)
        return found


def keep_written(file: Path, rows: pa.Table) -> None:
    """Keep events that were written to a file and committed, if batches run in this process."""
    with _lock:
        if file.parent not in _asked:
            return
        _written[str(file)] = rows.select(_READ)
        size = sum(table.nbytes for table in _written.values())
        for path in list(_written):
            if size <= _MOST_WRITTEN:
                break
            size -= _written.pop(path).nbytes


def written_events(paths: Sequence[str], first: int, last: int) -> TakenEvents | None:
    """Return the events of a range from memory; None where some are in files alone.  A file that ends within the range
    is forgotten.

    Args:
        paths: the files that have them.
        first: the least number.
        last: the greatest one.
    """
    with _lock:
        _asked.update(Path(path).parent for path in paths)
        kept = [_written.get(path) for path in paths]
        for path, rows in zip(paths, kept, strict=True):
            if rows is not None and rows.column("docid")[-1].as_py() <= last:
                del _written[path]
    if not kept or any(rows is None for rows in kept):
        return None
    return _within(pa.concat_tables([rows for rows in kept if rows is not None]), first, last)


def taken_events(paths: Sequence[str], first: int, last: int) -> TakenEvents | None:
    """Read the events of a range; None: they are too large to hold.

    Args:
        paths: the files that have them.
        first: the least number.
        last: the greatest one.
    """
    if sum(_size(path) for path in paths) > _MOST_BYTES:
        return None
    rows = pa.concat_tables(
        [
            read_columns(path, EVENT_SCHEMA, _READ, "docid", lambda least, most: least <= last and most >= first)
            for path in paths
        ]
    )
    return _within(rows, first, last)


def _within(rows: pa.Table, first: int, last: int) -> TakenEvents:
    """Return the events of a range among some."""
    numbers = rows.column("docid").to_numpy()
    within = (numbers >= first) & (numbers <= last)
    if not within.all():
        rows, numbers = rows_where(rows, within), numbers[within]
    return TakenEvents(first, last, rows if (numbers[1:] > numbers[:-1]).all() else rows.sort_by("docid"))


def _size(path: str) -> int:
    """Return the bytes of a file's events in memory, about."""
    meta = pq.read_metadata(path)
    return sum(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
