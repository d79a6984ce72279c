"""Nodes of the syntax tree in braces: paths of variables, operands, atoms and windows."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from typing import Literal

from xscl.base.errors import Span
from xscl.language.syntax.block_nodes import Op, Step, span_field

__all__ = [
    "Arithmetic",
    "Atom",
    "Expression",
    "FunctionOperand",
    "Linear",
    "Operand",
    "RelativeWindow",
    "StringOperand",
    "VarPath",
    "Window",
]


@dataclass(frozen=True, slots=True)
class VarPath:
    """A variable, possibly followed by steps (``x4/author``)."""

    name: str
    steps: tuple[Step, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Linear:
    """``factor * path + constant``; a bare variable has factor 1 and constant 0; a number has no path."""

    path: VarPath | None
    factor: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class StringOperand:
    """A string in an atom."""

    value: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class FunctionOperand:
    """A function applied to an operand of an atom."""

    name: str
    operand: Operand
    span: Span = span_field()


Operand = Linear | StringOperand | FunctionOperand


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Arithmetic that is linear in no single variable, of what a FOLD keeps."""

    op: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    span: Span = span_field()


Expression = Operand | Arithmetic


@dataclass(frozen=True, slots=True)
class Atom:
    """A comparison of two operands."""

    left: Operand
    op: Op
    right: Operand
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Window:
    """A duration, range, UNBOUNDED, MAXWINDOW, ONCE, BETWEEN or LAST of one operator; bounds in microseconds.

    ``within``: high only (None = UNBOUNDED).  ``range``: low and high (None = UNBOUNDED).  ``max``: high.  ``once``.
    ``between``, of a negation alone.  ``rows``: high is how many of the newest events of the channel of ``of`` count.
    """

    kind: Literal["within", "range", "max", "once", "between", "rows"]
    low: int | None = None
    high: int | None = None
    span: Span = span_field()
    bare: str | None = field(default=None, compare=False, repr=False)
    """A number that is written without a unit, and counts as seconds."""
    of: str | None = None
    """Variable whose event is among the newest, of ``rows``."""
    of_span: Span = span_field()


@dataclass(frozen=True, slots=True)
class RelativeWindow:
    """``later - earlier IN [low, high]``; bounds in microseconds, None = unbounded, open ends already moved by one."""

    later: str
    earlier: str
    low: int | None
    high: int | None
    span: Span = span_field()
    later_span: Span = span_field()
    earlier_span: Span = span_field()
