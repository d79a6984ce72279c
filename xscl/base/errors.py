"""Every error xscl raises, in one tree.

    XsclError
    ├── QueryError                  a query text cannot be taken; carries line, column and a caret
    │   ├── QuerySyntaxError
    │   ├── UnboundVariableError
    │   ├── UnsatisfiableWindowError
    │   └── UnsupportedFeatureError
    ├── DocumentError               one event cannot be taken; nothing else is lost
    │   ├── MalformedDocumentError
    │   └── DocumentLimitError
    │       └── FunctionFailedError
    ├── SourceError                 a file, line or feed cannot be read
    ├── CatalogError                a name is taken or unknown
    └── EngineError                 Spark, the home or a batch

A CatalogError about a query text carries line, column and a caret, too.

Each has a ``condition`` in the manner of Spark (``XSCL_UNBOUND_VARIABLE``), a message that says what and where,
and where it helps a ``hint`` that says what to do.  Errors survive pickling, because they cross the border between
Spark's workers and the driver.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache

from xscl.base.shown import bounded_message, dotted

__all__ = [
    "CatalogError",
    "DocumentError",
    "DocumentLimitError",
    "EngineError",
    "FunctionFailedError",
    "MalformedDocumentError",
    "QueryError",
    "QuerySyntaxError",
    "SourceError",
    "Span",
    "UnboundVariableError",
    "UnsatisfiableWindowError",
    "UnsupportedFeatureError",
    "XsclError",
]


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a query text: offsets are 0-based and half open."""

    start: int
    end: int

    def __or__(self, other: Span) -> Span:
        """Return the smallest span that covers both."""
        return Span(min(self.start, other.start), max(self.end, other.end))


class XsclError(Exception):
    """Base class: ``condition`` names the kind, ``message`` says what and where, ``hint`` what to do.

    Passwords in either are masked, and very long ones are cut.
    """

    def __init__(self, condition: str, message: str, *, hint: str | None = None) -> None:
        message = bounded_message(message)
        super().__init__(condition, message)
        self.condition = condition
        self.message = message
        self.hint = None if hint is None else bounded_message(hint)

    def __str__(self) -> str:
        text = f"[{self.condition}] {self.message}"
        return f"{text}\n  hint: {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), dict(self.__dict__)))


def _rebuild(cls: type[XsclError], state: dict[str, object]) -> XsclError:
    error = cls.__new__(cls)
    Exception.__init__(error, state["condition"], state["message"])
    error.__dict__.update(state)
    return error


# A script of many bad statements asks for each of its errors.
@lru_cache(maxsize=4)
def _newlines(text: str) -> tuple[int, ...]:
    """Return the places of the newlines of a text."""
    return tuple(found.start() for found in re.finditer("\n", text))


_SHOWN = 120
"""Characters of a long line around a caret, half of them before it."""


def _piece(line: str, column: int) -> tuple[str, int]:
    """Return the shown part of a line, and its length before the column (from 0).

    Characters that terminals would obey, or could not write, become dots.
    """
    start = max(0, column - _SHOWN // 2) if len(line) > _SHOWN else 0
    end = start + _SHOWN if len(line) > _SHOWN else len(line)
    text = dotted(line[start:end])
    left = "… " if start else ""
    return f"{left}{text}{' …' if end < len(line) else ''}", column - start + len(left)


class _Placed(XsclError):
    """An error that may speak of a place in a text.  ``line`` and ``column`` are 1-based."""

    def __init__(
        self,
        condition: str,
        message: str,
        *,
        text: str = "",
        span: Span | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(condition, message, hint=hint)
        self._put(text, span)

    def _put(self, text: str, span: Span | None) -> None:
        self.text = text
        self.span = span
        start = span.start if span else 0
        newlines = _newlines(text)
        before = bisect_left(newlines, start)
        line_start = newlines[before - 1] + 1 if before else 0
        line_end = newlines[before] if before < len(newlines) else len(text)
        self.line = before + 1
        self.column = start - line_start + 1
        self.source_line = text[line_start:line_end].rstrip("\r")

    @property
    def has_place(self) -> bool:
        """Whether ``line`` and ``column`` mean anything."""
        return self.span is not None

    def __str__(self) -> str:
        where = f"line {self.line}, column {self.column}: " if self.has_place else ""
        return f"[{self.condition}] {where}{self.details()}"

    def details(self) -> str:
        """Return the message, the line of the text with a caret, and the hint, without condition and place."""
        lines = [self.message, *(f"  {line}" for line in self.caret())]
        if self.hint:
            lines.append(f"  hint: {self.hint}")
        return "\n".join(lines)

    def caret(self) -> tuple[str, ...]:
        """Return the line of the text that is meant, and one with a caret under the place; nothing without a place."""
        if not self.has_place or not self.source_line.strip():
            return ()
        shown, before = _piece(self.source_line, self.column - 1)
        width = 1
        if self.span:
            width = max(1, min(self.span.end - self.span.start, len(shown) - before))
        # Tabs stay tabs in the padding, so that the caret stands under its character.
        pad = "".join("\t" if c == "\t" else " " for c in shown[:before])
        return shown, f"{pad}{'^' * width}"


class QueryError(_Placed, ValueError):
    """A query text that cannot be taken."""

    @property
    def has_place(self) -> bool:
        """True: a text as a whole begins in its first line."""
        return True


class QuerySyntaxError(QueryError):
    """The text does not follow the grammar (``XSCL_SYNTAX``)."""


class UnboundVariableError(QueryError):
    """A variable is used but nowhere bound (``XSCL_UNBOUND_VARIABLE``)."""


class UnsatisfiableWindowError(QueryError):
    """No event times can satisfy all windows of the query (``XSCL_UNSATISFIABLE_WINDOW``)."""


class UnsupportedFeatureError(QueryError):
    """The text is understood but asks for something xscl does not do (``XSCL_UNSUPPORTED_…``)."""


class DocumentError(XsclError, ValueError):
    """One event cannot be taken."""


class MalformedDocumentError(DocumentError):
    """Not well-formed XML (``XSCL_MALFORMED_DOCUMENT``); the message gives line and column."""


class DocumentLimitError(DocumentError):
    """The document is over a limit on size, depth or nodes (``XSCL_DOCUMENT_LIMIT``)."""


class FunctionFailedError(DocumentLimitError):
    """A function of one's own fails on a value of the document (``XSCL_FUNCTION_FAILED``)."""


class SourceError(XsclError, ValueError):
    """A file, line or feed cannot be read."""


class CatalogError(_Placed, LookupError):
    """A name is taken or unknown."""

    def placed(self, text: str, span: Span) -> CatalogError:
        """Return the same error, about a place in a text."""
        return type(self)(self.condition, self.message, text=text, span=span, hint=self.hint)


class EngineError(XsclError, RuntimeError):
    """Spark, the home or a batch failed."""
