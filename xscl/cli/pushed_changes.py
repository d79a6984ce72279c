"""Tables of rows that are changes, as CSV for a service: it reads the words, ids and times as a home does."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pacsv

from xscl.cli.options import needs_home
from xscl.ingest.columns import column_cells, column_type
from xscl.ingest.csv_files import record_ends
from xscl.ingest.records import RowTable
from xscl.ingest.row_times import as_array, time_columns

__all__ = ["change_parameters", "change_parts"]

_ROWS = 1_000
"""Rows of a request."""


def change_parameters(table: RowTable) -> dict[str, Any]:
    """Return the parameters with which a service reads the rows of a table as it is meant.

    Raises:
        EngineError: ``XSCL_NEEDS_HOME``: times without a zone are in another zone than UTC.
    """
    options = table.options
    given: dict[str, Any] = {"id": options.id, "op": options.op, "ts": options.ts, "ts_format": options.ts_format}
    given["start"] = options.start
    if options.columns is not None:
        given["columns"] = ",".join(options.columns)
    if options.ts is not None:
        # The service refuses columns that are not there.
        names = time_columns(table.rows.column_names, options.ts)
        types = [field.type for field in table.rows.schema if field.name in names]
        if any(map(pa.types.is_temporal, types)):
            given.pop("ts_format")
            if options.ts_zone != "UTC":
                raise needs_home("ingest --op with --ts-zone", "a service gets timestamps as texts in UTC")
        given["ts_zone"] = options.ts_zone
    return {name: value for name, value in given.items() if value is not None}


def change_parts(table: RowTable) -> Iterator[tuple[bytes, dict[int, int]]]:
    """Yield the rows as CSV in parts, each with the numbers of its rows by their lines."""
    assert table.numbers is not None
    texts = pa.table({name: _column(table, name) for name in table.rows.column_names})
    for start in range(0, len(texts), _ROWS):
        written = io.BytesIO()
        pacsv.write_csv(texts.slice(start, _ROWS), written)
        data = written.getvalue()
        begins = record_ends(data) + 1
        feeds = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n"))
        lines = (np.searchsorted(feeds, begins) + 1).tolist()
        yield data, dict(zip(lines, table.numbers[start : start + _ROWS].tolist(), strict=False))


def _column(table: RowTable, name: str) -> pa.StringArray:
    assert table.numbers is not None
    texts = _texts(as_array(table.rows.column(name)))
    exact = {number: row[name] for number, row in table.exact.items() if name in row}
    if not exact:
        return texts
    given = [exact.get(number) for number in table.numbers.tolist()]
    return pc.coalesce(pa.array([None if value is None else str(value) for value in given], pa.string()), texts)


def _texts(values: pa.Array) -> pa.StringArray:
    """Write the values of a column so that a service makes the same cells."""
    kind = column_type(values.type)
    if kind is None:
        return pa.nulls(len(values), pa.string())
    if kind == "string":
        return values.cast(pa.string())
    cells = column_cells(values, kind)
    if cells.doubtful is None:
        return cells.texts
    return pc.if_else(pa.array(cells.doubtful), values.cast(pa.string()), cells.texts)
