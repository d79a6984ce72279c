"""Texts with windows of matches that differ in constants alone: the definition of one, with the constants of others.

Lengths of windows, constants of HAVING, and the numbers of LAST and TOP are filled in (``texts``,
``window_marks``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

from xscl.base.replacing import replaced
from xscl.language.aggregates import Definition, definition_of, selects_all
from xscl.language.outlines.marks import Value
from xscl.language.outlines.texts import Fill, TextOutlines
from xscl.language.outlines.window_marks import varying_in_windows
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.language.terms import Comparison, Term, path_of

__all__ = ["Slots", "known_definition", "slots_of", "window_outlines"]

_NUMBERS = ("window", "every", "last", "once_per", "top")


class HavingSlot(NamedTuple):
    """A mark in HAVING."""

    condition: int
    side: str
    """Side of the condition: ``left`` or ``right``."""
    part: str
    """Part of the side: ``factor``, ``constant`` or ``text``."""
    number: int
    """Number of the mark."""
    sign: int


@dataclass(frozen=True, slots=True)
class Slots:
    """A definition with marks, and their places."""

    definition: Definition
    numbers: tuple[tuple[str, int], ...]
    """Names of its numbers that are marks, with these by their numbers."""
    having: tuple[HavingSlot, ...]

    def lengths(self, values: Sequence[Value]) -> tuple[int | None, int | None]:
        """Return the length of windows, and that of the steps between them, with values for marks."""
        own = {name: int(values[number]) for name, number in self.numbers}
        return own.get("window", self.definition.window), own.get("every", self.definition.every)

    def filled(self, values: Sequence[Value]) -> Definition:
        """Return the definition with values for marks."""
        changes: dict[str, object] = {name: int(values[number]) for name, number in self.numbers}
        if self.having:
            having = list(self.definition.having)
            for slot in self.having:
                value, one = values[slot.number], having[slot.condition]
                new = value if isinstance(value, str) else slot.sign * value
                term = replaced(getattr(one, slot.side), **{slot.part: new})
                having[slot.condition] = replaced(one, **{slot.side: term})
            changes["having"] = tuple(having)
        return replaced(self.definition, **changes)


def slots_of(
    query: ast.Query,
    text: str,
    namespaces: Mapping[str, str] | None,
    marks: Sequence[Value],
    *,
    of_all: bool = False,
) -> Slots | None:
    """Return the places of marks in what a query says; None: each is not a number of it.

    Args:
        query: the query with marks, whose windows need not fit.
        text: its text.
        namespaces: URIs by prefix.
        marks: the marks.
        of_all: as of ``definition_of``.

    Raises:
        QueryError: as ``definition_of``.
    """
    of = query.aggregate
    assert of is not None
    short = replace(query, aggregate=of if of.every is None else replace(of, window=1, every=1))
    definition = replaced(definition_of(short, text, namespaces, of_all=of_all), window=of.window, every=of.every)
    number_of = {mark: number for number, mark in enumerate(marks)}
    known = ((name, getattr(definition, name)) for name in _NUMBERS)
    numbers = [(name, number_of[value]) for name, value in known if value is not None and value in number_of]
    having = [
        HavingSlot(at, side, part, number_of[_size(value)], -1 if value != _size(value) else 1)
        for at, each in enumerate(definition.having)
        for side, term in (("left", each.left), ("right", each.right))
        for part, value in _parts(term)
        if _size(value) in number_of
    ]
    # Arithmetic with other constants may make a value of GROUP BY.
    if any(_is_arithmetic(each) for each in of.group) and any(_is_of_value(definition.having, slot) for slot in having):
        return None
    found = sorted([number for _, number in numbers] + [slot.number for slot in having])
    return Slots(definition, tuple(numbers), tuple(having)) if found == list(range(len(marks))) else None


def _parts(term: Term) -> tuple[tuple[str, Value], ...]:
    """Return the parts of a term that may be marks."""
    return ("factor", term.factor), ("constant", term.constant), ("text", term.text)


def _size(value: Value) -> Value:
    return value if isinstance(value, str) else abs(value)


def _is_of_value(having: Sequence[Comparison], slot: HavingSlot) -> bool:
    """Tell whether a mark belongs to a value, and is no constant by itself."""
    return getattr(having[slot.condition], slot.side).kind not in ("number", "text")


def _is_arithmetic(operand: ast.Operand) -> bool:
    while isinstance(operand, ast.FunctionOperand):
        operand = operand.operand
    return operand != ast.Linear(path_of(operand)) if isinstance(operand, ast.Linear) else False


def window_outlines(namespaces: Mapping[str, str], *, of_all: bool) -> TextOutlines[Definition]:
    """Return outlines of texts with windows.

    Args:
        namespaces: URIs by prefix.
        of_all: as of ``definition_of``.
    """

    def parsed(text: str) -> Definition:
        return definition_of(parse_query(text), text, namespaces, of_all=of_all)

    def fill(first: Definition, said: str, marks: Sequence[Value]) -> Fill[Definition] | None:
        slots = slots_of(parse_query(said), said, namespaces, marks, of_all=of_all)
        return None if slots is None else slots.filled

    return TextOutlines(varying_in_windows, parsed, fill)


# -- registered texts ----------------------------------------------------------------------------------------------

_Namespaces = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1 << 17)
def known_definition(text: str, namespaces: _Namespaces, part: str) -> Definition:
    """Return the definition of a registered text over the matches of a part."""
    return _outlines(namespaces, selects_all(part, namespaces)).known(text)


@lru_cache(maxsize=1 << 6)
def _outlines(namespaces: _Namespaces, of_all: bool) -> TextOutlines[Definition]:
    return window_outlines(dict(namespaces), of_all=of_all)
