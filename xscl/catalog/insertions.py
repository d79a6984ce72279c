"""Adding many rows at once, as tuples: dictionaries, as SQLAlchemy takes them, cost as much as the rest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, Literal, cast

from sqlalchemy import Connection, Dialect, Insert
from sqlalchemy.engine.default import DefaultDialect

__all__ = ["add_rows", "add_tuples"]

_MOST = 256
_TOGETHER = 50
"""Rows that one execution of a statement adds: to execute it for each row takes half as long again."""
_known: dict[tuple[str, object, tuple[str, ...]], tuple[str, Sequence[str]]] = {}
"""Statements by the name of the dialect, their table and columns."""


def add_rows(connection: Connection, insert: Insert, rows: Sequence[Mapping[str, object]]) -> None:
    """Add rows to a table, which name the same columns, two at least, with values as drivers take them."""
    if rows:
        columns = tuple(rows[0])
        values: Any = itemgetter(*columns)
        add_tuples(connection, insert, columns, list(map(values, rows)))


def add_tuples(
    connection: Connection, insert: Insert, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]], behind: str = ""
) -> None:
    """Add rows to a table, which have these columns; ``behind`` ends the statement."""
    statement, order = _insertion(connection.dialect, insert, columns)
    if columns != tuple(order):
        reordered: Any = itemgetter(*map(columns.index, order))
        rows = list(map(reordered, rows))
    many = len(rows) // _TOGETHER * _TOGETHER
    if many:
        head, values, row = statement.partition("VALUES ")
        together = [tuple(chain.from_iterable(rows[begin : begin + _TOGETHER])) for begin in range(0, many, _TOGETHER)]
        connection.exec_driver_sql(head + values + ", ".join([row] * _TOGETHER) + behind, together)
    if rest := rows[many:]:
        connection.exec_driver_sql(statement + behind, list(rest))


def _insertion(dialect: Dialect, insert: Insert, columns: tuple[str, ...]) -> tuple[str, Sequence[str]]:
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
