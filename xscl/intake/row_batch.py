"""Tables of rows into ids, times and cells, a column at a time; nothing is stored here.

Columns are checked and turned into cells by Arrow (``ingest.columns``), times by numpy.  Doubtful rows go through
the functions of single events, so that each is taken or refused as it would be alone, with its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.document_limits import Limits
from xscl.base.errors import DocumentError, SourceError, XsclError
from xscl.base.types import Event, Scalar
from xscl.catalog.records import ChannelInfo
from xscl.ingest.columns import column_cells, column_type, column_value, text_type
from xscl.ingest.records import Rejected, RowOptions, RowTable
from xscl.ingest.row_times import as_array, event_times
from xscl.ingest.rows import is_column
from xscl.intake.checks import CheckedEvent, check_events, event_content, require_start
from xscl.intake.row_columns import Mask, Places, as_mask, check_columns, python_rows, unknown_column
from xscl.intake.row_ids import RowIds, read_ids

__all__ = ["RowBatch", "fixed_schema", "read_batch", "refused_row", "settle", "single_events"]

_INEXACT = (None, "double")
"""Types of columns in which a decimal is the nearest double."""
_LONG_ROW = 20_000
"""Characters; longer rows are looked at one by one, because documents have limits."""


@dataclass(frozen=True, slots=True)
class RowBatch:
    """Rows of one channel, a column at a time."""

    channel: ChannelInfo
    """The channel, with the columns that the rows fix."""
    ids: RowIds
    times: pa.Int64Array
    """Declared times in microseconds since the epoch; NULL without one."""
    cells: tuple[pa.StringArray, ...]
    """A column each, in the order of the channel's columns."""
    kept: Mask
    """Rows that were not refused so far."""
    doubtful: Mask
    """Rows that have to be looked at one by one; their cells mean nothing."""
    starts: pa.Int64Array | None = None
    """Times at which rows begin, in microseconds since the epoch; None: all are points in time."""

    def only_kept(self) -> RowBatch:
        """Leave out the rows that are not kept."""
        if self.kept.all():
            return self
        which = np.flatnonzero(self.kept)
        at = pa.array(which)
        cells = tuple(column.take(at) for column in self.cells)
        starts = None if self.starts is None else self.starts.take(at)
        kept, doubtful = self.kept[which], self.doubtful[which]
        return RowBatch(self.channel, self.ids.only(which), self.times.take(at), cells, kept, doubtful, starts)


def read_batch(table: RowTable, channel: ChannelInfo, limits: Limits) -> tuple[RowBatch, list[Rejected]]:
    """Read ids, times and cells of a table; rows without an id or a time that is one are refused.

    Raises:
        SourceError, DocumentError: no row can be taken.
    """
    channel = replace(channel, schema=fixed_schema(table, channel))
    rows = _selected(table)
    times, timeless = event_times(table.rows, table.options)
    ids, nameless = read_ids(table)
    cells, doubtful = _cells(table, rows, channel, limits)
    no_id = "an event's id is a text of at least one character without NUL"
    refusals = [refused_row(table, place, "XSCL_BAD_EVENT_ID", no_id) for place in np.flatnonzero(nameless)]
    refused = nameless
    refusals += _timeless(table, table.options, timeless & ~refused, ids)
    refused = refused | timeless
    starts = None
    if (options := table.options.of_starts) is not None:
        starts, bad = event_times(table.rows, options)
        refusals += _timeless(table, options, bad & ~refused, ids)
        refused = refused | bad
        behind = as_mask(pc.fill_null(pc.or_kleene(pc.is_null(times), pc.greater(starts, times)), False))
        behind &= as_mask(starts.is_valid()) & ~refused
        for place in np.flatnonzero(behind):
            try:
                require_start(starts[place].as_py(), times[place].as_py())
            except DocumentError as error:
                refusals.append(refused_row(table, place, error.condition, error.message, ids))
        refused = refused | behind
    return RowBatch(channel, ids, times, cells, ~refused, doubtful, starts), refusals


