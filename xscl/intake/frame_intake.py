"""DataFrames of Spark, taken in where they lie: executors check and write the partitions, and the driver sees no row.

A row without an id of its own gets one of its partition and its place there; the order of events is that of the
partitions, and of the rows in them.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from xscl.base.errors import EngineError
from xscl.catalog.channels import read_streams
from xscl.catalog.removals import has_removals
from xscl.ingest.frames import DOCUMENT_COLUMNS, document_records
from xscl.ingest.reading import Reading
from xscl.ingest.records import Record, RowTable
from xscl.intake.intake import Intake
from xscl.intake.part_intake import take_frame_parts
from xscl.intake.part_pieces import PartTerms, Piece, checked_records
from xscl.intake.part_waves import Found, Left
from xscl.intake.report import IntakeReport
from xscl.intake.row_columns import check_columns
from xscl.intake.rows import CHUNK_ROWS
from xscl.spark.places import OnSpark, slots_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["take_frame"]

_PARTITION = 33
"""Bits of the number of a row in its partition."""


def take_frame(intake: Intake, frame: DataFrame, reading: Reading) -> IntakeReport:
    """Take in a DataFrame of Spark; everything that can be taken is.

    Args:
        intake: where to; executors have to see its home.
        frame: rows of documents if it has a column ``xml``, else of the channel of ``reading``.
        reading: options of reading.

    Raises:
        EngineError: ``XSCL_BAD_FRAME``: documents without a channel; ``XSCL_BAD_OPTION``: rows without one.
        SourceError: ``XSCL_NO_COLUMN``, ``XSCL_BAD_OPTION``, ``XSCL_COLUMN_TYPE``: it does not have the columns of the
            options, or an option is none of tables.
    """
    reading.refuse_split("table", "it is a DataFrame")
    documents = "xml" in frame.columns
    if documents:
        missing = sorted({"channel"} - set(frame.columns) if reading.channel is None else ())
        if missing:
            text = f"the DataFrame has no column {', '.join(missing)}"
            raise EngineError("XSCL_BAD_FRAME", text, hint="needed: channel, xml")
        frame = frame.select(*(name for name in DOCUMENT_COLUMNS if name in frame.columns))
    elif reading.channel is None:
        raise EngineError("XSCL_BAD_OPTION", "a table of rows needs a channel", hint="channel='readings'")
    else:
        check_columns(frame.limit(0).toArrow().schema, reading.rows)
        with intake.catalog.read() as connection:
            singly = reading.rows.op is not None or has_removals(connection, reading.channel)
            if singly or reading.channel in read_streams(connection):
                # Streams tell whose an id is, row by row; changes have an order, and removed rows may come back.
                table = RowTable(reading.channel, frame.toArrow(), "table", options=reading.rows, named=False)
                return intake.take([table])
    session = frame.sparkSession
    place = OnSpark(lambda: session, slots_of(session))
    source = _Partitions(frame, reading, f"row-{uuid.uuid4().hex}", documents)
    from xscl.intake.task_faults import named_task_faults  # which loads Spark

    with named_task_faults(intake.home.root):
        return take_frame_parts(intake, source, place)


@dataclass(frozen=True, slots=True)
class _Partitions:
    """Partitions of a DataFrame."""

    frame: DataFrame
    reading: Reading
    name: str
    documents: bool

    def first_rows(self, parts: Sequence[Left]) -> RowTable | None:
        """Return nothing: the DataFrame tells the types."""
        return None

    def check(self, parts: Sequence[Left], terms: PartTerms) -> Found:
        """Check partitions by one job."""
        wanted = {left.part: left for left in parts}
        skip = {int(number): left.done for number, left in wanted.items() if isinstance(number, int)}
        task = partial(_task, self.reading, self.name, self.documents, terms, skip)
        rows = self.frame.mapInArrow(task, "part long, pieces binary").toArrow()
        found = dict(zip(rows["part"].to_pylist(), rows["pieces"].to_pylist(), strict=True))
        numbers = sorted(skip or found)
        return [(wanted.get(number, Left(number)), pickle.loads(found[number])) for number in numbers]

    def records(self, part: Left) -> Iterable[Record]:
        """Return nothing: there is no partition that only the driver can take."""
        raise NotImplementedError


def _task(
    reading: Reading,
    name: str,
    documents: bool,
    terms: PartTerms,
    skip: dict[int, int],
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None
    number = context.partitionId()
    pieces: list[Piece] | None = []
    if not skip or number in skip:
        records = _documents(batches, reading) if documents else _tables(batches, reading, name, number)
        pieces = checked_records(records, terms, skip.get(number, 0))
    yield pa.record_batch([pa.array([number]), pa.array([pickle.dumps(pieces)], pa.binary())], ["part", "pieces"])


def _documents(batches: Iterator[pa.RecordBatch], reading: Reading) -> Iterator[Record]:
    for batch in batches:
        for row in _in_utc(batch).to_pylist():
            yield from document_records(row, reading.channel)


def _in_utc(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with their times in UTC: the session's zone lacks some times of the years 1 and 9999."""
    at = batch.schema.get_field_index("ts")
    kind = None if at < 0 else batch.schema.field(at).type
    if kind is None or not pa.types.is_timestamp(kind) or kind.tz is None:
        return batch
    return batch.set_column(at, "ts", batch.column(at).cast(pa.timestamp(kind.unit, "UTC")))


def _tables(batches: Iterator[pa.RecordBatch], reading: Reading, name: str, number: int) -> Iterator[Record]:
    """Yield tables of as many rows as one file takes."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    first = (number << _PARTITION) + 1
    for batch in batches:
        waiting.append(batch)
        count += len(batch)
        if count >= CHUNK_ROWS:
            yield _table(waiting, reading, name, first)
            waiting, count, first = [], 0, first + count
    if count:
        yield _table(waiting, reading, name, first)


def _table(batches: list[pa.RecordBatch], reading: Reading, name: str, first: int) -> RowTable:
    rows = pa.Table.from_batches(batches)
    numbers: Any = np.arange(first, first + len(rows), dtype=np.int64)
    assert reading.channel is not None
    return RowTable(reading.channel, rows, name, numbers, options=reading.rows, schema=reading.declared, named=True)
