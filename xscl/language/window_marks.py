"""Numbers that texts with windows of matches may differ in: lengths of windows, constants of HAVING, numbers of TOP."""

from __future__ import annotations

from collections.abc import Sequence

from xscl.base.durations import UNITS
from xscl.language.marks import Varying
from xscl.language.tokens import Token

__all__ = ["varying_in_windows"]

_COMPARISONS = frozenset(("<", "<=", ">", ">=", "=", "!="))
_CONDITION = ("having", "and")
"""Words before a condition."""
_BEHIND = ("and", "on", "once", "top", "publish", "starting", "consistency")
"""Words behind a condition."""


def varying_in_windows(tokens: Sequence[Token]) -> dict[tuple[int, int], Varying]:
    """Return what texts with windows may differ in, by its place from the start of the first token on.

    A constant of HAVING is one that is compared by itself, or behind a sign: in arithmetic it may make another value of
    GROUP BY.
    """
    begin = tokens[0].start
    return {
        (tokens[at].start - begin, tokens[at].end - begin): known
        for at in _behind_blocks(tokens)
        if tokens[at].kind == "number" and (known := _varying(tokens, at)) is not None
    }


def _behind_blocks(tokens: Sequence[Token]) -> range:
    """Return the places of the tokens from the number of WINDOW on."""
    nested, begin = 0, len(tokens)
    for at, token in enumerate(tokens[:-1]):
        nested += (token.kind in ("[", "{")) - (token.kind in ("]", "}"))
        behind = tokens[at + 1]
        if not nested and token.is_word("window") and (behind.kind in ("number", "string") or behind.is_word("last")):
            begin = at + 1
    return range(begin, len(tokens))


def _varying(tokens: Sequence[Token], at: int) -> Varying | None:
    """Return what a number behind the blocks is; None: texts do not differ in it."""
    before, after = tokens[at - 1], tokens[at + 1] if at + 1 < len(tokens) else None
    if _is_length(tokens, at) and after is not None and after.kind == "name":
        unit = after.value.lower()
        return Varying(unit) if unit in UNITS else None
    if before.is_word("last") and tokens[at - 2].is_word("window"):
        return Varying(is_whole=True)
    if before.is_word("top") and after is not None and after.is_word("by"):
        return Varying(is_whole=True)
    if before.kind == "-":
        before = tokens[at - 2]
    is_left = before.is_word(*_CONDITION) and after is not None and after.kind in _COMPARISONS
    is_right = before.kind in _COMPARISONS and (after is None or after.kind == "end" or after.is_word(*_BEHIND))
    return Varying() if is_left or is_right else None


def _is_length(tokens: Sequence[Token], at: int) -> bool:
    before = tokens[at - 1]
    return before.is_word("window", "every") or (before.is_word("per") and tokens[at - 2].is_word("once"))
