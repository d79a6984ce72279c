"""Statements that name many values, and statements whose many rows are taken as they are."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import JSON, BigInteger, ColumnElement, Connection, Text, cast, func, literal, select

__all__ = ["among", "in_parts", "raw_rows"]

_PART = 400
"""Values that a statement names; it may have each twice, and SQLite had a limit of 999."""

T = TypeVar("T")


def in_parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Cut values into parts that a statement may name one by one (``IN``)."""
    return (values[start : start + _PART] for start in range(0, len(values), _PART))


def among(connection: Connection, column: ColumnElement[int], numbers: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of some numbers, however many, which stand in one value."""
    listed = json.dumps(list(numbers))
    if connection.dialect.name == "sqlite":
        return column.in_(select(func.json_each(listed).table_valued("value").c.value))
    texts = (
        func.json_array_elements_text(cast(literal(listed, Text()), JSON))
        .table_valued("value")
        .render_derived()
        .c.value
    )
    return column.in_(select(cast(texts, BigInteger)))


def raw_rows(connection: Connection, rows: sa.Select[Any]) -> Sequence[tuple[Any, ...]]:
    """Return rows as the database has them, in half the time: many, of columns that need no reading."""
    result = connection.execute(rows)
    found: Sequence[tuple[Any, ...]] = [] if result.cursor is None else result.cursor.fetchall()
    result.close()
    return found
