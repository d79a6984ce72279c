"""Rows of events that a transaction is going to write, and their table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.intake.checks import KeptDocument

__all__ = ["EventRow", "EventTuple", "event_table"]


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

assert list(EventRow._fields) == EVENT_SCHEMA.names


def event_table(rows: Sequence[EventTuple], *, without_content: bool = False) -> pa.Table:
    """Make a table of events, of at least one; where tasks keep the documents it is made without them."""
    columns = dict(zip(EventRow._fields, zip(*rows, strict=True), strict=True))
    contents = columns.pop("content")
    arrays = {name: pa.array(column, EVENT_SCHEMA.field(name).type) for name, column in columns.items()}
    if not without_content:
        arrays["content"] = _texts(contents)
    schema = pa.schema([field for field in EVENT_SCHEMA if field.name in arrays])
    return pa.Table.from_arrays([arrays[name] for name in schema.names], schema=schema)


def _texts(contents: Sequence[bytes | None]) -> pa.StringArray:
    """Make a column of documents, which are UTF-8 for sure."""
    if not all(contents):
        return pa.array(contents, pa.string())
    ends = np.zeros(len(contents) + 1, dtype=np.int32)
    np.cumsum([len(content) for content in contents if content], out=ends[1:])
    data = b"".join([content for content in contents if content])
    return pa.StringArray.from_buffers(len(contents), pa.py_buffer(ends), pa.py_buffer(data))
