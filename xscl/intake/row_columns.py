"""Columns of tables of rows: checks of those that a caller names, and arrays of one piece."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.errors import DocumentError, SourceError
from xscl.base.ways import way
from xscl.catalog.suggestions import suggestion
from xscl.ingest.columns import column_type
from xscl.ingest.records import RowOptions
from xscl.ingest.row_times import event_times, time_columns

__all__ = ["Mask", "Places", "as_mask", "cell_lists", "check_columns", "no_column", "python_rows", "unknown_column"]

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]
_PART = 10_000
"""Rows whose cells become lists together."""


def check_columns(schema: pa.Schema, options: RowOptions) -> None:
    """Refuse a table that lacks a column of the options, or whose ids or times have a type that is none.

    Raises:
        SourceError: ``XSCL_NO_COLUMN``; ``XSCL_BAD_OPTION``: a column of ids holds neither texts nor whole numbers, or
            a column of times cannot hold times; ``XSCL_COLUMN_TYPE``: a column of ids is of no type of rows.
    """
    for name in options.columns or ():
        _find(schema, name)
    if options.op is not None:
        _find(schema, options.op, " for changes")
    for times in (options, options.of_starts):
        if times is None or times.ts is None:
            continue
        for name in time_columns(schema.names, times.ts):
            _find(schema, name, " for times")
        try:
            event_times(schema.empty_table(), times)
        except pa.ArrowException as error:
            raise SourceError("XSCL_BAD_OPTION", f"column {times.ts!r} has no times: {error}") from None
    if options.id is not None:
        _find(schema, options.id, " for ids")
        found = column_type(schema.field(options.id).type)
        if found not in ("bigint", "string"):
            what = "has NULL only" if found is None else f"has ids of type {found}"
            raise SourceError("XSCL_BAD_OPTION", f"column {options.id!r} {what}", hint="ids are texts or whole numbers")


def _find(schema: pa.Schema, name: str, role: str = "") -> None:
    count = schema.names.count(name)
    if not count:
        raise no_column(name, schema.names, role)
    if count > 1:
        raise SourceError("XSCL_BAD_OPTION", f"the column {name!r}{role} is there twice")


def no_column(name: str, known: Sequence[str], role: str = "") -> SourceError:
    """Make the refusal of a column that a table lacks; ``role`` says why it is wanted."""
    hint = suggestion(name, known, f"columns are {', '.join(known)}")
    return SourceError("XSCL_NO_COLUMN", f"there is no column {name!r}{role}", hint=hint)


def unknown_column(name: str, names: Sequence[str], known: Sequence[str], *, chosen: bool) -> DocumentError:
    """Make the refusal of a table's column that its channel lacks.

    Args:
        name: the column.
        names: columns of the table.
        known: columns of the channel.
        chosen: whether the call names the columns to take.
    """
    both = [each for each in names if each in known]
    if chosen:
        hint = f"leave it out of {way('--columns', 'columns=')}"
    elif both:
        listed = ",".join(both)
        hint = f"take the others alone, by {way(f'--columns {listed}', f'columns={listed!r}')}"
    else:
        hint = f"the channel has none of the table's columns; another one is named by {way('--channel', 'channel=')}"
    return DocumentError("XSCL_ROW_SCHEMA", f"column {name!r} is unknown; expected {', '.join(known)}", hint=hint)


def as_mask(flags: pa.BooleanArray) -> Mask:
    """Make a mask of flags without NULL."""
    return np.asarray(flags.to_numpy(zero_copy_only=False), dtype=np.bool_)


def cell_lists(columns: Sequence[pa.StringArray], count: int) -> pa.ChunkedArray:
    """Make a list of cells for each of ``count`` rows."""
    # What some thousand rows need stays in the processor's cache.
    parts = [
        _cell_lists([column.slice(start, _PART) for column in columns], min(_PART, count - start))
        for start in range(0, count, _PART)
    ]
    return pa.chunked_array(parts, pa.list_(pa.string()))


def _cell_lists(columns: Sequence[pa.StringArray], count: int) -> pa.ListArray:
    width = len(columns)
    row_wise = np.arange(count * width, dtype=np.int64).reshape(width, count).T.ravel()
    values = pa.concat_arrays(columns).take(pa.array(row_wise))
    return pa.ListArray.from_arrays(pa.array(np.arange(0, count * width + 1, width, dtype=np.int32)), values)


def python_rows(rows: pa.Table, which: Places) -> list[dict[str, object]]:
    """Read some rows as values of Python; a time that Python does not have is its number."""
    taken = rows.take(pa.array(which))
    found: list[dict[str, object]]
    try:
        found = taken.to_pylist()
    except (ValueError, OverflowError):
        plain = [_counted(column) if pa.types.is_temporal(column.type) else column for column in taken.columns]
        found = pa.Table.from_arrays(plain, names=taken.column_names).to_pylist()
    return found


def _counted(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times or dates as texts of the numbers by which they are stored."""
    return times.cast(pa.int32() if times.type.bit_width == 32 else pa.int64()).cast(pa.string())
