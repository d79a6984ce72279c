"""Checks of single values of the catalogue: types, bounds, JSON, paths, as this program writes them.

SQLite stores any value in any column, so an archive or a damaged file may hold what no column is declared to hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sqlalchemy as sa

from xscl.catalog.stored_json import JSON_COLUMNS, wrong_json
from xscl.store.inventory import PATHS, is_inside

__all__ = ["MOST_TEXT", "wrong_value"]

MOST_TEXT = 64 << 20
"""Characters of one text at most."""
_INT32 = 1 << 31
_JSON = {f"{column.table.name}.{column.name}": column for column in JSON_COLUMNS}
_NOT_NEGATIVE = {
    "home.next_place",
    "home.processed",
    "removals.docid",
    "removals.place",
    "quotas.most",
    "home.repeated",
    "intake_files.first",
    "intake_files.last",
    "intake_files.rows",
    "event_ids.docid",
    "event_ids.item",
    "row_ranges.docid",
    "row_ranges.last_docid",
    "state_files.rows",
    "state_files.held",
    "state_files.bytes",
    "batches.batch",
    "batches.first",
    "batches.last",
    "queries.docid_from",
    "queries.docid_until",
    "queries.spare",
    "queries.released",
}
_PATHS = {f"{column.table.name}.{column.name}" for column in PATHS}

Check = Callable[[object], str | None]
"""Takes a value as SQLite stores it; returns its fault, or None."""


def wrong_value(table: sa.Table) -> Callable[[Sequence[object]], str | None]:
    """Make the check of a table's rows: it takes the values of all columns, and returns the first fault, or None."""
    checks = [(column.name, _check_of(table, column)) for column in table.columns]

    def check(row: Sequence[object]) -> str | None:
        for (name, of_column), value in zip(checks, row, strict=True):
            if (wrong := of_column(value)) is not None:
                shown = repr(value)
                shown = shown if len(shown) <= 80 else f"{shown[:80]}…"
                return f"column {name} of table {table.name} has {shown}, which is {wrong}"
        return None

    return check


def _check_of(table: sa.Table, column: sa.Column[Any]) -> Check:
    name = f"{table.name}.{column.name}"
    nullable = bool(column.nullable) and not column.primary_key
    of_kind = _check_of_kind(name, column.type)

    def check(value: object) -> str | None:
        if value is None:
            return None if nullable else "no value"
        return of_kind(value)

    return check


def _check_of_kind(name: str, kind: sa.types.TypeEngine[Any]) -> Check:
    """Make the check of values that are not NULL."""
    match kind:
        case sa.Boolean():
            return lambda value: None if isinstance(value, int) and value in (0, 1) else "neither true nor false"
        case sa.Integer():
            return lambda value: _wrong_number(value, isinstance(kind, sa.BigInteger), name in _NOT_NEGATIVE)
        case sa.Double() | sa.Float() | sa.Numeric():
            return lambda value: None if isinstance(value, (int, float)) else "no number"
    return lambda value: _wrong_text(name, value)


def _wrong_number(value: object, big: bool, not_negative: bool) -> str | None:
    if not isinstance(value, int):
        return "no whole number"
    if not big and not -_INT32 <= value < _INT32:
        return "out of range"
    return "less than 0" if not_negative and value < 0 else None


def _wrong_text(name: str, value: object) -> str | None:
    if not isinstance(value, str):
        return "no text"
    if len(value) > MOST_TEXT:
        return "too long"
    if name in _PATHS and not is_inside(value):
        return "no file of a home"
    return None if name not in _JSON else wrong_json(_JSON[name], value)
