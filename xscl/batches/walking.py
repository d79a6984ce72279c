"""Stage 1: documents of a level become witness rows, a part at a time, in this process or in a task."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from xscl.base.alike_rows import AlikeRows, LoneRows
from xscl.base.arrow_schemas import EVENT_SCHEMA, WITNESS_SCHEMA
from xscl.batches.kernels import Kernels
from xscl.ingest.rows import cells_document
from xscl.store.taken_events import TakenEvents
from xscl.xpath.fact_rows import FactVariables, with_facts
from xscl.xpath.relational import RowShape
from xscl.xpath.row_witness import row_witnesses
from xscl.xpath.witness import witness_rows

__all__ = [
    "Asked",
    "Fresh",
    "Left",
    "Level",
    "WalkedPart",
    "column_witnesses",
    "count_documents",
    "cut",
    "documents_of",
    "walked_parts",
    "witnesses",
]

_FIRST = 1_000
"""Documents of the first part; each later part has four times as many."""
_PART = 8_000
"""Most documents of a part; a part costs as much as a hundred small documents."""
_ROWS = 64_000
"""Rows whose columns are looked at together."""
_PART_BYTES = 64 << 20
"""A part is not much larger in memory."""
_WALKED = ("docid", "channel", "id", "item", "ts", "late", "membership", "content")
_READ = [*_WALKED, "cells"]
_CHECKED = ds.ParquetFileFormat(
    default_fragment_scan_options=ds.ParquetFragmentScanOptions(page_checksum_verification=True)
)
"""Format whose readers compare the checksums of pages: another machine may see another copy of a file."""


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
    without: frozenset[int] = frozenset()
    """Documents that are left out."""

    @property
    def name(self) -> str:
        """Different for different levels and parts of a batch."""
        return f"{self.number}-{self.part}" if self.part else str(self.number)


@dataclass(frozen=True, slots=True)
class Asked:
    """Channels that queries read, and how."""

    walked: frozenset[str]
    """Channels whose documents are walked."""
    answered: frozenset[str]
    """Channels of rows that columns answer."""
    shapes: Mapping[str, RowShape]

    @property
    def channels(self) -> frozenset[str]:
        """All these channels."""
        return self.walked | self.answered


@dataclass(frozen=True, slots=True)
class WalkedPart:
    """Witness rows of some documents of a level."""

    rows: list[pa.RecordBatch]
    documents: int
    last: int
    """The last of them; the walk goes on behind it."""


@dataclass(frozen=True, slots=True)
class Fresh:
    """New witness rows."""

    rows: pa.Table
    alike: Sequence[AlikeRows] = ()
    """Rows that meet no others."""

    @classmethod
    def of(cls, rows: Sequence[pa.RecordBatch], lone: LoneRows) -> Self:
        """Return rows that were found."""
        return cls(pa.Table.from_batches(rows, schema=WITNESS_SCHEMA), lone.found)

    @property
    def count(self) -> int:
        """Return the number of all of them."""
        return len(self.rows) + sum(len(each.event) for each in self.alike)

    def table(self) -> pa.Table:
        """Return all of them as rows."""
        return pa.concat_tables([self.rows, *(pa.Table.from_batches([each.witnesses()]) for each in self.alike)])


@dataclass(frozen=True, slots=True)
class Left:
    """Documents that are not walked yet."""

    level: Level
    asked: Asked


def witnesses(kernels: Kernels, asked: Asked, level: Level) -> pa.Table:
    """Return the witness rows of all documents of a level."""
    rows = [*column_witnesses(kernels, asked, level)]
    rows += (batch for part in walked_parts(kernels, asked, level) for batch in part.rows)
    return pa.Table.from_batches(rows, schema=WITNESS_SCHEMA)


def column_witnesses(
    kernels: Kernels, asked: Asked, level: Level, taken: TakenEvents | None = None, lone: LoneRows | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the witness rows that columns of rows answer.

    ``taken`` are events that are in memory.  Rows of the variables of ``lone`` are added to that where one is as the
    other.
    """
    if not documents_of(level, asked.answered):
        return
    known = _fact_variables(kernels)
    for parts in _in_runs(_events(level, asked.answered, taken, _ROWS)):
        for batch in _together(level, parts):
            for rows in row_witnesses(kernels.matchers(), batch, lone, known):
                yield from with_facts(rows, known)


def _events(level: Level, channels: Collection[str], taken: TakenEvents | None, most: int) -> Iterator[pa.RecordBatch]:
    """Yield the events of a level of some channels, ``most`` at a time."""
    if taken is not None and _is_all(level, taken):
        yield from _of_channels(level, channels, taken.rows.select(_READ)).to_batches(max_chunksize=most)
    else:
        readahead = {} if most == _ROWS else {"batch_readahead": 1, "fragment_readahead": 1}
        yield from _dataset(level).to_batches(
            columns=_READ, filter=_wanted(level, channels), batch_size=most, **readahead
        )


def _is_all(level: Level, taken: TakenEvents) -> bool:
    """Tell whether a level is the events of a range, all of them and as they came."""
    return level == Level(0, taken.first, taken.last, level.channels, level.paths)


