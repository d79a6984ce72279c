"""Parquet files, read without ``pyarrow.dataset`` and without ``to_numpy``: both import pandas, which takes 0.4 s.

Only wanted columns are read, and row groups that may have wanted rows by their footer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.sealed import CHECKED_PAGES
from xscl.templates.columns import Bools, Int64s

if TYPE_CHECKING:
    import pyarrow.dataset as ds

__all__ = ["checked_dataset", "codes", "data_files", "int64s", "joined", "list_parts", "read_columns", "rows_where"]

_SMALL = 100_000
"""Rows that one thread reads sooner than several that it must wait for."""
Span = Callable[[int, int], bool]
"""Whether a row group whose values lie between these two, both included, is wanted."""


def data_files(path: str | Path) -> list[Path]:
    """Return the Parquet files at a path: the file that it is, or those of a folder and its folders.

    Raises:
        FileNotFoundError: there is nothing.
    """
    found = Path(path)
    if not found.exists():
        raise FileNotFoundError(f"there is nothing at {found}")
    if found.suffix == ".parquet" and not found.is_dir():
        return [found]
    # What Spark has not finished, and its notes, begin with these.
    return sorted(
        file
        for file in found.rglob("*.parquet")
        if not any(part.startswith((".", "_")) for part in file.relative_to(found).parts)
    )


def read_columns(
    file: str | Path, schema: pa.Schema, columns: Sequence[str], key: str | None = None, wanted: Span | None = None
) -> pa.Table:
    """Read some columns of the wanted row groups of a file.

    Args:
        file: where it is; columns that it lacks are NULL.
        schema: of what is handed out.
        columns: names of it.
        key: a column of numbers of the file by which row groups are told apart.
        wanted: asked of the least and the greatest ``key`` of a row group; NULLs do not count.
    """
    made = pa.schema([schema.field(name) for name in columns])
    with pq.ParquetFile(file, **CHECKED_PAGES) as opened:
        meta = opened.metadata
        groups = [
            number for number in range(meta.num_row_groups) if wanted is None or _may_have(meta, number, key, wanted)
        ]
        there = set(opened.schema_arrow.names)
        table = opened.read_row_groups(
            groups, columns=[name for name in columns if name in there], use_threads=meta.num_rows > _SMALL
        )
    arrays = [
        table.column(field.name).cast(field.type)
        if field.name in there
        else pa.chunked_array([pa.nulls(table.num_rows, field.type)])
        for field in made
    ]
    return pa.table(arrays, schema=made)


def checked_dataset(files: Sequence[str | Path], schema: pa.Schema) -> ds.Dataset:
    """Return files of one schema as a dataset that checks each page."""
    import pyarrow.dataset as ds

    options = ds.ParquetFragmentScanOptions(**CHECKED_PAGES)
    return ds.dataset(
        list(map(str, files)), schema=schema, format=ds.ParquetFileFormat(default_fragment_scan_options=options)
    )


def _may_have(meta: pq.FileMetaData, group: int, key: str | None, wanted: Span) -> bool:
    row_group = meta.row_group(group)
    for number in range(row_group.num_columns):
        column = row_group.column(number)
        if column.path_in_schema == key:
            known = column.statistics
            return known is None or not known.has_min_max or wanted(known.min, known.max)
    return True


def int64s(column: pa.ChunkedArray, null: int = -1) -> Int64s:
    """Return a column of whole numbers; ``null`` stands for NULL."""
    whole = column.combine_chunks().cast(pa.int64())
    numbers = np.frombuffer(whole.buffers()[1] or b"", dtype=np.int64)[whole.offset : whole.offset + len(whole)]
    return np.where(_valid(whole), numbers, null) if whole.null_count else numbers


def codes(column: pa.ChunkedArray) -> tuple[Int64s, list[object]]:
    """Return a column as numbers of its different values; -1 is NULL."""
    encoded = column.combine_chunks().dictionary_encode()
    return int64s(pa.chunked_array([encoded.indices])), encoded.dictionary.to_pylist()


def list_parts(column: pa.ChunkedArray) -> tuple[Int64s, Int64s]:
    """Return a column of lists of numbers: the length of each, 0 for NULL, and all numbers."""
    whole = column.combine_chunks()
    offsets = int64s(pa.chunked_array([whole.offsets]))
    lengths = np.diff(offsets)
    return np.where(_valid(whole), lengths, 0), int64s(pa.chunked_array([whole.flatten()]))


def joined(parts: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of all parts; there may be no part."""
    if parts:
        return pa.concat_tables(parts)
    return pa.table([pa.chunked_array([], field.type) for field in schema], schema=schema)


def rows_where(table: pa.Table, chosen: Bools) -> pa.Table:
    """Return the rows that a mask chooses."""
    if chosen.all():
        return table
    bits = pa.py_buffer(np.packbits(chosen, bitorder="little"))
    return table.filter(pa.Array.from_buffers(pa.bool_(), len(chosen), [None, bits]))


def _valid(array: pa.Array) -> Bools:
    bits = array.buffers()[0]
    if bits is None:
        return np.ones(len(array), dtype=np.bool_)
    unpacked = np.unpackbits(np.frombuffer(bits, dtype=np.uint8), bitorder="little")
    return unpacked[array.offset : array.offset + len(array)].astype(np.bool_)
