"""The metadata of all tables, and columns and indexes of kinds that many of them have."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, ColumnElement, MetaData, String
from sqlalchemy.types import TypeEngine

__all__ = ["METADATA", "NAME", "count", "index_some", "needed"]

METADATA = MetaData()
NAME = String().with_variant(String(collation="C"), "postgresql")
"""Type of names that are ordered by code points in every database."""


def needed(
    name: str, type_: type[TypeEngine[Any]] | TypeEngine[Any], comment: str | None = None, default: Any = None
) -> Column[Any]:
    """Return a column that has a value in every row."""
    return Column(name, type_, nullable=False, server_default=default, comment=comment)


def count(name: str, comment: str | None = None) -> Column[int]:
    """Return a column of numbers that begin at 0."""
    return needed(name, BigInteger, comment, "0")


def index_some(name: str, column: Column[Any], rows: ColumnElement[bool]) -> None:
    """Have an index hold some rows of its table alone; one that the table does not declare is of the column.

    The database that is being made says for which dialect: each other one takes long to load.
    """

    @sa.event.listens_for(METADATA, "before_create")
    def declare(_: MetaData, connection: sa.Connection, **__: object) -> None:
        declared = next((index for index in column.table.indexes if index.name == name), None)
        index = sa.Index(name, column) if declared is None else declared
        index.dialect_kwargs[f"{connection.dialect.name}_where"] = rows
