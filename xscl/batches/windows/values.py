"""Values of matches by columns, as texts and as exact numbers.

A column has each different text once, so functions and numbers are made once for a text.  Sums are exact, so they are
the same in whatever order they are made: numbers are whole multiples of the smallest digit that a column has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache
from math import lcm
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.values import number_text
from xscl.batches.function_failures import apply_to_match
from xscl.language.terms import Comparison, Term
from xscl.templates.columns import Bools, Int64s

__all__ = [
    "NOTHING",
    "TURNED",
    "Aggregates",
    "Bound",
    "Column",
    "GroupValues",
    "Numbers",
    "Texts",
    "Value",
    "bound_of",
    "column_of",
    "compare",
    "compared",
    "dictionaries",
    "exact_text",
    "holds",
    "number_of",
    "text_of",
    "whole_multiples",
    "whole_numbers",
]

Value = str | Fraction | None
"""A text, an exact number, or no value."""
NOTHING = -1
"""Code of no value."""
TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Operators with their sides exchanged."""
_SHORT = 40
"""Characters of a text whose number is remembered."""
_SMALL = 1 << 62
"""Whole numbers below it are added and multiplied in 64 bits."""


@dataclass
class Column:
    """A value of each match, by its place among the different ones."""

    codes: Int64s
    """Place of each; -1: the match has none."""
    texts: Sequence[str]

    @cached_property
    def numbers(self) -> tuple[npt.NDArray[Any], Bools, int]:
        """Return the numbers of the texts as multiples of a fraction, which texts are numbers, and its denominator."""
        found = [number_of(text) for text in self.texts]
        scale = lcm(*(number.denominator for number in found if number is not None))
        whole = [0 if number is None else int(number * scale) for number in found]
        return (
            whole_multiples(whole, len(self.codes)),
            np.array([number is not None for number in found], dtype=np.bool_),
            scale,
        )

    def some(self, which: Int64s) -> Column:
        """Return the values of some of the matches; their numbers are made once, with those of all."""
        return _Some(self.codes[which], self.texts, self)


def whole_multiples(whole: Sequence[int], count: int) -> npt.NDArray[Any]:
    """Return whole numbers, in 64 bits if so many of them may be added."""
    small = max(map(abs, whole), default=0) * max(1, count) < _SMALL
    return np.array(whole, dtype=np.int64 if small else object)


@dataclass
class _Some(Column):
    whole: Column

    @property
    def numbers(self) -> tuple[npt.NDArray[Any], Bools, int]:
        return self.whole.numbers


@dataclass(frozen=True, slots=True)
class GroupValues:
    """Values of a group: of what it is grouped by, and its aggregates."""

    group: tuple[str, ...]
    aggregates: tuple[Value, ...]

    def value(self, term: Term) -> Value:
        """Return the value of a term; a number if it is compared or computed as one."""
        match term.kind:
            case "text":
                return term.text
            case "number":
                return term.constant
            case "group":
                found: Value = self.group[term.place]
            case _:
                found = self.aggregates[term.place]
        for name in reversed(term.functions):
            found = apply_to_match(name, found) if isinstance(found, str) else None
        if term.is_number:
            number = number_of(found)
            return None if number is None else term.factor * number + term.constant
        return found

    def satisfies(self, having: Sequence[Comparison]) -> bool:
        """Tell whether all conditions hold."""
        return all(holds(self.value(each.left), each.op, self.value(each.right)) for each in having)


def number_of(value: Value) -> Fraction | None:
    """Return the exact number that a value is, or None.

    >>> number_of("1.50"), number_of("x")
    (Fraction(3, 2), None)
    """
    if not isinstance(value, str):
        return value
    return _known_number(value) if len(value) <= _SHORT else _number_of_text(value)


def _number_of_text(text: str) -> Fraction | None:
    written = number_text(text)
    return None if written is None else Fraction(written)


_known_number = lru_cache(maxsize=1 << 16)(_number_of_text)
"""Fractions take long to make, and rows of many queries have the same texts."""


def text_of(value: Value) -> str:
    """Return a value as documents have it: whole numbers exactly, others as the nearest double.

    >>> text_of(Fraction(6, 3)), text_of(Fraction(1, 3)), text_of(None)
    ('2', '0.3333333333333333', '')
    """
    if value is None or isinstance(value, str):
        return value or ""
    if value.denominator == 1:
        return str(value.numerator)
    try:
        return np.format_float_positional(float(value), trim="-")
    except OverflowError:
        return str(round(value))


def holds(left: Value, op: str, right: Value) -> bool:
    """Tell whether a comparison holds: texts are equal or not, all else compares numbers; no value satisfies none."""
    if isinstance(left, str) and isinstance(right, str) and op in ("=", "!="):
        return (left == right) is (op == "=")
    one, other = number_of(left), number_of(right)
    return one is not None and other is not None and bool(compare(one, op, other))


def compare(left: Any, op: str, right: Any) -> Any:
    """Compare two values, or two arrays of them."""
    match op:
        case "=":
            return left == right
        case "!=":
            return left != right
        case "<":
            return left < right
        case "<=":
            return left <= right
        case ">":
            return left > right
    return left >= right


# -- columns -------------------------------------------------------------------------------------------------------


def dictionaries(texts: pa.ChunkedArray) -> list[pa.DictionaryArray]:
    """Return a column for each variable; ``texts`` are lists of the variables' values."""
    values = texts.combine_chunks()
    width = values.value_lengths()[0].as_py() if len(values) else 0
    flat = values.flatten()
    return [flat.take(pa.array(np.arange(place, len(flat), width))).dictionary_encode() for place in range(width)]


