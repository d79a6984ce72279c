"""Text to tokens, with positions, one statement at a time.

Names may contain ``-`` and ``.`` but do not end in them, so that ``book->x1`` is a binding and ``1h..2h`` a range; a
quote right after a name is a prime (``x5'``).  Nothing raises here: what is no token becomes one of kind ``bad``, and
the parser complains when it gets there, so that one bad statement does not hide the others.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import lru_cache
from typing import NamedTuple

from xscl.base.errors import Span

__all__ = ["CONSTANT", "UNCLOSED", "Token", "next_statement", "statement_tokens", "tokenize"]

_NUMBER, _STRING = r"[0-9]+(?:\.[0-9]+)?", r"""'(?:[^'\n]|'')*'|"(?:[^"\n]|"")*\""""
CONSTANT = f"{_NUMBER}|{_STRING}"
"""Pattern of the tokens that are constants."""
_TOKEN = re.compile(
    rf"""
    \s*
    (?:
        (?P<name>[^\W\d]\w*(?:(?:\.|-+)\w+)*'*)
      | (?P<comment>\(:|(?<!\S)--)
      | (?P<op>->|//|::|\.\.|!=|<=|>=|[-/\[\](){{}},;=<>@*:+.])
      | (?P<number>{_NUMBER})
      | (?P<string>{_STRING})
      | (?P<end>\Z)
      | (?P<bad>['"][^\n]*|.)
    )
    """,
    re.VERBOSE | re.DOTALL,
)
UNCLOSED = "a string that is not closed on its line"
"""Message on a quote without its second one."""
_NAME_START = re.compile(r"[^\W\d]")
_COMMENT_MARK = re.compile(r"\(:|:\)")
_BEGINNING = re.compile(
    r"^[^\S\n]*(?P<word>create\s+(?:standing\s+)?query|drop\s+query|declare\s+namespace)"
    r"(?![\w'.-])",
    re.IGNORECASE | re.MULTILINE,
)
"""Words at a line's start that begin a statement and stand side by side nowhere else."""


class Token(NamedTuple):
    """One token from ``start`` to ``end``.

    ``kind`` is ``name``, ``number``, ``string``, ``bad``, ``constructor``, ``end``, ``next`` (the first word of the
    next statement, before which a ``;`` is missing) or, of an operator, the operator itself.  ``value`` is the text, of
    a string without its quotes, of a bad token the message that says so.
    """

    kind: str
    value: str
    start: int
    end: int

    @property
    def span(self) -> Span:
        """Place of the token in its text."""
        return Span(self.start, self.end)

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords, in any case."""
        return self.kind == "name" and self.value.lower() in words


def tokenize(text: str, start: int = 0, stop: str = ";") -> list[Token]:
    """Return the tokens from ``start`` to the first operator in ``stop``, that one included, or to an ``end`` token.

    Comments and white space are dropped.  The list also ends at a token ``constructor``, the ``<`` of an element
    constructor: that one is not made of tokens, and whoever has read it asks for the tokens behind it.

    >>> [t.value for t in tokenize("S//book->x1 (: a comment :) -- another")]
    ['S', '//', 'book', '->', 'x1', '']
    """
    return _tokens(text, start, stop, len(text) + 1)


def statement_tokens(text: str, start: int, *, begun: bool = False) -> list[Token]:
    """Return the tokens of a statement from ``start`` on, as of ``tokenize``, or to a token ``next``.

    ``begun``: the statement began before, so that words which begin one are already those of the next.
    """
    if begun:
        return _tokens(text, start, ";", next_statement(text, start))
    return _tokens(text, start, ";", None)


def next_statement(text: str, start: int) -> int:
    """Return the place of the first words from ``start`` on that begin a statement and a line; without any, behind the
    end.
    """
    places = _beginnings(text)
    at = bisect_left(places, start)
    return places[at] if at < len(places) else len(text) + 1


def _tokens(text: str, start: int, stop: str, limit: int | None) -> list[Token]:
    """Return the tokens up to ``limit``, where the next statement begins; None: at the first beginning behind the first
    token.
    """
    tokens: list[Token] = []
    at = start
    while True:
        for found in _TOKEN.finditer(text, at):
            kind = found.lastgroup
            assert kind is not None
            value, end = found[kind], found.end()
            begin = end - len(value)
            if limit is None and tokens:
                limit = next_statement(text, tokens[0].end)
            if limit is not None and begin >= limit:
                limit = next_statement(text, begin)  # what lies between was in a comment
                if begin == limit:
                    tokens.append(Token("next", value, begin, end))
                    return tokens
            if kind == "op":
                tokens.append(Token(value, value, begin, end))
                if value in stop:
                    return tokens
                if value == "<" and _begins_constructor(text, end, tokens):
                    tokens[-1] = Token("constructor", value, begin, end)
                    return tokens
            elif kind == "comment":
                after = text.find("\n", end) if value == "--" else _comments(text).get(begin)
                if after is None:
                    tokens.append(Token("bad", "a comment that is not closed by ':)'", begin, len(text)))
                    limit = next_statement(text, begin)
                    after = min(limit, len(text))
                at = len(text) if after < 0 else after
                break  # and go on behind the comment
            elif kind == "string":
                quote = value[0]
                tokens.append(Token(kind, value[1:-1].replace(quote * 2, quote), begin, end))
            elif kind == "bad":
                tokens += _bad_tokens(value, begin, end, stop)
                if tokens[-1].kind in stop:
                    return tokens
            else:
                tokens.append(Token(kind, value, begin, end))
                if kind == "end":
                    return tokens


def _bad_tokens(value: str, begin: int, end: int, stop: str) -> list[Token]:
    """Return the token of characters that make none; behind a quote that is not closed, with one that stops there."""
    if value[0] not in "'\"":
        return [Token("bad", f"the character {value!r}", begin, end)]
    tokens = [Token("bad", UNCLOSED, begin, end)]
    quoted = value.rstrip()
    if quoted[-1] in stop:
        # Whoever forgot the quote did not forget the end of the statement.
        end = begin + len(quoted)
        tokens.append(Token(quoted[-1], quoted[-1], end - 1, end))
    return tokens


@lru_cache(maxsize=4)
def _beginnings(text: str) -> tuple[int, ...]:
    """Return the places of all words that begin a statement and a line, also inside comments and constructors."""
    return tuple(found.start("word") for found in _BEGINNING.finditer(text))


@lru_cache(maxsize=4)
def _comments(text: str) -> dict[int, int]:
    """Return the ends of all comments ``(: … :)`` by their beginnings. Comments nest, and unclosed ones have no end."""
    ends: dict[int, int] = {}
    begun: list[int] = []
    for mark in _COMMENT_MARK.finditer(text):
        if mark[0] == "(:":
            begun.append(mark.start())
        elif begun:
            ends[begun.pop()] = mark.end()
    return ends


def _begins_constructor(text: str, end: int, tokens: list[Token]) -> bool:
    """Whether the '<' that ends the tokens opens a constructor: behind SELECT at the beginning of a query."""
    return (
        len(tokens) > 1
        and tokens[-2].is_word("select")
        and (len(tokens) == 2 or tokens[-3].is_word("as") or tokens[-3].kind == "(")
        and _NAME_START.match(text, end) is not None
    )
