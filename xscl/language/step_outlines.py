"""Texts with steps that differ in numbers of their conditions alone: the shape of one, with the numbers of others.

The numbers of a text are replaced by *marks*.  Where each mark comes out as one number of the text's shape
(``step_shapes``), any other text of the outline has that shape with its own numbers, and nothing is parsed.  Durations,
strings and constants of brackets belong to the outline, and so do 0 and 1: p is 1 * p + 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import Generic, TypeVar

from xscl.base.durations import UNITS
from xscl.base.errors import QueryError
from xscl.base.values import number_text
from xscl.language import ast
from xscl.language.format import format_query
from xscl.language.parser import parse_query
from xscl.language.skeletons import Skeleton, bracketed, constant_spans, cut
from xscl.language.step_shapes import shape_of
from xscl.language.step_terms import StepsDefinition
from xscl.language.steps import steps_of
from xscl.language.tokens import Token, tokenize

__all__ = ["FilledSteps", "StepOutlines", "known_shape", "known_steps", "said_of"]

_MOST = 20_000
"""Outlines that are remembered."""
_DIGITS = 15
"""Characters of a number that is filled in; longer ones may be refused."""
_MARK = 7_000_000_001
_BESIDE = frozenset(("<", "<=", ">", ">=", "=", "!=", "+", "-", "*"))
"""Signs beside numbers of conditions."""

First = TypeVar("First")
"""Facts of the first text of an outline that are kept."""


def said_of(query: ast.Query) -> str:
    """Return the text by which queries with steps, or windows, are of one group."""
    level = None if query.level == ast.STRONG else query.level
    return format_query(replace(query, publish=None, level=level))


@dataclass(frozen=True, slots=True)
class FilledSteps:
    """Facts of a text that was not parsed."""

    shape: StepsDefinition
    numbers: tuple[Fraction, ...]
    said: str
    """Text by which it is of a group (``said_of``), with its own constants in brackets."""


@dataclass(frozen=True, slots=True)
class _Marked:
    """A shape with marks among its numbers."""

    shape: StepsDefinition
    numbers: tuple[Fraction, ...]
    """Numbers of the first text."""
    slots: tuple[tuple[int, int, int], ...]
    """Places of marks among the numbers, with the marks' own, and their signs."""
    words: tuple[str, ...]
    """Text by which the query is of a group, without the marks in it."""
    order: tuple[int, ...]
    """Places of these marks."""

    def filled(self, constants: Sequence[str]) -> FilledSteps:
        """Return the facts of a text with these constants for marks."""
        numbers = list(self.numbers)
        for slot, place, sign in self.slots:
            numbers[slot] = sign * Fraction(constants[place])
        told = [*(constants[place] for place in self.order), ""]
        said = "".join(word + filled for word, filled in zip(self.words, told, strict=True))
        return FilledSteps(self.shape, tuple(numbers), said)


@dataclass(slots=True)
class _Outline(Generic[First]):
    """The first text of an outline."""

    text: str
    first: First
    is_made: bool = False
    marked: _Marked | None = None
    """None: it is not made, or texts are not filled in."""


@dataclass(frozen=True, slots=True)
class _Outlines(Generic[First]):
    """The outlines of a skeleton."""

    free: frozenset[int]
    """Places of constants that may be numbers of conditions."""
    ignored: frozenset[int]
    """Places of constants that no shape depends on."""
    known: dict[tuple[str | None, ...], _Outline[First]] = field(default_factory=dict)
    """Outlines by their constants; None: a mark."""

    def marks(self, constants: Sequence[str]) -> list[int]:
        """Return the places of marks."""
        return [at for at, each in enumerate(constants) if at in self.free and _may_vary(each)]

    def key(self, constants: Sequence[str], marks: Sequence[int]) -> tuple[str | None, ...]:
        """Return the key of an outline."""
        key: list[str | None] = list(constants)
        for at in (*marks, *self.ignored):
            key[at] = None
        return tuple(key)


def _may_vary(constant: str) -> bool:
    return constant not in ("0", "1") and len(constant) <= _DIGITS and number_text(constant) == constant


