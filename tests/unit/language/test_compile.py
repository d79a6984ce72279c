"""What registration makes of a query: definitions, templates, instances, groups and what stage 1 has to find."""

from __future__ import annotations

from pathlib import Path

import pytest
from budget import examples
from hypothesis import given, settings
from local_engine import UnitsEngine, compiled
from oracle.evaluate import Doc, answers
from strategies import two_block_queries

from xscl.base.errors import UnsupportedFeatureError
from xscl.language.compile import compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.facts import ChannelFacts
from xscl.language.syntax.parser import parse_query

NUMBERS = {"T": ChannelFacts("rows", frozenset({"p"}))}
XML = {"S": ChannelFacts("xml"), "T": ChannelFacts("xml")}


def keys(query: CompiledQuery) -> tuple[str, str, str]:
    return query.template.id, query.group.instance.key, query.group.key


def definitions(text: str) -> dict[str, str]:
    return {name: str(definition) for name, definition in compiled(text).definitions.items()}


def definition(block: str) -> str:
    """Of the result node of a query of one block."""
    return str(compiled(block).specs[0].definition)


def functions(query: CompiledQuery) -> dict[str, tuple[str | None, ...]]:
    """By variable."""
    names = {d.key: name for name, d in query.definitions.items()}
    return {names[spec.definition.key]: spec.functions for spec in query.specs}


# -- definitions -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("texts", "kept"),
    [
        (
            ["S//a[./b and ./c]", "S//a[./b][./c]", "S//a[c][b]", "S//a[./b][./c][./b]", "S//a[(b) and (c)]"],
            "S//a[./b][./c]",
        ),
        (["S//a[./p > 5]", "S//a[./p->v > 5]", "S//a[./p->v[. > 5]]", "S//a[p > 5.0]"], "S//a[./p[. > 5]]"),
        (["S//a[./p/q > 5]", "S//a[./p[./q > 5]]", "S//a[./p[q->w > 5]]"], "S//a[./p[./q[. > 5]]]"),
        (["S//a[. = 'x'][./b]", "S//a[./b][. = 'x']", "S//a[. = 'x' and ./b]"], "S//a[. = 'x'][./b]"),
        (["S//a[not(b and c)]", "S//a[not(c and b)]", "S//a[not(c and (b))]"], "S//a[not((./b and ./c))]"),
        (["S//a[b or c]", "S//a[c or b]", "S//a[c or b or c]"], "S//a[(./b or ./c)]"),
        (["S//a[not(./b[c and d])]", "S//a[not(./b[d][c])]"], "S//a[not(./b[./c][./d])]"),
        (
            ["S//a[not(./b/c > 5)]", "S//a[not(./b[./c > 5])]", "S//a[not(./b[./c[. > 5]])]"],
            "S//a[not(./b[./c[. > 5]])]",
        ),
        (["S", "SELECT * FROM S", "S->x"], "S/*"),
        (["S[./b]//a", "S[b->v]//a"], "S[/*[./b]]//a"),
    ],
)
def test_canonical_texts(texts: list[str], kept: str) -> None:
    assert [definition(text) for text in texts] == [kept] * len(texts)
    assert len({keys(compiled(text)) for text in texts}) == 1


def test_branches_that_keep_a_joined_leaf_are_no_part_of_a_definition() -> None:
    text = "S//book->x1[./author->x2][./title->x3][./price > 5] JOIN {x2 = y2 AND x3 = y3, 1 h} T//b[./a->y2][./t->y3]"
    found = definitions(text)
    assert found["x1"] == "S//book[./price[. > 5]]"
    assert found["x2"] == "S//book[./price[. > 5]]/author"
    assert found["y2"] == "T//b/a"


def test_a_bound_variable_that_is_not_joined_is_a_condition() -> None:
    found = definitions("S//a[./b->x][./c->y] JOIN {x = u, 1 h} T//d->u")
    assert found == {"x": "S//a[./c]/b", "u": "T//d"}


def test_conditions_left_on_the_document_node() -> None:
    found = compiled("S[./b->x]//a->y JOIN {y = u, 1 h} T//d->u")
    assert str(found.definitions["y"]) == "S[/*[./b]]//a"
    found = compiled("S[./b->x]//a JOIN {x = u, 1 h} T//d->u")
    # The result node is an output variable: nothing is left for a condition.
    assert str(found.definitions["x"]) == "S[//a]/*/b"


def test_conditions_of_a_result_that_the_minor_lost() -> None:
    found = compiled("S//a[./b->x]/c->r[./d] JOIN {x = u, 1 h} T//d->u")
    assert str(found.definitions["r"]) == "S//a[./c[./d]]/c[./d]"
    assert str(found.definitions["x"]) == "S//a[./c[./d]]/b"
    assert len(found.group.instance.nodes) == 4  # x and u, then the result and what ties it to x
    assert found.template.width == 2