def _timeless(table: RowTable, options: RowOptions, which: Mask, ids: RowIds) -> Iterator[Rejected]:
    """Yield the refusals of rows whose column of times holds none."""
    places, name = np.flatnonzero(which), options.ts or ""
    shown: list[object] = ["it"] * len(places)  # for a time that several columns make
    kind: pa.DataType = pa.string()
    if name in table.rows.column_names:
        shown = [row[name] for row in python_rows(table.rows.select([name]), places)]
        kind = table.rows.schema.field(name).type
    for place, value in zip(places, shown, strict=True):
        yield refused_row(table, place, "XSCL_BAD_EVENT_TIME", _no_time(value, kind, options.ts_format), ids)


def fixed_schema(table: RowTable, channel: ChannelInfo) -> dict[str, str | None]:
    """Return the channel's columns, with the types that a table fixes.

    Raises:
        SourceError, DocumentError: no row of the table can be taken.
    """
    check_columns(table.rows.schema, table.options)
    return _schema(table, _selected(table), channel)


def _no_time(shown: object, kind: pa.DataType, ts_format: str | None) -> str:
    """Say of a value why it is no event time; ``kind`` is the type of its column."""
    if pa.types.is_temporal(kind):
        return f"{shown} as {kind} is not in the years 1 to 9999"
    if ts_format is None:
        return f"{shown!r} is no ISO 8601 time and no number of seconds; --ts-format names another form"
    return f"{shown!r} is no time of the form {ts_format!r} that --ts-format names"


def settle(table: RowTable, batch: RowBatch, limits: Limits) -> tuple[RowBatch, list[Rejected]]:
    """Look at doubtful rows one by one: they get their cells, or are refused."""
    which = np.flatnonzero(batch.doubtful & batch.kept)
    if not len(which):
        return batch, []
    kept, refusals = batch.kept.copy(), []
    settled: dict[int, list[str | None]] = {}
    for place, row in _values(table, batch, which):
        alone = CheckedEvent(Event(batch.channel.name, row=row), "", None, None, "")
        try:
            cells = event_content(batch.channel, alone, limits)[1]
            assert cells is not None
            settled[place] = cells
        except XsclError as error:
            kept[place] = False
            refusals.append(refused_row(table, place, error.condition, error.message, batch.ids))
    columns = batch.cells
    if settled:
        at = np.zeros(len(kept), dtype=np.bool_)
        at[list(settled)] = True
        columns = tuple(
            pc.replace_with_mask(column, pa.array(at), pa.array([row[i] for row in settled.values()], pa.string()))
            for i, column in enumerate(columns)
        )
    return replace(batch, cells=columns, kept=kept, doubtful=np.zeros_like(kept)), refusals


def single_events(table: RowTable, batch: RowBatch, limits: Limits) -> list[CheckedEvent | Rejected]:
    """Check the rows that are kept as events of their own."""
    numbers, texts = table.numbers, batch.ids.texts
    assert numbers is not None
    rows = list(_values(table, batch, np.flatnonzero(batch.kept)))
    events = [
        Event(table.channel, texts[place].as_py(), row=row, source=f"{table.source}:{numbers[place]}")
        for place, row in rows
    ]
    checked = zip(check_events(events, limits), rows, strict=True)
    starts = batch.starts
    return [
        event
        if isinstance(event, Rejected)
        else event._replace(ts=batch.times[place].as_py(), start=None if starts is None else starts[place].as_py())
        for event, (place, _) in checked
    ]


def refused_row(
    table: RowTable, place: int | np.int64, condition: str, message: str, ids: RowIds | None = None
) -> Rejected:
    """Make the refusal of the row at a place of the table."""
    assert table.numbers is not None
    id_ = None if ids is None else ids.texts[int(place)].as_py()
    return Rejected(f"{table.source}:{table.numbers[place]}", condition, message, table.channel, id_)


