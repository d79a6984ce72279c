"""Bounds of conditions: what a condition of HAVING compares, and between which doubles that has to be.

A condition compares an aggregate with a constant, two aggregates that a factor or an addend sets apart, or a text with
a constant.  Conditions that differ in one constant have one *subject*: ``max(p) > 2 * avg(p)`` and ``max(p) > 3 *
avg(p)`` bound the ratio of the two.  So the values of a subject are made once, and each constant is looked up there.
Bounds are wide enough for what doubles do not tell; values within them are compared exactly later on.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np

from xscl.batches.windows.groups import Doubles
from xscl.batches.windows.parts import LastOfParts
from xscl.batches.windows.spans import Spans
from xscl.batches.windows.values import TURNED, Numbers, Texts, bound_of, compare
from xscl.language.aggregates import Counted, Definition
from xscl.language.terms import Comparison, Term
from xscl.templates.columns import Bools, Int64s

__all__ = ["Condition", "Part", "Seen", "Subject", "conditions", "reach", "seen_of"]

_NEAR = 1e-12
"""Doubles that are so near may be the same number, or in another order."""
_TINY, _GREAT = 1e-290, 1e290
"""Doubles beyond these may be less precise than others."""
_OF_TEXTS = ("first", "last")


class Subject(NamedTuple):
    """A value of windows that conditions compare with constants."""

    kind: Literal["number", "ratio", "difference", "text", "group"]
    left: Counted | int
    """An aggregate; of ``group`` the place of the operand of GROUP BY."""
    right: Counted | None = None
    """Aggregate that a ratio divides by, or that a difference takes a multiple of."""
    op: str = ""
    """Operator of a ratio: a negative divisor turns it."""
    factor: Fraction = Fraction(1)
    """Factor of a difference."""


class Condition(NamedTuple):
    """A condition as a comparison of a subject with a constant."""

    subject: Subject
    op: str
    constant: Fraction | str
    key: Hashable
    """Value that equal subjects of definitions with the same aggregates share, and that is soon compared."""


class Part(NamedTuple):
    """Values of a subject in some of the windows."""

    values: Doubles
    """Value of each window; the others have what is no number."""
    turned: bool = False
    """Whether operators are turned: what is said to be greater is less."""


@dataclass(frozen=True, slots=True)
class Seen:
    """Values of a subject in all windows."""

    parts: tuple[Part, ...]
    room: float = 0.0
    """Distance by which doubles may differ from the values."""
    unsure: Int64s | None = None
    """Windows for which any condition may hold; None: there are none."""


def conditions(definition: Definition) -> list[Condition]:
    """Return the conditions that bound a value, the strictest first, as far as that is known without the values."""
    found = [made for each in definition.having if (made := _condition(each, definition)) is not None]
    return sorted(found, key=lambda each: each.op != "=")


def _condition(each: Comparison, definition: Definition) -> Condition | None:
    aggregates, op = definition.aggregates, str(each.op)
    if op == "!=":
        return None
    left, right = (each.right, each.left) if each.left.kind in ("text", "number") else (each.left, each.right)
    if left is not each.left:
        op = TURNED.get(op, op)
    if right.kind == "text":
        return _text(left, op, right.text, aggregates)
    bound = bound_of(each)
    if bound is not None:
        counted = aggregates[bound.place]
        if counted.function in _OF_TEXTS:
            return None
        return Condition(Subject("number", counted), bound.op, bound.constant, ("number", id(counted)))
    return _line(left, op, right, aggregates)


def _text(left: Term, op: str, text: str, aggregates: tuple[Counted, ...]) -> Condition | None:
    """Return an equality of a text as a condition."""
    if op != "=" or left.functions or left.is_number:
        return None
    if left.kind == "group":
        return Condition(Subject("group", left.place), op, text, ("group", left.place))
    if left.kind != "aggregate" or (counted := aggregates[left.place]).function not in _OF_TEXTS:
        return None
    return Condition(Subject("text", counted), op, text, ("text", id(counted)))


def _line(left: Term, op: str, right: Term, aggregates: tuple[Counted, ...]) -> Condition | None:
    """Return a comparison of two numbers as a condition on their ratio or, with an addend, on their difference."""
    for each in (left, right):
        if each.kind != "aggregate" or each.functions or not each.factor:
            return None
        if aggregates[each.place].function in _OF_TEXTS:
            return None
    op = TURNED.get(op, op) if left.factor < 0 else op
    factor, addend = right.factor / left.factor, (right.constant - left.constant) / left.factor
    one, other = aggregates[left.place], aggregates[right.place]
    if not addend:
        return Condition(Subject("ratio", one, other, op), op, factor, ("ratio", id(one), id(other), op))
    return Condition(
        Subject("difference", one, other, factor=factor), op, addend, ("difference", id(one), id(other), factor)
    )


def reach(op: str, constant: Fraction | int) -> tuple[float, float]:
    """Return between which doubles the numbers are for which a comparison may hold."""
    try:
        about = float(constant)
    except OverflowError:
        about = np.inf if constant > 0 else -np.inf
    margin = 0.0 if np.isinf(about) else abs(about) * _NEAR + 1e-300
    low = -np.inf if op in ("<", "<=") else about - margin
    high = np.inf if op in (">", ">=") else about + margin
    return low, high


# -- values of windows ---------------------------------------------------------------------------------------------


def seen_of(subject: Subject, spans: Spans | LastOfParts, texts: Mapping[str, int]) -> Seen | None:
    """Return the values of a subject in windows; None: doubles do not tell them.

    Args:
        subject: the subject.
        spans: the windows.
        texts: constants that a text is compared with, by their numbers, which are the values of these texts.
    """
    match subject:
        case Subject("group", int(place)):
            return _seen_texts(spans.operand(place), texts)
        case Subject("text", Counted() as left):
            found = spans.aggregates(left)
            return _seen_texts(found, texts) if isinstance(found, Texts) else None
        case Subject("ratio", Counted() as left, Counted() as right):
            return _seen_ratio(spans.aggregates(left), spans.aggregates(right), subject.op)
        case Subject("difference", Counted() as left, Counted() as right):
            return _seen_difference(spans.aggregates(left), spans.aggregates(right), subject.factor)
        case Subject("number", Counted() as left):
            values = _doubles(spans.aggregates(left))
            return None if values is None else Seen((Part(values),))
    return None


def _seen_texts(found: Texts, texts: Mapping[str, int]) -> Seen:
    number = np.array([*(texts.get(text, np.nan) for text in found.column.texts), np.nan])
    return Seen((Part(number[found.codes]),))


def _doubles(of: object) -> Doubles | None:
    return of.doubles() if isinstance(of, Numbers) else None


def _seen_ratio(left: object, right: object, op: str) -> Seen | None:
    """Return the ratios where the divisor is positive, and where it is negative.

    A divisor of 0 asks the same for all factors.
    """
    one, other = _doubles(left), _doubles(right)
    if one is None or other is None:
        return None
    there = ~(np.isnan(one) | np.isnan(other))
    with np.errstate(all="ignore"):
        ratio = one / other
    sure = there & _is_sure(one, left) & (np.abs(other) >= _TINY) & (np.abs(ratio) <= _GREAT)
    parts = [Part(np.where(sure & (other > 0), ratio, np.nan))]
    if (sure & (other < 0)).any():
        parts.append(Part(np.where(sure & (other < 0), ratio, np.nan), turned=True))
    is_zero = _is_zero(right) & _is_sure(one, left)
    unsure = there & ~sure & ~(is_zero & ~np.asarray(compare(one, op, 0), dtype=np.bool_))
    return Seen(tuple(parts), unsure=np.flatnonzero(unsure) if unsure.any() else None)


def _seen_difference(left: object, right: object, factor: Fraction) -> Seen | None:
    one, other = _doubles(left), _doubles(right)
    if one is None or other is None or not _TINY <= abs(factor) <= _GREAT:
        return None
    there = ~(np.isnan(one) | np.isnan(other))
    with np.errstate(all="ignore"):
        line = float(factor) * other
        difference, size = one - line, np.abs(one) + np.abs(line)
    sure = there & _is_sure(one, left) & _is_sure(other, right) & (size <= _GREAT)
    room = float(size[sure].max(initial=0.0)) * _NEAR + _TINY
    unsure = np.flatnonzero(there & ~sure)
    return Seen((Part(np.where(sure, difference, np.nan)),), room, unsure if len(unsure) else None)


def _is_sure(doubles: Doubles, numbers: object) -> Bools:
    return (np.abs(doubles) >= _TINY) | _is_zero(numbers)


def _is_zero(numbers: object) -> Bools:
    assert isinstance(numbers, Numbers)
    return np.asarray(numbers.numerators == 0, dtype=np.bool_)
