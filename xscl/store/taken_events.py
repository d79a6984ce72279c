"""Events of a batch in memory: rows that many ask about are read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.store.parquet import read_columns, rows_where
from xscl.templates.columns import Bools, Int64s

__all__ = ["TakenEvents", "taken_events"]

_MOST_BYTES = 1 << 26
"""Bytes of the files of events that are held; those of larger ones are read by whoever asks, some at a time."""
_LEFT_OUT = ("version", "declared", "time_source")


@dataclass(frozen=True, eq=False, slots=True)
class TakenEvents:
    """All events of a range, by their numbers."""

    first: int
    last: int
    rows: pa.Table
    """Columns of ``EVENT_SCHEMA`` that a batch reads."""

    def has(self, numbers: Int64s) -> Bools:
        """Tell which events are of the range."""
        found: Bools = (numbers >= self.first) & (numbers <= self.last)
        return found


def taken_events(paths: Sequence[str], first: int, last: int) -> TakenEvents | None:
    """Read the events of a range; None: they are too large to hold.

    Args:
        paths: the files that have them.
        first: the least number.
        last: the greatest one.
    """
    if sum(_size(path) for path in paths) > _MOST_BYTES:
        return None
    names = [name for name in EVENT_SCHEMA.names if name not in _LEFT_OUT]
    rows = pa.concat_tables(
        [
            read_columns(path, EVENT_SCHEMA, names, "docid", lambda least, most: least <= last and most >= first)
            for path in paths
        ]
    )
    rows = rows.combine_chunks()  # who reads it would, each for itself
    numbers = rows.column("docid").to_numpy()
    within = (numbers >= first) & (numbers <= last)
    if not within.all():
        rows, numbers = rows_where(rows, within), numbers[within]
    return TakenEvents(first, last, rows if (numbers[1:] > numbers[:-1]).all() else rows.sort_by("docid"))


def _size(path: str) -> int:
    """Return the bytes of a file's events in memory, about."""
    meta = pq.read_metadata(path)
    return sum(meta.row_group(number).total_byte_size for number in range(meta.num_row_groups))
