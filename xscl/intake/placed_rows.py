"""Rows with their places as the events of a file; nothing is asked of a home, so tasks do the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.intake.row_batch import RowBatch
from xscl.intake.row_columns import Places, as_mask, cell_lists

__all__ = ["PlacedRows", "event_times_of", "placed_rows"]


@dataclass(frozen=True, slots=True)
class PlacedRows:
    """Places of rows that follow each other in the intake order."""

    channel: str
    first: int
    """Number of the first row."""
    received: int
    """Time of its receipt."""
    late: Places
    """Places of late rows among them."""
    behind: Places | None
    """Times by which the clock was beyond them; None: beyond none."""
    ids: Mapping[str, object] | None
    """Their row of ``row_ranges``, without the file; None: their ids are kept one by one."""


def event_times_of(batch: RowBatch, received: int) -> Places:
    """Return the event times of rows; ``received`` is the receipt of the first, and undated rows have their own."""
    receipts = np.arange(received, received + len(batch.times), dtype=np.int64)
    dated = as_mask(batch.times.is_valid())
    return np.where(dated, batch.times.fill_null(0).to_numpy(zero_copy_only=False), receipts)


def placed_rows(batch: RowBatch, placed: PlacedRows) -> pa.Table:
    """Make rows that are all kept events in the shape of ``EVENT_SCHEMA``; what rows do not have is NULL."""
    count = len(batch.kept)
    docids = pa.array(np.arange(placed.first, placed.first + count, dtype=np.int64))
    late = np.zeros(count, dtype=np.bool_)
    late[placed.late] = True
    columns: dict[str, pa.Array] = {
        "docid": docids,
        "channel": pa.repeat(placed.channel, count),
        "id": batch.ids.texts,
        "version": pa.repeat(pa.scalar(1, pa.int32()), count),
        "item": docids,
        "ts": pa.array(event_times_of(batch, placed.received)),
        "received": pa.array(np.arange(placed.received, placed.received + count, dtype=np.int64)),
        "late": pa.array(late),
        "behind": pa.array(np.zeros(count, dtype=np.int64) if placed.behind is None else placed.behind),
        "declared": batch.times,
        "time_source": pc.if_else(batch.times.is_valid(), "given", "received"),
        "cells": cell_lists(batch.cells, count),
        "membership": pa.repeat(pa.scalar(0, pa.int32()), count),
    }
    if batch.starts is not None:
        columns["start"] = batch.starts
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in EVENT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)