def test_channels_are_part_of_a_definition() -> None:
    assert compiled("S//a").specs[0].definition.key != compiled("T//a").specs[0].definition.key
    assert compiled("S.t//a").specs[0].definition.key != compiled("S//t//a").specs[0].definition.key


def test_prefixes_are_not() -> None:
    texts = ["S//p:a", "S//q:a"]
    found = [compile_query(parse_query(t), t, namespaces={"p": "urn:x", "q": "urn:x"}) for t in texts]
    assert keys(found[0]) == keys(found[1])
    other = compile_query(parse_query("S//p:a"), "S//p:a", namespaces={"p": "urn:y"})
    assert keys(other) != keys(found[0])


def test_a_namespace_named_by_an_asterisk() -> None:
    text = "S//p:a"
    found = compile_query(parse_query(text), text, namespaces={"p": "*"})
    assert keys(found) != keys(compiled("S//*:a"))


# -- keys ------------------------------------------------------------------------------------------------------

BASE = "S//a->r[./b->x][./c->y] JOIN {x = u AND y = v, 1 h} T//d->s[./e->u][./f->v]"


@pytest.mark.parametrize(
    "text",
    [
        "S//a->one[./b->two][./c->three] JOIN {two = t AND three = th, 1 h} T//d->o[./e->t][./f->th]",
        "S//a->r[./c->y][./b->x] JOIN {x = u AND y = v, 1 h} T//d->s[./f->v][./e->u]",
        "S//a->r[./b->x][./c->y] JOIN {v = y AND u = x AND x = u, 60 min} T//d->s[./e->u][./f->v]",
        "S//a[./b->x and ./c->y] JOIN {x = u AND y = v, 1 h, UNBOUNDED} T//d[./e->u][./f->v]",
        "SELECT * FROM S//a->r JOIN {r/b = s/e AND s/f = r/c, MAXWINDOW 1 h} T//d->s",
        "(S//a->r[./b->x][./c->y]) JOIN {x = u AND y = v, 3600} (T//d->s[./e->u][./f->v])",
    ],
)
def test_names_and_order_do_not_change_keys(text: str) -> None:
    assert keys(compiled(text)) == keys(compiled(BASE))


@pytest.mark.parametrize(
    ("text", "same"),
    [
        (BASE.replace("1 h", "2 h"), 2),  # template and instance
        (BASE.replace("1 h", "1 h, ONCE"), 3),  # no two documents match in both orders
        (BASE.replace("T//", "S//").replace("1 h", "1 h, ONCE"), 1),
        (BASE.replace("JOIN", "FOLLOWED BY"), 2),
        (BASE.replace("./e", "./g"), 1),
        (BASE.replace("T//", "U//"), 1),
        (BASE.replace("x = u", "lower(x) = lower(u)"), 1),
        (BASE.replace("x = u", "x != u"), 0),
        (BASE.replace("x = u AND", "x = u AND x = v AND"), 0),
        ("T//d->s[./e->u][./f->v] JOIN {x = u AND y = v, 1 h} S//a->r[./b->x][./c->y]", 1),
    ],
)
def test_what_keys_tell_apart(text: str, same: int) -> None:
    equal = [a == b for a, b in zip(keys(compiled(text)), keys(compiled(BASE)), strict=True)]
    assert equal == [True] * same + [False] * (3 - same)


@settings(max_examples=examples(40), deadline=None)
@given(two_block_queries(), two_block_queries())
def test_compiling_depends_on_the_text_alone(text: str, before: str) -> None:
    first = keys(compiled(text))
    compiled(before)
    assert keys(compiled(text)) == first


@settings(max_examples=examples(40), deadline=None)
@given(two_block_queries())
def test_instances_fill_their_templates(text: str) -> None:
    query = compiled(text)
    instance = query.group.instance
    assert len(instance.variables) == query.template.width <= len(instance.nodes)
    assert [node.var for node in instance.nodes[: query.template.width]] == list(instance.variables)
    assert [node.block for node in instance.nodes[: query.template.width]] == list(query.template.blocks)
    assert [instance.nodes[place].block for place in instance.results] == [0, 1]
    assert tuple((j.left, j.right, j.kind) for j in instance.joins) == query.template.joins
    by_name = {name: definition.key for name, definition in query.definitions.items()}
    for name, var in zip(query.meta_names, instance.variables, strict=True):
        assert name is None or by_name[name] == var