def _of_channels(level: Level, channels: Collection[str], rows: pa.Table) -> pa.Table:
    """Return the events of a level of some channels."""
    if level.channels.keys() <= set(channels):
        return rows
    wanted = pa.array(sorted(level.channels.keys() & channels), pa.string())
    return rows.filter(pc.is_in(rows.column("channel"), wanted))


def _in_runs(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield runs of batches with about ``_ROWS`` rows together: files have small groups of rows, and what many rows
    share is looked at once a run.
    """
    waiting: list[pa.RecordBatch] = []
    rows = taken = 0
    for batch in batches:
        waiting.append(batch)
        rows, taken = rows + batch.num_rows, taken + batch.nbytes
        if rows >= _ROWS or taken >= _PART_BYTES:
            yield waiting
            waiting, rows, taken = [], 0, 0
    yield waiting


def walked_parts(
    kernels: Kernels, asked: Asked, level: Level, taken: TakenEvents | None = None
) -> Iterator[WalkedPart]:
    """Walk the documents of a level in their order, first a few of them; ``taken`` are events that are in memory."""
    if documents_of(level, asked.walked):
        for events in _parts(level, asked.walked, taken):
            documents = _with_documents(events, asked.shapes)
            rows = list(witness_rows(kernels.automaton(), documents, _fact_variables(kernels)))
            yield WalkedPart(rows, events.num_rows, pc.max(events.column("docid")).as_py())


def _fact_variables(kernels: Kernels) -> FactVariables:
    """Return the facts that guards of the queries read."""
    guards = kernels.finder.program.guards
    return FactVariables(guards.facts_read, guards.rows_read)


def documents_of(level: Level, channels: Collection[str]) -> int:
    """Return how many documents a level has of some channels."""
    return sum(number for channel, number in level.channels.items() if channel in channels)


def count_documents(asked: Asked, level: Level) -> int:
    """Count the documents of a level that queries read, in its files."""
    found: int = _dataset(level).count_rows(filter=_wanted(level, asked.channels))
    return found


def cut(asked: Asked, level: Level, parts: int, taken: TakenEvents | None = None) -> list[Level]:
    """Cut a level into so many parts, at most, of equally many documents; ``taken`` are events that are in memory."""
    if taken is not None and _is_all(level, taken):
        table = _of_channels(level, asked.channels, taken.pieces.select(["docid", "channel"]))
    else:
        table = _dataset(level).to_table(columns=["docid"], filter=_wanted(level, asked.channels))
    docids: npt.NDArray[np.int64] = np.sort(table.column("docid").to_numpy())
    if not len(docids):
        return []
    ends = [int(part[-1]) for part in np.array_split(docids, min(parts, len(docids)))]
    firsts = [level.first, *(end + 1 for end in ends[:-1])]
    return [
        replace(level, first=first, last=last) for first, last in zip(firsts, [*ends[:-1], level.last], strict=True)
    ]


def _parts(level: Level, channels: Collection[str], taken: TakenEvents | None) -> Iterator[pa.RecordBatch]:
    """Yield the events of a level of some channels, some at a time, first a few.

    Few events in memory are one part: they are walked before tasks would have begun.
    """
    waiting: list[pa.RecordBatch] = []
    rows = size = 0
    most = _FIRST if taken is None or documents_of(level, channels) > _PART else _PART
    for few in _events(level, channels, taken, most):
        waiting.append(few)
        rows, size = rows + few.num_rows, size + few.nbytes
        if rows >= most or size >= _PART_BYTES:
            yield from _together(level, waiting)
            waiting, rows, size, most = [], 0, 0, min(4 * most, _PART)
    yield from _together(level, waiting)


def _together(level: Level, parts: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if any(part.num_rows for part in parts):
        yield from _in_time(level, pa.Table.from_batches(parts)).combine_chunks().to_batches()


def _dataset(level: Level) -> ds.Dataset:
    return ds.dataset(level.paths, schema=EVENT_SCHEMA, format=_CHECKED)


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
    if level.without:
        wanted &= ~ds.field("docid").isin(pa.array(sorted(level.without), pa.int64()))
    return wanted


def _in_time(level: Level, events: pa.Table) -> pa.Table:
    """Return events with those that were taken again counting as in time."""
    if not level.on_time:
        return events
    in_time = pc.is_in(events.column("docid"), pa.array(sorted(level.on_time), pa.int64()))
    late = pc.and_not(events.column("late"), in_time)
    return events.set_column(events.schema.get_field_index("late"), "late", late)


def _with_documents(events: pa.RecordBatch, shapes: Mapping[str, RowShape]) -> pa.RecordBatch:
    """Return events with the document of each row as its content, without cells."""
    if events.column("cells").null_count < events.num_rows:
        rows = zip(*(events.column(name).to_pylist() for name in ("channel", "content", "cells")), strict=True)
        documents = [
            content if cells is None else cells_document(cells, shapes[name].columns, element=shapes[name].element)
            for name, content, cells in rows
        ]
        place = events.schema.get_field_index("content")
        events = events.set_column(place, "content", pa.array(documents, pa.string()))
    return events.select(_WALKED)
