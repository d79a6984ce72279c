"""Value-join normal form, and every refusal with its place."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import xscl.language.conditions
import xscl.language.normalize
import xscl.language.windows
from xscl.base.errors import QueryError, UnboundVariableError, UnsatisfiableWindowError, UnsupportedFeatureError
from xscl.base.namespaces import DEFAULT_NAMESPACES
from xscl.language.compile import compile_query
from xscl.language.normalize import NormalJoin, NormalQuery, normalize
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.templates.bounds import UNBOUNDED, Bounds
from xscl.templates.statements.relations import rt_rows
from xscl.xpath.pattern import Constant

S = 1_000_000


def normal(text: str, **namespaces: str) -> NormalQuery:
    return normalize(parse_query(text), text, namespaces)


def tree(query: NormalQuery, block: int = 0) -> list[str]:
    """Every node of a block's tree: its parent's place, its step, its variable and conditions."""
    return [
        f"{node.parent}{node.step}"
        + (f" {node.variable}" if node.variable else "")
        + "".join(f" [{part}]" for part in node.conditions)
        for node in query.blocks[block].nodes[1:]
    ]


# -- the form --------------------------------------------------------------------------------------------------


def test_brackets_with_paths_become_branches() -> None:
    found = normal("S//book->x1[./author->x2][./title]/year")
    assert tree(found) == ["0//book x1", "1/author x2", "1/title", "1/year"]
    assert found.blocks[0].result == 4
    assert found.variables == {"x1": (0, 1), "x2": (0, 2)}


def test_and_is_two_brackets() -> None:
    assert (
        tree(normal("S//a[./b and ./c > 5]"))
        == tree(normal("S//a[./b][./c > 5]"))
        == [
            "0//a",
            "1/b",
            "1/c [. > 5]",
        ]
    )


def test_other_brackets_become_conditions() -> None:
    found = normal("S//a[not(./b)][./c or ./d][. = 'x'][contains(./e, '1')][count(./f) > 1]")
    assert tree(found) == [
        "0//a [not(./b)] [(./c or ./d)] [. = 'x'] [contains(./e, '1')] [count(./f) > 1]",
    ]


def test_a_bare_channel_is_its_root_element() -> None:
    assert tree(normal("blog")) == ["0/*"]
    assert tree(normal("S->r[./a->x]/b/c")) == ["0/* r", "1/a x", "0/b", "3/c"]
    assert normal("S->r").blocks[0].result == 1


def test_names_by_uri() -> None:
    found = normal("S//atom:entry[./p:a]/*:b/@p:k", p="urn:p")
    assert tree(found) == [f"0//{{{DEFAULT_NAMESPACES['atom']}}}entry", "1/{urn:p}a", "1/*:b", "3/@{urn:p}k"]
    assert tree(normal("S//atom:x", atom="urn:mine")) == ["0//{urn:mine}x"]


def test_paths_after_variables_become_variables() -> None:
    found = normal("S//a->x FOLLOWED BY {y/author = x//b/@k, 1 s} S//c->y")
    assert tree(found, 0) == ["0//a x", "1//b", "2/@k x//b/@k"]
    assert tree(found, 1) == ["0//c y", "1/author y/author"]
    assert found.joins == (NormalJoin("x//b/@k", "y/author", "=", "", ""),)


def test_every_path_is_a_variable_of_its_own() -> None:
    found = normal("S//a->x JOIN {x/b = y AND x/b = z, 1 s} S//c->y[./d->z]")
    assert tree(found) == ["0//a x", "1/b x/b", "1/b x/b'"]


def test_one_variable_atoms_become_conditions() -> None:
    found = normal("S//a->x JOIN {x = y AND x > 2 AND 'q' != y AND 3 < x/b AND lower(x) = 'z'} S//c->y")
    assert tree(found, 0) == ["0//a x [number . >: 2] [lower(.) =: 'z']", "1/b x/b [number . >: 3]"]
    assert tree(found, 1) == ["0//c y [. !=: 'q']"]
    assert len(found.joins) == 1


def test_atoms_and_brackets_compare_in_their_own_ways() -> None:
    assert tree(normal("S//a->x JOIN {x != 5, 1 s} S//b")) == ["0//a x [number . !=: 5]"]
    assert tree(normal("S//a->x[. != 5] JOIN {1 s} S//b")) == ["0//a x [. != 5]"]


@pytest.mark.parametrize(
    ("written", "kept"), [("0.5", "1/2"), ("1.50", "3/2"), ("-2", "-2"), ("1/4", "1/4"), ("0.00001", "1/100000")]
)
def test_numbers_of_one_variable_atoms(written: str, kept: str) -> None:
    assert tree(normal(f"S//a->x JOIN {{x > {written}, 1 s}} S//b")) == [f"0//a x [number . >: {kept}]"]


def test_joins_are_written_from_the_earlier_block() -> None:
    found = normal("S//a->x[./b->z] JOIN {y = x AND x = y AND lower(y) != url(host(z)), 1 s} S//c->y")
    assert found.joins == (NormalJoin("x", "y", "=", "", ""), NormalJoin("z", "y", "!=", "url host", "lower"))


@pytest.mark.parametrize(
    ("operator", "bounds"),
    [
        ("FOLLOWED BY {x=y, 2 s}", Bounds(1, 2 * S)),
        ("FOLLOWED BY {x=y}", Bounds(1)),
        ("FOLLOWED BY {x=y, UNBOUNDED}", Bounds(1)),
        ("FOLLOWED BY {x=y, 0 s..2 s}", Bounds(0, 2 * S)),
        ("FOLLOWED BY {x=y, 1 s..UNBOUNDED}", Bounds(S)),
        ("FOLLOWED BY {x=y, 0 s..2 s, MAXWINDOW 1 s}", Bounds(0, S)),
        ("FOLLOWED BY {x=y, y - x IN [0 s, 2 s]}", Bounds(1, 2 * S)),
        ("JOIN {x=y}", Bounds()),
        ("JOIN {x=y, 2 s}", Bounds(-2 * S, 2 * S)),
        ("JOIN {x=y, 2 s, 1 s}", Bounds(-S, S)),
        ("JOIN {x=y, MAXWINDOW 3 s}", Bounds(-3 * S, 3 * S)),
        ("JOIN {x=y, y - x IN (0 s, 4 s]}", Bounds(1, 4 * S)),
        ("JOIN {x=y, x - y IN (0 s, 4 s]}", Bounds(-4 * S, -1)),
        ("JOIN {x=y, x - y IN [-UNBOUNDED, 4 s)}", Bounds(1 - 4 * S, UNBOUNDED)),
        ("JOIN {x=y, 0 s}", Bounds(0, 0)),
    ],
)
def test_windows(operator: str, bounds: Bounds) -> None:
    found = normal(f"S//a->x {operator} S//b->y")
    assert found.cases == ((bounds,),)


def test_once() -> None:
    assert normal("S//a->x JOIN {x=y, 2 s, ONCE} S//b->y").cases == ((Bounds(-2 * S, 2 * S, exchange=True),),)


@pytest.mark.parametrize(
    ("text", "joins", "bounds"),
    [
        ("S//a JOIN {1 h} S//b", 0, Bounds(-3600 * S, 3600 * S)),
        ("S//a->x JOIN {x != y} S//b->y", 1, Bounds()),
        ("S//a FOLLOWED BY {1 s} T", 0, Bounds(1, S)),
    ],
)
def test_what_ties_blocks(text: str, joins: int, bounds: Bounds) -> None:
    found = normal(text)
    assert (len(found.joins), found.cases) == (joins, ((bounds,),))


def test_constants_have_one_text() -> None:
    assert tree(normal("S//a[. = 5.0]")) == tree(normal("S//a[. = 005]"))
    assert tree(normal("S//a[. = 'it''s']")) == ["0//a [. = 'it''s']"]
    assert str(Constant("5", is_number=False)) != str(Constant("5", is_number=True))


def test_words_have_one_text() -> None:
    asked = [f"S//a[contains-word(./b, {words})]" for words in ("'zika', 'Ebola'", "'EBOLA', \"Zika\", 'ebola'")]
    assert tree(normal(asked[0])) == tree(normal(asked[1]))
    assert tree(normal(asked[0])) == ["0//a [contains-word(./b, 'ebola', 'zika')]"]


# -- refusals --------------------------------------------------------------------------------------------------

JOIN = "S//a->x JOIN {%s} S//b->y"
FOLLOWED = "S//a->x FOLLOWED BY {%s} S//b->y"

REFUSALS = [
    ("XSCL_UNBOUND_VARIABLE", "SELECT ¦z FROM S//a->x", "bound here: x"),
    ("XSCL_UNBOUND_VARIABLE", "S//a->x JOIN {x = ¦z, 1 s} S//b->y JOIN {1 s} S//c->z", "joins z's block"),
    ("XSCL_UNBOUND_VARIABLE", "S//a->x JOIN {1 s, ¦z - x IN [0 s, 1 s]} S JOIN {1 s} S//c->z", "joined so far"),
    ("XSCL_DUPLICATE_VARIABLE", "S//a->x[./b->¦x]", "bound twice"),
    ("XSCL_DUPLICATE_VARIABLE", "S//a->x JOIN {1 s}\n  S//b->¦x", "primes"),
    ("XSCL_UNDECLARED_PREFIX", "S//¦zz:a", "DECLARE NAMESPACE zz"),
    ("XSCL_UNDECLARED_PREFIX", "S//a[not(./¦@zz:a)]", "zz is not declared"),
    ("XSCL_BINDING_IN_DISJUNCTION", "S//a[./b or ./c->¦x]", "'or', 'not'"),
    ("XSCL_BINDING_IN_DISJUNCTION", "S//a[not(./c->¦x)]", "'or', 'not'"),
    ("XSCL_BINDING_IN_DISJUNCTION", "S//a[count(./c->¦x) > 1]", "function"),
    ("XSCL_BINDING_IN_DISJUNCTION", "S//a[not(./c[./d->¦x])]", "'or', 'not'"),
    ("XSCL_SYNTAX", "S//a[¦.]", "always true"),
    ("XSCL_SYNTAX", "S//a[¦count(./b)]", "position"),
    ("XSCL_SYNTAX", "S//a[¦string-length()]", "position"),
    ("XSCL_SYNTAX", "S//a[¦contains(., 'x') = 1]", "not compared"),
    ("XSCL_SYNTAX", "S//a[¦contains-word(., 'x') = 1]", "not compared"),
    ("XSCL_NOT_A_WORD", "S//a[contains-word(./b, 'x', ¦'climate change')]", "contains-word(./b, 'change')"),
    ("XSCL_NOT_A_WORD", "S//a[contains-word(./b, ¦' ebola ')]", "write 'ebola'"),
    ("XSCL_NOT_A_WORD", "S//a[not(contains-word(./b, ¦'...'))]", "a letter or a digit"),
    ("XSCL_NOT_A_WORD", "S//a[contains-word(./b, ¦'')]", "no word"),
    ("XSCL_SYNTAX", JOIN % "x = y AND ¦1 = 2", "two constants"),
    ("XSCL_SYNTAX", JOIN % "lower(¦1) = y", "applied to a number"),
    ("XSCL_SYNTAX", JOIN % "host(¦'A') = y", "no value"),
    ("XSCL_SYNTAX", JOIN % "lower(¦2 * x) = y", "not arithmetic"),
    ("XSCL_SYNTAX", JOIN % "x = ¦0 * y", "multiplied by 0"),
    ("XSCL_SYNTAX", JOIN % "2 * ¦x = 'b'", "no number"),
    ("XSCL_SYNTAX", FOLLOWED % "x = y, ¦ONCE", "belongs to JOIN"),
    ("XSCL_SYNTAX", JOIN % "x = y, ¦1 s..2 s", "FOLLOWED BY"),
    ("XSCL_SYNTAX", JOIN % f"x = y AND ¦x > {'9' * 400} * y", "a factor that is too large a number for arithmetic"),
    ("XSCL_SYNTAX", JOIN % f"¦{'9' * 400} * x > y", "a factor that is too small a number for arithmetic"),
    ("XSCL_SYNTAX", JOIN % f"¦x > y / {'9' * 400}", "a factor that is too small a number for arithmetic"),
    ("XSCL_SYNTAX", JOIN % f"¦x > y - {'9' * 400}", "an addend that is too large a number for arithmetic"),
    ("XSCL_SYNTAX", JOIN % f"¦x > y / 1{'0' * 200} + 1{'0' * 101}", "an addend that is too large"),
    ("XSCL_TOO_MANY_ATOMS", JOIN % ("".join(f"x = y/c{i} AND " for i in range(100)) + "¦x = y/c100"), "at most 100"),
    ("XSCL_ATOM_INSIDE_BLOCK", "S//a->x[./c->z] JOIN {¦x = z} S//b->y", "variables of one block"),
    ("XSCL_ATOM_INSIDE_BLOCK", "S//a->x[./c->z] JOIN {x = y, ¦x - z IN [0 s, 1 s]} S//b->y", "difference in time"),
    ("XSCL_UNBOUND_VARIABLE", JOIN % "x = ¦z", "bound here: x, y"),
    ("XSCL_UNBOUND_VARIABLE", JOIN % "x = y,\n ¦z - x IN [0 s, 1 s]", "z is not bound"),
    ("XSCL_UNSATISFIABLE_WINDOW", FOLLOWED % "x = y, ¦0 s", "no event times"),
    (
        "XSCL_UNSATISFIABLE_WINDOW",
        FOLLOWED % "x = y, ¦2 s..1 s",
        "x → y → x: y at least 2 s after x, x at most 1 s before y",
    ),
    ("XSCL_UNSATISFIABLE_WINDOW", FOLLOWED % "x = y, ¦x - y IN [0 s, 1 s]", "no event times"),
    (
        "XSCL_UNSATISFIABLE_WINDOW",
        "S->a JOIN {¦b - a IN [1 s, 5 s]} S->b JOIN {c - b IN [1 s, 5 s], a - c IN [1 s, 5 s]} S->c",
        "a → b → c → a",
    ),
    ("XSCL_UNTIED_BLOCK", "S//a->x JOIN {} ¦S//b->y", "for ever"),
    ("XSCL_UNTIED_BLOCK", "S//a->x JOIN {x = y} S//b->y FOLLOWED BY {} ¦S//c", "for ever"),
    ("XSCL_UNTIED_BLOCK", "S->a JOIN {1 s} S FOLLOWED BY {a = 'x'} ¦S//c", "for ever"),
    ("XSCL_UNTIED_BLOCK", FOLLOWED.replace("S//b", "¦S//b") % "x = 'a'", "add a predicate"),
]


@pytest.mark.parametrize(("condition", "marked", "message"), REFUSALS)
def test_refusals(condition: str, marked: str, message: str) -> None:
    before, _, after = marked.partition("¦")
    text = before + after
    with pytest.raises(QueryError) as caught:
        normal(text)
    error = caught.value
    assert error.condition == condition
    place = before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1
    assert (error.line, error.column) == place
    assert message in str(error)
    assert error.source_line == text.splitlines()[place[0] - 1]


def test_every_condition_is_raised_by_some_text() -> None:
    sources = [
        Path(str(module.__file__)).read_text(encoding="utf-8")
        for module in (xscl.language.conditions, xscl.language.normalize, xscl.language.windows)
    ]
    found = set(re.findall(r'"(XSCL_\w+)"', "".join(sources)))
    assert found == {"XSCL_TOO_MANY_CASES", *(condition for condition, _, _ in REFUSALS)}


def test_too_many_cases() -> None:
    blocks = " JOIN {1 h} ".join(["S"] * 10)
    with pytest.raises(UnsupportedFeatureError, match="more than 256 cases"):
        normal(f"({blocks}) FOLLOWED BY {{1 h}} S")


def test_a_hundred_value_joins() -> None:
    atoms = " AND ".join(f"x = y/c{i}" for i in range(100))
    assert len(normal(JOIN % f"{atoms} AND x > 5").joins) == 100
    assert len(normal(JOIN % " AND ".join(["x = y"] * 200)).joins) == 1


@pytest.mark.parametrize(
    "atom",
    ["x > 1{0} * y", "1{0} * x > y", "x > y / 1{0}", "x > y - 1{0}", "x < 1{1} * y + 1{1}", "x = y / 1{1} - 1{1}"],
)
def test_the_largest_numbers_of_arithmetic_fit_doubles(atom: str) -> None:
    text = JOIN % atom.format("0" * 300, "0" * 150)
    compiled = compile_query(parse_query(text), text)
    (row,) = rt_rows(compiled.template, compiled.group)
    assert row["f_1"] and math.isfinite(float(str(row["f_1"]))) and math.isfinite(float(str(row["add_1"])))


def test_linear_forms_are_solved_for_the_left_variable() -> None:
    found = normal("S//a->x JOIN {2 * y - 1 >= x / 3 + 4 AND 3 - x < y} S//b->y").joins
    assert found == (
        NormalJoin("x", "y", "<=", "", "", True, Fraction(6), Fraction(-15)),
        NormalJoin("x", "y", ">", "", "", True, Fraction(-1), Fraction(3)),
    )


def test_linear_conditions_of_one_variable() -> None:
    assert tree(normal("S//a->x JOIN {2 * x + 1 > 7, 1 s} S//b")) == ["0//a x [number . >: 3]"]
    assert tree(normal("S//a->x JOIN {7 > 1 - 2 * x, 1 s} S//b")) == ["0//a x [number . >: -3]"]
    assert tree(normal("S//a->x JOIN {x = lower('ABC'), 1 s} S//b")) == ["0//a x [. =: 'abc']"]


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        (UnboundVariableError, JOIN % "x = z"),
        (UnsatisfiableWindowError, FOLLOWED % "x = y, 0 s"),
    ],
)
def test_classes_of_errors(kind: type[QueryError], text: str) -> None:
    with pytest.raises(kind):
        normal(text)


def test_arithmetic_of_constants_is_done_by_the_parser() -> None:
    query = parse_query(JOIN % "x > 1 + 1/4")
    assert isinstance(query.source, ast.Join)
    (atom,) = query.source.atoms
    assert isinstance(atom.right, ast.Linear)
    assert atom.right.constant == Fraction(5, 4)
