"""Files of join state: witness rows, and rows of links, as Parquet.

A file has its digest in its name.  Table ``state_files`` says what a file holds; its footer says most of that too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from xscl.base.arrow_schemas import MEMBER
from xscl.base.sealed import PAGE_CHECKSUMS, seal, write_sealed
from xscl.store.home import Home
from xscl.xpath.witness_columns import WITNESS_SCHEMA

__all__ = [
    "KEYS",
    "LINK_SCHEMA",
    "SCHEMAS",
    "TIMES",
    "Kind",
    "StateFile",
    "facts_of_file",
    "link_rows",
    "sealed_files",
    "times_of",
    "write_links",
    "write_rows",
]

LINK_SCHEMA = pa.schema(
    [
        ("link", pa.int64()),
        ("ts1", pa.int64()),  # event time of the left member
        ("ts2", pa.int64()),
        ("members", pa.list_(MEMBER)),
        ("nodes", pa.list_(pa.int32())),
    ]
)
"""Rows of links as files keep them."""

Kind = Literal["witness", "link"]
SCHEMAS: Mapping[str, pa.Schema] = {"witness": WITNESS_SCHEMA, "link": LINK_SCHEMA}
TIMES: Mapping[str, tuple[str, ...]] = {"witness": ("ts",), "link": ("ts1", "ts2")}
"""Columns of event times, by kind."""
KEYS: Mapping[str, str] = {"witness": "var", "link": "link"}
"""Columns that decide how long a row is kept, by kind."""
ROW_GROUP = 64_000


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of rows, as table ``state_files`` has it; ``path`` is relative to the home."""

    path: str
    kind: str
    batch: int
    rows: int
    held: int
    bytes: int
    ts_min: int | None
    ts_max: int | None
    docid_min: int | None
    docid_max: int | None

    @property
    def rows_kind(self) -> Kind:
        """Kind of its rows."""
        return "link" if self.kind == "link" else "witness"

    def row(self) -> dict[str, object]:
        """Return its row of ``state_files``."""
        return {name: getattr(self, name) for name in StateFile.__slots__}


def times_of(file: StateFile) -> tuple[int, int]:
    """Return the least and the greatest event time of a file's rows."""
    return file.ts_min or 0, file.ts_max or 0


def facts_of_file(root: Path, path: str, kind: str, batch: int) -> StateFile:
    """Read what a file's footer says; none of its rows count as held yet."""
    full = root / path
    meta = pq.read_metadata(full)
    times = [_column_span(meta, name) for name in TIMES.get(kind, ())]
    spans = [span for span in times if span is not None]
    docids = _column_span(meta, "docid") if kind == "witness" else None
    return StateFile(
        path=path,
        kind=kind,
        batch=batch,
        rows=meta.num_rows,
        held=0,
        bytes=full.stat().st_size,
        ts_min=min((span[0] for span in spans), default=None),
        ts_max=max((span[1] for span in spans), default=None),
        docid_min=None if docids is None else docids[0],
        docid_max=None if docids is None else docids[1],
    )


def _column_span(meta: pq.FileMetaData, column: str) -> tuple[int, int] | None:
    """Return the least and the greatest value of a column; None without rows."""
    place = meta.schema.to_arrow_schema().names.index(column)  # flat columns come before nested ones
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    found = [group.column(place).statistics for group in groups if group.num_rows]
    return (min(s.min for s in found), max(s.max for s in found)) if found else None


def sealed_files(root: Path, path: str) -> list[str]:
    """Return a file, or the Parquet files of a folder, which get the names that they keep."""
    full = root / path
    if not full.is_dir():
        return [path]
    return [str(seal(file).relative_to(root)) for file in sorted(full.rglob("*.parquet"))]


def write_links(home: Home, name: str, rows: Iterable[pa.RecordBatch]) -> str | None:
    """Write rows of links (link, members, nodes) as state and return the path; None if there are none."""
    kept = (part for batch in rows for part in link_rows(pa.Table.from_batches([batch])).to_batches())
    file = write_rows(home.root / f"witness/{name}-links.parquet", LINK_SCHEMA, kept)
    return None if file is None else f"witness/{file.name}"


def link_rows(rows: pa.Table) -> pa.Table:
    """Return rows of links (link, members, nodes) in ``LINK_SCHEMA``."""
    members = rows.column("members").combine_chunks()
    times = [pc.struct_field(pc.list_element(members, side), "ts") for side in (0, 1)]
    columns = [rows.column("link"), *times, members, rows.column("nodes")]
    return pa.table(dict(zip(LINK_SCHEMA.names, columns, strict=True))).cast(LINK_SCHEMA)


def write_rows(path: Path, schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> Path | None:
    """Write a file, whose name is ``path`` with a digest; None if there is no row at all."""
    batches = iter(rows)
    first = next(batches, None)
    if first is None:
        return None

    def write(target: Path) -> None:
        with pq.ParquetWriter(target, schema, compression="zstd", **PAGE_CHECKSUMS) as writer:
            for batch in itertools.chain([first], batches):
                writer.write_batch(batch, row_group_size=ROW_GROUP)

    return write_sealed(path, write)
