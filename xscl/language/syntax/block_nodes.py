"""Nodes of the syntax tree inside a block: paths, brackets, and blocks themselves."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from xscl.base.errors import Span

__all__ = [
    "NOWHERE",
    "And",
    "Binding",
    "Block",
    "Call",
    "Literal_",
    "Not",
    "Op",
    "Or",
    "Predicate",
    "RelPath",
    "Step",
    "Test",
    "Truth",
    "span_field",
]

Op = Literal["=", "!=", "<", "<=", ">", ">="]
NOWHERE = Span(0, 0)


def span_field() -> Span:
    """Return the field of a node's place in its text, which makes no two nodes unequal."""
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binding:
    """``->x1`` or ``AS x1``."""

    name: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Test:
    """A node test; ``prefix`` and ``local`` may be ``*``, ``prefix`` is None where none is written."""

    kind: Literal["element", "attribute", "text"]
    prefix: str | None
    local: str
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Step:
    """``/test``, ``//test`` with its binding and brackets."""

    axis: Literal["child", "descendant"]
    test: Test
    binding: Binding | None = None
    predicates: tuple[Predicate, ...] = ()
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class RelPath:
    """A path inside brackets; no step at all is ``.``."""

    steps: tuple[Step, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Literal_:
    """A string or, as written, a number."""

    value: str
    is_number: bool
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Call:
    """A function inside brackets."""

    name: str
    args: tuple[RelPath | Literal_ | Call, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Truth:
    """``relpath``, ``function``, or one of these compared with a literal."""

    operand: RelPath | Call
    op: Op | None = None
    literal: Literal_ | None = None
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class And:
    """All of the parts."""

    parts: tuple[Predicate, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Or:
    """One of the parts at least."""

    parts: tuple[Predicate, ...]
    span: Span = span_field()


@dataclass(frozen=True, slots=True)
class Not:
    """``not(…)``."""

    part: Predicate
    span: Span = span_field()


Predicate = Truth | And | Or | Not


@dataclass(frozen=True, slots=True)
class Block:
    """A query block: a channel and a tree pattern over its documents."""

    channel: str
    binding: Binding | None = None
    predicates: tuple[Predicate, ...] = ()
    steps: tuple[Step, ...] = ()
    span: Span = span_field()
