"""Stage 1 in the driver: documents to witness rows, in this process while that takes not long."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.event_files import EVENT_SCHEMA, Level
from xscl.ingest.rows import cells_document
from xscl.planner import Plan
from xscl.xpath.relational import RowShape
from xscl.xpath.row_witness import row_witnesses
from xscl.xpath.spec_files import load_automaton
from xscl.xpath.witness import WITNESS_SCHEMA, witness_rows

__all__ = ["driver_witnesses"]

_LONG_S = 5.0
"""Documents that take longer are matched by executors, which need more than a second to start."""
_TELLING_S = 0.5
"""After so long it is known what others will take."""
_FIRST = 250
"""Documents that are walked before that is asked for the first time; then twice as many each time,"""
_PART = 8_000
"""up to this: a part costs as much as a hundred small documents."""
_PART_BYTES = 64 << 20
"""A part is not much larger in memory."""
_MOST_ROWS = 2_000_000
"""Rows that columns answer here, at about a microsecond each."""
_MOST_ROW_BYTES = 1 << 30
_WALKED = ("docid", "channel", "id", "item", "ts", "late", "membership", "content")
_READ = [*_WALKED, "cells"]


class _ForExecutors(Exception):
    """They make the witness rows of a level sooner."""


def driver_witnesses(plan: Plan, level: Level, most_rows: int) -> pa.Table | None:
    """The witness rows of a level's documents, made here; None if executors make them sooner, or they are too many."""
    found = []
    try:
        for part in chain(_of_columns(plan, level), _of_documents(plan, level)):
            found.append(part)
            most_rows -= part.num_rows
            if most_rows < 0:
                return None
    except _ForExecutors:
        return None
    return pa.Table.from_batches(found, schema=WITNESS_SCHEMA)


def _of_columns(plan: Plan, level: Level) -> Iterator[pa.RecordBatch]:
    """What columns of rows answer."""
    rows = _events_of(level, plan.answered)
    if not rows:
        return
    if rows > _MOST_ROWS:
        raise _ForExecutors
    events = _in_time(level, _dataset(level).to_table(columns=_READ, filter=_wanted(level, plan.answered)))
    if events.nbytes > _MOST_ROW_BYTES:
        raise _ForExecutors
    for part in events.combine_chunks().to_batches():
        yield from row_witnesses(plan.matchers, part)


def _of_documents(plan: Plan, level: Level) -> Iterator[pa.RecordBatch]:
    """What a walk finds."""
    documents = _events_of(level, plan.walked)
    if not documents:
        return
    automaton = load_automaton(str(plan.specs_path))
    walked, began = 0, time.perf_counter()
    for part in _parts(level, plan.walked):
        yield from witness_rows(automaton, _with_documents(part, plan.shapes))
        walked += part.num_rows
        seconds = time.perf_counter() - began
        if seconds > _TELLING_S and seconds * (documents - walked) / walked > _LONG_S:
            raise _ForExecutors


def _parts(level: Level, channels: Collection[str]) -> Iterator[pa.RecordBatch]:
    """The events of a level of some channels, some at a time, first a few."""
    events = _dataset(level).to_batches(
        columns=_READ, filter=_wanted(level, channels), batch_size=_FIRST, batch_readahead=1, fragment_readahead=1
    )
    waiting: list[pa.RecordBatch] = []
    rows = taken = 0
    most = _FIRST
    for few in events:
        waiting.append(few)
        rows, taken = rows + few.num_rows, taken + few.nbytes
        if rows >= most or taken >= _PART_BYTES:
            yield from _together(level, waiting)
            waiting, rows, taken, most = [], 0, 0, min(2 * most, _PART)
    yield from _together(level, waiting)


def _together(level: Level, parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if any(part.num_rows for part in parts):
        yield from _in_time(level, pa.Table.from_batches(parts)).combine_chunks().to_batches()


def _dataset(level: Level) -> ds.Dataset:
    return ds.dataset(level.paths, schema=EVENT_SCHEMA)


def _events_of(level: Level, channels: Collection[str]) -> int:
    return sum(number for channel, number in level.channels.items() if channel in channels)


def _wanted(level: Level, channels: Collection[str]) -> pc.Expression:
    """The events of a level of some channels."""
    wanted = (ds.field("docid") >= level.first) & (ds.field("docid") <= level.last)
    wanted &= ds.field("channel").isin(pa.array(sorted(level.channels.keys() & channels), pa.string()))
    for channel, least in level.since.items():
        wanted &= (ds.field("channel") != channel) | (ds.field("ts") >= least)
    if level.until is not None:
        wanted &= ds.field("ts") <= level.until
    if level.only is not None:
        wanted &= ds.field("docid").isin(pa.array(sorted(level.only), pa.int64()))
    return wanted


def _in_time(level: Level, events: pa.Table) -> pa.Table:
    """Events with those that were taken again counting as in time."""
    if not level.on_time:
        return events
    in_time = pc.is_in(events.column("docid"), pa.array(sorted(level.on_time), pa.int64()))
    late = pc.and_not(events.column("late"), in_time)
    return events.set_column(events.schema.get_field_index("late"), "late", late)


def _with_documents(events: pa.RecordBatch, shapes: Mapping[str, RowShape]) -> pa.RecordBatch:
    """Events with the document of each row as its content, without cells."""
    if events.column("cells").null_count < events.num_rows:
        rows = zip(*(events.column(name).to_pylist() for name in ("channel", "content", "cells")), strict=True)
        documents = [
            content if cells is None else cells_document(cells, shapes[name].columns, element=shapes[name].element)
            for name, content, cells in rows
        ]
        place = events.schema.get_field_index("content")
        events = events.set_column(place, "content", pa.array(documents, pa.string()))
    return events.select(_WALKED)
