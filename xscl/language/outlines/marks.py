"""Marks that stand for constants of texts that may differ, and texts without the pieces that do."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from xscl.base.durations import format_duration, scaled
from xscl.base.values import number_text
from xscl.language.outlines.skeletons import QUOTES, bracketed, constant_spans, cut
from xscl.language.syntax.format import format_string
from xscl.language.syntax.tokens import Token
from xscl.xpath.pattern import Constant

__all__ = ["Cut", "Marked", "Value", "Varying", "cut_at", "marks_among", "may_be_mark", "unquoted", "with_marks"]

Value = Fraction | str
"""Number or text that a mark stands for."""
_DIGITS = 14
"""Characters of a number that is filled in; longer ones may be refused, or written as a division."""
_LENGTH = re.compile(r"(?:0|[1-9][0-9]{0,4}|[1-6][0-9]{5})(?:\.[0-9]{1,6})?")
"""Number of a duration that is filled in; longer ones may be refused.

None is greater than a mark: where a mark is the lesser one of two lengths of a text, so is each of these.
"""
_WHOLE = re.compile("[1-9][0-9]{0,8}")
"""Number of things that is filled in; others are refused."""
_MARK, _WINDOW_MARK, _WHOLE_MARK = 8_000_000_001, 700_001, 600_000_001
_APART = 21_000
"""Marks of windows are so far apart that none of them is a whole number of a longer unit."""
_LIKE_MARKS = re.compile(r"[678]0{5,}\d+|.*q[yz]\d+[yz]q.*", re.DOTALL)
_BESIDE = frozenset("0123456789./")
"""Characters beside a mark that make another number of it."""


@dataclass(frozen=True, slots=True)
class Varying:
    """A number of a condition, of a duration, or of things; or a string of a condition."""

    unit: str | None = None
    """Unit of a duration."""
    is_taken: bool = False
    """Whether it is a time, or a number of iterations, that shapes of steps have among their numbers.

    They have windows and iterations of steps, and lengths that matches reach."""
    is_whole: bool = False
    """Whether it is a number of things."""
    is_text: bool = False
    """Whether it is a string."""
    is_joined: bool = False
    """Whether it is of a join: then no text of a group has it."""
    moved: int = 0
    """Microseconds by which an end that does not belong to a window is longer in texts of parts."""
    is_low: bool = False
    """Whether it is the first end of a range, and the next constant is the second one."""
    is_high: bool = False
    """Whether it is the second end of a range, and the constant before it is the first one."""

    def value(self, constant: str) -> Value:
        """Return what a constant is which may be filled in: a duration is a number of microseconds."""
        if self.is_text:
            return unquoted(constant)
        if self.unit is not None:
            return Fraction(scaled(constant, self.unit))
        return Fraction(int(constant) if constant.isdecimal() else constant)

    def may_be(self, constant: str) -> bool:
        """Whether this constant may be filled in: p is 1 * p + 0, and no window is 0."""
        if self.is_text:
            return constant[0] in QUOTES
        if self.is_whole:
            return _WHOLE.fullmatch(constant) is not None
        if self.unit is not None:
            return _LENGTH.fullmatch(constant) is not None and scaled(constant, self.unit) + self.moved > 0
        told = number_text(constant) if len(constant) <= _DIGITS else None
        return told not in ("0", "1", None) and (self.is_joined or told == constant)

    def mark(self, number: int) -> str:
        """Return the mark of a number, or of a string, which no other one has."""
        if self.is_text:
            return f"'qy{number}yq'"
        if self.is_whole:
            return str(_WHOLE_MARK + number)
        return str(_MARK + number if self.unit is None else _WINDOW_MARK + _APART * number)

    def printed(self, constant: str) -> str:
        """Return what a query's text has for a constant."""
        if self.is_text:
            return format_string(unquoted(constant))
        return constant if self.unit is None else format_duration(scaled(constant, self.unit) + self.moved)