def test_names() -> None:
    query = compiled(BASE)
    assert sorted(name for name in query.meta_names if name) == ["r", "s", "u", "v", "x", "y"]
    assert (query.result_names, query.joined_names, query.channels) == (("r", "s"), ("x", "u", "y", "v"), ("S", "T"))
    assert compiled("S//a->x JOIN {x = y} S//b//d[./e->y]").result_names == ("x", None)


def test_one_block() -> None:
    query = compiled("S//a->x[./b]")
    assert query.group.cases == ((),)
    assert (query.template.width, query.template.joins) == (1, ())
    (spec,) = query.specs
    assert spec.functions == (None,)
    assert spec.edges == ((spec.definition, spec.definition),)


# -- what stage 1 keeps ----------------------------------------------------------------------------------------


def facts(text: str, channels: dict[str, ChannelFacts]) -> CompiledQuery:
    return compiled(text, channels)


def test_strings_of_documents() -> None:
    text = "S//a->x JOIN {lower(x) = y, 1 h} T//b->y"
    assert functions(facts(text, XML)) == {"x": ("lower",), "y": ("",)}


def test_numbers_too_while_a_channel_is_not_known() -> None:
    text = "S//a->x JOIN {lower(x) = y, 1 h} T//b->y"
    assert functions(compiled(text)) == {"x": ("lower", "number lower"), "y": ("", "number")}


def test_one_function_where_the_types_of_both_columns_are_known() -> None:
    rows = ChannelFacts("rows", numeric=frozenset({"p"}), texts=frozenset({"q"}))
    known = {"S": rows, "T": rows}
    assert functions(facts("S//p->x JOIN {x = y, 1 h} T//p->y", known)) == {"x": ("number",), "y": ("number",)}
    assert functions(facts("S//q->x JOIN {x = y, 1 h} T//q->y", known)) == {"x": ("",), "y": ("",)}
    # A column that nothing is known of may still come.
    assert functions(facts("S//q->x JOIN {x = y, 1 h} T//r->y", known)) == {"x": ("", "number"), "y": ("", "number")}


def test_numeric_columns_join_as_numbers() -> None:
    query = facts("S//a->x[./b->z] JOIN {x = y AND z = w, 1 h} T->t[./p->y][./q->w]", {**NUMBERS, "S": XML["S"]})
    assert {(j.fn_l, j.fn_r) for j in query.group.instance.joins} == {("number", "number"), ("", "")}
    assert "number" in functions(query)["x"]


def test_functions_of_numeric_columns_are_of_strings() -> None:
    query = facts("S//a->x JOIN {x = lower(y), 1 h} T/*/p->y", NUMBERS)
    assert [(j.fn_l, j.fn_r) for j in query.group.instance.joins] == [("", "lower")]


def test_functions_against_numeric_columns() -> None:
    query = facts("S//a->x JOIN {normalize-space(x) = y, 1 h} T/*/p->y", NUMBERS)
    assert [(j.fn_l, j.fn_r) for j in query.group.instance.joins] == [("number normalize-space", "number")]


def test_texts_and_attributes_are_no_columns() -> None:
    for path in ("T/*/p/text()->y", "T//@p->y"):
        query = facts(f"S//a->x JOIN {{x = y, 1 h}} {path}", NUMBERS)
        assert [(j.fn_l, j.fn_r) for j in query.group.instance.joins] == [("", "")]


def test_time_alone_needs_rows_without_values() -> None:
    query = compiled("S//a->x JOIN {x != y, 1 h} T//b->y")
    assert all(None in wanted for wanted in functions(query).values())
    query = compiled("S//a->x JOIN {1 h} T//b->y")
    assert functions(query) == {"x": (None,), "y": (None,)}


# -- atoms with one variable, against the oracle ---------------------------------------------------------------

VALUES = ("5", "5.0", "6", "x", "", "0.00002", "9007199254740992", "9007199254740993")
ROWS = {"T": frozenset({"p"})}


def check_atom(folder: Path, atom: str) -> None:
    text = f"T/*/p->x JOIN {{{atom}, 1 h}} S//b->y"
    rows = [Doc("T", f"t{i}", 0, f"<T><p>{value}</p></T>") for i, value in enumerate(VALUES)]
    others = [Doc("S", f"s{i}", 0, f"<b>{value}</b>") for i, value in enumerate(VALUES)]
    numeric = {"T": ChannelFacts("rows", ROWS["T"]), "S": ChannelFacts("xml")}
    engine = UnitsEngine(folder, {text: compiled(text, numeric)})
    engine.run([*rows, *others])
    assert engine.answers(text) == answers(parse_query(text), [*rows, *others], numeric=ROWS)


@pytest.mark.parametrize(
    "atom",
    ["x = 5", "x != 5", "x < 6", "5 <= x", "y = 5", "y != 5", "y = '5'", "y != '5'", "lower(y) = 'x'", "lower(y) = 5"],
)
def test_atoms_with_one_variable(tmp_path: Path, atom: str) -> None:
    check_atom(tmp_path, atom)


