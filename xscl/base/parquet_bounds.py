"""Bounds on Parquet files of strangers: one that would unpack hugely is refused by what its footer says."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["excess"]

_MOST_FOOTER = 64 << 20
"""Bytes of a footer at most."""
_FREE = 16 << 20
"""Bytes that any file may unpack to."""
_TIMES = 1_000
"""Times its size that a larger file may unpack to."""
_MOST_ROW_GROUP = 2 << 30
"""Bytes that one row group may unpack to: it is read as a whole."""
_ROWS = 1_000
"""Rows for each byte of a file, at most."""
_STRINGS = 16 << 20
_CONTAINERS = 1 << 20
"""Bytes of a text, and entries of a list, that are read of a footer."""


def excess(path: Path) -> str | None:
    """Tell by how much a Parquet file exceeds what is read of strangers; None: it does not.

    Only the footer is read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        if size < 12 or (file.seek(-8, 2), file.read(4))[1] == b"":
            return "it is no Parquet file"
        file.seek(-8, 2)
        footer = int.from_bytes(file.read(4), "little")
    if footer > min(_MOST_FOOTER, size):
        return f"its footer has {footer:,} bytes"
    try:
        with pq.ParquetFile(
            path, thrift_string_size_limit=_STRINGS, thrift_container_size_limit=_CONTAINERS
        ) as parquet:
            meta = parquet.metadata
            sizes = [_unpacked(meta, number) for number in range(meta.num_row_groups)]
            rows = meta.num_rows
    except (OSError, pa.ArrowException, ValueError) as error:
        return f"it cannot be read: {str(error).partition(chr(10))[0][:120]}"
    if rows > size * _ROWS:
        return f"it has {rows:,} rows in {size:,} bytes"
    if sum(sizes) > max(_FREE, size * _TIMES):
        return f"it unpacks to {sum(sizes):,} bytes from {size:,}"
    if max(sizes, default=0) > _MOST_ROW_GROUP:
        return f"one of its row groups unpacks to {max(sizes):,} bytes"
    return None


def _unpacked(meta: pq.FileMetaData, number: int) -> int:
    group = meta.row_group(number)
    return sum(max(0, group.column(column).total_uncompressed_size) for column in range(group.num_columns))
