"""Tokens of SQL statements: each in a form that Spark reads as one token, and calls judged by tokens alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

from sqlglot import Token, TokenType
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.spark import SparkParser

from xscl.answers.sql.functions import FUNCTIONS
from xscl.base.errors import EngineError

__all__ = [
    "RELATIONS_HINT",
    "Dialect",
    "bracketed",
    "canonical",
    "judge_calls",
    "parse_refusal",
    "place",
    "refusal",
    "tokens_of",
    "unknown_function",
    "words_of",
]


class Dialect(Spark):
    """Spark's SQL with every function left as it is written, but for those whose arguments are no list."""

    class Parser(SparkParser):
        """Parser that knows few functions by their arguments."""

        FUNCTIONS: ClassVar[dict[str, Callable[..., Any]]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parse
            for name, parse in SparkParser.FUNCTION_PARSERS.items()
            if name in ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")
        }
        NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Callable[..., Any]]] = {
            name: parse for name, parse in SparkParser.NO_PAREN_FUNCTION_PARSERS.items() if name in ("ANY", "CASE")
        }

        def _warn_unsupported(self) -> None:
            """Say nothing: the statement is refused, and its text would go into logs as it is."""


_WORD = r"[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    rf"""(?P<words>{_WORD}(\s+{_WORD})*)
    | (?P<number>[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?(BD|[LSYDF])?|\.[0-9]+([eE][+-]?[0-9]+)?(BD|[DF])?)
    | (?P<string>'([^'\\]|\\.|'')*'|"([^"\\]|\\.|"")*"|[rR]'[^']*'|[rR]"[^"]*"|[xX]'[0-9A-Fa-f]*')
    | (?P<quoted>`([^`]|``)+`)
    | (?P<operator>[-+*/%~&|^<>=!.,:()\[\]]|\|\||<=>|[<>!=]=|<>|<<|>>>?|->|::)""",
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
"""Tokens, as Spark's lexer has them (``SqlBaseLexer.g4``)."""

_CLAUSES = """
all and any as between by case cross cube distinct div else escape except exists filter for from full group having
ilike in inner intersect interval is join lateral left like limit minus not nulls offset on or outer over pivot
recursive regexp right rlike rollup select sets some tablesample then union unpivot using values view when where with
"""
_TYPES = "array char character dec decimal numeric varchar"
_BEFORE_BRACKETS = frozenset([*_CLAUSES.split(), *_TYPES.split()])
"""Words that stand before an opening bracket and call nothing."""


def tokens_of(statement: str) -> list[Token]:
    """Split a statement into tokens.

    Raises:
        EngineError: ``XSCL_SQL``: it has something that is no token.
    """
    try:
        return Dialect().tokenize(statement)
    except TokenError as error:
        raise refusal(f"it cannot be read: {str(error).splitlines()[0]}") from None


def words_of(statement: str, tokens: Sequence[Token]) -> list[str]:
    """Give the words of tokens in capital letters, without opening brackets before the first."""
    first = next((i for i, token in enumerate(tokens) if token.token_type != TokenType.L_PAREN), 0)
    return [word.upper() for token in tokens[first:] for word in statement[token.start : token.end + 1].split()]


Written = tuple[int, str, str]
"""A token, or a gap between tokens: its place in the statement, its kind, its text."""


def canonical(statement: str, tokens: Sequence[Token]) -> list[Written]:
    """Write the tokens in their places, with spaces for comments, each in a form that Spark reads as one token.

    Raises:
        EngineError: one is none of Spark's.
    """
    written: list[Written] = []
    end = 0
    for start, stop in _spans(statement, tokens):
        text = statement[start:stop]
        match = _TOKEN.fullmatch(text)
        kind = match.lastgroup if match else None
        if kind is None and re.fullmatch(r"\w+", text):
            text, kind = f"`{text}`", "quoted"  # a name in other letters, or one that begins with a digit
        if kind is None or (kind == "quoted" and "${" in text):
            raise refusal(f"{text[:60]!r} cannot be read at {_place_of(statement, start)}")
        gap = re.sub(r"[^\n]", " ", statement[end:start])
        if not gap and written and not _may_touch(written[-1], (start, kind, text)):
            gap = " "
        written += [(end, "gap", gap), (start, kind, text)] if gap else [(start, kind, text)]
        end = stop
    return written


def bracketed(written: Sequence[Written], replaced: Mapping[int, str]) -> str:
    """Write the text in brackets, with other texts for the calls that begin at some places."""
    parts: list[str] = []
    until_bracket = False
    for start, _, text in written:
        if start in replaced and text and not text.isspace():
            parts.append(replaced[start])
            until_bracket = True
        elif not until_bracket:
            parts.append(text)
        elif text == ")":
            until_bracket = False
    return f"SELECT * FROM (\n{''.join(parts)}\n)"


def _spans(statement: str, tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Return the places of the tokens in the statement; strings that touch are one, as ``'it''s'`` is."""
    spans: list[tuple[int, int]] = []
    for token in tokens:
        start, stop = token.start, token.end + 1
        if spans and spans[-1] == (start, stop):
            continue  # 10L is read as a number and its type
        before = spans[-1] if spans else None
        quote = statement[start]
        if before and before[1] == start and quote in "'\"" and statement[start - 1] == quote:
            spans[-1] = (before[0], stop)
        else:
            spans.append((start, stop))
    return spans


def _may_touch(before: Written, after: Written) -> bool:
    """Tell whether Spark reads two tokens without a space between as two, and as no comment."""
    kinds = before[1], after[1]
    if kinds == ("operator", "operator"):
        return before[2][-1] + after[2][0] not in ("--", "/*", "*/")
    return "operator" in kinds


def judge_calls(written: Sequence[tuple[str, str]], aliases: Collection[str]) -> None:
    """Refuse calls and programs by the tokens alone, as (kind, text)."""
    tokens = [token for token in written if token[0] != "gap"]
    for place, ((kind, text), (_, after)) in enumerate(pairwise([*tokens, ("end", "")])):
        if kind == "words" and text.split()[-1].lower() == "using" and after != "(":
            raise refusal("USING is followed by columns in brackets; programs are not run")
        if after != "(" or kind in ("operator", "number"):
            continue
        word = text.split()[-1].lower() if kind == "words" else text[1:-1].lower()
        if place and tokens[place - 1][1] == ".":
            raise refusal(f"{word!r}: functions are called by their bare names")
        if kind == "words" and word in _BEFORE_BRACKETS or kind != "string" and word in FUNCTIONS:
            continue
        if kind == "string" or word not in aliases:
            raise unknown_function(word)


# -- refusals ------------------------------------------------------------------------------------------------------

RELATIONS_HINT = "xscl sql 'SHOW TABLES' lists the relations"


def refusal(message: str, *, hint: str | None = None) -> EngineError:
    """Make the error of a statement that is not admitted."""
    return EngineError("XSCL_SQL", message, hint=hint or "docs/reference/sql.md says what statements may hold")


def unknown_function(name: str) -> EngineError:
    """Make the error of a function that statements may not call."""
    return refusal(f"the function {name[:60]!r} is not among those that statements may call")


_INCOMPLETE = re.compile(r"Required keyword: .* missing for <class 'sqlglot(?:\.\w+)*\.(\w+)'>")
"""Message of the parser on a clause without its operand."""
_GOT = re.compile(r"<Token token_type: \S+, text: (.*), line: \d+, .*>")
"""Token in a message of the parser."""


def parse_refusal(error: ParseError) -> EngineError:
    """Make the error of a statement that the parser cannot read."""
    first = error.errors[0] if error.errors else {}
    what = str(first.get("description") or error).rstrip(".").partition("\n")[0]
    if (clause := _INCOMPLETE.match(what)) is not None:
        what = f"something is missing behind {clause[1].upper()}"
    what = _GOT.sub(lambda found: "the end" if found[1] == "SENTINEL" else repr(found[1]), what)
    near = first.get("highlight")
    at = f" at line {first['line']}, column {first['col']}" if first.get("line") else ""
    return refusal(f"it cannot be read{at}{f', near {near!r}' if near else ''}: {what}")


def place(token: Token) -> str:
    """Write where a token begins."""
    return f"line {token.line}, column {token.col}"


def _place_of(statement: str, offset: int) -> str:
    before = statement[:offset]
    return f"line {before.count(chr(10)) + 1}, column {offset - before.rfind(chr(10))}"