def test_unequal_numbers_behind_a_function(tmp_path: Path) -> None:
    check_atom(tmp_path, "lower(y) != 5")


@pytest.mark.parametrize("atom", ["y > 0.00001", "y < 1234567890123456789012.5"])
def test_small_and_great_numbers(tmp_path: Path, atom: str) -> None:
    check_atom(tmp_path, atom)


def test_integers_compare_exactly(tmp_path: Path) -> None:
    check_atom(tmp_path, "y = 9007199254740993")


@pytest.mark.parametrize("atom", ["x = '5.0'", "x != 'x'"])
def test_numeric_columns_and_strings_compare_as_numbers(tmp_path: Path, atom: str) -> None:
    check_atom(tmp_path, atom)


# -- columns of several types ----------------------------------------------------------------------------------

TYPED = {
    "T": ChannelFacts("rows", numeric=frozenset({"p"}), texts=frozenset({"q"}), times=frozenset({"t"})),
    "S": ChannelFacts("xml"),
}


def test_a_wildcard_keeps_each_value_by_the_type_of_its_column() -> None:
    query = compiled("T/*/*->x JOIN {x = y, 1 h} S//a->y", TYPED)
    assert sorted((j.kind, j.op, j.fn_l, j.fn_r) for j in query.group.instance.joins) == [
        ("BAND", "<=", "equal-low", "equal-high"),
        ("BAND", ">=", "equal-high", "equal-low"),
        ("EQ", "=", "equal-same", "equal-same"),
    ]
    kept = functions(query)
    assert kept["x"] == ("equal-high|s p=n", "equal-low|s p=n", "equal-same|s p=n")
    assert kept["y"] == ("equal-high|s", "equal-low|s", "equal-same|s")


@pytest.mark.parametrize(
    ("atom", "other", "name"),
    [
        ("x < y", "S//a->y", "number"),
        ("x = y", "T/*/p->y", "number"),
        ("lower(x) = y", "S//a->y", ""),
        ("x <= 2 * y", "T/*/*->y", "number"),
    ],
)
def test_one_comparison_where_all_types_compare_alike(atom: str, other: str, name: str) -> None:
    (join,) = compiled(f"T/*/*->x JOIN {{{atom}, 1 h}} {other}", TYPED).group.instance.joins
    assert join.fn_l.partition(" ")[0].replace("lower", "") == join.fn_r == name


def test_a_condition_differs_by_the_type_of_the_column() -> None:
    query = compiled("T/*/*->x JOIN {x = '5' AND x != '2026-01-01', 1 h} S", TYPED)
    assert str(query.definitions["x"] if "x" in query.definitions else query.specs[-1].definition) == (
        "T/*/*[(p ? number . !=: '2026-01-01' : (t ? time(.) !=: '2026-01-01T00:00:00' : . !=: '2026-01-01'))]"
        "[(p ? number . =: '5' : . =: '5')]"
    )


def test_nested_wildcards_cost_no_more_than_their_length() -> None:
    text = "T[" + "".join("*[not(" for _ in range(20)) + ". > '2026-01-01'" + ")]" * 20 + "]"
    assert len(str(compiled(text, TYPED).specs[0].definition)) < 2_000


def test_atoms_on_wildcards_count_as_the_most_that_they_may_become() -> None:
    atoms = " AND ".join(f"x != y/c{number}" for number in range(21))
    with pytest.raises(UnsupportedFeatureError, match="name the columns"):
        compiled(f"T/*/*->x JOIN {{{atoms}, 1 h}} S//a->y")
    assert compiled(f"T/*/*->x JOIN {{{atoms}, 1 h}} S//a->y", XML).template.joins


def test_windows_over_cells_of_rows_share_a_part() -> None:
    rows = {"T": ChannelFacts("rows", frozenset({"p", "q"}))}
    made = [
        f"SELECT a, count() AS n FROM T{each} WINDOW 1 h GROUP BY a"
        for each in ("[./p->a][./q->b]", "[./p->b][./q->a]", "[./p->a][./*->b]", "[./p->a][.//q->b]")
    ]

    def parts(facts: ChannelFacts | None) -> list[str]:
        found = [compile_query(parse_query(text), text, channels={"T": facts or ChannelFacts("xml")}) for text in made]
        return [each.parts[0].text.partition(" FROM")[0] for each in found]

    # What may have several nodes in an event is selected where a query speaks of it alone.
    assert parts(rows["T"]) == ["SELECT a, b", "SELECT b, a", "SELECT a", "SELECT a"]
    assert parts(None) == ["SELECT a"] * 4