def column_of(texts: pa.DictionaryArray, term: Term) -> Column:
    """Return the values of a function over a variable."""
    codes = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    if not term.functions and not term.is_number:
        return Column(codes, texts.dictionary.to_pylist())
    found: dict[str, int] = {}
    place = []
    for text in texts.dictionary.to_pylist():
        value = _applied(text, term)
        place.append(NOTHING if value is None else found.setdefault(value, len(found)))
    return Column(np.array(place, dtype=np.int64)[codes] if place else codes, list(found))


def _applied(text: str, term: Term) -> str | None:
    value: str | None = text
    for name in reversed(term.functions):
        value = None if value is None else apply_to_match(name, value)
    if term.is_number and value is not None:
        number = number_of(value)
        return None if number is None else exact_text(term.factor * number + term.constant)
    return value


def exact_text(number: Fraction) -> str:
    """Return a text of a number that says all of it, as far as a decimal can."""
    denominator = number.denominator
    for prime in (2, 5):
        while denominator % prime == 0:
            denominator //= prime
    if denominator != 1:
        return text_of(number)
    digits = max(number.denominator.bit_length(), 1)
    scaled = number * 10**digits
    whole, part = divmod(abs(scaled.numerator), 10**digits)
    sign = "-" if number < 0 else ""
    return sign + f"{whole}.{part:0{digits}d}".rstrip("0").rstrip(".")


# -- aggregates ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Numbers:
    """Exact numbers: a numerator and a denominator each."""

    numerators: npt.NDArray[Any]
    denominators: npt.NDArray[Any]
    there: Bools
    """Whether it has a value."""

    def values(self, places: Int64s) -> list[Value]:
        """Return those at some places."""
        columns = (each[places].tolist() for each in (self.numerators, self.denominators, self.there))
        # A denominator of 1 is left out, as Fraction would look for a common divisor.
        return [
            (Fraction(over) if under == 1 else Fraction(over, under)) if there else None
            for over, under, there in zip(*columns, strict=True)
        ]

    def some(self, which: Int64s) -> Numbers:
        """Return some of them."""
        return Numbers(self.numerators[which], self.denominators[which], self.there[which])

    def doubles(self) -> npt.NDArray[np.float64] | None:
        """Return about what they are, and what is no number for no value; None: one is too great for that."""
        try:
            found = self.numerators.astype(np.float64) / self.denominators.astype(np.float64)
        except OverflowError:
            return None
        found[~self.there] = np.nan
        return found

    def compared(self, op: str, other: Fraction) -> Bools:
        """Tell which satisfy a comparison."""
        left, right = self.numerators, self.denominators
        # A number of many digits is no number of 64 bits itself, though all that it is multiplied by is 0.
        greatest = max(max(1, _size(left)) * other.denominator, max(1, _size(right)) * abs(other.numerator))
        if greatest >= _SMALL:
            left, right = left.astype(object), right.astype(object)
        found = np.asarray(compare(left * other.denominator, op, right * other.numerator), dtype=np.bool_)
        return found & self.there


@dataclass(frozen=True, slots=True)
class Texts:
    """Texts of a column."""

    codes: Int64s
    column: Column

    def some(self, which: Int64s) -> Texts:
        """Return some of them."""
        return Texts(self.codes[which], self.column)

    def values(self, places: Int64s) -> list[Value]:
        """Return those at some places."""
        texts = self.column.texts
        return [None if code == NOTHING else texts[code] for code in self.codes[places].tolist()]


Aggregates = Numbers | Texts


def _size(values: npt.NDArray[Any]) -> int:
    return int(np.abs(values).max()) if len(values) else 0


def whole_numbers(counts: Int64s) -> Numbers:
    """Return counts as numbers."""
    return Numbers(counts, np.ones(len(counts), dtype=np.int64), np.ones(len(counts), dtype=np.bool_))


def compared(having: Sequence[Comparison], aggregates: Sequence[Aggregates | None], count: int) -> tuple[Bools, bool]:
    """Tell which of so many groups may satisfy conditions, and whether those that may do."""
    found, all_told = np.ones(count, dtype=np.bool_), True
    for each in having:
        mask = _one(each, aggregates)
        if mask is None:
            all_told = False
        else:
            found &= mask
    return found, all_told


class Bound(NamedTuple):
    """A comparison of an aggregate with a number."""

    place: int
    """Place among the aggregates."""
    op: str
    constant: Fraction


def bound_of(each: Comparison) -> Bound | None:
    """Return a condition as a comparison of an aggregate with a number; None: it is none."""
    left, op, right = each.left, str(each.op), each.right
    if left.kind == "number":
        left, right, op = right, left, TURNED.get(op, op)
    if left.kind != "aggregate" or right.kind != "number" or left.functions or not left.factor:
        return None
    if not left.is_number:
        return Bound(left.place, op, right.constant)
    op = TURNED.get(op, op) if left.factor < 0 else op
    return Bound(left.place, op, (right.constant - left.constant) / left.factor)


def _one(each: Comparison, aggregates: Sequence[Aggregates | None]) -> Bools | None:
    bound = bound_of(each)
    numbers = None if bound is None else aggregates[bound.place]
    return numbers.compared(bound.op, bound.constant) if bound is not None and isinstance(numbers, Numbers) else None
