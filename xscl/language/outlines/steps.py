"""Texts with steps that differ in numbers and windows alone: the shape of one, with the numbers of others.

Each mark is one number or text of the query's shape (``steps.shapes``).  Lengths that limit matches belong to the
outline (``texts``), and so do 0 and 1: p is 1 * p + 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import lru_cache

from xscl.language.outlines.marks import Value, Varying
from xscl.language.outlines.step_marks import varying_in_steps
from xscl.language.outlines.texts import Fill, TextOutlines
from xscl.language.steps.shapes import Number, shape_of
from xscl.language.steps.steps import steps_of
from xscl.language.steps.terms import StepsDefinition
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.tokens import Token

__all__ = ["Shaped", "known_shape", "known_steps", "said_of", "step_outlines"]

Shaped = tuple[StepsDefinition, tuple[Number, ...]]
"""A shape, and the numbers of a text."""


def said_of(query: ast.Query) -> str:
    """Return the text by which queries with steps, or windows, are of one group if their levels are one."""
    return format_query(replace(query, publish=None, level=None))


def step_outlines(namespaces: Mapping[str, str]) -> TextOutlines[Shaped]:
    """Return outlines of texts with steps; ``namespaces`` are URIs by prefix."""

    def parsed(text: str) -> Shaped:
        return shape_of(steps_of(parse_query(text), text, namespaces))

    def fill(first: Shaped, said: str, marks: Sequence[Value]) -> Fill[Shaped] | None:
        return _fill(first, parsed(said), marks)

    return TextOutlines(_varying, parsed, fill)


def _varying(tokens: Sequence[Token]) -> dict[tuple[int, int], Varying]:
    """Return the numbers of conditions, and the windows, lengths and iterations, that shapes have as numbers."""
    found = varying_in_steps(tokens).items()
    return {at: each for at, each in found if each.is_taken or each.unit is None and not each.is_whole}


def _fill(first: Shaped, marked: Shaped, marks: Sequence[Value]) -> Fill[Shaped] | None:
    """Return what makes the shape and the numbers of texts that have others for marks."""
    shape, numbers = first
    number_of = {mark: number for number, mark in enumerate(marks)}
    slots: list[tuple[int, int, int]] = []
    for slot, value in enumerate(marked[1]):
        sign = -1 if isinstance(value, Fraction) and value < 0 else 1
        if (known := number_of.get(value if isinstance(value, str) else abs(value))) is not None:
            slots.append((slot, known, sign))
    if marked[0] != shape or sorted(number for _, number, _ in slots) != list(range(len(marks))):
        return None

    def filled(values: Sequence[Value]) -> Shaped:
        found = list(numbers)
        for slot, number, sign in slots:
            value = values[number]
            found[slot] = value if isinstance(value, str) else sign * value
        return shape, tuple(found)

    return filled


# -- registered texts ----------------------------------------------------------------------------------------------

_Namespaces = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1 << 14)
def known_steps(text: str, namespaces: _Namespaces) -> StepsDefinition:
    """Return the definition of a registered text."""
    return steps_of(parse_query(text), text, dict(namespaces))


@lru_cache(maxsize=1 << 17)
def known_shape(text: str, namespaces: _Namespaces) -> Shaped:
    """Return the shape of a registered text, and its numbers (``shape_of``)."""
    return _outlines(namespaces).known(text)


@lru_cache(maxsize=1 << 6)
def _outlines(namespaces: _Namespaces) -> TextOutlines[Shaped]:
    return step_outlines(dict(namespaces))
