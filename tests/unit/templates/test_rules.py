"""Rules of sharing over operators that are written by hand, with the examples of RUMOR."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace
from itertools import combinations

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.templates.rules import RULES, Kind, Operator, Placed, Rule, named_rules, planned

SAME = Rule("c_same", "aggregate", lambda each: (each.shape, each.own, each.channels), "one definition over a channel")


def ramp(query: str, start: float) -> list[Operator]:
    """RUMOR's Query 1: a smoothed load that starts below a constant, and rises from step to step beyond 70."""
    return [
        Operator(query, 0, "aggregate", "avg", (), ("cpu",)),
        Operator(query, 1, "select", "load <", start, (0,)),
        Operator(query, 2, "fold", "load > last", (), (1, 0)),
        Operator(query, 3, "select", "load >", 70, (2,)),
    ]


QUERY_1 = [each for place, start in enumerate((20, 11.5, 10.5)) for each in ramp(f"q{place}", start)]
EXAMPLE_21 = [
    each
    for query, condition in (("q1", "v > 10"), ("q2", "v < 30"))
    for each in (
        Operator(query, 0, "select", (), condition, ("S",)),
        Operator(query, 1, "aggregate", "count", (), (0,)),
    )
]


def sizes(operators: Sequence[Operator], *rules: Sequence[Rule]) -> list[int]:
    return [len(planned(operators, each)) for each in rules]


def test_query_1_of_rumor() -> None:
    assert sizes(QUERY_1, named_rules("none"), named_rules("s"), named_rules("all")) == [12, 8, 4]
    alpha, starts, fold, ends = planned(QUERY_1)
    assert [each.rule for each in (alpha, starts, fold, ends)] == ["s_α", "s_σ", "c_μ", "c_σ"]
    assert [each.inputs for each in (alpha, starts, fold, ends)] == [("cpu",), (1,), (2, 1), (3,)]
    assert [each.streams for each in (alpha, starts, fold, ends)] == [1, 3, 3, 3]
    assert all(each.queries == ("q0", "q1", "q2") for each in (alpha, starts, fold, ends))


def test_example_21_of_rumor() -> None:
    rules = [named_rules(names) for names in ("none", "s_σ", "s_σ,c_α", "all")]
    assert sizes(EXAMPLE_21, *rules) == [4, 3, 2, 2]


def test_a_thousand_copies_are_one() -> None:
    copies = [each for number in range(1000) for each in ramp(f"q{number}", 20)]
    assert sizes(copies, RULES) == [4]
    assert [each.streams for each in planned(copies)] == [1, 1, 1, 1]


def two_by_two(*rules: Rule) -> set[frozenset[tuple[str, Hashable]]]:
    """Put two operators over each of two streams of one index together."""
    operators = [
        each
        for query, condition, shape in (("a", 1, "f"), ("b", 1, "g"), ("c", 2, "f"), ("d", 2, "g"))
        for each in (
            Operator(query, 0, "select", (), condition, ("S",)),
            Operator(query, 1, "aggregate", "v", shape, (0,)),
        )
    ]
    found = planned(operators, (*named_rules("s_σ"), *rules))
    return {frozenset((one.query, one.own) for one in each.operators) for each in found if each.kind == "aggregate"}


def test_g_rum_3_the_order_of_rules_decides_what_is_put_together() -> None:
    (rows,) = named_rules("s_α")
    assert two_by_two(rows, SAME) == {frozenset({("a", "f"), ("b", "g")}), frozenset({("c", "f"), ("d", "g")})}
    assert two_by_two(SAME, rows) == {frozenset({("a", "f"), ("c", "f")}), frozenset({("b", "g"), ("d", "g")})}


def classes(operators: Sequence[Operator], labels: dict[str, str]) -> dict[str, Hashable]:
    """Return the class of the stream that the last operator of each query reads."""
    seen: dict[str, Hashable] = {}

    def key(placed: Placed) -> Hashable:
        seen[str(placed.own)] = placed.inputs[0].sharable
        return placed.own

    planned(operators, (*RULES, Rule("c_last", "next", key, "")), labels)
    return seen


