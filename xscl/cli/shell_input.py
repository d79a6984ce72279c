"""Input of the shell: where a statement ends, and whether it is SQL or XSCL."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xscl.answers.sql.scripts import statements
from xscl.language.syntax.parser import StatementParser
from xscl.language.syntax.tokens import statement_tokens

__all__ = ["Input", "first_statement", "is_sql"]

_ASIDE = re.compile(
    r"""'(?:[^'\\]|\\.)*+(?:'|\Z) | "(?:[^"\\]|\\.)*+(?:"|\Z) | --[^\n]*+ | /\*(?:.*?\*/|.*\Z)""",
    re.VERBOSE | re.DOTALL,
)
"""Texts and comments, also unfinished ones."""
_SQL = re.compile(r"[\s(]*+(?:with|from|values|show|describe|desc|explain|select)\b", re.IGNORECASE)
_XSCL_SELECT = re.compile(r"\s*select\s*<[^\W\d]|\s*select\b[^;]*?\bfrom\s+[\w.-]+\s*/", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Input:
    """A statement that was read."""

    text: str
    is_sql: bool
    line: int
    """Its line within what was read, from 1."""
    is_ended: bool
    """Whether its semicolon was read."""
    end: int
    """Offset behind it."""


def is_sql(text: str) -> bool:
    """Tell whether a statement is one of SQL; a query of XSCL has a constructor or a path."""
    plain = _ASIDE.sub(" ", text)
    return _SQL.match(plain) is not None and _XSCL_SELECT.match(plain) is None


def first_statement(text: str) -> Input | None:
    """Return the first statement of a text, also one that is not ended; None: there are comments and blanks alone."""
    if not text.strip():
        return None
    if is_sql(text):
        found = next(statements(text), None)
        return None if found is None else Input(found.text, True, found.line, found.is_ended, found.end)
    tokens = statement_tokens(text, 0)
    if tokens[0].kind == "end":
        return None
    if tokens[0].kind == ";":
        return Input("", False, 1, True, tokens[0].end)
    end = StatementParser(text, list(tokens)).end()
    line = text.count("\n", 0, tokens[0].start) + 1
    is_ended = text[:end].rstrip().endswith(";") or bool(text[end:].strip())
    return Input(text[tokens[0].start : end], False, line, is_ended, end)
