"""No text gives anything but statements and query errors; what the fuzzer found stays here."""

from __future__ import annotations

from pathlib import Path

import pytest
from budget import examples
from constructors import constructing_queries
from hypothesis import example, given, settings
from hypothesis import strategies as st
from strategies import Choices, query_texts

from xscl.base.errors import QueryError
from xscl.language.syntax.format import format_statement
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.statements import iter_script, parse_script

GOLDEN = sorted(Path(__file__).parents[2].joinpath("golden", "texts").glob("*.xscl"))
PIECES = (*" \n\t;'\"/[](){}<>=!@*.:,-+&#|", "->", "//", "..", "(:", ":)", "--", "</", "/>", "{{", "}}", "<a>", "</a>")
PIECES += ("SELECT <a", "SELECT", "AS", "FROM", "JOIN", "IN", "not(", "1", "é", "²", "\ud800", "\x00", "x'", "&#1;")


def check(text: str) -> None:
    """Errors are query errors with a place; good statements are printed, and parsed again to the same text."""
    for item in parse_script(text):
        assert (item.statement is None) != (item.error is None)
        if item.error is not None:
            assert item.error.line >= item.line
            assert item.error.column >= 1
            assert str(item.error)
            continue
        assert item.statement is not None
        printed = format_statement(item.statement)
        (again,) = parse_script(printed)
        assert again.statement is not None
        assert format_statement(again.statement) == printed


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A script of one to three good statements with some characters cut, repeated, put elsewhere or added."""
    choose = Choices(draw)
    texts = draw(st.lists(st.one_of(query_texts(), constructing_queries()), min_size=1, max_size=3))
    text = ";\n".join(texts)
    for _ in range(choose.count(1, 6)):
        at = choose.count(0, len(text))
        end = min(len(text), at + choose.one(0, 0, 1, 2, 10))
        inserted = choose.one("", *PIECES, text[choose.count(0, len(text)) :][:10])
        text = text[:at] + inserted + text[end:]
    return text


@settings(max_examples=examples(60), deadline=None)
@given(mutated())
def test_mutated_queries(text: str) -> None:
    check(text)


@settings(max_examples=examples(120), deadline=None)
@given(st.one_of(st.text(), st.lists(st.sampled_from(PIECES), max_size=30).map("".join)))
@example("SELECT <a k='{\ud800}'>\ud800</a> FROM S")
@example("SELECT <a>{x/b[. = '\ud800']}</a> FROM S['\ud800']")
def test_any_text(text: str) -> None:
    check(text)


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_scripts_cut_anywhere(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    for at in range(0, len(text), 7):
        for item in parse_script(text[at : at + 300]):
            assert item.error is None or isinstance(item.error, QueryError)


LONG = [
    "S JOIN {1 s} " * 3000 + "S",
    "S JOIN {1 s} (" * 3000 + "S" + ")" * 3000,
    "(" * 3000 + "S",
    "S JOIN {" + " AND ".join(["x = y"] * 3000) + "} T",
    "S JOIN {" + ", ".join(["1 s"] * 3000) + "} T",
    "S JOIN {x = " + "1.1 * " * 3000 + "y} T",
    "S JOIN {x = " + "1 / 3 + " * 3000 + "y} T",
    "S JOIN {x = " + "- " * 3000 + "y} T",
    "S JOIN {x = " + "9" * 900 + " * 9" * 300 + "} T",
    "S JOIN {x = " + "(" * 3000 + "y} T",
    "S" + "/a" * 3000,
    "S" + "[a]" * 3000,
    "S[" + "a and " * 3000 + "a]",
    "S[" + "(a or " * 3000 + "a]",
    "S[" + "not(" * 3000 + "a]",
    "S[" + "lower(" * 3000 + "a]",
    "S" + "[a" * 3000,
    "S" + "(:" * 3000,
    "SELECT " + "x, " * 3000 + "x FROM S",
    "SELECT " + "<a>" * 3000 + "x",
    "SELECT <a>" + "<b/>" * 3000 + "</a> FROM S",
    "SELECT <a" + "".join(f" k{n}='{{x}}'" for n in range(300)) + "/> FROM S",
    "SELECT <a>{x" + "/a[b" * 3000 + "}</a> FROM S",
    ";" * 3000,
    "S;" * 3000,
    "SELECT <a>;\n" * 300,
    "'" * 3001,
    '"\n' * 3001,
]  # fmt: skip


@pytest.mark.parametrize("text", LONG, ids=lambda text: text[:20])
def test_long_texts(text: str) -> None:
    check(text)


def test_a_script_is_read_as_it_is_asked_for() -> None:
    items = iter_script("S//a;\nT;" + "\n(: not closed" * 100_000)
    assert [next(items).line, next(items).line] == [1, 2]
    assert next(items).error is not None
    assert list(items) == []


def test_one_query_is_not_a_script() -> None:
    with pytest.raises(QueryError, match="after the end of the query"):
        parse_query("S; SELECT <a>")