def marks_among(free: Mapping[int, Varying], constants: Sequence[str]) -> dict[int, Varying]:
    """Return the constants of a text that may be filled in, by their places among all.

    The ends of a range may be filled in together if they are in order.  Beside 0 the second one may be by itself.

    Args:
        free: what texts may differ in.
        constants: all constants of the text.
    """
    found = {at: each for at, each in free.items() if each.may_be(constants[at])}
    for at, each in free.items():
        if each.is_low and at in found and (at + 1 not in found or _is_empty(at, free, constants)):
            del found[at]
    for at, each in free.items():
        if each.is_high and at in found and at - 1 not in found and constants[at - 1].strip("0."):
            del found[at]
    return found


def _is_empty(at: int, free: Mapping[int, Varying], constants: Sequence[str]) -> bool:
    """Tell whether the second end of the range that begins with a constant is below the first one."""
    low, high = (free[place].value(constants[place]) for place in (at, at + 1))
    return isinstance(low, Fraction) and isinstance(high, Fraction) and high < low


def may_be_mark(constant: str) -> bool:
    """Tell whether a constant of a text may be taken for a mark."""
    return _LIKE_MARKS.fullmatch(number_text(constant) or constant) is not None


def unquoted(constant: str) -> str:
    """Return the text of a string."""
    quote = constant[0]
    return constant[1:-1].replace(quote * 2, quote)


class Marked(NamedTuple):
    """A text with marks."""

    text: str
    in_brackets: list[Constant]
    numbers: list[tuple[Varying, str]]
    """Other marks."""

    @property
    def printed(self) -> list[str]:
        """Return all marks as texts of groups have them."""
        told = [each.value if each.is_number else format_string(each.value) for each in self.in_brackets]
        return [*told, *(each.printed(mark) for each, mark in self.numbers)]

    @property
    def values(self) -> list[Value]:
        """Return the numbers and texts that marks outside of brackets are."""
        return [each.value(mark) for each, mark in self.numbers]


def with_marks(text: str, tokens: Sequence[Token], varying: Mapping[tuple[int, int], Varying]) -> Marked:
    """Return a text with marks for constants in brackets of blocks, and for others that texts may differ in.

    Args:
        text: the text.
        tokens: its tokens.
        varying: these others by their places from the first token on.
    """
    places: dict[tuple[int, int], str] = {}
    marks: list[Constant] = []
    numbers: list[tuple[Varying, str]] = []
    for token in bracketed(tokens):
        is_number = token.kind == "number"
        marks.append(Constant(f"{7_000_000_001 + len(marks)}" if is_number else f"qz{len(marks)}zq", is_number))
        places[token.start, token.end] = str(marks[-1])
    words_between, constants = cut(text)
    spans = constant_spans(text, words_between, tokens) or []
    free = {at: varying[span] for at, span in enumerate(spans) if span in varying}
    for at, each in marks_among(free, constants).items():
        mark = each.mark(len(numbers))
        numbers.append((each, mark))
        places[spans[at]] = mark
    words: list[str] = []
    done = 0
    for (start, end), mark in sorted(places.items()):
        words += [text[done:start], mark]
        done = end
    return Marked("".join(words) + text[done:], marks, numbers)


@dataclass(frozen=True, slots=True)
class Cut:
    """A text without pieces of it."""

    words: tuple[str, ...]
    order: tuple[int, ...]
    """Numbers of the pieces between the words."""

    def filled(self, pieces: Sequence[str]) -> str:
        """Return the text with other pieces."""
        told = [*(pieces[number] for number in self.order), ""]
        return "".join([word + piece for word, piece in zip(self.words, told, strict=True)])


def cut_at(text: str, pieces: Sequence[str]) -> Cut | None:
    """Return a text without pieces of it; None: one is not there once, or is a part of another number."""
    places = sorted((text.find(piece), number) for number, piece in enumerate(pieces))
    words, end = list[str](), 0
    for at, number in places:
        behind = at + len(pieces[number])
        # Dots of a range are no part of a number.
        before, after = text[max(at - 2, 0) : at].removesuffix(".."), text[behind : behind + 2].removeprefix("..")
        if at < end or text.count(pieces[number]) != 1 or not _BESIDE.isdisjoint(before[-1:] + after[:1]):
            return None
        words.append(text[end:at])
        end = behind
    return Cut((*words, text[end:]), tuple(number for _, number in places))
