"""Columns of tables of rows that a caller names: those for ids, for times, and those to take."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from xscl.base.errors import SourceError
from xscl.catalog.suggestions import suggestion
from xscl.ingest.columns import column_type
from xscl.ingest.records import RowOptions
from xscl.ingest.row_times import event_times, time_columns

__all__ = ["check_columns", "no_column"]


def check_columns(schema: pa.Schema, options: RowOptions) -> None:
    """Refuse a table that lacks a column of the options, or whose ids or times have a type that is none.

    Raises:
        SourceError: ``XSCL_NO_COLUMN``; ``XSCL_BAD_OPTION``: a column of ids holds neither texts nor whole numbers, or
            a column of times cannot hold times; ``XSCL_COLUMN_TYPE``: a column of ids is of no type of rows.
    """
    for name in options.columns or ():
        _find(schema, name)
    if options.ts is not None:
        for name in time_columns(schema.names, options.ts):
            _find(schema, name, " for times")
        try:
            event_times(schema.empty_table(), options)
        except pa.ArrowException as error:
            raise SourceError("XSCL_BAD_OPTION", f"column {options.ts!r} has no times: {error}") from None
    if options.id is not None:
        _find(schema, options.id, " for ids")
        found = column_type(schema.field(options.id).type)
        if found not in ("bigint", "string"):
            what = "has NULL only" if found is None else f"has ids of type {found}"
            raise SourceError("XSCL_BAD_OPTION", f"column {options.id!r} {what}", hint="ids are texts or whole numbers")


def _find(schema: pa.Schema, name: str, role: str = "") -> None:
    found = schema.names.count(name)
    if not found:
        raise no_column(name, schema.names, role)
    if found > 1:
        raise SourceError("XSCL_BAD_OPTION", f"the column {name!r}{role} is there twice")


def no_column(name: str, known: Sequence[str], role: str = "") -> SourceError:
    """Make the refusal of a column that a table lacks; ``role`` says why it is wanted."""
    hint = suggestion(name, known, f"columns are {', '.join(known)}")
    return SourceError("XSCL_NO_COLUMN", f"there is no column {name!r}{role}", hint=hint)
