"""Join graphs: the reduced patterns of all blocks and the value joins between them (thesis 6.3)."""

from __future__ import annotations

from dataclasses import dataclass
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

    Only ``kind`` is part of the template; everything else is a column of R_T.
    ``BAND`` compares ``left op f * right + add``.
    """

    left: int
    right: int
    kind: EdgeKind
    fn_l: str = ""
    fn_r: str = ""
    f: float = 1.0
    add: float = 0.0
    op: str = "="


@dataclass(frozen=True, slots=True)
class JoinGraph:
    """Vertices of all blocks, parents before children, and the value joins."""

    vertices: tuple[Vertex, ...]
    joins: tuple[ValueJoin, ...]