class StepOutlines(Generic[First]):
    """The outlines that were met, by skeletons of texts."""

    def __init__(self, namespaces: Mapping[str, str], *, of_shapes: bool = False) -> None:
        """Begin without any.

        Args:
            namespaces: URIs by prefix.
            of_shapes: texts are sound, and only their shapes are asked for, on which constants of brackets have no
                bearing; all that is told of a group is then of the first text.
        """
        self._namespaces, self._of_shapes = namespaces, of_shapes
        self._skeletons: dict[Skeleton, _Outlines[First]] = {}
        self._count = 0

    def find(self, text: str) -> tuple[First, FilledSteps] | None:
        """Return what is kept of the first text of an outline, and the facts of a text; None: it is to be parsed."""
        if not self._skeletons:
            return None
        words, constants = cut(text)
        outlines = self._skeletons.get(words)
        if outlines is None:
            return None
        marks = outlines.marks(constants)
        found = outlines.known.get(outlines.key(constants, marks))
        if found is None:
            return None
        if not found.is_made:
            found.is_made, found.marked = True, self._marked(found.text, marks)
        return None if found.marked is None else (found.first, found.marked.filled([constants[at] for at in marks]))

    def add(self, text: str, tokens: Sequence[Token], first: First) -> None:
        """Note the first text of an outline; ``tokens`` are the text's."""
        words, constants = cut(text)
        if self._count >= _MOST:
            self.clear()
        if words not in self._skeletons:
            spans = constant_spans(text, words, tokens)
            if spans is None:
                return
            free, inside = _free(tokens)
            self._skeletons[words] = _Outlines(
                frozenset(at for at, span in enumerate(spans) if span in free),
                frozenset(at for at, span in enumerate(spans) if span in inside and self._of_shapes),
            )
        outlines = self._skeletons[words]
        marks = outlines.marks(constants)
        key = outlines.key(constants, marks)
        if (marks or outlines.ignored) and key not in outlines.known:
            outlines.known[key] = _Outline(text, first)
            self._count += 1

    def clear(self) -> None:
        """Forget all of them."""
        self._skeletons.clear()
        self._count = 0

    def _marked(self, text: str, marks: Sequence[int]) -> _Marked | None:
        """Return the shape of a text with marks; None: they do not come out as numbers of it."""
        words, constants = cut(text)
        marked = list(constants)
        for number, at in enumerate(marks):
            marked[at] = str(_MARK + number)
        said_marked = "".join(word + each for word, each in zip(words[:-1], [*marked, ""], strict=True))
        try:
            query, other = parse_query(text), parse_query(said_marked)
            shape, numbers = shape_of(steps_of(query, text, self._namespaces))
            same, with_marks = shape_of(steps_of(other, said_marked, self._namespaces))
        except QueryError:
            return None
        slots = tuple(
            (slot, int(abs(number)) - _MARK, 1 if number > 0 else -1)
            for slot, number in enumerate(with_marks)
            if number.denominator == 1 and 0 <= abs(number) - _MARK < len(marks)
        )
        cut_said = _cut_said(said_of(other), len(marks))
        if same != shape or cut_said is None or sorted(place for _, place, _ in slots) != list(range(len(marks))):
            return None
        found = _Marked(shape, numbers, slots, *cut_said)
        own = found.filled([constants[at] for at in marks])
        return found if (own.numbers, own.said) == (numbers, said_of(query)) else None


def _free(tokens: Sequence[Token]) -> tuple[set[tuple[int, int]], set[tuple[int, int]]]:
    """Return the places of numbers that steps compare or calculate with, and of constants in brackets."""
    begin = tokens[0].start
    inside = {(each.start - begin, each.end - begin) for each in bracketed(tokens)}
    kinds = ["", *(each.kind for each in tokens), ""]
    beside = {
        (each.start - begin, each.end - begin)
        for at, each in enumerate(tokens)
        if each.kind == "number"
        and (kinds[at] in _BESIDE or kinds[at + 2] in _BESIDE)
        # That is a duration.
        and not (kinds[at + 2] == "name" and tokens[at + 1].value.lower() in UNITS)
    }
    return beside - inside, inside


def _cut_said(said: str, count: int) -> tuple[tuple[str, ...], tuple[int, ...]] | None:
    """Return a text without the marks in it, and their places in order; None: one is not there once."""
    places = sorted((said.find(mark), number) for number, mark in enumerate(str(_MARK + each) for each in range(count)))
    words, end = list[str](), 0
    for at, number in places:
        mark = str(_MARK + number)
        if at < 0 or said.count(mark) != 1:
            return None
        words.append(said[end:at])
        end = at + len(mark)
    return (*words, said[end:]), tuple(number for _, number in places)


# -- registered texts ----------------------------------------------------------------------------------------------

_Namespaces = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1 << 14)
def known_steps(text: str, namespaces: _Namespaces) -> StepsDefinition:
    """Return the definition of a registered text."""
    return steps_of(parse_query(text), text, dict(namespaces))


@lru_cache(maxsize=1 << 17)
def known_shape(text: str, namespaces: _Namespaces) -> tuple[StepsDefinition, tuple[Fraction, ...]]:
    """Return the shape of a registered text, and its numbers (``shape_of``)."""
    outlines = _outlines(namespaces)
    found = outlines.find(text)
    if found is not None:
        return found[1].shape, found[1].numbers
    outlines.add(text, tokenize(text)[:-1], None)
    return shape_of(known_steps(text, namespaces))


@lru_cache(maxsize=1 << 6)
def _outlines(namespaces: _Namespaces) -> StepOutlines[None]:
    return StepOutlines(dict(namespaces), of_shapes=True)
