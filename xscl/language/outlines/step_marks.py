"""Constants and windows in braces of steps that texts may differ in."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xscl.base.durations import UNITS
from xscl.language.outlines.marks import Varying
from xscl.language.syntax.tokens import Token

__all__ = ["varying_end", "varying_in_steps", "varying_number", "varying_text"]

_BESIDE = frozenset(("<", "<=", ">", ">=", "=", "!=", "+", "-", "*"))
"""Signs beside numbers of conditions."""
_HOLDS = frozenset(("-", ".", "name", "string"))
"""Tokens that skeletons have together with a number right behind them."""
_STEPS = frozenset(("next", "fold", "filter"))
_NOT_FOLLOWED_BY = ["not", "followed", "by"]
COMPARISONS = frozenset(("<", "<=", ">", ">=", "=", "!="))


def varying_in_steps(tokens: Sequence[Token]) -> dict[tuple[int, int], Varying]:
    """Return what texts with steps may differ in, by its place from the start of the first token on."""
    found: dict[tuple[int, int], Varying] = {}
    begin = tokens[0].start
    for at in _in_braces(tokens):
        token = tokens[at]
        known = None
        if tokens[at - 1].is_word("most") and tokens[at - 2].is_word("at"):
            known = Varying(is_whole=True, is_taken=True)
        elif token.kind == "number":
            known = varying_number(tokens, at)
        elif token.kind == "string":
            known = varying_text(tokens, at)
        if known is not None:
            found[token.start - begin, token.end - begin] = known
    return found


def varying_number(tokens: Sequence[Token], at: int) -> Varying | None:
    """Return what a number in braces is; None: texts do not differ in it."""
    before, after = tokens[at - 1].kind, tokens[at + 1]
    if before in _HOLDS and tokens[at - 1].end == tokens[at].start:
        return None
    is_length = before in COMPARISONS and tokens[at - 2].is_word("dur")
    if after.kind == "name" and after.value.lower() in UNITS:
        behind, is_high = tokens[at + 2], before == ".."
        ends = behind.kind in (",", "}", "..") or behind.is_word("and") or behind.is_word("while")
        is_window = is_high or before in (",", "{") or tokens[at - 1].is_word("maxwindow")
        if not ends or not (is_window or is_length):
            return None
        is_low = behind.kind == ".." and not tokens[at + 3].is_word("unbounded")
        return Varying(after.value.lower(), is_window or before in (">", ">="), is_low=is_low, is_high=is_high)
    beside = before in _BESIDE or after.kind in _BESIDE or _is_first_value(tokens, at)
    return Varying() if beside and not is_length else None


def varying_end(tokens: Sequence[Token], at: int) -> Varying | None:
    """Return what a number is that is an end of a relative window; None: it is none."""
    unit, behind = tokens[at + 1], tokens[at + 2]
    sign = -1 if tokens[at - 1].kind == "-" else 1
    before = at - (2 if sign < 0 else 1)
    is_low = tokens[before].kind in ("[", "(") and tokens[before - 1].is_word("in") and behind.kind == ","
    is_high = tokens[before].kind == "," and behind.kind in ("]", ")")
    is_length = unit.kind == "name" and unit.value.lower() in UNITS
    moved = sign * (is_low and tokens[before].kind == "(") - sign * (is_high and behind.kind == ")")
    return Varying(unit.value.lower(), moved=moved) if is_length and (is_low or is_high) else None


def varying_text(tokens: Sequence[Token], at: int) -> Varying | None:
    """Return what a string in braces is; None: texts do not differ in it."""
    is_compared = {tokens[at - 1].kind, tokens[at + 1].kind} & {"=", "!="}
    return Varying(is_text=True) if is_compared else None


def _is_first_value(tokens: Sequence[Token], at: int) -> bool:
    """Tell whether a number is what ``last`` of a value that FOLD keeps is before the first iteration."""
    kinds = [token.kind for token in tokens[at - 3 : at + 2]]
    if kinds != ["(", "name", ",", "number", ")"] or not tokens[at - 4].is_word("last"):
        return False
    # Of what WHILE compares it is no number of a shape.
    for token in tokens[at + 2 :]:
        if token.kind in (",", "}"):
            return False
        if token.is_word("as"):
            return True
    return False


def _in_braces(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the places of tokens in braces of steps and absences."""
    inside = False
    for at, token in enumerate(tokens):
        if token.kind == "{":
            words = [each.value.lower() for each in tokens[max(at - 3, 0) : at] if each.kind == "name"]
            inside = bool(_STEPS.intersection(words[-1:])) or words[-1:] == ["without"] or words == _NOT_FOLLOWED_BY
        elif token.kind == "}":
            inside = False
        elif inside:
            yield at
