"""Texts to tokens."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.language.syntax.tokens import tokenize


def kinds(text: str) -> list[tuple[str, str]]:
    return [(token.kind, token.value) for token in tokenize(text)[:-1]]


def values(text: str) -> list[str]:
    return [value for _, value in kinds(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("book->x1", ["book", "->", "x1"]),
        ("book-->x", ["book", "-", "->", "x"]),
        ("news-item.v2->x", ["news-item.v2", "->", "x"]),
        ("a--b", ["a--b"]),
        ("a- b", ["a", "-", "b"]),
        ("x - y", ["x", "-", "y"]),
        ("x-1", ["x-1"]),
        ("1h..2h", ["1", "h", "..", "2", "h"]),
        ("1..2", ["1", "..", "2"]),
        ("1.5.2", ["1.5", ".", "2"]),
        ("1.x", ["1", ".", "x"]),
        ("7days", ["7", "days"]),
        ("x5'=x6''", ["x5'", "=", "x6''"]),
        ("été//ñ_1", ["été", "//", "ñ_1"]),
        ("a::b n:c *:d n:*", ["a", "::", "b", "n", ":", "c", "*", ":", "d", "n", ":", "*"]),
        ("<=>=!=<>=", ["<=", ">=", "!=", "<", ">="]),
        ("[.//@k]", ["[", ".", "//", "@", "k", "]"]),
        ("", []),
    ],
)
def test_names_numbers_and_operators(text: str, expected: list[str]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("'it''s'", "it's"),
        ('"say ""a"""', 'say "a"'),
        ("''", ""),
        ("'\"'", '"'),
        ("'-- (: x'", "-- (: x"),
    ],
)
def test_quotes_are_doubled_inside_strings(text: str, expected: str) -> None:
    assert kinds(text) == [("string", expected)]


def test_a_quote_right_after_a_name_is_a_prime() -> None:
    assert kinds("x'y'") == [("name", "x'"), ("name", "y'")]
    assert kinds("x 'y'") == [("name", "x"), ("string", "y")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a (: b :) c", ["a", "c"]),
        ("a(::)c", ["a", "c"]),
        ("a (: b (: c :) d :) e", ["a", "e"]),
        ("(: ' :) a", ["a"]),
        ("a -- b\nc", ["a", "c"]),
        ("-- a", []),
        ("a\n-- b", ["a"]),
        ("a\t--b -- c\r\nd", ["a", "d"]),
        ("(x)--1", ["(", "x", ")", "-", "-", "1"]),
        ("a :) b", ["a", ":", ")", "b"]),
    ],
)
def test_comments(text: str, expected: list[str]) -> None:
    assert values(text) == expected


@pytest.mark.parametrize(
    ("text", "message", "span"),
    [
        ("a (: b", "a comment that is not closed by ':)'", (2, 6)),
        ("a (: (: b :)", "a comment that is not closed by ':)'", (2, 12)),
        ("a 'b\nc", "a string that is not closed on its line", (2, 4)),
        ('"', "a string that is not closed on its line", (0, 1)),
        ("a | b", "the character '|'", (2, 3)),
        ("a\x00", "the character '\\x00'", (1, 2)),
        ("a !b", "the character '!'", (2, 3)),
    ],
)
def test_what_is_no_token(text: str, message: str, span: tuple[int, int]) -> None:
    (bad,) = [token for token in tokenize(text) if token.kind == "bad"]
    assert bad.value == message
    assert (bad.span.start, bad.span.end) == span


def test_keywords_in_any_case_are_names() -> None:
    first, second, *_ = tokenize("Followed BY 'by'")
    assert first.kind == "name"
    assert first.is_word("x", "followed")
    assert second.is_word("by")
    assert not tokenize("'by'")[0].is_word("by")
    assert tokenize("by")[0].kind != "by"


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ("a; b", 0, ["a", ";"]),
        ("a; b", 2, ["b", ""]),
        ("a';' ; b", 0, ["a'", ";"]),
        ("a ';' (: ; :) -- ;\n; b", 0, ["a", ";", ";"]),
        ("; b", 0, [";"]),
        ("b", 1, [""]),
    ],
)
def test_statements_end_at_a_semicolon(text: str, start: int, expected: list[str]) -> None:
    tokens = tokenize(text, start)
    assert [token.value for token in tokens] == expected
    assert all(token.start >= start for token in tokens)


def test_other_ends_of_a_run_of_tokens() -> None:
    assert [token.kind for token in tokenize("a{x['}']}; b", 2, "};")] == ["name", "[", "string", "]", "}"]


@pytest.mark.parametrize("text", ["SELECT <a>", "(: c :) select(: c :)<été/> FROM", "CREATE QUERY q AS Select\n<a b='"])
def test_a_constructor_ends_the_tokens(text: str) -> None:
    last = tokenize(text)[-1]
    assert (last.kind, last.value) == ("constructor", "<")
    assert text[last.start] == "<"


@pytest.mark.parametrize(
    "text", ["<a", "S <a", "SELECT < a", "SELECT <1", "S SELECT <a", "S[select <a]", "SELECT x <a"]
)
def test_other_signs_less_than(text: str) -> None:
    tokens = tokenize(text)
    assert tokens[-1].kind == "end"
    assert "<" in [token.kind for token in tokens]


@given(st.text())
def test_any_text_is_tokens_in_order_up_to_its_end(text: str) -> None:
    at, kind = 0, ""
    while kind != "end":
        tokens = tokenize(text, at)
        assert all(token.kind not in (";", "end") for token in tokens[:-1])
        for token in tokens:
            assert at <= token.start <= token.end
            at = token.end
        kind = tokens[-1].kind
    assert at == len(text)
