"""Files of rows into tables: CSV, JSON lines and Parquet, a chunk at a time, whatever their size."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import BinaryIO, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.errors import SourceError
from xscl.ingest.csv_files import read_csv
from xscl.ingest.event_file import ByteStream
from xscl.ingest.json_rows import read_json_lines
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Rejected, RowTable, rejected
from xscl.ingest.row_format import Format, check_width

__all__ = ["read_row_file"]


_ROWS = 200_000


def read_row_file(
    stream: ByteStream, kind: Format, *, channel: str, source: str, reading: Reading
) -> Iterator[RowTable | Rejected | Noted]:
    """Yield the rows of a file, unpacked, ``-`` for one without a name; what cannot be read is a ``Rejected``.

    The beginning and the end of ``parquet`` are read, so it must be seekable.
    """
    try:
        tables: Iterator[RowTable | Noted]
        if kind == "csv":
            tables = read_csv(stream, channel=channel, source=source, reading=reading)
        elif kind == "jsonl":
            tables = read_json_lines(stream, channel=channel, source=source, reading=reading)
        else:
            tables = _read_parquet(cast(BinaryIO, stream), channel=channel, source=source, reading=reading)
        for table in tables:
            yield replace(table, named=source != "-") if isinstance(table, RowTable) else table
    except SourceError as error:
        yield rejected(source, error, channel)
    except (OSError, EOFError, zlib.error, pa.ArrowException, ValueError) as error:
        yield rejected(source, SourceError("XSCL_SOURCE_UNREADABLE", f"{source}: {error}"), channel)


# -- Parquet ---------------------------------------------------------------------------------------------------


def _read_parquet(stream: BinaryIO, *, channel: str, source: str, reading: Reading) -> Iterator[RowTable]:
    first = 1
    with pq.ParquetFile(stream) as file:
        check_width(file.metadata.num_columns, source)
        for batch in file.iter_batches(batch_size=_ROWS):
            numbers = np.arange(first, first + len(batch), dtype=np.int64)
            first += len(batch)
            table = pa.Table.from_batches([batch])
            yield RowTable(channel, table, source, numbers, options=reading.rows, schema=reading.declared)


# -- JSON lines ------------------------------------------------------------------------------------------------


# -- CSV -------------------------------------------------------------------------------------------------------
