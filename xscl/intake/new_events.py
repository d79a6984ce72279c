"""Rows of events that a transaction is going to write, and their table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.intake.checks import KeptDocument

__all__ = ["Column", "EventRow", "EventTuple", "event_columns", "event_table"]


class EventRow(NamedTuple):
    """An event in the shape of ``EVENT_SCHEMA``."""

    docid: int
    channel: str
    id: str
    version: int
    item: int
    ts: int
    received: int
    late: bool
    behind: int
    declared: int | None
    time_source: str
    content: bytes | KeptDocument | None
    cells: list[str | None] | None
    membership: int
    start: int | None


EventTuple = tuple[
    int,
    str,
    str,
    int,
    int,
    int,
    int,
    bool,
    int,
    int | None,
    str,
    bytes | KeptDocument | None,
    list[str | None] | None,
    int,
    int | None,
]
"""The fields of an ``EventRow``.  Python's collector looks at plain tuples of texts and numbers once."""

Column: TypeAlias = "Sequence[Any] | repeat[Any]"
"""Values of one field, or the one value that all have."""

assert list(EventRow._fields) == EVENT_SCHEMA.names


def event_table(rows: Sequence[EventTuple], *, without_content: bool = False) -> pa.Table:
    """Make a table of events, of at least one; where tasks keep the documents it is made without them."""
    columns: dict[str, Column] = dict(zip(EventRow._fields, zip(*rows, strict=True), strict=True))
    if without_content:
        del columns["content"]
    return event_columns(columns, len(rows))


def event_columns(columns: Mapping[str, Column], count: int) -> pa.Table:
    """Make a table of so many events of the columns of ``EVENT_SCHEMA``, or of some."""
    schema = pa.schema([field for field in EVENT_SCHEMA if field.name in columns])
    arrays = [
        _texts(columns[field.name]) if field.name == "content" else _array(columns[field.name], field.type, count)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(column: Column, type_: pa.DataType, count: int) -> pa.Array:
    if isinstance(column, repeat):
        return pa.repeat(pa.scalar(next(column), type_), count)
    if isinstance(column, range):
        return pa.array(np.arange(column.start, column.stop), type_)
    return pa.array(column, type_)


def _texts(contents: Any) -> pa.StringArray:
    """Make a column of documents, which are UTF-8 for sure."""
    if not all(contents):
        return pa.array(contents, pa.string())
    ends = np.zeros(len(contents) + 1, dtype=np.int32)
    np.cumsum([len(content) for content in contents if content], out=ends[1:])
    data = b"".join([content for content in contents if content])
    return pa.StringArray.from_buffers(len(contents), pa.py_buffer(ends), pa.py_buffer(data))
