"""Adding many rows at once, as tuples: dictionaries, as SQLAlchemy takes them, cost as much as the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import itemgetter
from typing import Any, Literal, cast

from sqlalchemy import Connection, Dialect, Insert
from sqlalchemy.engine.default import DefaultDialect

__all__ = ["add_rows", "insertion"]

_MOST = 256
_known: dict[tuple[str, object, tuple[str, ...]], tuple[str, Sequence[str]]] = {}
"""Statements by the name of the dialect, their table and columns."""


def add_rows(connection: Connection, insert: Insert, rows: Sequence[Mapping[str, object]]) -> None:
    """Add rows to a table, which name the same columns, two at least, with values as drivers take them."""
    if rows:
        statement, columns = insertion(connection.dialect, insert, tuple(rows[0]))
        values: Any = itemgetter(*columns)
        connection.exec_driver_sql(statement, list(map(values, rows)))


def insertion(dialect: Dialect, insert: Insert, columns: tuple[str, ...]) -> tuple[str, Sequence[str]]:
    """Write a statement that adds rows with these columns; return it with the columns in the order of its values."""
    key = dialect.name, insert.table, columns
    if key not in _known:
        style: Literal["qmark", "format"] = "qmark" if dialect.name == "sqlite" else "format"
        positional = cast(type[DefaultDialect], type(dialect))(paramstyle=style)
        made = insert.compile(dialect=positional, column_keys=columns)
        assert made.positiontup is not None
        if len(_known) >= _MOST:
            _known.clear()
        _known[key] = str(made), tuple(made.positiontup)
    return _known[key]
