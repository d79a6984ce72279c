"""Values that conditions over matches compare: variables, what is counted of them, and constants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from xscl.language.syntax import ast

__all__ = ["Comparison", "Term", "TermKind", "bound", "item_name", "path_of"]

TermKind = Literal["variable", "group", "aggregate", "text", "number", "last", "accumulator", "duration"]


@dataclass(frozen=True, slots=True)
class Term:
    """A value: that of a variable, of a group or of an aggregate, with functions over it, or a constant.

    Steps have three more: the value of a variable at the iteration before (``last``), what a FOLD keeps
    (``accumulator``), and the microseconds from the start of a match to its end (``duration``).
    """

    kind: TermKind
    place: int = 0
    """Place among the variables, the operands of GROUP BY, the aggregates, or the accumulators."""
    functions: tuple[str, ...] = ()
    """Functions, the outermost first."""
    factor: Fraction = Fraction(1)
    constant: Fraction = Fraction(0)
    is_number: bool = False
    """Whether arithmetic makes a number of it."""
    text: str = ""
    part: int = 0
    """Part that has the variable, or FOLD that has the aggregate or accumulator, of a query with steps."""
    first: Term | None = None
    """Value at the first iteration: of ``last``, and of an accumulator in the braces of its own FOLD."""
    slot: int | None = None
    """Place of its factor among the numbers that were taken out of steps (``steps.shapes``), with its constant behind
    it; or the place of its text there.
    """


@dataclass(frozen=True, slots=True)
class Comparison:
    """A condition on two values."""

    left: Term
    op: ast.Op
    right: Term


def item_name(item: ast.SelectItem) -> str:
    """Return the name of an element of an answer."""
    return item.name or item.path.name.partition("(")[0]


def path_of(operand: ast.Operand) -> ast.VarPath | None:
    """Return the path in an operand, or None."""
    while isinstance(operand, ast.FunctionOperand):
        operand = operand.operand
    return operand.path if isinstance(operand, ast.Linear) else None


def bound(block: ast.Block) -> Iterator[str]:
    """Yield the variables that a block binds."""
    if block.binding is not None:
        yield block.binding.name
    yield from _of_predicates(block.predicates)
    yield from _of_steps(block.steps)


def _of_steps(steps: Sequence[ast.Step]) -> Iterator[str]:
    for step in steps:
        if step.binding is not None:
            yield step.binding.name
        yield from _of_predicates(step.predicates)


def _of_predicates(predicates: Sequence[ast.Predicate]) -> Iterator[str]:
    for predicate in predicates:
        match predicate:
            case ast.And(parts):
                yield from _of_predicates(parts)
            case ast.Truth(ast.RelPath(steps)):
                yield from _of_steps(steps)
