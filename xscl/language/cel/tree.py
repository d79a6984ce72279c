"""The syntax tree of CEL, the Cayuga Event Language: frozen nodes with spans, as written."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Literal

from xscl.base.errors import Span
from xscl.language.syntax.block_nodes import Literal_, Op

__all__ = [
    "Aggregate",
    "All",
    "Any",
    "Attribute",
    "Compared",
    "Expression",
    "Filter",
    "Fold",
    "Item",
    "Lasts",
    "MIRRORED",
    "Next",
    "No",
    "Number",
    "Operation",
    "Predicate",
    "Query",
    "Relation",
    "Stream",
    "Text",
    "conjuncts",
    "literal_of",
]


@dataclass(frozen=True, slots=True)
class Attribute:
    """``$1.Price``, ``$2.Price``, ``$.Price`` or ``Price``."""

    decorator: Literal["", "$", "$1", "$2"]
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Number:
    """A number."""

    value: Fraction
    span: Span


@dataclass(frozen=True, slots=True)
class Text:
    """A text in quotes."""

    value: str
    span: Span


@dataclass(frozen=True, slots=True)
class Operation:
    """Arithmetic."""

    op: Literal["+", "-", "*", "/"]
    left: Expression
    right: Expression
    span: Span


Expression = Attribute | Number | Text | Operation


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison."""

    left: Expression
    op: Op
    right: Expression
    span: Span


@dataclass(frozen=True, slots=True)
class Lasts:
    """``DUR >= 10min``, in microseconds."""

    op: Op
    time: int
    span: Span


@dataclass(frozen=True, slots=True)
class All:
    """All of the parts; none at all is TRUE."""

    parts: tuple[Predicate, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Any:
    """One of the parts at least."""

    parts: tuple[Predicate, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class No:
    """``NOT`` in front of a predicate."""

    part: Predicate
    span: Span


Predicate = Compared | Lasts | All | Any | No


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream by its name."""

    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Filter:
    """``FILTER{p}(R)``."""

    predicate: Predicate
    of: Relation
    span: Span


@dataclass(frozen=True, slots=True)
class Next:
    """``R NEXT{p} S``."""

    left: Relation
    right: Relation
    predicate: Predicate
    span: Span


@dataclass(frozen=True, slots=True)
class Aggregate:
    """``$.cnt + 1 AS cnt``."""

    value: Expression
    name: str
    span: Span


@dataclass(frozen=True, slots=True)
class Fold:
    """``R FOLD{choose, go on, aggregates} S``."""

    left: Relation
    right: Relation
    choose: Predicate
    go_on: Predicate
    aggregates: tuple[Aggregate, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Item:
    """``Price AS IBMPrice``; ``*`` has no value."""

    value: Expression | None
    name: str | None
    span: Span


@dataclass(frozen=True, slots=True)
class Query:
    """``SELECT items FROM R PUBLISH name``; no items: ``*``."""

    items: tuple[Item, ...]
    of: Relation
    publish: str | None
    is_point: bool
    span: Span


Relation = Stream | Filter | Next | Fold | Query


MIRRORED: Mapping[Op, Op] = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def conjuncts(predicate: Predicate) -> Iterator[Predicate]:
    """Yield the parts that all have to hold."""
    if isinstance(predicate, All):
        for part in predicate.parts:
            yield from conjuncts(part)
    else:
        yield predicate


def literal_of(expression: Expression) -> Literal_ | None:
    """Return a constant as brackets write it; None: the expression is none."""
    match expression:
        case Text(value):
            return Literal_(value, False)
        case Number(number):
            return _number(number)
        case Operation("*", Number(sign), Number(number)):
            return _number(sign * number)
    return None


def _number(number: Fraction) -> Literal_ | None:
    """Return a number as brackets write it; None: that would have no end."""
    text = str(number) if number.denominator == 1 else f"{Decimal(number.numerator) / Decimal(number.denominator):f}"
    return Literal_(text, True) if Fraction(text) == number else None
