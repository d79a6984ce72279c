"""Conditions with marks, and with the constants of a text in their places.

A mark is a constant that stands for those of other texts (``outlines``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

from xscl.base.words import is_word
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
    Step,
    Truth,
    conditions,
)

__all__ = ["Marks", "Refused", "filled_once", "marks_within"]

_ORDERS = frozenset(("<", "<=", ">", ">="))

Marks = Mapping[Constant, Constant]
"""Constants by the marks in whose places they stand."""


class Refused(Exception):
    """A constant that may be refused."""


def marks_within(condition: Condition, marks: Sequence[Constant]) -> list[Constant]:
    """Return the marks in a condition, each as often as it stands there as it was written."""
    found: list[Constant] = []

    def note(constant: Constant) -> Constant:
        found.extend([constant] * (constant in marks))
        return constant

    def compared(comparison: Comparison) -> None:
        if comparison.op in _ORDERS and not comparison.right.is_number and comparison.right in marks:
            found.extend([comparison.right] * 2)

    _mapped(condition, note, compared)
    return found


def filled_once(condition: Condition, marks: Marks, made: dict[int, Any]) -> Condition:
    """Return a condition with constants for marks, made once for all that have this very one."""
    found: Condition | None = made.get(id(condition))
    if found is None:
        found = made[id(condition)] = _filled(condition, marks)
    return found


def _filled(condition: Condition, marks: Marks) -> Condition:
    return _mapped(condition, lambda constant: marks.get(constant, constant), lambda _: None)


Change = Callable[[Constant], Constant]
Seen = Callable[[Comparison], None]


def _mapped(condition: Condition, change: Change, seen: Seen) -> Condition:
    """Return a condition with other constants, in canonical order."""
    match condition:
        case Exists(step):
            return Exists(_mapped_step(step, change, seen))
        case Comparison(left, op, right):
            seen(condition)
            return Comparison(_expression(left, change, seen), op, change(right))
        case Compared(functions, op, right, numeric):
            value = change(right)
            told = Constant(str(Fraction(value.value)), is_number=True) if value.is_number else value
            return Compared(functions, op, told, numeric)
        case Truth(call):
            found = _expression(call, change, seen)
            assert isinstance(found, Call)
            return Truth(found)
        case Negation(part):
            return Negation(_mapped(part, change, seen))
        case AllOf(parts):
            return AllOf(conditions([_mapped(part, change, seen) for part in parts]))
        case AnyOf(parts):
            return AnyOf(conditions([_mapped(part, change, seen) for part in parts]))
    return condition


def _mapped_step(step: Step, change: Change, seen: Seen) -> Step:
    if not step.conditions:
        return step
    return Step(step.axis, step.test, conditions([_mapped(part, change, seen) for part in step.conditions]))


def _expression(expression: Expression, change: Change, seen: Seen) -> Expression:
    match expression:
        case Constant():
            return change(expression)
        case Here(steps):
            if not any(step.conditions for step in steps):
                return expression
            return Here(tuple([_mapped_step(step, change, seen) for step in steps]))
        case Call("contains-word", (operand, *sought)):
            words = set()
            for each in sought:
                assert isinstance(each, Constant)
                word = change(each).value
                if not is_word(word):
                    raise Refused
                words.add(word.casefold())
            folded = (Constant(word, is_number=False) for word in sorted(words))
            return Call(expression.name, (_expression(operand, change, seen), *folded))
        case Call(name, args):
            return Call(name, tuple([_expression(arg, change, seen) for arg in args]))
