"""The Parquet files of events: their columns, their names, the events in them, and the document of a row."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.number_order import each_once
from xscl.base.sealed import PAGE_CHECKSUMS, write_sealed
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import INTAKE_FILES
from xscl.ingest.rows import cells_document
from xscl.store.home import Home
from xscl.store.parquet import int64s, joined, read_columns, rows_where
from xscl.templates.columns import Int64s

__all__ = ["event_document", "events_of", "new_event_file", "write_event_file"]

_GROUP = 2_000  # small enough that a batch is read by all cores
_GROUP_OF_ROWS = 10_000
_SMALL, _SMALL_BYTES = 20_000, 1 << 24
"""Rows of a file, and their bytes, that is merged with others later: it is not compressed, which takes a third of the
time, and has four times the bytes until then."""
_OPTIONS = {
    "use_dictionary": ["channel", "version", "time_source", "membership"],  # columns of few different values
    "column_encoding": dict.fromkeys(
        ("docid", "item", "ts", "received", "behind", "declared", "start"), "DELTA_BINARY_PACKED"
    ),
    "write_statistics": ["docid", "channel", "id", "ts"],  # readers choose row groups by these
    **PAGE_CHECKSUMS,
}


def new_event_file(folder: Path, first: int) -> Path:
    """Make up a name for a file of events in a folder; ``first`` is the number of the first, and a digest is added."""
    return folder / f"{first:012d}-{uuid.uuid4().hex[:8]}.parquet"


def write_event_file(path: Path, table: pa.Table, *, merged: bool = False) -> Path:
    """Write events in the shape of ``EVENT_SCHEMA``; returns the file's name, which is ``path`` with a digest.

    ``merged`` says that they are of several files.
    """
    is_small = len(table) <= _SMALL and table.nbytes <= _SMALL_BYTES
    compression = "none" if is_small and not merged else "zstd"
    cells = table.column("cells")
    group = _GROUP if cells.null_count else _GROUP_OF_ROWS

    def write(target: Path) -> None:
        pq.write_table(table, target, row_group_size=group, compression=compression, **_OPTIONS)

    return write_sealed(path, write)


def event_document(content: str | None, cells: list[str | None] | None, channel: ChannelInfo) -> str:
    """Return the document of an event of ``channel`` that is kept as ``content`` or, a row, as ``cells``."""
    if content is not None:
        return content
    assert cells is not None and channel.schema is not None
    return cells_document(cells, list(channel.schema), element=channel.element)


def events_of(
    home: Home, docids: Collection[int] | Int64s, columns: Sequence[str], also: Sequence[pa.Table] = ()
) -> pa.Table:
    """Read some events by number, from the files that hold them, or from tables that no file holds yet."""
    known = docids if isinstance(docids, np.ndarray) else np.fromiter(docids, dtype=np.int64, count=len(docids))
    wanted = each_once(known)
    schema = pa.schema([EVENT_SCHEMA.field(name) for name in columns])
    if not len(wanted):
        return joined([], schema)
    names = list(dict.fromkeys(["docid", *columns]))

    def has(least: int, greatest: int) -> bool:
        # The first wanted number from the least on lies before the greatest.
        place = np.searchsorted(wanted, least)
        return bool(place < len(wanted) and wanted[place] <= greatest)

    with home.catalog.read() as connection:
        spanned = INTAKE_FILES.c.last >= int(wanted[0]), INTAKE_FILES.c.first <= int(wanted[-1])
        files = connection.execute(sa.select(INTAKE_FILES).where(*spanned).order_by(INTAKE_FILES.c.first)).all()
    read = [
        read_columns(path, EVENT_SCHEMA, names, "docid", has)
        for path in home.paths([file.path for file in files if has(file.first, file.last)])
    ]
    found = []
    for table in [*read, *(table.select(names) for table in also)]:
        numbers = int64s(table.column("docid"))
        places = np.minimum(np.searchsorted(wanted, numbers), len(wanted) - 1)
        found.append(rows_where(table, wanted[places] == numbers).select(list(columns)))
    return joined(found, schema)
