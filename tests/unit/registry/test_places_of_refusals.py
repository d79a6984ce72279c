"""Refusals at registration say where in the text, whatever they are of; one bad statement costs one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xscl.base.errors import CatalogError, QueryError
from xscl.registry.channels import add_channel
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home

REFUSED = [
    # a script with the place between two ¦, the condition, part of the hint; the queries "taken" and "there" exist
    ("CREATE QUERY ¦taken¦ AS S//b", "NAME_TAKEN", "xscl query drop taken"),
    ("CREATE QUERY ¦taken¦ AS S//known->of[./form->x] PUBLISH p", "NAME_TAKEN", "xscl query drop taken"),
    ("CREATE QUERY a AS S//a\n  PUBLISH ¦S¦", "CYCLIC_PUBLISH", "publish to a channel"),
    ("CREATE QUERY a AS out//a->x JOIN {1 h} S\n  PUBLISH ¦S¦", "CYCLIC_PUBLISH", "publish to a channel"),
    ("S//a PUBLISH ¦rows¦", "CHANNEL_KIND", "another name"),
    ("S//a PUBLISH ¦stream¦", "BAD_CHANNEL", "PUBLISH items"),
    ("DROP QUERY\n ¦takn¦", "QUERY_NOT_FOUND", "did you mean 'taken'?"),
    ("S//a JOIN {1 h}\n  ¦itmes¦//a", "UNKNOWN_CHANNEL", "did you mean 'items'?"),
    ("(S JOIN {1 h} T) JOIN {1 h} (S->x\n JOIN {1 h} ¦strem¦[./b])", "UNKNOWN_CHANNEL", "did you mean 'stream'?"),
    ("SELECT <a>{x}</a> FROM ¦otu¦->x", "UNKNOWN_CHANNEL", "did you mean 'out'?"),
    ("CREATE QUERY 'q' AS S".replace("'q'", "¦'q'¦"), "SYNTAX", ""),
    ("S//a[¦./p > 'abc'¦]", "NEVER_HOLDS", "'abc' is no number"),
    ("S//a JOIN {¦z¦ = 'x', 1 s} S//b", "UNBOUND_VARIABLE", ""),
    ("S//¦p:a¦", "UNDECLARED_PREFIX", "DECLARE"),
    ("S//a JOIN {1 h} ¦S//a JOIN {} T//b¦".replace("¦S//a JOIN {} T//b¦", "S//a JOIN {} ¦T//b¦"), "UNTIED_BLOCK", ""),
    ("S->x FOLLOWED BY {¦x - y IN [1 s, 2 s]¦} S->y", "UNSATISFIABLE_WINDOW", ""),
    ("S//a->x[./b->¦x¦]", "DUPLICATE_VARIABLE", ""),
]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = init_home(tmp_path / "home")
    for name in ("S", "T"):
        add_channel(opened.catalog, name)
    add_channel(opened.catalog, "rows", kind="rows", schema="a string")
    add_channel(opened.catalog, "stream", of="items")
    registry = Registry(opened.catalog)
    registry.register("S//known->of[./form->x]", name="taken")
    registry.register("S//a PUBLISH out", name="there")
    yield opened
    opened.catalog.close()


@pytest.mark.parametrize(("marked", "condition", "hint"), REFUSED)
def test_every_refusal_has_its_place_in_the_file(home: Home, marked: str, condition: str, hint: str) -> None:
    before, inside, behind = marked.split("¦")
    head = "DECLARE NAMESPACE q = 'u';\nCREATE QUERY first AS S//a;\n\n"
    script = f"{head}{before}{inside}{behind};\nCREATE QUERY last AS S//b;"
    outcomes = Registry(home.catalog).load(script, strict=True)
    assert [outcome.ok for outcome in outcomes] == [True, True, False, True]
    error = outcomes[2].error
    assert isinstance(error, (QueryError, CatalogError))
    assert error.condition == f"XSCL_{condition}"
    assert error.has_place and error.span is not None
    start = len(head) + len(before)
    assert script[error.span.start : error.span.end] == inside and error.span.start == start
    assert error.line == script.count("\n", 0, start) + 1
    assert error.column == start - script.rfind("\n", 0, start)
    shown = str(error).split("\n")
    assert shown[0].startswith(f"[XSCL_{condition}] line {error.line}, column {error.column}: ")
    assert shown[1] == "  " + script.split("\n")[error.line - 1]
    assert shown[2] == " " * (error.column + 1) + "^" * len(inside)
    assert hint in (error.hint or "")


@pytest.mark.parametrize("text", ["S//b", "S//b PUBLISH p"])
def test_a_name_that_is_not_in_the_text_has_no_place_in_it(home: Home, text: str) -> None:
    with pytest.raises(CatalogError) as caught:
        Registry(home.catalog).register(text, name="taken")
    assert not caught.value.has_place
    assert str(caught.value).startswith("[XSCL_NAME_TAKEN] there is a query 'taken' already")


def test_places_are_those_of_each_text_of_one_form(home: Home) -> None:
    registry = Registry(home.catalog)
    texts = ["DECLARE NAMESPACE p = 'u';\n\nS//a[./p > 'abc']", "S//a[ ./p > 'abc']", "  S//a[./p > 'abc']"]
    columns = []
    for outcome in registry.register_many([*texts, texts[1]]):
        assert isinstance(outcome.error, QueryError) and outcome.error.condition == "XSCL_NEVER_HOLDS"
        columns.append((outcome.error.line, outcome.error.column))
    assert columns == [(3, 6), (1, 7), (1, 8), (1, 7)]


def test_a_missing_semicolon_costs_one_query_of_a_known_form(home: Home) -> None:
    registry = Registry(home.catalog)
    script = "CREATE QUERY a AS S//a;\nCREATE QUERY b AS S//a\nCREATE QUERY c AS S//a;\nDROP QUERY a\nDROP QUERY c"
    assert [(outcome.name, outcome.line, outcome.ok) for outcome in registry.load(script)] == [
        ("a", 1, True),
        ("b", 2, False),
        ("c", 3, True),
        ("a", 4, False),
        ("c", 5, True),
    ]


def test_unknown_names_are_compared_with_others_a_few_times_only(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    import difflib

    asked: list[str] = []
    compare = difflib.get_close_matches

    def counted(word: str, *rest: object) -> list[str]:
        asked.append(word)
        return compare(word, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    script = "".join(f"DROP QUERY take{n};\nnowhere//b;\n" for n in range(100))
    outcomes = Registry(home.catalog).load(script, strict=True)
    assert not any(outcome.ok for outcome in outcomes)
    assert len(asked) == 21
