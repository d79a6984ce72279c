"""Skeletons of texts: all that is left of one without its constants.

Tokens of a text are not read.  One regular expression cuts constants out of it, with the pattern that tokens of
constants have.  The first text of a skeleton is cut only if each piece is one of its tokens.  Then the tokens of any
text with the same skeleton are the same but for these constants: the reader of tokens meets the same characters in the
same order between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from xscl.language.syntax.tokens import CONSTANT, Token

__all__ = ["QUOTES", "Skeleton", "bracketed", "constant_spans", "cut"]

Skeleton = tuple[str, ...]
"""A text's words between constants, and the kinds of these."""
QUOTES = frozenset("'\"")
_BRACKETS = frozenset("[]{}")
_CONSTANT = re.compile(rf"(?:(?<![\w.'\"-])|(?<=[\s<>=()\[*/+]-)|(?<=\.\.))({CONSTANT})")
"""A constant that nothing before it may be a part of; a sign may be before it, which is no end of a name, or the
dots of a range."""
_COMMENT = re.compile(r"\(:|--")


def cut(text: str) -> tuple[Skeleton, list[str]]:
    """Return the skeleton of a text and its constants.

    >>> cut("a-3 < -4")
    (('a-3 < -', '', '0'), ['4'])
    """
    parts = _CONSTANT.split(text)
    constants = parts[1::2]
    return (*parts[::2], "".join([each[0] if each[0] in QUOTES else "0" for each in constants])), constants


def constant_spans(text: str, words: Skeleton, tokens: Sequence[Token]) -> list[tuple[int, int]] | None:
    """Return the places of the constants of the first text of a skeleton; None: pieces are not its tokens.

    Args:
        text: the text.
        words: its skeleton.
        tokens: its tokens, which may have other places in a script.
    """
    if not tokens or any(map(_COMMENT.search, words)):
        return None
    begin = tokens[0].start
    told = {(each.start - begin, each.end - begin) for each in tokens if each.kind in ("string", "number")}
    spans = [each.span(1) for each in _CONSTANT.finditer(text)]
    return spans if told.issuperset(spans) else None


def bracketed(tokens: Sequence[Token]) -> Iterator[Token]:
    """Iterate over the constants in brackets of blocks."""
    nested, joining = 0, False
    for token in tokens:
        if token.kind in _BRACKETS:
            joining, nested = _within(token.kind, nested, joining)
        elif nested > 0 and not joining and token.kind in ("string", "number"):
            yield token


def _within(kind: str, nested: int, joining: bool) -> tuple[bool, int]:
    """Return whether what comes behind a bracket or a brace is in braces, and in how many brackets.

    Brackets in braces are ends of windows, which need not be closed by a bracket.
    """
    if kind in "{}":
        return kind == "{", nested
    return joining, nested if joining else nested + (1 if kind == "[" else -1)
