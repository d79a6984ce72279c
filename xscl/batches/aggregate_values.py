"""Values of matches by columns, and aggregates over some of them.

A column has each different text once, so functions and numbers are made once for a text.  Sums are exact, so they are
the same in whatever order they are made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import pyarrow as pa

from xscl.base.values import apply_functions, number_text
from xscl.language.aggregates import Comparison, Counted, Term
from xscl.templates.columns import Int64s

__all__ = ["Column", "GroupValues", "Value", "aggregated", "columns_of", "holds", "number_of", "text_of"]

Value = str | Fraction | None
"""A text, an exact number, or no value."""
_NOTHING = -1


@dataclass
class Column:
    """A value of each match, by its place among the different ones."""

    codes: Int64s
    """Place of each; -1: the match has none."""
    texts: Sequence[str]
    _numbers: dict[int, Fraction | None] = field(default_factory=dict)

    def number(self, code: int) -> Fraction | None:
        """Return the number that a text is."""
        if code not in self._numbers:
            self._numbers[code] = number_of(self.texts[code])
        return self._numbers[code]


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
            found = apply_functions(name, found) if isinstance(found, str) else None
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
    written = number_text(value)
    return None if written is None else Fraction(written)


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
    if one is None or other is None:
        return False
    return {
        "=": one == other,
        "!=": one != other,
        "<": one < other,
        "<=": one <= other,
        ">": one > other,
        ">=": one >= other,
    }[op]


def columns_of(texts: pa.ChunkedArray, terms: Sequence[Term]) -> list[Column]:
    """Return columns of values, each of a function over a variable; ``texts`` are lists of the variables' values."""
    flat, width = _flat(texts)
    base: Mapping[int, pa.DictionaryArray] = {
        place: flat[place::width].dictionary_encode() for place in {term.place for term in terms}
    }
    return [_column(base[term.place], term) for term in terms]


def _flat(texts: pa.ChunkedArray) -> tuple[pa.StringArray, int]:
    values = texts.combine_chunks()
    lengths = values.value_lengths()
    return values.flatten(), lengths[0].as_py() if len(lengths) else 1


def _column(texts: pa.DictionaryArray, term: Term) -> Column:
    found: dict[str, int] = {}
    place = []
    for text in texts.dictionary.to_pylist():
        value = _applied(text, term)
        place.append(_NOTHING if value is None else found.setdefault(value, len(found)))
    codes = texts.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    return Column(np.array(place, dtype=np.int64)[codes] if place else codes, list(found))


def _applied(text: str, term: Term) -> str | None:
    value: str | None = text
    for name in reversed(term.functions):
        value = None if value is None else apply_functions(name, value)
    if term.is_number and value is not None:
        number = number_of(value)
        return None if number is None else _exact(term.factor * number + term.constant)
    return value


def _exact(number: Fraction) -> str:
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


def aggregated(counted: Counted, column: Column | None, rows: Int64s) -> Value:
    """Return an aggregate over some matches, which are in their order."""
    if column is None:
        return Fraction(len(rows))
    codes = column.codes[rows]
    codes = codes[codes != _NOTHING]
    match counted.function:
        case "count":
            return Fraction(len(np.unique(codes)) if counted.distinct else len(codes))
        case "first" | "last":
            return column.texts[codes[0 if counted.function == "first" else -1]] if len(codes) else None
    which, times = np.unique(codes, return_counts=True)
    numbers = [(column.number(code), count) for code, count in zip(which.tolist(), times.tolist(), strict=True)]
    there = [(number, count) for number, count in numbers if number is not None]
    if not there:
        return None
    match counted.function:
        case "min":
            return min(number for number, _ in there)
        case "max":
            return max(number for number, _ in there)
    total = sum((number * count for number, count in there), Fraction(0))
    return total if counted.function == "sum" else total / sum(count for _, count in there)
