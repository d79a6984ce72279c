"""Scripts of SQL: statements that a semicolon ends, each with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

__all__ = ["Statement", "statements"]

_PIECE = re.compile(
    r"""
      '(?:[^'\\]|\\.|'')*' | "(?:[^"\\]|\\.|"")*" | `(?:[^`]|``)*`
    | (?P<comment>--[^\n]* | /\*.*?\*/)
    | (?P<open>['"`] | /\*)
    | (?P<end>;)
    | (?P<blank>\s+)
    | .
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One statement of a script."""

    text: str
    line: int
    """Line in which the statement begins, from 1."""
    is_ended: bool
    """Whether a semicolon ends the statement."""
    end: int
    """Offset behind the statement and its semicolon."""

    @property
    def placed(self) -> str:
        """The statement behind as many lines as stand before it, so that places in messages are those of the script."""
        return "\n" * (self.line - 1) + self.text


def statements(script: str) -> Iterator[Statement]:
    r"""Yield the statements of a script without their semicolons; what holds comments alone is none.

    A quote or a comment that is not closed reaches to the end.

    >>> [(each.line, each.text) for each in statements("select ';'; -- ;\n\nselect 2")]
    [(1, "select ';'"), (3, 'select 2')]
    """
    begin: int | None = None
    for piece in _PIECE.finditer(script):
        kind = piece.lastgroup
        if kind == "end":
            if begin is not None:
                yield _statement(script, begin, piece.start(), is_ended=True)
            begin = None
        elif kind not in ("comment", "blank") and begin is None:
            begin = piece.start()
        if kind == "open":
            break
    if begin is not None:
        yield _statement(script, begin, len(script), is_ended=False)


def _statement(script: str, begin: int, end: int, *, is_ended: bool) -> Statement:
    line = script.count("\n", 0, begin) + 1
    return Statement(script[begin:end].rstrip(), line, is_ended, end + is_ended)
