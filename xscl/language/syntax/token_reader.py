"""Tokens of one statement, taken one by one, and refusals with their places."""

from __future__ import annotations

from typing import NoReturn

from xscl.base.durations import MAX_DIGITS
from xscl.base.errors import QueryError, QuerySyntaxError, Span, UnsupportedFeatureError
from xscl.base.types import MAX_NAME
from xscl.language.syntax.tokens import UNCLOSED, Token

__all__ = ["MAX_LENGTH", "MAX_TOKENS", "TokenReader", "shown"]

MAX_LENGTH = 262_144
"""Characters of a statement."""
MAX_TOKENS = 20_000
"""Tokens of a statement."""
_MAX_DEPTH = 100
"""Brackets, parentheses (inside brackets they count twice) and steps of paths that are open at one place.

Texts, digests and pickles of a tree are made by recursion, some seven calls a level, and Python allows a thousand."""


def shown(token: Token) -> str:
    """Return a token as messages quote it."""
    if token.kind == "end":
        return "end of text"
    if token.kind == "bad":
        return token.value
    return repr(token.value)


class TokenReader:
    """The tokens of one statement and how far they were taken; the last one is never passed."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens
        self.at = 0
        self.token = tokens[0]
        self.depth = 0
        self.blocks = 0
        self.statement_name: str | None = None

    def peek(self, ahead: int = 1) -> Token:
        """Return a token ahead, or the last one."""
        return self.tokens[min(self.at + ahead, len(self.tokens) - 1)]

    def next(self) -> Token:
        """Take a token."""
        token = self.token
        if self.at + 1 < len(self.tokens):
            self.at += 1
            self.token = self.tokens[self.at]
        return token

    def take_op_if(self, *ops: str) -> Token | None:
        """Take a token if it is one of some signs."""
        return self.next() if self.token.kind in ops else None

    def take_word_if(self, *words: str) -> Token | None:
        """Take a token if it is one of some words."""
        return self.next() if self.token.is_word(*words) else None

    def op(self, op: str, what: str) -> Token:
        """Take a sign, or refuse anything else."""
        if self.token.kind != op:
            self.fail(f"expected {op!r} {what}, found {shown(self.token)}")
        return self.next()

    def word(self, word: str, what: str) -> Token:
        """Take a word, or refuse anything else."""
        if not self.token.is_word(word):
            self.fail(f"expected {word.upper()} {what}, found {shown(self.token)}")
        return self.next()

    def plain_name(self, what: str) -> Token:
        """Take a name without primes, or refuse anything else."""
        token = self.token
        if token.kind != "name":
            self.fail(f"expected {what}, found {shown(token)}")
        if token.value.endswith("'"):
            self.fail(f"expected {what}; only variables may end in primes")
        return self.next()

    def kept_name(self, what: str) -> Token:
        """Take the name of a query or a channel, which is stored."""
        token = self.plain_name(what)
        if len(token.value) > MAX_NAME:
            self.fail(f"a name of more than {MAX_NAME} characters", at=token)
        return token

    def fail(self, message: str, *, at: Token | Span | None = None, hint: str | None = None) -> NoReturn:
        """Refuse the statement at a place."""
        where = at if at is not None else self.token
        if isinstance(where, Token) and where.value.startswith(UNCLOSED):
            hint = "close the quote"
        span = where if isinstance(where, Span) else where.span
        raise QuerySyntaxError("XSCL_SYNTAX", message, text=self.text, span=span, hint=hint)

    def unsupported(self, condition: str, message: str, span: Span, hint: str | None = None) -> NoReturn:
        """Refuse a feature of XPath or XSCL that is not supported."""
        raise UnsupportedFeatureError(condition, message, text=self.text, span=span, hint=hint)

    def later(self, word: Token, hint: str) -> NoReturn:
        """Refuse a word that is kept free."""
        self.unsupported("XSCL_UNSUPPORTED_OPERATOR", f"{word.value} is kept free for later", word.span, hint)

    def since(self, start: Token) -> Span:
        """Return the span from a token to the last one taken."""
        return Span(start.start, self.tokens[self.at - 1 if self.at else 0].end)

    def check_length(self) -> None:
        """Refuse a statement that is too long: what it is compiled to may grow with its square."""
        tokens = self.tokens
        if len(tokens) <= MAX_TOKENS and tokens[-1].end - tokens[0].start <= MAX_LENGTH:
            return
        beyond = next((token for token in tokens[:-1] if token.end - tokens[0].start > MAX_LENGTH), None)
        if len(tokens) > MAX_TOKENS and (beyond is None or tokens[MAX_TOKENS].start < beyond.start):
            beyond = tokens[MAX_TOKENS]
        if beyond is not None:
            raise QueryError(
                "XSCL_QUERY_LIMIT",
                f"a statement has at most {MAX_LENGTH:,} characters and {MAX_TOKENS:,} words and signs",
                text=self.text,
                span=beyond.span,
                hint="register several queries, or publish a part of it as a channel",
            )

    def enter(self, levels: int = 1) -> None:
        """Note that brackets, parentheses or steps are opened; refuse too many."""
        self.depth += levels
        if self.depth > _MAX_DEPTH:
            self.fail(f"brackets, parentheses and the steps of paths together nest deeper than {_MAX_DEPTH}")

    def check_digits(self, token: Token) -> None:
        """Refuse a number of too many digits."""
        if len(token.value) > MAX_DIGITS:
            self.fail(f"a number of more than {MAX_DIGITS} digits", at=token)
