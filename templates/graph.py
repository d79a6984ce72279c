"""Join graphs: the reduced patterns of all blocks and the value joins between them (thesis 6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

__all__ = ["MIRRORED", "EdgeKind", "JoinGraph", "Solved", "ValueJoin", "Vertex", "solved"]

MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Operators to their equals with the sides exchanged."""

EdgeKind = Literal["EQ", "NE", "BAND"]


@dataclass(frozen=True, slots=True)
class Vertex:
    """A node of a reduced pattern: a meta-variable in the making."""

    block: int
    """Place of its block in FROM, from 0."""
    parent: int
    """Index of its parent among the graph's vertices, -1 for the root of a block."""
    definition: str
    """The text of the variable's definition."""


@dataclass(frozen=True, slots=True)
class ValueJoin:
    """An edge between two vertices of different blocks.

    Only ``kind`` is part of the template; everything else is a column of R_T.  ``BAND`` compares
    ``left op f * right + add``: as numbers, exactly, if the functions are of numbers, and else as strings by their code
    points, without arithmetic.
    """

    left: int
    right: int
    kind: EdgeKind
    fn_l: str = ""
    fn_r: str = ""
    f: Fraction = Fraction(1)
    add: Fraction = Fraction(0)
    op: str = "="


@dataclass(frozen=True, slots=True)
class Solved:
    """A value join solved for one of its sides: ``alone op f * other + add``."""

    alone: Literal["l", "r"]
    """The side that stands alone: left or right."""
    op: str
    f: Fraction
    add: Fraction


def solved(join: ValueJoin) -> Solved:
    """Return a value join as people would write it: decimals rather than fractions, whole numbers rather than decimals.

    ``q >= 1.02 * p`` and ``p <= 50/51 * q`` say the same, but doubles compute the former without rounding where the
    numbers are short.
    """
    left = Solved("l", join.op, join.f, join.add)
    if join.f.denominator == 1 and join.add.denominator == 1:
        return left  # nothing is shorter
    op = join.op if join.f < 0 else MIRRORED[join.op]
    right = Solved("r", op, 1 / join.f, -join.add / join.f)
    return min(left, right, key=lambda form: max(_clumsiness(form.f), _clumsiness(form.add)))


def _clumsiness(number: Fraction) -> tuple[bool, int]:
    rest = number.denominator
    for prime in (2, 5):
        while rest % prime == 0:
            rest //= prime
    return rest != 1, number.denominator


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Vertices of all blocks, parents before children, and the value joins."""

    vertices: tuple[Vertex, ...]
    joins: tuple[ValueJoin, ...]
