"""Numbers and windows in braces of steps that texts may differ in: their places, and marks that stand for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xscl.base.durations import UNITS, format_duration, scaled
from xscl.base.values import number_text
from xscl.language.tokens import Token

__all__ = ["Cut", "Varying", "cut_at", "varying"]

_DIGITS = 15
"""Characters of a number that is filled in; longer ones may be refused."""
_WHOLE = re.compile("[1-9][0-9]{0,5}")
"""Number of a duration that is filled in; longer ones may be refused."""
_MARK, _WINDOW_MARK = 8_000_000_001, 700_001
_APART = 21_000
"""Marks of windows are so far apart that none of them is a whole number of a longer unit."""
_BESIDE = frozenset(("<", "<=", ">", ">=", "=", "!=", "+", "-", "*"))
"""Signs beside numbers of conditions."""
_HOLDS = frozenset(("-", ".", "name", "string"))
"""Tokens that skeletons have together with a number right behind them."""
_STEPS = frozenset(("next", "fold", "filter"))
_COMPARISONS = frozenset(("<", "<=", ">", ">=", "=", "!="))


@dataclass(frozen=True, slots=True)
class Varying:
    """A number of a condition, or of a duration."""

    unit: str | None = None
    """Unit of a duration."""
    is_window: bool = False
    """Whether it is the greatest time of a step, on whose right side is no other step."""

    @property
    def factor(self) -> int:
        """Return what the number is multiplied by: times are compared in microseconds."""
        return 1 if self.unit is None else UNITS[self.unit]

    def may_be(self, constant: str) -> bool:
        """Whether this constant may be filled in: p is 1 * p + 0, and no window is 0."""
        if self.unit is not None:
            return _WHOLE.fullmatch(constant) is not None
        return constant not in ("0", "1") and len(constant) <= _DIGITS and number_text(constant) == constant

    def mark(self, number: int) -> str:
        """Return the mark of a number, which no other number has."""
        return str(_MARK + number if self.unit is None else _WINDOW_MARK + _APART * number)

    def printed(self, constant: str) -> str:
        """Return what a query's text has for a constant."""
        return constant if self.unit is None else format_duration(scaled(constant, self.unit))


def varying(tokens: Sequence[Token]) -> dict[tuple[int, int], Varying]:
    """Return what texts may differ in, by its place from the start of the first token on."""
    found: dict[tuple[int, int], Varying] = {}
    begin = tokens[0].start
    for at, is_last in _in_braces(tokens):
        token = tokens[at]
        if token.kind == "number" and (known := _varying(tokens, at, is_last=is_last)) is not None:
            found[token.start - begin, token.end - begin] = known
    return found


def _varying(tokens: Sequence[Token], at: int, *, is_last: bool) -> Varying | None:
    """Return what a number in braces is; None: texts do not differ in it."""
    before, after = tokens[at - 1].kind, tokens[at + 1]
    if before in _HOLDS and tokens[at - 1].end == tokens[at].start:
        return None
    is_length = before in _COMPARISONS and tokens[at - 2].is_word("dur")
    if after.kind == "name" and after.value.lower() in UNITS:
        ends = tokens[at + 2].kind in (",", "}") or tokens[at + 2].is_word("and")
        is_window = before in (",", "{")
        return Varying(after.value.lower(), is_window and is_last) if ends and (is_window or is_length) else None
    beside = before in _BESIDE or after.kind in _BESIDE
    return Varying() if beside and not is_length else None


def _in_braces(tokens: Sequence[Token]) -> Iterator[tuple[int, bool]]:
    """Yield the places of tokens in braces of steps and absences, and whether these are of a step in no parentheses."""
    nested, inside, is_step = 0, False, False
    for at, token in enumerate(tokens):
        if token.kind == "{":
            words = [each.value.lower() for each in tokens[max(at - 3, 0) : at] if each.kind == "name"]
            is_step = bool(_STEPS.intersection(words[-1:]))
            inside = is_step or words[-1:] == ["without"] or words == ["not", "followed", "by"]
        elif token.kind == "}":
            inside = False
        elif inside:
            yield at, is_step and not nested
        elif token.kind in "()":
            nested += 1 if token.kind == "(" else -1


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
    """Return a text without pieces of it; None: one is not there once."""
    places = sorted((text.find(piece), number) for number, piece in enumerate(pieces))
    words, end = list[str](), 0
    for at, number in places:
        if at < end or text.count(pieces[number]) != 1:
            return None
        words.append(text[end:at])
        end = at + len(pieces[number])
    return Cut((*words, text[end:]), tuple(number for _, number in places))
