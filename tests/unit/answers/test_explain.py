"""Explanations of queries, as records and as text."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from xscl.answers.explaining.explain import explain
from xscl.answers.explaining.facts import _number
from xscl.answers.explaining.text import explanation_text
from xscl.catalog.catalog import Catalog
from xscl.catalog.queries import read_query
from xscl.registry.canonical_text import canonical_text
from xscl.registry.channels import add_channel
from xscl.registry.registry import Registry
from xscl.store.home import init_home

EX = "DECLARE NAMESPACE ex = 'http://example.org/ns'; DECLARE NAMESPACE no = 'http://example.org/no';"
Q1 = (
    "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 7 days} "
    "S//blog->x4[./author->x5][./title->x6]"
)
CUBE = "A->x[./k->k] JOIN {k = l, 1 h} B->y[./l->l] FOLLOWED BY {z/m = y/l, 5 min} C->z"
TEXTS = [
    Q1,
    CUBE,
    f"{EX} S//ex:a->x FOLLOWED BY {{x = y, 1 d}} S//b->y",
    f"{EX} S//a->x[not(./b[./ex:c = 1])]",
    f"{EX} SELECT <ex:echo/> FROM S//a->x",
    f"{EX} SELECT <echo ex:by='{{x}}'/> FROM S//a->x",
    f"{EX} SELECT x/ex:b AS c FROM S//a->x PUBLISH out STARTING ALL",
    f"{EX} A->x JOIN {{x/ex:b = y, 1 h, ONCE}} A->y",
    "A->x JOIN {x <= 1.02 * z + 3, 1 h} (B->y FOLLOWED BY {lower(y) != z, 5 min} C->z)",
    "DECLARE NAMESPACE atom = 'urn:mine'; S//atom:a->x",
]


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return init_home(tmp_path / "home").catalog


@pytest.mark.parametrize("text", TEXTS)
def test_canonical_text_registers_the_same_query_elsewhere(text: str, catalog: Catalog, tmp_path: Path) -> None:
    Registry(catalog).register(text, name="Q")
    shown = canonical_text(catalog.ask(read_query, "Q"))
    other = init_home(tmp_path / "other").catalog
    assert all(outcome.ok for outcome in Registry(other).load(shown))
    mine, theirs = explain(catalog, "Q"), explain(other, "Q")
    assert mine == replace(theirs, text=mine.text)
    assert {*mine.summary()} - {*mine.record()} == {"read", "windows"}
    assert canonical_text(other.ask(read_query, "Q")) == shown


@pytest.mark.parametrize("text", [text for text in TEXTS if text.startswith(EX)])
def test_only_the_prefixes_that_are_used_are_declared(text: str, catalog: Catalog) -> None:
    Registry(catalog).register(text, name="Q")
    shown = canonical_text(catalog.ask(read_query, "Q"))
    assert "NAMESPACE ex" in shown and "NAMESPACE no" not in shown


def test_an_explanation_of_two_blocks(catalog: Catalog) -> None:
    registry = Registry(catalog)
    registry.register(Q1.replace("[./title->x3]", "[./title->x3][./publisher != '']"), name="Q1")
    registry.register(Q1, name="Q2")
    for number in range(12):
        registry.register(Q1.replace("x5", "a").replace("7 days", "1 w"), name=f"copy{number:02}")
    found = explain(catalog, "Q2")
    assert [(n.step, n.variable, n.role) for n in found.blocks[0].nodes] == [
        ("//book", "x1", "result"),
        ("/author", "x2", "joined"),
        ("/title", "x3", "joined"),
    ]
    assert [(v.place, v.name, v.definition) for v in found.variables][:2] == [
        ("var1", "x1", "S//book"),
        ("var2", "x2", "S//book/author"),
    ]
    assert [case.windows for case in found.cases] == [("x4 - x1 IN [1 us, 1 w]",)]
    assert found.links == ()
    assert (found.queries_in_template, found.groups_in_template, found.queries_in_group) == (14, 2, 13)
    assert found.names_in_group == ("Q2", *(f"copy{number:02}" for number in range(9)))
    text = explanation_text(found)
    assert "copy08 and 3 more" in text and "e1  EQ  x2 = x5" in text and "SELECT DISTINCT" in text
    condition = explain(catalog, "Q1").blocks[0].nodes[-1]
    assert (condition.step, condition.role) == ("/publisher[. != '']", "condition")


def test_an_explanation_of_a_composite(catalog: Catalog) -> None:
    Registry(catalog).register(CUBE, name="Q")
    found = explain(catalog, "Q")
    assert [(case.orders, case.windows) for case in found.cases] == [
        (("y before x",), ("y - x IN [-1 h, -1 us]", "z - x IN [1 us, 5 min]", "z - y IN [2 us, 65 min]")),
        (("x not after y",), ("y - x IN [0 s, 1 h]", "z - x IN [1 us, 65 min]", "z - y IN [1 us, 5 min]")),
    ]
    assert [(link.blocks, link.by, link.asks) for link in found.links] == [
        (("x", "y"), "value", ("e1 k = l",)),
        (("y", "z"), "value", ("e2 y/l = z/m",)),
    ]
    assert {v.name for v in found.variables if v.place == "output"} == {"x", "z"}
    assert "Time, case 2 of 2: x not after y" in explanation_text(found)


def test_an_explanation_of_linear_joins_and_links_by_time(catalog: Catalog) -> None:
    registry = Registry(catalog)
    registry.register("A->x JOIN {x <= 1.02 * z + 3, 1 h} (B->y FOLLOWED BY {lower(y) != z, 5 min} C->z)", name="Q")
    found = explain(catalog, "Q")
    assert {(join.kind, join.text, join.compares) for join in found.joins} == {
        ("BAND", "x <= 1.02 * z + 3", "numbers"),
        ("NE", "lower(y) != z", "strings"),
    }
    assert [(link.blocks, link.by) for link in found.links] == [(("x", "z"), "time"), (("y", "z"), "time")]
    assert found.links[0].asks[0] == "z - x IN [-1 h, 1 h]"


def test_an_explanation_of_columns_of_several_types(catalog: Catalog) -> None:
    add_channel(catalog, "R", kind="rows", schema="n double, s string")
    Registry(catalog).register("R/R/*->x JOIN {lower(y) = x AND x != z, 1 h} S//a[./b->y]//c->z", name="Q")
    found = [(join.kind, join.text, join.compares) for join in explain(catalog, "Q").joins]
    assert found[0] == ("BAND", "x >= lower(y)", "strings where both sides are")
    assert ("EQ", "x = lower(y)", "numbers, or strings where no side is a number") in found
    assert ("NE", "x != z", "numbers where the left side is one") in found
    assert len(found) == 6


def test_an_explanation_of_one_block_has_a_record(catalog: Catalog) -> None:
    Registry(catalog).register("S//a//b[. > 5]", name="Q")
    record = explain(catalog, "Q").record()
    assert record["cases"] == record["links"] == record["joins"] == ()
    assert "Time" not in explanation_text(explain(catalog, "Q"))


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (Fraction(51, 50), "1.02"),
        (Fraction(-1, 8), "-0.125"),
        (Fraction(50, 51), "50/51"),
        (Fraction(3), "3"),
        (Fraction(-1200), "-1200"),
        (Fraction(1, 10**20), f"1/{10**20}"),
    ],
)
def test_numbers_have_decimals_if_few_suffice(number: Fraction, text: str) -> None:
    assert _number(number) == text


def test_steps_tell_their_sides_and_the_parts_that_they_share(tmp_path: Path) -> None:
    text = "S[./k->a] FOLLOWED BY {a = b, 1 h} T[./k->b] FOLD {b = c, LONGEST} T[./k->c] FILTER {DUR > 1 min}"
    home = init_home(tmp_path / "home")
    add_channel(home.catalog, "T", lateness="1 h")
    registry = Registry(home.catalog)
    registry.register(text, name="one")
    registry.register("T[./k->c] NEXT {c = d} T[./k->d]", name="other")
    found = explain(home.catalog, "one")
    assert [(step.left, step.text, step.right) for step in found.steps] == [
        ("blocks 1 to 2", "FOLD {b = c, LONGEST}", "block 3"),
        ("blocks 1 to 3", "FILTER {DUR > 1 min}", ""),
    ]
    assert [(part.blocks, part.users) for part in found.parts] == [("blocks 1 to 2", 1), ("block 3", 2)]
    assert {each.channel: each.settled for each in found.ends}["T"] == "not settled by any event yet"
    assert (found.cases, found.links) == ((), ()) and found.sql.count("SELECT DISTINCT") == 2
    shown = explanation_text(found)
    # Nothing settles the times of S.
    assert "Steps; answered by the channel's clock" in shown and "Conjunctive queries of the parts" in shown


def test_steps_tell_which_limits_differ(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    registry = Registry(home.catalog)
    for number in (1, 2):
        limits = f"{number} h, MAXWINDOW {number + 2} h WHILE w > v, AT MOST {number + 4}"
        registry.register(f"T[./v->v] FOLD {{{limits}}} T[./v->w]", name=f"q{number}")
    found = explain(home.catalog, "q2").shared
    assert found is not None and found.groups == 2
    told = [(each.condition, each.numbers, each.way) for each in found.numbers]
    assert told == [("a window of 2 h", 2, "range"), ("MAXWINDOW 4 h", 2, "range"), ("AT MOST 6", 2, "range")]


def test_steps_tell_how_their_windows_are_looked_at(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    registry = Registry(home.catalog)
    for number in (1, 2):
        steps = f"NEXT {{{number} s..1 h}} T[./v->w] FOLD {{{number} min, {number + 1} * u AS n, LONGEST}} T[./v->u]"
        registry.register(f"T[./v->v] {steps} WITHOUT {{{number} d}} T", name=f"long{number}")
        steps = f"NEXT {{{number} s..1 h, MAXWINDOW 2 h}} T[./v->w] NEXT {{{number} s..1 h}} (T NEXT {{{number} h}} T)"
        registry.register(f"T[./v->v] {steps} NOT FOLLOWED BY {{{number} d}} T", name=f"next{number}")
    told = {}
    for name in ("long2", "next2"):
        found = explain(home.catalog, name).shared
        assert found is not None and found.groups == 2
        told[name] = [(each.condition, each.way, each.requests) for each in found.numbers]
    assert told["long2"] == [
        ("a window of 2 d", "range", 1),
        ("what FOLD keeps as n", "request", 2),
        ("a window of 2 min", "request", 2),
        ("a least time of 2 s", "request", 2),
    ]
    assert told["next2"] == [
        ("a window of 2 d", "range", 1),
        ("a least time of 2 s", "walk", 1),
        ("a least time of 2 s", "walk", 1),
        ("a window of 2 h", "request", 2),
    ]


def test_steps_tell_with_whom_they_are_shared_and_what_is_asked_for_each_number(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    registry = Registry(home.catalog)
    for number in (1, 2, 3):
        said = f"T[./v->v] NEXT {{w > {number} * v AND w != {number}, 1 h}} T[./v->w] FILTER {{w < {10 * number}}}"
        registry.register(f"{said} WITHOUT {{u > {number} * v, 1 h}} T[./v->u]", name=f"q{number}")
    registry.register("T[./v->v] NEXT {w > v} T[./v->w]", name="other")
    found = explain(home.catalog, "q2").shared
    assert found is not None and found.step.startswith("s3_")
    assert (found.queries, found.groups, found.names) == (3, 3, ("q1", "q2", "q3"))
    told = {each.condition: (each.numbers, each.way, each.requests) for each in found.numbers}
    assert told.pop("w != 2") == (3, "value", 1)
    assert told == {"u > 2 * v": (3, "request", 3), "w < 20": (3, "range", 1), "w > 2 * v": (3, "walk", 1)}
    shown = explanation_text(explain(home.catalog, "q2"))
    assert f"Step {found.step}, whose rows are moved once for 3 queries in 3 groups: q1, q2, q3" in shown
    assert "3 requests of a row" in shown and "one walk serves all numbers" in shown
    alone = explain(home.catalog, "other").shared
    assert alone is not None and (alone.queries, alone.numbers) == (1, ())
