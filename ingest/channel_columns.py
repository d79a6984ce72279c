"""Columns of a channel's events: the columns of rows, the fields of feed items, or the document, as arrays of Arrow.

Events are stored with their cells, or with their document.  A column is decoded on its own, so whoever asks for two
columns decodes two.  The fields of a batch of items come from one walk of its documents.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.errors import DocumentError
from xscl.base.safe_xml import in_fresh_dictionary, parse_stored

__all__ = ["EVENT_COLUMNS", "ChannelColumn", "decoded", "document_columns", "item_columns", "row_columns"]

TIME = pa.timestamp("us", "UTC")
EVENT_COLUMNS = pa.schema(
    [
        ("docid", pa.int64()),
        ("id", pa.string()),
        ("version", pa.int32()),
        ("ts", TIME),
        ("received", TIME),
        ("stream", pa.list_(pa.string())),
    ]
)
"""Columns of events of every channel."""
_NUMBER = pa.decimal128(38, 18)
_TEXTS = pa.list_(pa.string())
_ROW_TYPES = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "decimal": _NUMBER,
    "timestamp": TIME,
    "date": pa.date32(),
}


def _resources(*facts: str) -> pa.DataType:
    return pa.list_(pa.struct([(name, pa.string()) for name in ("url", *facts)]))


_ITEM_TYPES: Mapping[str, pa.DataType] = {
    **dict.fromkeys(("item_url", "channel_url", "channel_title", "title"), pa.string()),
    "author": _TEXTS,
    **dict.fromkeys(("published", "updated"), TIME),
    "description": pa.string(),
    "category": _TEXTS,
    "guid": pa.string(),
    "link": _TEXTS,
    **dict.fromkeys(("content", "language", "comments"), pa.string()),
    "enclosure": _resources("type", "length"),
    "media": _resources("role", "type", "medium", "width", "height"),
}
"""Fields of an item in the order of its document (``item.item_document``)."""


@dataclass(frozen=True, slots=True)
class ChannelColumn:
    """A column that is decoded from the stored form of a channel's events."""

    name: str
    """Name in SQL; no two columns of a channel have the same in lower case."""
    type: pa.DataType
    stored: str
    """Column of event files that it is decoded from: ``cells`` or ``content``."""
    field: str | None = None
    """Column of the row, or field of the item; None: the document itself."""
    place: int = -1
    """Place among the cells."""


def row_columns(schema: Mapping[str, str | None]) -> tuple[ChannelColumn, ...]:
    """Name the columns of a row channel.

    A column whose name is taken in lower case gets ``row_`` before its name, as often as needed.  So columns that come
    later change no name.

    >>> [(column.name, str(column.type)) for column in row_columns({"id": "bigint", "Temp": "double", "temp": None})]
    [('row_id', 'int64'), ('Temp', 'double'), ('row_temp', 'string')]
    """
    taken = set(EVENT_COLUMNS.names)
    found = []
    for place, (field, kind) in enumerate(schema.items()):
        name = field
        while name.lower() in taken:
            name = f"row_{name}"
        taken.add(name.lower())
        found.append(ChannelColumn(name, _ROW_TYPES[kind or "string"], "cells", field, place))
    return tuple(found)


def item_columns() -> tuple[ChannelColumn, ...]:
    """Name the columns of a channel of feed items: the fields of items."""
    return tuple(ChannelColumn(name, type_, "content", name) for name, type_ in _ITEM_TYPES.items())


def document_columns() -> tuple[ChannelColumn, ...]:
    """Name the column of a channel of other documents."""
    return (ChannelColumn("content", pa.string(), "content"),)


def decoded(column: ChannelColumn, stored: pa.Array) -> pa.Array:
    """Decode a column from the stored column that it comes from.

    Raises:
        DocumentError: ``XSCL_COLUMN_TYPE``: a decimal has more digits than the type of its column holds.
    """
    if column.stored == "cells":
        return _typed(column, _cells(stored, column.place))
    if column.field is None:
        return stored
    values: list[object] = [fields.get(column.field) for fields in _items(stored)]
    if column.type == TIME:
        return _times(values)
    return pa.array(values, column.type)


