"""A Hypothesis strategy for the element constructors of SELECT."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from strategies import Choices, query_tokens, spaced

HOLES = ("{x1}", "{x1/title}", "{ y//@k }", "{x5'}", "{x/a[. = '}']/b}", "{x(: c :)//*:t}", "{x1/@*}", "{x/text()}")
NAMES = ("a", "b", "dc:title", "été", "x-1.y", "n:_")
TEXTS = ("x", "it's ", '"q"', " ", "\n\t", ";\n", "SELECT <!-- c -->", "{{", "}}", "&amp;", "&lt;", "&#32;", "&#xe9;")
TEXTS += ("(: c :)", "-- x\n", "<!--\n; ' { -->", "<!---->", "]]>", "&quot;", "]", "\r\n", "&#13;")
VALUES = ("x", "it''s", '""', " ", "\n\t", ";\n", ">", "{{", "}}", "&apos;", "&lt;", "&#32;", "&#xA;", "(: c :)")


def _element(choose: Choices, depth: int) -> str:
    name = choose.one(*NAMES)
    attributes = "".join(_attribute(choose, key) for key in ("k", "n:k", "a-b") if choose.chance(25))
    start = f"<{name}{attributes}{choose.one('', '', ' ')}"
    if choose.chance(20):
        return start + "/>"
    content = "".join(_content(choose, depth) for _ in range(choose.count(0, 4)))
    return f"{start}>{content}</{name}{choose.one('', '', ' ')}>"


def _attribute(choose: Choices, key: str) -> str:
    quote = choose.one('"', "'")
    parts = [choose.one(*VALUES, *HOLES) for _ in range(choose.count(0, 3))]
    value = "".join(part if part in HOLES else part.replace(quote, quote * 2) for part in parts)
    return f"{choose.one(' ', '  ', chr(10))}{key}{choose.one('=', ' = ')}{quote}{value}{quote}"


def _content(choose: Choices, depth: int) -> str:
    kind = choose.count(0, 5)
    if kind == 0 and depth:
        return _element(choose, depth - 1)
    return choose.one(*HOLES) if kind < 3 else choose.one(*TEXTS)


@st.composite
def constructor_texts(draw: Any) -> str:
    """A constructor as the language has it."""
    return _element(Choices(draw), 2)


@st.composite
def constructing_queries(draw: Any) -> str:
    """A query by the grammar that outputs by a constructor."""
    tokens = draw(query_tokens().filter(lambda tokens: tokens[0].lower() != "select"))
    choose = Choices(draw)
    return (
        choose.one("SELECT ", "select", "Select(: c :)\n")
        + draw(constructor_texts())
        + " "
        + spaced(choose, [choose.one("from", "FROM"), " ", *tokens])
    )
