"""Arrow schemas as Spark's DDL, so that a relation's shape is declared once."""

from __future__ import annotations

import pyarrow as pa

__all__ = ["CHAIN", "EVENT_SCHEMA", "MEMBER", "REFUSED", "WITNESS_SCHEMA", "column_type", "spark_schema"]

CHAIN = pa.list_(pa.struct([("var1", pa.int64()), ("var2", pa.int64()), ("node1", pa.int32()), ("node2", pa.int32())]))
"""Rows of R_bin carried by a witness row."""
REFUSED = 0
"""The variable of witness rows, and of entries of their chains, that say what was refused in a document; no definition
has this digest but by a miracle."""

WITNESS_SCHEMA = pa.schema(
    [
        ("docid", pa.int64()),
        ("ts", pa.int64()),  # event time, microseconds
        ("item", pa.int64()),  # docid of the item's first version: versions of one item never join
        ("place", pa.string()),  # channel and id, by which ONCE orders equal times
        ("late", pa.bool_()),
        ("membership", pa.int32()),  # number of the streams it belongs to; 0: none
        ("var", pa.int64()),
        ("node", pa.int32()),
        ("fn", pa.string()),
        ("strval", pa.string()),
        ("num", pa.float64()),
        ("h", pa.int64()),
        ("chain", CHAIN),
    ]
)
"""Witness rows: what stage 1 finds in documents, and stage 2 joins."""

EVENT_SCHEMA = pa.schema(
    [
        ("docid", pa.int64()),
        ("channel", pa.string()),
        ("id", pa.string()),
        ("version", pa.int32()),
        ("item", pa.int64()),
        ("ts", pa.int64()),
        ("received", pa.int64()),
        ("late", pa.bool_()),
        ("behind", pa.int64()),  # how far its channel's clock was beyond it when it came; 0: it was not
        ("declared", pa.int64()),  # the time the source gave, before any clamp; NULL: none
        ("time_source", pa.string()),  # published, updated, feed, given or received; NULL: published by a query
        ("content", pa.string()),  # the document; NULL where there are cells
        ("cells", pa.list_(pa.string())),  # of a row: the columns' texts in the order of the channel's schema
        ("membership", pa.int32()),  # number of the streams it came by (``streams``); 0: none
        ("start", pa.int64()),  # when it began; NULL: it is a point in time
    ]
)
"""Events as files keep them."""

MEMBER = pa.struct(
    [
        ("docid", pa.int64()),
        ("item", pa.int64()),
        ("ts", pa.int64()),
        ("place", pa.string()),
        ("membership", pa.int32()),
    ]
)
"""A document as windows see it: its item, event time in microseconds, channel and id by which equal times order, and
the number of its membership.
"""

_NAMES = {
    "string": "string",
    "int32": "int",
    "int64": "bigint",
    "double": "double",
    "bool": "boolean",
    "date32[day]": "date",
    "timestamp[us, tz=UTC]": "timestamp",
}


def spark_schema(schema: pa.Schema) -> str:
    """Return a schema as ``name type, …`` for Spark.

    >>> spark_schema(pa.schema([("a", pa.list_(pa.struct([("b", pa.int32())])))]))
    '`a` array<struct<`b`: int>>'
    """
    return ", ".join(f"`{field.name}` {column_type(field.type)}" for field in schema)


def column_type(type_: pa.DataType) -> str:
    """Write a type of Arrow for Spark."""
    if pa.types.is_list(type_):
        return f"array<{column_type(type_.value_type)}>"
    if pa.types.is_struct(type_):
        return "struct<" + ", ".join(f"`{field.name}`: {column_type(field.type)}" for field in type_) + ">"
    if pa.types.is_decimal(type_):
        return f"decimal({type_.precision},{type_.scale})"
    return _NAMES[str(type_)]