def _selected(table: RowTable) -> pa.Table:
    wanted, op = table.options.columns, table.options.op
    if wanted is None and op is None:
        return table.rows
    return table.rows.select([name for name in wanted or table.rows.column_names if name != op])


def _values(table: RowTable, batch: RowBatch, which: Places) -> Iterator[tuple[int, dict[str, Scalar]]]:
    """Yield the place and the values of some rows."""
    schema = batch.channel.schema
    assert schema is not None
    for place, row in zip(which.tolist(), python_rows(_selected(table), which), strict=True):
        if table.exact:
            row |= {name: value for name, value in _exact(table, place).items() if name in row}
        yield place, {name: column_value(value, schema[name] or "", texts=table.texts) for name, value in row.items()}


def _exact(table: RowTable, place: int) -> Mapping[str, int | Decimal]:
    """Return the numbers of a row that its columns do not hold."""
    assert table.numbers is not None
    return table.exact.get(int(table.numbers[place]), {})


def _schema(table: RowTable, rows: pa.Table, channel: ChannelInfo) -> dict[str, str | None]:
    """Find the channel's columns, with the types that this table fixes."""
    names = rows.column_names
    if len(set(names)) < len(names):
        raise DocumentError("XSCL_ROW_SCHEMA", "a column is there twice")
    declared: Mapping[str, str | None] | None = channel.schema if channel.schema is not None else table.schema
    if declared is None and not names:
        raise DocumentError("XSCL_ROW_SCHEMA", "a row has at least one column")
    for name in names:
        if declared is None and not is_column(name):
            raise DocumentError(
                "XSCL_ROW_SCHEMA", f"column {name!r} is not a name (letters, digits, _ . -, a letter or _ first)"
            )
    schema: dict[str, str | None] = dict.fromkeys(names) if declared is None else dict(declared)
    for name in names:
        if name not in schema:
            raise unknown_column(name, names, list(schema), chosen=table.options.columns is not None)
        if schema[name] is None:
            schema[name] = _type(name, rows.column(name), texts=table.texts)
    return schema


def _type(name: str, column: pa.ChunkedArray, *, texts: bool) -> str | None:
    if texts:
        return text_type(as_array(column))
    if column.null_count == len(column):
        return None
    try:
        return column_type(column.type)
    except SourceError as error:
        raise _of_column(name, error) from None


def _cells(
    table: RowTable, rows: pa.Table, channel: ChannelInfo, limits: Limits
) -> tuple[tuple[pa.StringArray, ...], Mask]:
    """Make the cells, a column each in the schema's order, and a mask of rows that have to be looked at alone."""
    assert channel.schema is not None
    doubtful = np.zeros(len(rows), dtype=np.bool_)
    sizes = np.full(len(rows), sum(map(len, channel.schema)), dtype=np.int64)
    cells = []
    names = set(rows.column_names)
    for place in range(len(rows)) if table.exact else ():
        doubtful[place] = any(
            isinstance(value, int) or channel.schema.get(name) not in _INEXACT
            for name, value in _exact(table, place).items()
        )
    for name, expected in channel.schema.items():
        if name not in names or expected is None:
            cells.append(pa.nulls(len(rows), pa.string()))
            continue
        try:
            column = column_cells(as_array(rows.column(name)), expected, texts=table.texts)
        except SourceError as error:
            raise _of_column(name, error) from None
        if column.doubtful is not None:
            doubtful |= column.doubtful
        cells.append(column.texts)
        sizes += pc.binary_length(column.texts).fill_null(0).to_numpy(zero_copy_only=False)
    doubtful |= sizes > _LONG_ROW
    if len(channel.schema) > limits.max_names:
        doubtful[:] = True
    return tuple(cells), doubtful


def _of_column(name: str, error: SourceError) -> SourceError:
    return SourceError(error.condition, f"column {name!r}: {error.message}", hint=error.hint)
