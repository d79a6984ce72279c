"""Nodes of the syntax tree between blocks: joins, steps over them, and what must not be there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from xscl.base.errors import Span
from xscl.language.syntax.atom_nodes import Atom, Expression, RelativeWindow, Window
from xscl.language.syntax.block_nodes import Block, Op, span_field

__all__ = [
    "Accumulator",
    "Duration",
    "Filter",
    "Fold",
    "Join",
    "Negation",
    "Next",
    "Source",
    "Stepped",
    "Tree",
    "blocks",
]


@dataclass(frozen=True, slots=True)
class Join:
    """``left FOLLOWED BY {…} right`` or ``left JOIN {…} right``."""

    op: Literal["followed by", "join"]
    left: Source
    right: Source
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = span_field()


Source = Block | Join


@dataclass(frozen=True, slots=True)
class Negation:
    """``WITHOUT {…} right`` or ``NOT FOLLOWED BY {…} right``, behind what stands to the left of it."""

    op: Literal["without", "not followed by"]
    right: Block
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = span_field()
    """Operator and braces."""


@dataclass(frozen=True, slots=True)
class Next:
    """``left NEXT {…} right``: the first of the right ones behind the left one that satisfies all."""

    left: Tree
    right: Tree
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = span_field()
    """Word and braces."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """``total + q AS total``: a value that a FOLD keeps, which each iteration computes from the last one."""

    value: Expression
    name: str
    span: Span = span_field()
    name_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Fold:
    """``left FOLD {… WHILE …} right``: NEXT again and again, from what the iteration before has come to."""

    left: Tree
    right: Tree
    atoms: tuple[Atom, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    conditions: tuple[Atom, ...] = ()
    """Conditions behind WHILE; each iteration satisfies all of them."""
    accumulators: tuple[Accumulator, ...] = ()
    longest: bool = False
    at_most: int | None = None
    """Most iterations; None: as many as there are."""
    span: Span = span_field()
    """Word and braces."""


@dataclass(frozen=True, slots=True)
class Duration:
    """``DUR >= 10 min``: the time from the start of a match to its end, compared with microseconds."""

    op: Op
    time: int
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Filter:
    """``left FILTER {…}``: the matches that satisfy all conditions."""

    of: Tree
    conditions: tuple[Atom | Duration, ...] = ()
    windows: tuple[Window | RelativeWindow, ...] = ()
    span: Span = span_field()
    """Word and braces."""


Stepped = Next | Fold | Filter


Tree = Source | Stepped


def blocks(source: Tree) -> tuple[Block, ...]:
    """Return all blocks in the order of FROM."""
    match source:
        case Block():
            return (source,)
        case Filter():
            return blocks(source.of)
    return blocks(source.left) + blocks(source.right)
