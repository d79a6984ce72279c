"""Formulas over columns: which of them must be there, and which conditions their texts must satisfy.

Columns are those of rows, or values that the nodes of a chunk have below them.
Column 0 is the text of the whole row or node, which is always there; the others are counted from 1, and NULL is not
there.
"""

from __future__ import annotations

from dataclasses import dataclass

from xscl.xpath.pattern import Condition

__all__ = ["NEVER", "All", "Any_", "Formula", "Not", "Single", "There", "Told"]


@dataclass(frozen=True, slots=True)
class There:
    """A column is not NULL."""

    column: int
    several: bool = False
    """The column may have several values for one row."""


@dataclass(frozen=True, slots=True)
class Single:
    """A condition that one column decides."""

    column: int
    condition: Condition
    name: str | None = None
    """The condition is one of the root, and speaks of the column of this name and of no other; None: it is one of the
    column's own node, and does not hold of NULL."""
    several: bool = False
    """The column may have several values for one row; one that satisfies the condition is enough."""


@dataclass(frozen=True, slots=True)
class Told:
    """A column itself tells which of its values have something; one value that has it is enough."""

    column: int
    number: int
    """Number under which the column tells it."""
    several: bool = True
    """The column may have several values for one row."""


@dataclass(frozen=True, slots=True)
class Not:
    """Negation."""

    part: Formula


@dataclass(frozen=True, slots=True)
class All:
    """Conjunction."""

    parts: frozenset[Formula]


@dataclass(frozen=True, slots=True)
class Any_:
    """Disjunction."""

    parts: frozenset[Formula]


Formula = There | Single | Told | Not | All | Any_
NEVER = Any_(frozenset())
