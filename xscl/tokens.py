"""Text to tokens, with positions.

Names may contain ``-`` and ``.`` but do not end in them, so that ``book->x1`` is a binding and ``1h..2h`` a range; a
quote right after a name is a prime (``x5'``).  Nothing raises here: what is no token becomes one of kind ``bad``, and
the parser complains when it gets there, so that one bad statement does not hide the others.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from xscl.errors import Span

__all__ = ["Token", "tokenize"]

Kind = Literal["name", "number", "string", "op", "bad", "end"]

_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<name>[^\W\d]\w*(?:(?:\.|-+)\w+)*'*)
  | (?P<number>[0-9]+(?:\.[0-9]+)?)
  | (?P<string>'(?:[^']|'')*'|"(?:[^"]|"")*")
  | (?P<op>->|//|::|\.\.|!=|<=|>=|[-/\[\](){},;=<>@*:+.])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token; ``value`` is the name, the number's digits or the string without its quotes."""

    kind: Kind
    value: str
    span: Span

    def is_op(self, *ops: str) -> bool:
        """Whether this is one of these operators."""
        return self.kind == "op" and self.value in ops

    def is_word(self, *words: str) -> bool:
        """Whether this is one of these keywords, in any case."""
        return self.kind == "name" and self.value.lower() in words


def tokenize(text: str) -> list[Token]:
    """All tokens of ``text`` and an ``end`` token; comments and white space are dropped.

    >>> [t.value for t in tokenize("S//book->x1 (: a comment :) -- another")]
    ['S', '//', 'book', '->', 'x1', '']
    """
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        if text.startswith("(:", at):
            end = _comment_end(text, at)
            if end is None:
                tokens.append(Token("bad", "a comment that is not closed by ':)'", Span(at, len(text))))
                break
            at = end
            continue
        if text.startswith("--", at) and (at == 0 or text[at - 1].isspace()):
            newline = text.find("\n", at)
            at = len(text) if newline < 0 else newline
            continue
        found = _TOKEN.match(text, at)
        if found is None:
            tokens.append(_bad(text, at))
            at = tokens[-1].span.end
            continue
        at = found.end()
        kind = found.lastgroup
        if kind == "space":
            continue
        value = found[0]
        if kind == "string":
            quote = value[0]
            value = value[1:-1].replace(quote * 2, quote)
        tokens.append(Token(kind, value, Span(found.start(), at)))  # type: ignore[arg-type]
    tokens.append(Token("end", "", Span(len(text), len(text))))
    return tokens


def _comment_end(text: str, at: int) -> int | None:
    depth = 0
    for mark in re.finditer(r"\(:|:\)", text[at:]):
        depth += 1 if mark[0] == "(:" else -1
        if depth == 0:
            return at + mark.end()
    return None


def _bad(text: str, at: int) -> Token:
    if text[at] in "'\"":
        end = text.find("\n", at)
        return Token("bad", "a string that is not closed", Span(at, len(text) if end < 0 else end))
    return Token("bad", f"the character {text[at]!r}", Span(at, at + 1))
