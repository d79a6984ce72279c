"""Constants that texts with windows of matches may differ in: lengths of windows, those of HAVING, numbers of TOP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xscl.base.durations import UNITS
from xscl.language.outlines.marks import Varying
from xscl.language.syntax.tokens import Token

__all__ = ["varying_in_windows"]

_COMPARISONS = frozenset(("<", "<=", ">", ">=", "=", "!="))
_BEHIND = ("on", "once", "top", "publish", "starting", "consistency")
"""Words behind the conditions of HAVING."""
_PLAIN = frozenset(("name", "number", "*", "+", "-"))
"""Tokens of arithmetic whose constants may stay numbers of their own."""


def varying_in_windows(tokens: Sequence[Token]) -> dict[tuple[int, int], Varying]:
    """Return what texts with windows may differ in, by its place from the start of the first token on."""
    begin = tokens[0].start
    found: dict[tuple[int, int], Varying] = {}
    window = _window(tokens)
    for at in range(window, len(tokens)):
        if tokens[at].kind == "number" and (known := _length_or_count(tokens, at)) is not None:
            found[tokens[at].start - begin, tokens[at].end - begin] = known
    for side in _sides(tokens[_last_having(tokens, window) + 1 :]):
        for token in _constants(side):
            found[token.start - begin, token.end - begin] = Varying(is_text=token.kind == "string")
    return found


def _window(tokens: Sequence[Token]) -> int:
    """Return the place of the token behind WINDOW, or the number of tokens."""
    nested, begin = 0, len(tokens)
    for at, token in enumerate(tokens[:-1]):
        nested += (token.kind in ("[", "{")) - (token.kind in ("]", "}"))
        behind = tokens[at + 1]
        if not nested and token.is_word("window") and (behind.kind in ("number", "string") or behind.is_word("last")):
            begin = at + 1
    return begin


def _length_or_count(tokens: Sequence[Token], at: int) -> Varying | None:
    """Return what a number is that is a length or one of things; None: it is none."""
    before, after = tokens[at - 1], tokens[at + 1] if at + 1 < len(tokens) else None
    if _is_length(tokens, at) and after is not None and after.kind == "name":
        unit = after.value.lower()
        return Varying(unit) if unit in UNITS else None
    if before.is_word("last") and tokens[at - 2].is_word("window"):
        return Varying(is_whole=True)
    is_top = before.is_word("top") and after is not None and after.is_word("by")
    return Varying(is_whole=True) if is_top else None


def _is_length(tokens: Sequence[Token], at: int) -> bool:
    before = tokens[at - 1]
    return before.is_word("window", "every") or (before.is_word("per") and tokens[at - 2].is_word("once"))


# -- conditions ----------------------------------------------------------------------------------------------------


def _last_having(tokens: Sequence[Token], begin: int) -> int:
    """Return the place of HAVING behind WINDOW, or the number of tokens."""
    return next((at for at in reversed(range(begin, len(tokens))) if tokens[at].is_word("having")), len(tokens))


def _sides(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Yield the sides of comparisons, without the arguments of functions; other parentheses stay."""
    side: list[Token] = []
    inside = 0
    before = ""
    for token in tokens:
        is_end = token.kind in ("end", ";") or token.is_word(*_BEHIND)
        if inside or (token.kind == "(" and before == "name"):
            inside += (token.kind == "(") - (token.kind == ")")
        elif is_end or token.kind in _COMPARISONS or token.is_word("and"):
            yield side
            side = []
            if is_end:
                return
        else:
            side.append(token)
        before = token.kind
    yield side


def _constants(side: Sequence[Token]) -> list[Token]:
    """Return the constants of a side, where each stays a number of its own: one is a factor, and one is added."""
    constants = [token for token in side if token.kind in ("number", "string")]
    kinds = [token.kind for token in side]
    if kinds[:-1] in ([], ["-"]):
        return constants
    added = sum(_is_added(kinds, at) for at, kind in enumerate(kinds) if kind == "number")
    is_apart = _PLAIN.issuperset(kinds) and added < 2 and len(constants) - added < 2
    return constants if is_apart else []


def _is_added(kinds: Sequence[str], at: int) -> bool:
    """Tell whether a number is no factor."""
    return "*" not in (*kinds[max(at - 1, 0) : at], *kinds[at + 1 : at + 2])
