"""Files in which tasks keep what they have checked, and the event files that are made of them with places."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.catalog.records import ChannelInfo
from xscl.ingest.row_times import as_array
from xscl.intake.checks import KeptDocument
from xscl.intake.new_events import EventRow, EventTuple, event_table
from xscl.intake.placed_rows import PlacedRows, placed_rows
from xscl.intake.row_batch import RowBatch
from xscl.intake.row_columns import Places
from xscl.intake.row_ids import RowIds
from xscl.store.event_files import new_event_file, write_event_file

__all__ = [
    "CheckedRows",
    "EventsToWrite",
    "RowsToWrite",
    "Target",
    "keep_rows",
    "keep_texts",
    "kept_rows",
    "write_decisions",
    "write_placed",
]

_CELLS = "cells "
"""Columns of cells are named so, with their number."""


@dataclass(frozen=True, slots=True)
class CheckedRows:
    """Rows that a task has kept, as their file has them."""

    batch: RowBatch
    """All of them are kept."""
    numbers: Places
    """Numbers by which they are named in refusals."""
    digests: Sequence[str] | None
    """Digests of the rows; None where their ids are ranges."""


@dataclass(frozen=True, slots=True)
class Target:
    """A place for an event file; each task that writes it makes up a name."""

    folder: str
    first: int
    """Number of the first event of the transaction: nothing that is written has a number that was never given out."""


@dataclass(frozen=True, slots=True)
class RowsToWrite:
    """Rows that have their places."""

    file: str
    prefix: str
    chosen: Places | None
    """Places of the rows in the file; None: all."""
    placed: PlacedRows
    target: Target


@dataclass(frozen=True, slots=True)
class EventsToWrite:
    """Events that have their places."""

    decided: str
    """File of all but the documents."""
    texts: str
    """File of the documents."""
    target: Target


def keep_rows(folder: str, batch: RowBatch, numbers: Places, digests: Sequence[str] | None) -> str:
    """Write rows that are all kept to a file of their own; return its path."""
    columns: dict[str, pa.Array] = {"number": pa.array(numbers), "id": batch.ids.texts, "time": batch.times}
    if batch.starts is not None:
        columns["start"] = batch.starts
    if batch.ids.numbers is not None:
        columns["of id"] = pa.array(batch.ids.numbers)
    if digests is not None:
        columns["digest"] = pa.array(digests, pa.string())
    columns |= {f"{_CELLS}{number}": column for number, column in enumerate(batch.cells)}
    return _written(folder, pa.table(columns))


def kept_rows(file: str, prefix: str, channel: ChannelInfo) -> CheckedRows:
    """Read the rows of a file; what is not looked at is not loaded."""
    table = _read(file)
    columns = {name: as_array(table.column(name)) for name in table.column_names}
    count = len(table)
    of_id = columns.get("of id")
    ids = RowIds(prefix, None if of_id is None else of_id.to_numpy(), columns["id"])
    cells = tuple(column for name, column in columns.items() if name.startswith(_CELLS))
    kept = np.ones(count, dtype=np.bool_)
    batch = RowBatch(channel, ids, columns["time"], cells, kept, ~kept, columns.get("start"))
    digests = columns.get("digest")
    return CheckedRows(batch, columns["number"].to_numpy(), None if digests is None else digests.to_pylist())


def keep_texts(folder: str, texts: Sequence[bytes]) -> str:
    """Write documents to a file of their own, in their order; return its path."""
    return _written(folder, pa.table({"content": pa.array(texts, pa.string())}))


def write_decisions(folder: str, rows: Sequence[EventTuple]) -> str:
    """Write what was decided of events, in the shape of ``EVENT_SCHEMA`` but for ``at`` in place of the document."""
    contents = [EventRow._make(row).content for row in rows]
    places = [content.at if isinstance(content, KeptDocument) else None for content in contents]
    return _written(folder, event_table(rows, without_content=True).append_column("at", pa.array(places, pa.int64())))


def write_placed(work: RowsToWrite | EventsToWrite) -> str:
    """Write events with their places to an event file; return its name."""
    if isinstance(work, RowsToWrite):
        channel = ChannelInfo.new(work.placed.channel, "rows")
        batch = kept_rows(work.file, work.prefix, channel).batch
        if work.chosen is not None:
            chosen = np.zeros(len(batch.kept), dtype=np.bool_)
            chosen[work.chosen] = True
            batch = replace(batch, kept=chosen).only_kept()
        table = placed_rows(batch, work.placed)
    else:
        decided, texts = _read(work.decided), as_array(_read(work.texts).column("content"))
        content = texts.take(as_array(decided.column("at")))
        arrays = [content if field.name == "content" else decided.column(field.name) for field in EVENT_SCHEMA]
        table = pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)
    return write_event_file(new_event_file(Path(work.target.folder), work.target.first), table).name


def _written(folder: str, table: pa.Table) -> str:
    path = f"{folder}/{uuid.uuid4().hex}.arrow"
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    return path


def _read(path: str) -> pa.Table:
    return pa.ipc.open_file(pa.memory_map(path)).read_all()
