"""The queries of the language's definition and of the papers behind it: parsed, printed, parsed again."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_query, format_statement
from xscl.language.syntax.from_parser import MAX_BLOCKS
from xscl.language.syntax.parser import parse_query
from xscl.language.syntax.statements import ScriptItem, parse_script

TEXTS = {path.stem: path.read_text(encoding="utf-8") for path in Path(__file__).with_name("texts").glob("*.xscl")}
STATEMENTS = {"thesis": 6, "language": 23, "juggler": 23, "events": 16, "streams": 18}


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_texts_are_kept(name: str) -> None:
    items = parse_script(TEXTS[name])
    assert [str(item.error) for item in items if item.error] == []
    assert len(items) == STATEMENTS[name]
    printed = "\n".join(format_statement(item.statement) for item in items if item.statement is not None)
    again = parse_script(printed)
    assert [trees(item) for item in again] == [trees(item) for item in items]
    assert "\n".join(format_statement(item.statement) for item in again if item.statement is not None) == printed


def test_every_file_is_tested() -> None:
    assert set(TEXTS) == set(STATEMENTS)


def trees(item: ScriptItem) -> object:
    """What a statement says, without how it was written."""
    statement = item.statement
    return (statement.name, statement.query) if isinstance(statement, ast.CreateQuery) else statement


def query(name: str) -> ast.Query:
    for text in TEXTS.values():
        for item in parse_script(text):
            if isinstance(item.statement, ast.CreateQuery) and item.name == name:
                return item.statement.query
    raise LookupError(name)


def test_what_some_of_them_say() -> None:
    assert query("everything") == query("the_same") == parse_query("blog")
    assert query("left_deep") != query("right_deep")
    assert [block.channel for block in ast.blocks(query("running_1").source)] == ["B", "H", "K", "T"]
    double_top = query("double_top").source
    assert isinstance(double_top, ast.Join) and len(ast.blocks(double_top)) == 5 <= MAX_BLOCKS
    assert double_top.windows == (ast.RelativeWindow("e", "a", 1, 30 * 86_400 * 1_000_000),)
    assert [path.name for path in ast.selected(query("constructed").select)] == ["x2", "x1", "x4"]
    assert query("constructed").publish == "echoes"
    assert query("since").starting == "2026-06-01T00:00:00Z"


def test_a_query_as_it_is_printed() -> None:
    assert format_query(query("Q1")) == (
        "S//book->x1[./author->x2][./title->x3]\n"
        "  FOLLOWED BY {x2 = x5 AND x3 = x6, 1 w}\n"
        "S//blog->x4[./author->x5][./title->x6]"
    )
    assert format_query(query("running_2")) == (
        "SELECT b/alert FROM B->b[./temp->bt][./pressure->bp]\n"
        "  JOIN {tf < 0.5 * bp AND 2 * tf = 103, b - t IN [1 us, UNBOUNDED], MAXWINDOW 6 s}\n"
        "T->t[./fluct->tf]\n"
        "  JOIN {bt > hv, h - b IN [0 s, UNBOUNDED]}\n"
        "H->h[./vib->hv]"
    )


def test_the_page_on_the_language() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "language.md").read_text(encoding="utf-8")
    examples = re.findall(r"```xscl\n(.*?)```", page, re.DOTALL)
    assert len(examples) >= 6
    for example in examples:
        assert [str(item.error) for item in parse_script(example) if item.error] == []
    canonical = examples[-1].rstrip(";\n")
    assert format_query(parse_query(canonical)) == canonical
    assert dict(re.findall(r"\| `(\w+)` \| `([^`]+)` \|", page)) == DEFAULT_NAMESPACES