def read(query: str, *below: tuple[Kind, Hashable], source: str = "S") -> list[Operator]:
    made = [
        Operator(query, at, kind, shape if kind != "select" else (), shape, (at - 1 if at else source,))
        for at, (kind, shape) in enumerate(below)
    ]
    return [*made, Operator(query, len(made), "next", "last", query, (len(made) - 1 if made else source, "T"))]


def test_g_rum_6_streams_that_can_be_one_channel() -> None:
    operators = [
        *read("s"),
        *read("a", ("select", "a")),
        *read("b", ("select", "b")),
        *read("fa", ("select", "a"), ("aggregate", "f")),
        *read("fb", ("select", "b"), ("aggregate", "f")),
        *read("ga", ("select", "a"), ("aggregate", "g")),
        *read("other", source="U"),
        *read("labelled", source="V"),
    ]
    by_name = classes(operators, {"V": "S"})
    assert by_name["s"] == by_name["a"] == by_name["b"] == by_name["labelled"]
    assert by_name["fa"] == by_name["fb"] != by_name["ga"]
    assert by_name["other"] != by_name["s"] != by_name["fa"]


def test_what_different_m_ops_make_is_no_channel() -> None:
    # Without the index nothing has made both streams.
    assert sizes(EXAMPLE_21, named_rules("c_α")) == [4]


@pytest.mark.parametrize("names", ["", "none", "s", "all", "c", "s_σ,c_fold", "s_select, c_μ"])
def test_rules_have_names(names: str) -> None:
    found = named_rules(names)
    assert list(found) == [rule for rule in RULES if rule in found]
    assert named_rules(",".join(rule.word for rule in found)) == found
    with pytest.raises(ValueError, match="^s_nothing$"):
        named_rules("all,s_nothing")


@st.composite
def queries(draw: st.DrawFn) -> list[Operator]:
    """Draw operators of a few queries over two channels."""
    found = []
    for query in range(draw(st.integers(1, 5))):
        for number in range(draw(st.integers(1, 4))):
            kind = draw(st.sampled_from(["select", "aggregate", "join", "next", "fold"]))
            below = st.sampled_from(["S", "T", *range(number)])
            wide = kind in ("join", "next", "fold")
            inputs = tuple(draw(st.tuples(below, below) if wide else st.tuples(below)))
            small = st.integers(0, 1)
            found.append(Operator(f"q{query}", number, kind, draw(small), draw(small), inputs))
    return found


@settings(max_examples=examples(60), deadline=None)
@given(queries(), st.sets(st.sampled_from(RULES)))
def test_each_operator_is_in_one_m_op(operators: list[Operator], some: set[Rule]) -> None:
    rules = [rule for rule in RULES if rule in some]
    found = planned(operators, rules)
    assert sorted((one.query, one.number) for each in found for one in each.operators) == sorted(
        (one.query, one.number) for one in operators
    )
    for each in found:
        assert len({one.kind for one in each.operators}) == 1
        assert bool(each.rule) == (len(each.operators) > 1)
        # Whatever an m-op reads comes before it, so all of them can run in this order.
        assert all(one < each.number for one in each.inputs if isinstance(one, int))


@settings(max_examples=examples(60), deadline=None)
@given(queries())
def test_queries_in_another_order_have_the_same_plan(operators: list[Operator]) -> None:
    names = sorted({each.query for each in operators}, reverse=True)
    turned = [each for name in names for each in operators if each.query == name]

    def plan(of: list[Operator]) -> set[frozenset[tuple[str, int]]]:
        return {frozenset((one.query, one.number) for one in each.operators) for each in planned(of)}

    assert plan(operators) == plan(turned)


@settings(max_examples=examples(60), deadline=None)
@given(queries())
def test_a_rule_more_makes_no_more_m_ops_of_copies(operators: list[Operator]) -> None:
    again = [*operators, *(replace(each, query=f"copy of {each.query}") for each in operators)]
    assert len(planned(again)) == len(planned(operators))
    for few, more in combinations(("none", "s", "all"), 2):
        assert sizes(again, named_rules(few)) >= sizes(again, named_rules(more))
