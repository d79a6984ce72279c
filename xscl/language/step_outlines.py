"""Texts with steps that differ in numbers and windows alone: the shape of one, with the numbers of others.

The numbers of a text are replaced by *marks*.  Where each mark comes out as one number of the text's shape
(``step_shapes``), any other text of the outline has that shape with its own numbers, and nothing is parsed.  Strings
and lengths of matches belong to the outline, and so do 0 and 1: p is 1 * p + 0.  Constants of brackets do not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache

from xscl.base.errors import QueryError
from xscl.language import ast
from xscl.language.format import format_query
from xscl.language.parser import parse_query
from xscl.language.skeletons import Skeleton, bracketed, constant_spans, cut
from xscl.language.step_marks import Varying, varying
from xscl.language.step_shapes import shape_of
from xscl.language.step_terms import StepsDefinition
from xscl.language.steps import steps_of
from xscl.language.tokens import Token, tokenize

__all__ = ["StepOutlines", "known_shape", "known_steps", "said_of"]

_MOST = 20_000
"""Outlines that are remembered."""

Shaped = tuple[StepsDefinition, tuple[Fraction, ...]]
"""A shape, and the numbers of a text."""


def said_of(query: ast.Query) -> str:
    """Return the text by which queries with steps, or windows, are of one group if their levels are one."""
    return format_query(replace(query, publish=None, level=None))


@dataclass(frozen=True, slots=True)
class _Marked:
    """A shape with marks among its numbers."""

    shape: StepsDefinition
    numbers: tuple[Fraction, ...]
    """Numbers of the first text."""
    slots: tuple[tuple[int, int, int], ...]
    """Places of marks among the numbers, with the marks' own, and what a constant there is multiplied by."""

    def filled(self, constants: Sequence[str]) -> Shaped:
        """Return the shape of a text with these constants for marks."""
        numbers = list(self.numbers)
        for slot, place, factor in self.slots:
            numbers[slot] = factor * Fraction(constants[place])
        return self.shape, tuple(numbers)


@dataclass(slots=True)
class _Outline:
    """The first text of an outline."""

    text: str
    is_made: bool = False
    marked: _Marked | None = None
    """None: it is not made, or texts are not filled in."""


@dataclass(frozen=True, slots=True)
class _Outlines:
    """The outlines of a skeleton."""

    free: Mapping[int, Varying]
    """Constants that may be numbers of shapes, by their places."""
    ignored: frozenset[int]
    """Places of constants that no shape depends on."""
    known: dict[tuple[str | None, ...], _Outline] = field(default_factory=dict)
    """Outlines by their constants; None: a mark, or a constant that does not matter."""

    def marks(self, constants: Sequence[str]) -> list[int]:
        """Return the places of marks."""
        return [at for at, each in self.free.items() if each.may_be(constants[at])]

    def key(self, constants: Sequence[str], marks: Sequence[int]) -> tuple[str | None, ...]:
        """Return the key of an outline."""
        key: list[str | None] = list(constants)
        for at in (*marks, *self.ignored):
            key[at] = None
        return tuple(key)


class StepOutlines:
    """The outlines that were met, by skeletons of texts, which are sound."""

    def __init__(self, namespaces: Mapping[str, str]) -> None:
        """Begin without any; ``namespaces`` are URIs by prefix."""
        self._namespaces = namespaces
        self._skeletons: dict[Skeleton, _Outlines] = {}
        self._count = 0

    def find(self, text: str) -> Shaped | None:
        """Return the shape of a text; None: it is to be parsed."""
        words, constants = cut(text)
        outlines = self._skeletons.get(words)
        if outlines is None:
            return None
        marks = outlines.marks(constants)
        found = outlines.known.get(outlines.key(constants, marks))
        if found is None:
            return None
        if not found.is_made:
            found.is_made, found.marked = True, self._marked(found.text, [(at, outlines.free[at]) for at in marks])
        return None if found.marked is None else found.marked.filled([constants[at] for at in marks])

    def add(self, text: str, tokens: Sequence[Token]) -> None:
        """Note the first text of an outline; ``tokens`` are the text's."""
        words, constants = cut(text)
        if self._count >= _MOST:
            self._skeletons.clear()
            self._count = 0
        if words not in self._skeletons:
            spans = constant_spans(text, words, tokens)
            if spans is None:
                return
            free = {span: each for span, each in varying(tokens).items() if each.unit is None or each.is_window}
            begin = tokens[0].start
            inside = {(each.start - begin, each.end - begin) for each in bracketed(tokens)}
            self._skeletons[words] = _Outlines(
                {at: free[span] for at, span in enumerate(spans) if span in free},
                frozenset(at for at, span in enumerate(spans) if span in inside),
            )
        outlines = self._skeletons[words]
        marks = outlines.marks(constants)
        key = outlines.key(constants, marks)
        if (marks or outlines.ignored) and key not in outlines.known:
            outlines.known[key] = _Outline(text)
            self._count += 1

    def _marked(self, text: str, marks: Sequence[tuple[int, Varying]]) -> _Marked | None:
        """Return the shape of a text with marks; None: they do not come out as numbers of it."""
        words, constants = cut(text)
        marked = list(constants)
        place_of: dict[Fraction, tuple[int, int]] = {}
        for number, (at, each) in enumerate(marks):
            marked[at] = each.mark(number)
            place_of[Fraction(marked[at]) * each.factor] = number, each.factor
        said = "".join(word + each for word, each in zip(words[:-1], [*marked, ""], strict=True))
        try:
            shape, numbers = shape_of(steps_of(parse_query(text), text, self._namespaces))
            same, with_marks = shape_of(steps_of(parse_query(said), said, self._namespaces))
        except QueryError:
            return None
        slots = []
        for slot, value in enumerate(with_marks):
            if (known := place_of.get(abs(value))) is not None:
                slots.append((slot, known[0], known[1] if value > 0 else -known[1]))
        if same != shape or sorted(place for _, place, _ in slots) != list(range(len(marks))):
            return None
        found = _Marked(shape, numbers, tuple(slots))
        return found if found.filled([constants[at] for at, _ in marks]) == (shape, numbers) else None


# -- registered texts ----------------------------------------------------------------------------------------------

_Namespaces = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1 << 14)
def known_steps(text: str, namespaces: _Namespaces) -> StepsDefinition:
    """Return the definition of a registered text."""
    return steps_of(parse_query(text), text, dict(namespaces))


@lru_cache(maxsize=1 << 17)
def known_shape(text: str, namespaces: _Namespaces) -> Shaped:
    """Return the shape of a registered text, and its numbers (``shape_of``)."""
    outlines = _outlines(namespaces)
    found = outlines.find(text)
    if found is None:
        outlines.add(text, tokenize(text)[:-1])
        found = shape_of(known_steps(text, namespaces))
    return found


@lru_cache(maxsize=1 << 6)
def _outlines(namespaces: _Namespaces) -> StepOutlines:
    return StepOutlines(dict(namespaces))
