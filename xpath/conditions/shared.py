"""Equal conditions made of the same objects, so that what they find for a node is found once (``condition.Memo``)."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Compared,
    Comparison,
    Condition,
    Constant,
    Exists,
    Expression,
    Here,
    Negation,
    OfColumns,
    Step,
    Truth,
)

__all__ = ["shared"]

_SHARED = 1 << 16
"""Number of expressions that are kept as one object each."""


def shared(condition: Condition) -> Condition:
    """Return an equal condition in which equal paths, and equal arguments of functions, are those of other such
    conditions.

    >>> one, other = (Truth(Call("contains", (Here(()), Constant(text, False)))) for text in "ab")
    >>> shared(one).call.args[0] is shared(other).call.args[0]
    True
    """
    match condition:
        case Exists(step):
            return Exists(replace(step, conditions=tuple(map(shared, step.conditions))))
        case Comparison(left, op, right):
            return Comparison(_shared(left), op, right)
        case Truth(call):
            return Truth(Call(call.name, tuple(map(_shared, call.args))))
        case Negation(part):
            return Negation(shared(part))
        case AllOf(parts):
            return AllOf(tuple(map(shared, parts)))
        case AnyOf(parts):
            return AnyOf(tuple(map(shared, parts)))
        case OfColumns(columns, part, otherwise):
            return OfColumns(columns, shared(part), shared(otherwise))
        case Compared():
            return condition


@lru_cache(maxsize=_SHARED)
def _shared(expression: Expression) -> Expression:
    match expression:
        case Here(steps):
            return Here(_shared_path(steps))
        case Call(name, args):
            return Call(name, tuple(map(_shared, args)))
        case Constant():
            return expression


@lru_cache(maxsize=_SHARED)
def _shared_path(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    return tuple(replace(step, conditions=tuple(map(shared, step.conditions))) for step in steps)