# -- rows ----------------------------------------------------------------------------------------------------------


def _cells(rows: pa.ListArray, place: int) -> pa.Array:
    """Take the cell at a place of each row; rows from before the column came have none."""
    starts = rows.offsets[: len(rows)]
    has = pc.greater(pc.list_value_length(rows), place)
    return rows.values.take(pc.if_else(has, pc.add(starts, place), pa.scalar(None, starts.type)))


def _typed(column: ChannelColumn, cells: pa.Array) -> pa.Array:
    if column.type == _NUMBER:
        # A cast alone turns numbers that are too long into others.
        fits = pc.match_substring_regex(cells, _FITTING)
        if not pc.all(fits, min_count=0).as_py():
            raise _too_long(column, cells.filter(pc.invert(fits))[0].as_py())
    return cells.cast(column.type)


_FITTING = r"^-?[0-9]{1,20}(\.[0-9]{1,18})?$"
"""Numbers that 38 digits hold, 18 of them behind the point."""


def _too_long(column: ChannelColumn, cell: str) -> DocumentError:
    shown = cell if len(cell) <= 60 else f"{cell[:59]}…"
    return DocumentError(
        "XSCL_COLUMN_TYPE",
        f"column {column.field!r} holds {shown}; its type in SQL is decimal(38,18), for 20 digits before the point",
        hint="the column content of the relation events has the row's document",
    )


# -- items ---------------------------------------------------------------------------------------------------------

_Fields = Mapping[str, object]
_last: tuple[pa.Array, list[_Fields]] | None = None
"""The documents that were walked last, and their fields."""


def _items(documents: pa.Array) -> list[_Fields]:
    """Read the fields of items; the columns of one batch are asked for one after another."""
    global _last
    known = _last
    if known is None or not _is_same(known[0], documents):
        known = _last = (documents, in_fresh_dictionary(_read_items, documents.to_pylist()))
    return known[1]


def _is_same(one: pa.Array, other: pa.Array) -> bool:
    """Tell whether two arrays are views of one memory, which holding one of them keeps from being used anew."""
    return (one.offset, len(one), _addresses(one)) == (other.offset, len(other), _addresses(other))


def _addresses(array: pa.Array) -> list[int | None]:
    return [None if buffer is None else buffer.address for buffer in array.buffers()]


def _read_items(documents: Iterable[str | None]) -> list[_Fields]:
    return [{} if document is None else _read_item(document) for document in documents]


def _read_item(document: str) -> _Fields:
    """Read the fields of a document; one whose root is no ``item`` has none."""
    root = parse_stored(document)
    if root.tag != "item":
        return {}
    found: dict[str, object] = {name: [] for name, type_ in _ITEM_TYPES.items() if pa.types.is_list(type_)}
    for child in root.iterchildren(*_ITEM_TYPES):
        name, text = str(child.tag), "".join(child.itertext())
        values = found.get(name)
        if not isinstance(values, list):
            found.setdefault(name, text)
        elif name in _RESOURCES:
            values.append({"url": text, **{str(key): fact for key, fact in child.items() if key in _RESOURCES[name]}})
        else:
            values.append(text)
    return found


_RESOURCES = {
    name: {field.name for field in type_.value_type} - {"url"}
    for name, type_ in _ITEM_TYPES.items()
    if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type)
}
"""Attributes of enclosures and media that have columns."""


def _times(texts: list[object]) -> pa.Array:
    """Read times; documents that were not read from feeds may have other texts, which are NULL."""
    cells = pa.array(texts, pa.string())
    try:
        return cells.cast(TIME)
    except pa.ArrowInvalid:
        return pa.array([text if _is_time(text) else None for text in cells.to_pylist()], pa.string()).cast(TIME)


def _is_time(text: str | None) -> bool:
    try:
        pa.array([text], pa.string()).cast(TIME)
    except pa.ArrowInvalid:
        return False
    return True
