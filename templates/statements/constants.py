"""Rows of R_T that a statement reads: a relation that is joined, or the constants of one query.

A condition that constants settle is TRUE or FALSE as soon as it is written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from sqlalchemy import BindParameter, ColumnElement, and_, false, literal, null, or_, true
from sqlalchemy.sql.elements import False_, Null, True_

from xscl.templates.statements.relations import rt_table
from xscl.templates.template import Template

__all__ = [
    "UNKNOWN",
    "Columns",
    "Constants",
    "all_of",
    "any_of",
    "decided",
    "is_constant",
    "is_null",
    "unsettled",
    "value_of",
]


class Columns(Protocol):
    """A row of R_T: a relation that is joined, or the constants of one query."""

    @property
    def c(self) -> Any:
        """Columns by their names."""


class Constants:
    """A row of R_T as constants."""

    def __init__(self, template: Template, row: Mapping[str, object]) -> None:
        columns = rt_table(template).columns
        self.c: dict[str, ColumnElement[Any]] = {
            column.name: null() if row.get(column.name) is None else literal(row[column.name], column.type)
            for column in columns
        }


UNKNOWN = object()
"""Value of a column of a relation."""


def value_of(column: ColumnElement[Any]) -> object:
    """Return the value of a constant."""
    if isinstance(column, Null):
        return None
    return column.value if isinstance(column, BindParameter) else UNKNOWN


def unsettled(conditions: Sequence[ColumnElement[bool]]) -> list[ColumnElement[bool]]:
    """Leave out the conditions that hold anyway."""
    return [condition for condition in conditions if not isinstance(condition, True_)]


def all_of(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Write that all conditions hold; conditions that are settled are left out, or settle the whole."""
    open_ones = unsettled(conditions)
    if any(isinstance(condition, False_) for condition in open_ones):
        return false()
    return and_(*open_ones) if open_ones else true()


def any_of(*conditions: ColumnElement[bool]) -> ColumnElement[bool]:
    """Write that some condition holds; conditions that are settled are left out, or settle the whole."""
    if any(isinstance(condition, True_) for condition in conditions):
        return true()
    open_ones = [condition for condition in conditions if not isinstance(condition, False_)]
    return or_(*open_ones) if open_ones else false()


def decided(holds: bool) -> ColumnElement[bool]:
    """Write what is known already."""
    return true() if holds else false()


def is_constant(column: ColumnElement[Any], constant: object) -> ColumnElement[bool]:
    """Compare a column of R_T with a constant; what is known already is decided here."""
    value = value_of(column)
    return column == constant if value is UNKNOWN else decided(value == constant)


def is_null(column: ColumnElement[Any]) -> ColumnElement[bool]:
    """Ask whether a column of R_T is NULL; what is known already is decided here."""
    value = value_of(column)
    return column.is_(None) if value is UNKNOWN else decided(value is None)
