"""Stage 1 in the driver: documents become witness rows here, while executors would not end sooner.

The processor time of a part that was walked tells what the rest will take, once a part before it has made what is made
only once.  Witness rows that are there stay when the rest goes to executors.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.base.progress import told
from xscl.ingest.rows import cells_document
from xscl.planning.planner import Plan
from xscl.spark.start_cost import cores, start_seconds
from xscl.store.event_files import EVENT_SCHEMA, Level
from xscl.xpath.relational import RowShape
from xscl.xpath.row_witness import row_witnesses
from xscl.xpath.spec_files import load_automaton
from xscl.xpath.witness import witness_rows
from xscl.xpath.witness_columns import WITNESS_SCHEMA

__all__ = ["Walked", "driver_witnesses", "sooner_in_executors"]

_OVERHEAD = 1.2
"""Processor time of executors for what takes one here."""
_FIRST = 50
"""Documents of the first part; each later part has twice as many."""
_PART = 8_000
"""Most documents of a part; a part costs as much as a hundred small documents."""
_PART_BYTES = 64 << 20
"""A part is not much larger in memory."""
_MOST_ROWS = 2_000_000
"""Rows that columns answer here, at about a microsecond each."""
_MOST_ROW_BYTES = 1 << 30
_WALKED = ("docid", "channel", "id", "item", "ts", "late", "membership", "content")
_READ = [*_WALKED, "cells"]


@dataclass(frozen=True, slots=True)
class Walked:
    """Witness rows that were made here, and what is left for executors."""

    rows: pa.Table
    plan: Plan | None
    """Plan of the rest; None: there is no rest."""
    level: Level


def driver_witnesses(plan: Plan, level: Level, most_rows: int) -> Walked:
    """Make the witness rows of a level's documents, or of the first of them where executors make the others sooner.

    Args:
        plan: the queries.
        level: the documents.
        most_rows: the witness rows that one process may hold.
    """
    found = _of_columns(plan, level, most_rows)
    if found is None:
        return Walked(WITNESS_SCHEMA.empty_table(), plan, level)
    documents = _events_of(level, plan.walked)
    if not documents:
        return Walked(_table(found), None, level)
    plan_left = replace(plan, answered=frozenset())
    rows = sum(part.num_rows for part in found)
    automaton = load_automaton(str(plan.specs_path))
    walked, last, warm = 0, level.first - 1, False
    for part in _parts(level, plan.walked):
        if rows > most_rows:
            return _left(found, plan, plan_left, level, walked, last)
        before = time.process_time()
        made = list(witness_rows(automaton, _with_documents(part, plan.shapes)))
        seconds = time.process_time() - before
        found += made
        rows += sum(each.num_rows for each in made)
        walked += part.num_rows
        told("documents", walked, documents)
        last = max(last, pc.max(part.column("docid")).as_py())
        left = seconds * (documents - walked) / part.num_rows
        if (warm or seconds > start_seconds()) and sooner_in_executors(left, start_seconds(), cores()):
            return _left(found, plan, plan_left, level, walked, last)
        warm = True
    return Walked(_table(found), None, level)


def sooner_in_executors(seconds: float, start: float, processors: int) -> bool:
    """Whether executors on so many processors end work sooner than this process, after a start.

    >>> sooner_in_executors(9, 5, 2), sooner_in_executors(13, 5, 2), sooner_in_executors(99, 5, 1)
    (False, True, False)
    """
    return seconds > start + _OVERHEAD * seconds / processors


def _left(found: list[pa.RecordBatch], plan: Plan, plan_left: Plan, level: Level, walked: int, last: int) -> Walked:
    """Return the rows of documents up to ``last``, and the rest; no rows if others than the first ones were walked."""
    before = _wanted(level, plan.walked) & (ds.field("docid") <= last)
    if _dataset(level).count_rows(filter=before) != walked:
        return Walked(WITNESS_SCHEMA.empty_table(), plan, level)
    return Walked(_table(found), plan_left, replace(level, first=last + 1))


def _table(parts: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(parts, schema=WITNESS_SCHEMA)


def _of_columns(plan: Plan, level: Level, most_rows: int) -> list[pa.RecordBatch] | None:
    """Answer by columns of rows; None if there are more rows than one process should hold."""
    rows = _events_of(level, plan.answered)
    if not rows:
        return []
    if rows > _MOST_ROWS:
        return None
    events = _in_time(level, _dataset(level).to_table(columns=_READ, filter=_wanted(level, plan.answered)))
    if events.nbytes > _MOST_ROW_BYTES:
        return None
    found = []
    for part in events.combine_chunks().to_batches():
        for made in row_witnesses(plan.matchers, part):
            found.append(made)
            most_rows -= made.num_rows
            if most_rows < 0:
                return None
    return found


def _parts(level: Level, channels: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Yield the events of a level of some channels, some at a time, first a few."""
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
    """Return the condition of the events of a level of some channels."""
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
