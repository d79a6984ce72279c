"""Messages, carets and the way across processes."""

from __future__ import annotations

import pickle

import pytest

from xscl.base import errors
from xscl.base.errors import CatalogError, QueryError, QuerySyntaxError, Span, XsclError

LEAVES = [
    cls for name in errors.__all__ if isinstance(cls := getattr(errors, name), type) and issubclass(cls, XsclError)
]


@pytest.mark.parametrize("cls", LEAVES)
def test_every_error_survives_pickling(cls: type[XsclError]) -> None:
    error = cls("XSCL_X", "message", hint="do that")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is cls
    assert (again.condition, again.message, again.hint) == ("XSCL_X", "message", "do that")
    assert str(again) == str(error)
    assert again.args == error.args


def test_place_survives_pickling() -> None:
    error = QuerySyntaxError("XSCL_SYNTAX", "no", text="a\nb c\nd", span=Span(4, 5), hint="h")
    again = pickle.loads(pickle.dumps(error))
    assert (again.line, again.column, again.source_line, again.span) == (2, 3, "b c", Span(4, 5))
    assert str(again) == str(error)


def test_one_tree_and_builtin_bases() -> None:
    assert all(issubclass(cls, XsclError) for cls in LEAVES)
    assert issubclass(QueryError, ValueError)
    assert issubclass(CatalogError, LookupError)
    assert issubclass(errors.EngineError, RuntimeError)
    assert issubclass(errors.MalformedDocumentError, errors.DocumentError)


def test_text_of_an_error_without_a_place() -> None:
    assert str(XsclError("XSCL_X", "no")) == "[XSCL_X] no"
    assert str(XsclError("XSCL_X", "no", hint="try")) == "[XSCL_X] no\n  hint: try"
    assert str(QueryError("XSCL_X", "no")) == "[XSCL_X] line 1, column 1: no"


@pytest.mark.parametrize(
    ("text", "span", "expected"),
    [
        ("S//a", Span(1, 3), ["  S//a", "   ^^"]),
        ("\tS//a", Span(1, 2), ["  \tS//a", "  \t^"]),
        ("S\t\t[", Span(3, 4), ["  S\t\t[", "   \t\t^"]),
        ("S//a", Span(4, 4), ["  S//a", "      ^"]),
        ("S[\na]", Span(0, 5), ["  S[", "  ^^"]),
        ("S\r\nT|\r\nU", Span(4, 5), ["  T|", "   ^"]),
        ("S\n", Span(2, 2), []),
        ("", Span(0, 0), []),
        ("é§x", Span(2, 3), ["  é§x", "    ^"]),
    ],
)
def test_caret(text: str, span: Span, expected: list[str]) -> None:
    assert str(QueryError("XSCL_X", "no", text=text, span=span)).split("\n")[1:] == expected


@pytest.mark.parametrize(
    ("text", "at", "place"),
    [("abc", 0, (1, 1)), ("abc", 3, (1, 4)), ("a\nbc", 1, (1, 2)), ("a\nbc", 2, (2, 1)), ("a\n\nbc", 4, (3, 2))],
)
def test_line_and_column(text: str, at: int, place: tuple[int, int]) -> None:
    error = QueryError("XSCL_X", "no", text=text, span=Span(at, at + 1))
    assert (error.line, error.column) == place


def test_places_in_a_text_of_many_errors() -> None:
    text = "S//[;\n" * 1000
    errors = [QueryError("XSCL_X", "no", text=text, span=Span(at, at + 1)) for at in range(0, len(text), 7)]
    assert [(error.line, error.column, error.source_line) for error in errors] == [
        (at * 7 // 6 + 1, at * 7 % 6 + 1, "S//[;") for at in range(len(errors))
    ]


def test_spans_join() -> None:
    assert Span(3, 5) | Span(1, 4) == Span(1, 5)
