"""Tables of rows into the home, a column at a time: one file and one transaction take a chunk."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.errors import SourceError, XsclError
from xscl.base.failpoints import step
from xscl.base.types import Event, is_name
from xscl.catalog.clocks import shown_before
from xscl.catalog.events import add_row_ranges
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import ChannelInfo
from xscl.catalog.source_offsets import put_positions
from xscl.ingest.records import Rejected, RowTable
from xscl.intake.checks import check_channel_name, taken_id
from xscl.intake.events import take_events
from xscl.intake.report import IntakeReport
from xscl.intake.row_batch import RowBatch, read_batch, refused_row, settle, single_events
from xscl.intake.row_columns import Places, as_mask, cell_lists
from xscl.intake.row_ids import known_rows
from xscl.intake.transaction import Chunk, Terms, open_chunk

__all__ = ["CHUNK_ROWS", "take_rows"]

CHUNK_ROWS = 200_000
"""Rows of one transaction and file."""


def take_rows(terms: Terms, table: RowTable, report: IntakeReport) -> None:
    """Take the rows of a table; everything that can be taken is."""
    numbers = np.arange(1, len(table.rows) + 1, dtype=np.int64) if table.numbers is None else table.numbers
    if not table.named:
        table = replace(table, source=f"row-{uuid.uuid4().hex}")
    starts = range(0, max(len(table.rows), 1), CHUNK_ROWS)
    for start in starts:
        part = replace(
            table,
            rows=table.rows.slice(start, CHUNK_ROWS),
            numbers=numbers[start : start + CHUNK_ROWS],
            problems=table.problems if start == 0 else (),
            position=table.position if start == starts[-1] else None,
        )
        with open_chunk(terms, report) as chunk:
            chunk.rejected.extend(part.problems)
            if len(part.rows):
                _take(chunk, part)
            if part.position is not None:
                put_positions(chunk.connection, [part.position], chunk.now)
        step("intake.rows")


def _take(chunk: Chunk, table: RowTable) -> None:
    """Take the rows of a table that can be taken, in one transaction."""
    limits = chunk.terms.limits
    try:
        batch, refusals = read_batch(table, _channel(chunk, table), limits)
    except XsclError as error:
        _refuse_all(chunk, table, error)
        return
    except pa.ArrowException as error:  # as a dictionary of long texts that many rows name
        _refuse_all(chunk, table, SourceError("XSCL_SOURCE_UNREADABLE", f"the rows cannot be held: {error}"))
        return
    chunk.rejected += refusals
    if table.channel in chunk.streams:
        # Rows of a stream are taken like any event: streams tell whose an id is.
        take_events(chunk, single_events(table, batch, limits))
        return
    batch, refusals = settle(table, batch, limits)
    chunk.rejected += refusals
    known = known_rows(chunk.connection, chunk.terms.home.root, batch.channel, batch.ids, batch.cells, batch.kept)
    chunk.report.duplicates += int(np.count_nonzero(known.same & batch.kept))
    for place in np.flatnonzero(known.other & batch.kept):
        id_ = batch.ids.texts[place].as_py()
        message = taken_id(id_, batch.channel.name, is_place=table.named and table.options.id is None)
        chunk.rejected.append(refused_row(table, place, "XSCL_EVENT_ID_REUSED", message, batch.ids))
    batch = replace(batch, kept=batch.kept & ~(known.same | known.other))
    if batch.kept.any():
        singly = batch.kept if batch.ids.numbers is None else np.zeros(0, dtype=np.bool_)
        _write(chunk, batch.only_kept(), [known.digests[place] for place in np.flatnonzero(singly).tolist()])


def _channel(chunk: Chunk, table: RowTable) -> ChannelInfo:
    check_channel_name(table.channel)
    name = resolve_stream(chunk.streams, table.channel)[0]
    return chunk.channel_of(Event(name, row={}, source=table.source))


def _refuse_all(chunk: Chunk, table: RowTable, error: XsclError) -> None:
    if table.position is not None:
        # Whoever goes on behind them would never see these rows again.
        raise error
    assert table.numbers is not None
    first, last, count = table.numbers[0], table.numbers[-1], len(table.rows)
    where = f"{table.source}:{first}" if count == 1 else f"{table.source}:{first}-{last}"
    message = error.message if count == 1 else f"{error.message} (all {count:,} rows)"
    hint = f"; {error.hint}" if error.hint else ""
    channel = table.channel if is_name(table.channel) else None
    chunk.rejected.append(Rejected(where, error.condition, message + hint, channel))
    chunk.report.rejected += count - 1


def _write(chunk: Chunk, batch: RowBatch, digests: Sequence[str]) -> None:
    """Write rows to a file, with their ids, and note those that are late.

    Args:
        chunk: their transaction.
        batch: rows that are all kept.
        digests: of the rows, if their ids are kept one by one.
    """
    channel, count = batch.channel, len(batch.kept)
    chunk.put_channel(channel)
    first, receipt = chunk.places(count)
    docids = np.arange(first, first + count, dtype=np.int64)
    received = np.arange(receipt, receipt + count, dtype=np.int64)
    dated = ~as_mask(batch.times.is_null())
    ts = np.where(dated, batch.times.fill_null(0).to_numpy(zero_copy_only=False), received)
    shown, late = shown_before(channel, chunk.clocks, ts)
    columns: dict[str, pa.Array] = {
        "docid": pa.array(docids),
        "channel": pa.repeat(channel.name, count),
        "id": batch.ids.texts,
        "version": pa.repeat(pa.scalar(1, pa.int32()), count),
        "item": pa.array(docids),
        "ts": pa.array(ts),
        "received": pa.array(received),
        "late": pa.array(late),
        "declared": batch.times,
        "time_source": pc.if_else(pa.array(dated), "given", "received"),
        "cells": cell_lists(batch.cells, count),
        "membership": pa.repeat(pa.scalar(0, pa.int32()), count),
    }
    path = chunk.write_file(_event_table(columns, count))
    numbers = batch.ids.numbers
    if numbers is None:
        _note_ids(chunk, batch, digests, docids, ts, received)
    else:
        ends = {"docid": first, "last_docid": first + count - 1, "first": int(numbers[0]), "last": int(numbers[-1])}
        held = {"path": path, "channel": channel.name, "prefix": batch.ids.prefix}
        add_row_ranges(chunk.connection, [{**ends, **held}])
    chunk.see(channel, int(ts.max()))
    chunk.report.taken += count
    for place in np.flatnonzero(late).tolist():
        id_, docid = batch.ids.texts[place].as_py(), int(docids[place])
        chunk.note_late(channel, id_, docid, int(ts[place]), int(received[place]), int(shown[place]))


def _note_ids(
    chunk: Chunk, batch: RowBatch, digests: Sequence[str], docids: Places, ts: Places, received: Places
) -> None:
    """Note the ids of rows to be kept one by one."""
    rows = zip(batch.ids.texts.to_pylist(), digests, docids.tolist(), ts.tolist(), received.tolist(), strict=True)
    same = {"channel": batch.channel.name, "feed": "", "version": 1, "membership": 0}
    chunk.ids.extend(
        {**same, "id": id_, "base": id_, "docid": docid, "item": docid, "digest": digest, "ts": at, "received": receipt}
        for id_, digest, docid, at, receipt in rows
    )


def _event_table(columns: Mapping[str, pa.Array], count: int) -> pa.Table:
    """Make events in the shape of ``EVENT_SCHEMA``; columns that are not given are NULL."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in EVENT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)
