"""Join graphs: the reduced patterns of all blocks and the value joins between them (thesis 6.3)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

__all__ = ["EdgeKind", "JoinGraph", "ValueJoin", "Vertex"]

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
class JoinGraph:
    """Vertices of all blocks, parents before children, and the value joins."""

    vertices: tuple[Vertex, ...]
    joins: tuple[ValueJoin, ...]
