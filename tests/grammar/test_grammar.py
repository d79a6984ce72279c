"""The parser against the grammar of the language, in both directions, on texts by the rules and on damaged ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from budget import examples
from constructors import constructing_queries, constructor_texts
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lark import Lark
from lark.exceptions import LarkError
from strategies import Choices, query_texts, query_tokens, spaced

from xscl.base.errors import QueryError, QuerySyntaxError
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.statements import parse_script

GRAMMAR = Lark(
    Path(__file__).with_name("xscl.lark").read_text(encoding="utf-8"),
    start=["one_query", "script", "variable_path"],
    parser="earley",
)
CONSTRUCTOR = Lark(Path(__file__).with_name("constructor.lark").read_text(encoding="utf-8"), parser="earley")
NO_GRAMMAR = re.compile(
    r"division by zero|nest deeper than|ISO 8601 time|time zone|digits|cannot be called|does not match the start tag|"
    r"is given twice|is not declared|declares no namespaces|has no place in XML|no character of XML"
)
"""What the parser refuses although each part stands where it may."""
EXTRA = (
    *("[", "]", "(", ")", "{", "}", "/", "//", ".", "..", "@", "*", ":", "->", "-", "+", "=", "!=", "<", ",", ";"),
    *("and", "OR", "as", "join", "In", "not", "text", "select", "from", "unbounded", "once", "by", "count", "url"),
    *("x'", "S", "1", "'x'", "5 s", "|", "§"),
)
DEEP = "S" + "[a" * 101 + "]" * 101


def in_grammar(text: str, start: str = "one_query") -> bool:
    try:
        GRAMMAR.parse(text, start=start)
    except LarkError:
        return False
    return True


def verdict(text: str) -> bool | None:
    """Whether the parser takes a text; None where it understood the text and refuses what it asks for."""
    try:
        parse_query(text)
    except QuerySyntaxError as error:
        return None if NO_GRAMMAR.search(error.message) else False
    except QueryError:
        return None
    return True


@settings(max_examples=examples(120), deadline=None)
@given(query_texts())
def test_texts_by_the_grammar_are_taken_by_both(text: str) -> None:
    parse_query(text)
    assert in_grammar(text)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(query_texts(), max_size=3), st.sampled_from((";", " ; ", "\n;;\n")))
def test_scripts_are_taken_by_both(texts: list[str], separator: str) -> None:
    statements = ["DECLARE namespace n = 'urn:n'", "drop QUERY q"]
    statements += [f"Create standing QUERY q{n} as {text}\n" for n, text in enumerate(texts)]
    script = separator.join(statements)
    items = parse_script(script)
    assert [item.error for item in items] == [None] * len(statements)
    assert in_grammar(script, "script")


def damaged(choose: Choices, tokens: Sequence[str]) -> list[str]:
    """Tokens with one to three of them removed, repeated, exchanged or added."""
    found = list(tokens)
    for _ in range(choose.one(1, 1, 1, 2, 3)):
        place, other = choose.count(0, len(found) - 1), choose.count(0, len(found) - 1)
        kind = choose.count(0, 4)
        if kind == 0 and len(found) > 1:
            del found[place]
        elif kind == 1:
            found.insert(place, found[place])
        elif kind == 2:
            found[place], found[other] = found[other], found[place]
        elif kind == 3:
            found[place] = choose.one(*EXTRA)
        else:
            found.insert(place, choose.one(*EXTRA))
    return found


@settings(max_examples=examples(240), deadline=None)
@given(query_tokens(), st.data())
def test_damaged_texts_are_taken_by_both_or_by_none(tokens: list[str], data: st.DataObject) -> None:
    choose = Choices(data.draw)
    text = spaced(choose, damaged(choose, tokens))
    found, expected = verdict(text), in_grammar(text)
    if found is not None:
        assert found == expected


def constructor_in_grammar(text: str) -> bool:
    try:
        tree = CONSTRUCTOR.parse(text)
    except LarkError:
        return False
    holes = [str(hole) for hole in tree.scan_values(lambda token: getattr(token, "type", "") == "HOLE")]
    # Two hyphens right behind the brace begin no comment, as they would at the beginning of a text.
    return all(not hole.startswith("{--") and in_grammar(hole[1:-1], "variable_path") for hole in holes)


@settings(max_examples=examples(60), deadline=None)
@given(constructor_texts())
def test_constructors_are_taken_by_both(text: str) -> None:
    assert isinstance(parse_query(f"SELECT {text} FROM S").select, ast.Constructor)
    assert constructor_in_grammar(text)


@settings(max_examples=examples(60), deadline=None)
@given(constructing_queries())
def test_queries_with_constructors_are_taken(text: str) -> None:
    assert isinstance(parse_query(text).select, ast.Constructor)


@settings(max_examples=examples(240), deadline=None)
@given(constructor_texts(), st.data())
def test_damaged_constructors_are_taken_by_both_or_by_none(text: str, data: st.DataObject) -> None:
    choose = Choices(data.draw)
    for _ in range(choose.one(1, 1, 2, 3)):
        at = choose.count(1, len(text))  # it begins with "<"
        cut = choose.one(0, 0, 1, 2)
        text = text[:at] + choose.one("", *"<>/{}&;'\"= a!-x\n", "</a>", "<!--", "-->") + text[at + cut :]
    found = verdict(f"SELECT {text} FROM S")
    if found is not None:
        assert found == constructor_in_grammar(text.rstrip())


LETTERS = st.text(st.one_of(st.sampled_from("Sx'\"/[]{}()<>=!@*.:;,-+ \n019é|"), st.characters()), max_size=40)


@settings(max_examples=examples(160), deadline=None)
@example("\x00")
@example("S[.='\ud800']")
@example(DEEP)
@example("(" * 5000)
@example("S" + "[not(" * 5000)
@example("S JOIN {x = " + "lower(" * 5000)
@example("(: " * 5000)
@given(st.one_of(LETTERS, st.lists(st.sampled_from(EXTRA), max_size=15).map(" ".join)))
def test_any_text_gives_a_query_or_a_query_error(text: str) -> None:
    try:
        parse_query(text)
    except QueryError as error:
        assert error.line >= 1
        assert error.column >= 1
        assert str(error)
    for item in parse_script(text):
        assert (item.statement is None) != (item.error is None)


def test_as_names_an_item_of_select() -> None:
    select = parse_query("SELECT x4/title AS headline FROM S->x4").select
    assert isinstance(select, tuple)
    (item,) = select
    assert item.name == "headline"
    assert item.path.steps[0].binding is None


@pytest.mark.parametrize(
    "text",
    [
        "S//@*:k",
        "S//@n:*",
        "SELECT count() FROM S",
        "SELECT lower(x) FROM S",
        "S GROUP BY x",
        "S WINDOW LAST 0",
        "SELECT sum() FROM S WINDOW 1 h",
        "S WINDOW 1 h TOP 3",
        "S->x JOIN {x/a->z = y} S->y",
        "S JOIN {'P1DT'} T",
    ],
)
def test_texts_outside_the_grammar(text: str) -> None:
    assert not in_grammar(text)
    with pytest.raises(QuerySyntaxError):
        parse_query(text)


@pytest.mark.parametrize(
    "text",
    [
        "select",
        "select AS x",
        "select as from",
        "select as from[a]",
        "select as from JOIN {1 s} T",
        "select as from S",
        "Select JOIN {1 s} T",
        "S->x JOIN {x/(2) = y} S->y",
        "S->x JOIN {x/-2 = y} S->y",
        "SELECT count() FROM S->x WINDOW 5 EVERY 3",
        "SELECT lower(x) AS a FROM S->x WINDOW LAST 3 group by lower(x), y/b HAVING 2 * count(DISTINCT x) - 1 > 3",
        "SELECT COUNT(x) * 2 AS n FROM S window 1 h having lower(first(x)) = 'a' and sum(2*x) < 3 on crossing",
        "SELECT x FROM S WINDOW 1 h GROUP BY x ONCE PER 3 s TOP 3 BY -(count()) PUBLISH c",
        "SELECT * FROM S WINDOW 1 h",
        "S WINDOW 1 h",
        "(S WINDOW 1 h)",
        "(S WINDOW 1 h)->x[a]//b",
        "(S) WITHOUT {x = y, 1 h} (SELECT y FROM T->y)",
        "((S JOIN {1 s} T))[a]",
        "((SELECT count() AS n FROM S WINDOW 1 h) FOLLOWED BY {1 s} (T))/a->x PUBLISH c SPANNING AS ROWS",
        "SELECT x FROM (SELECT from FROM from)",
        "(select)->x",
        "(S) as x JOIN {1 s} (T JOIN {1 s} U) AS y",
    ],
)
def test_texts_of_the_grammar(text: str) -> None:
    assert in_grammar(text)
    parse_query(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("S JOIN {x = " + "- " * 2000 + "1} T", "nest deeper than 100"),
        ("S JOIN {x = " + "1" * 5000 + "} T", "more than 1000 digits"),
    ],
)
def test_extreme_texts(text: str, message: str) -> None:
    with pytest.raises(QuerySyntaxError, match=message):
        parse_query(text)


def test_the_tree_keeps_what_was_written() -> None:
    source = parse_query("S//book->x1[./author AS x2] FOLLOWED BY {x2 = x5, 7 days} T//blog[./author->x5]").source
    assert isinstance(source, ast.Join)
    assert [block.channel for block in ast.blocks(source)] == ["S", "T"]
    assert source.windows == (ast.Window("within", None, 7 * 86_400 * 1_000_000),)
