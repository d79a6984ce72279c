"""The Parquet files of events: their columns, their names, the events in them, which are walked together, and the
document of a row.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.sealed import PAGE_CHECKSUMS, write_sealed
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import INTAKE_FILES
from xscl.ingest.rows import cells_document
from xscl.store.home import Home
from xscl.store.parquet import int64s, joined, read_columns, rows_where
from xscl.templates.columns import Int64s

__all__ = ["EVENT_SCHEMA", "Level", "event_document", "events_of", "new_event_file", "write_event_file"]

EVENT_SCHEMA = pa.schema(
    [
        ("docid", pa.int64()),
        ("channel", pa.string()),
        ("id", pa.string()),
        ("version", pa.int32()),
        ("item", pa.int64()),
        ("ts", pa.int64()),
        ("received", pa.int64()),
        ("late", pa.bool_()),
        ("declared", pa.int64()),  # the time the source gave, before any clamp; NULL: none
        ("time_source", pa.string()),  # published, updated, feed, given or received; NULL: published by a query
        ("content", pa.string()),  # the document; NULL where there are cells
        ("cells", pa.list_(pa.string())),  # of a row: the columns' texts in the order of the channel's schema
        ("membership", pa.int32()),  # number of the streams it came by (``streams``); 0: none
    ]
)

_GROUP = 2_000  # small enough that a batch is read by all cores
_GROUP_OF_ROWS = 10_000
_REPEATED = ["channel", "version", "time_source", "membership"]  # columns of few different values


@dataclass(frozen=True, slots=True)
class Level:
    """Documents of a batch that are joined together with all before them."""

    number: int
    """0 for the events of the batch."""
    first: int
    """The least of their numbers."""
    last: int
    channels: Mapping[str, int]
    """Documents of each channel."""
    paths: list[str]
    """The files that hold them."""
    part: int = 0
    """Number of the part, from 0, where parts of a level are processed one after another."""
    since: Mapping[str, int] = field(default_factory=dict)
    """The least event time of a channel's documents, microseconds; older ones are left out."""
    on_time: frozenset[int] = frozenset()
    """Late documents that count as if they were not."""
    until: int | None = None
    """The greatest event time of its documents; newer ones are left out."""
    only: frozenset[int] | None = None
    """If given, all others are left out."""

    @property
    def name(self) -> str:
        """Different for different levels and parts of a batch."""
        return f"{self.number}-{self.part}" if self.part else str(self.number)


def new_event_file(home: Home, first: int) -> Path:
    """Make up a name for a file of events; ``first`` is the number of the first, and a digest is added."""
    return home.folder("events") / f"{first:012d}-{uuid.uuid4().hex[:8]}.parquet"


def write_event_file(path: Path, table: pa.Table) -> Path:
    """Write events in the shape of ``EVENT_SCHEMA``; returns the file's name, which is ``path`` with a digest."""
    cells = table.column("cells")
    group = _GROUP if cells.null_count else _GROUP_OF_ROWS

    def write(target: Path) -> None:
        options = {"compression": "zstd", "use_dictionary": _REPEATED, **PAGE_CHECKSUMS}
        pq.write_table(table, target, row_group_size=group, **options)

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
    wanted = np.unique(np.fromiter(docids, dtype=np.int64, count=len(docids)))
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
