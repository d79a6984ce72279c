"""Files of rows into tables: CSV, JSON lines and Parquet, a chunk at a time, whatever their size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.errors import SourceError
from xscl.ingest.csv_files import CsvRange, read_csv
from xscl.ingest.json_rows import read_json_lines
from xscl.ingest.lines import ByteStream, LineRange
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Rejected, RowTable, rejected
from xscl.ingest.row_format import Format, check_width

__all__ = ["TABLE_ROWS", "GroupRange", "group_ranges", "read_row_file"]


TABLE_ROWS = 200_000
"""Rows of one table, at most."""


def read_row_file(
    stream: ByteStream,
    kind: Format,
    *,
    channel: str,
    source: str,
    reading: Reading,
    within: CsvRange | LineRange | GroupRange | None = None,
) -> Iterator[RowTable | Rejected | Noted]:
    """Yield the rows of a file, unpacked, ``-`` for one without a name; what cannot be read is a ``Rejected``.

    The beginning and the end of ``parquet`` are read, so it must be seekable.  With ``within`` only a range of the
    file's kind is read, from where it begins.
    """
    try:
        tables: Iterator[RowTable | Noted]
        if kind == "csv":
            tables = read_csv(
                stream, channel=channel, source=source, reading=reading, within=cast("CsvRange | None", within)
            )
        elif kind == "jsonl":
            lines = cast("LineRange | None", within)
            tables = read_json_lines(stream, channel=channel, source=source, reading=reading, within=lines)
        else:
            groups = cast("GroupRange | None", within)
            file = cast(BinaryIO, stream)
            tables = _read_parquet(file, channel=channel, source=source, reading=reading, within=groups)
        for table in tables:
            yield replace(table, named=source != "-") if isinstance(table, RowTable) else table
    except SourceError as error:
        yield rejected(source, error, channel)
    except (OSError, EOFError, zlib.error, pa.ArrowException, ValueError) as error:
        yield rejected(source, SourceError("XSCL_SOURCE_UNREADABLE", f"{source}: {error}"), channel)


# -- Parquet ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupRange:
    """Rows of some row groups of a Parquet file, which are read together."""

    groups: tuple[int, ...]
    row: int
    """Rows of the file before these groups."""
    skip: int = 0
    """Rows of the groups that are passed over."""
    take: int | None = None
    """Rows that are read; None: all that are left."""


def group_ranges(meta: pq.FileMetaData) -> Iterator[GroupRange]:
    """Yield the row groups of a file in runs of about as many rows as a table takes."""
    groups: list[int] = []
    row = count = 0
    for number in range(meta.num_row_groups):
        rows = meta.row_group(number).num_rows
        if groups and count + rows > TABLE_ROWS:
            yield GroupRange(tuple(groups), row)
            groups, row, count = [], row + count, 0
        groups.append(number)
        count += rows
    if groups:
        yield GroupRange(tuple(groups), row)


def _read_parquet(
    stream: BinaryIO, *, channel: str, source: str, reading: Reading, within: GroupRange | None
) -> Iterator[RowTable]:
    with pq.ParquetFile(stream) as file:
        check_width(file.metadata.num_columns, source)
        for run in group_ranges(file.metadata) if within is None else [within]:
            first = 1
            for batch in file.iter_batches(batch_size=TABLE_ROWS, row_groups=list(run.groups)):
                behind = first + len(batch)
                if first > run.skip:
                    numbers = np.arange(run.row + first, run.row + behind, dtype=np.int64)
                    table = pa.Table.from_batches([batch])
                    yield RowTable(channel, table, source, numbers, options=reading.rows, schema=reading.declared)
                first = behind
                if run.take is not None and first > run.skip + run.take:
                    break
