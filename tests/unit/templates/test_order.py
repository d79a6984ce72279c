"""Which edges are enumerated and which are verified."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from local_engine import compiled
from programs import build_program

from xscl.templates.joins.order import JoinOrder, order_of, plan_edges
from xscl.templates.joins.passes import passes
from xscl.templates.plans import LiveGroup
from xscl.templates.program import Program

TITLE = "S/i/t->a JOIN {a = d, 1 h} S/i/t->d"
CHANNEL = "S/i/c->b JOIN {b = e, 1 h} S/i/c->e"
BOTH = "S/i->p[./t->a][./c->b] JOIN {a = d AND b = e, 1 h} S/i->q[./t->d][./c->e]"
UNEQUAL = BOTH.replace("b = e", "b != e")
LESS = BOTH.replace("a = d AND b = e", "b < e")
THREE = (
    "S/i->p[./t->a][./c->b] JOIN {a = d AND b != e, 1 h} S/i->q[./t->d][./c->e][./u->f] JOIN {f = g AND b = h, 1 h} "
    "S/i->r[./u->g][./c->h]"
)
TEXTS = (TITLE, CHANNEL, BOTH, UNEQUAL, LESS, THREE, "S/i[./t]")


def program(*texts: str) -> Program:
    groups = [compiled(text).group for text in texts]
    keys = list(dict.fromkeys(group.instance.key for group in groups))
    return build_program(LiveGroup(n, keys.index(g.instance.key), g, 0, 99) for n, g in enumerate(groups))


def join_order(built: Program, counts: Mapping[int, float], spare: float) -> JoinOrder:
    """The order in which all edges are joined."""
    edges = plan_edges(built)
    order = order_of(edges, edges.anchors(counts)[0], np.arange(len(edges.plans)), counts, spare)
    ones = frozenset(number for number, edge in built.edges.items() if edge.key.kind == "ONE")
    return replace(order, enumerated=order.enumerated | ones)


def edge_of(built: Program, text: str) -> int:
    """The edge that some text alone asks for."""
    ((_, key),) = [(edge.number, edge.key) for edge in program(text).edges.values()]
    return next(edge.number for edge in built.edges.values() if edge.key == key)


def needs(*plans: tuple[int, ...]) -> frozenset[frozenset[int]]:
    """The edges that plans need."""
    return frozenset(map(frozenset, plans))


def test_edges_with_few_pairs_are_enumerated_and_nothing_is_verified_on_them() -> None:
    built = program(TITLE, CHANNEL, BOTH)
    order = join_order(built, dict.fromkeys(built.edges, 10.0**9), 0)
    assert order == JoinOrder(frozenset(built.edges), {}, {}), "both are anchors of who asks for nothing else"
    built = program(BOTH)
    title, channel = (edge_of(program(BOTH, text), text) for text in (TITLE, CHANNEL))
    assert join_order(built, {title: 5, channel: 12}, 7) == JoinOrder(frozenset({title, channel}), {}, {})
    assert join_order(built, {title: 5, channel: 13}, 7).enumerated == {title}


def test_an_edge_is_verified_on_the_pairs_of_one_that_has_fewer() -> None:
    built = program(BOTH)
    title, channel = (edge_of(program(BOTH, text), text) for text in (TITLE, CHANNEL))
    for counts, one, other in (({title: 5, channel: 6}, title, channel), ({title: 7, channel: 6}, channel, title)):
        assert join_order(built, counts, 0) == JoinOrder(frozenset({one}), {one: needs((other,))}, {one: (other,)})


def test_what_anchors_find_together_is_compared_with_an_edge_that_they_share() -> None:
    texts = [BOTH.replace("./t->", f"./t{n}->") for n in range(4)]
    built = program(*texts)
    channel = edge_of(program(*texts, CHANNEL), CHANNEL)
    titles = frozenset(built.edges) - {channel}
    assert join_order(built, {channel: 20, **dict.fromkeys(titles, 5)}, 0).enumerated == {channel, *titles}
    order = join_order(built, {channel: 21, **dict.fromkeys(titles, 5)}, 0)
    assert (order.enumerated, order.needs) == (titles, dict.fromkeys(titles, needs((channel,))))


def test_an_edge_is_enumerated_for_who_has_no_other() -> None:
    built = program(BOTH, CHANNEL)
    title, channel = (edge_of(program(BOTH, CHANNEL, text), text) for text in (TITLE, CHANNEL))
    assert join_order(built, {channel: 9}, 0) == JoinOrder(frozenset({title, channel}), {}, {})


def test_inequalities_are_verified_on_the_edge_with_the_fewest_pairs() -> None:
    text = UNEQUAL.replace("a = d", "a = d AND a = e")
    built = program(text)
    equal = sorted(edge.number for edge in built.edges.values() if edge.key.finds)
    (unequal,) = (edge.number for edge in built.edges.values() if not edge.key.finds)
    for fewest, most in (equal, equal[::-1]):
        order = join_order(built, {fewest: 1, most: 2}, 1)
        assert order == JoinOrder(frozenset(equal), {fewest: needs((unequal,))}, {fewest: (unequal,)})


def test_what_only_some_plans_of_an_anchor_need_is_not_required() -> None:
    built = program(BOTH, UNEQUAL, TITLE)
    title, channel = (edge_of(program(BOTH, UNEQUAL, TITLE, text), text) for text in (TITLE, CHANNEL))
    (unequal,) = (edge.number for edge in built.edges.values() if not edge.key.finds)
    order = join_order(built, {title: 1, channel: 9}, 0)
    assert order == JoinOrder(frozenset({title}), {title: needs((channel,), (unequal,))}, {})


def test_a_batch_has_passes_for_anchors_with_few_pairs_and_for_each_with_many() -> None:
    built = program(BOTH, CHANNEL, TITLE)
    title, channel = (edge_of(program(BOTH, CHANNEL, TITLE, text), text) for text in (TITLE, CHANNEL))
    edges = plan_edges(built)

    def found(counts: dict[int, float], spare: int = 6) -> list[tuple[set[int], bool, int]]:
        plans = [*built.instances.values()]
        return [
            (set(p.order.enumerated), p.single, sum(p.plans is None or p.plans.includes(plan) for plan in plans))
            for p in passes(edges, counts, 10, spare)
        ]

    assert found({title: 3, channel: 9}) == [({title, channel}, False, 3)]
    assert found({title: 3, channel: 11}) == [({title}, False, 2), ({channel}, True, 1)]
    assert found({title: 3, channel: 6}, 2) == [({title}, False, 2), ({channel}, True, 1)], "it asks for nothing else"
    assert found({title: 12, channel: 11}) == [
        (set(), False, 0),
        *(({edge}, True, 1) for edge in sorted((title, channel))),
        ({channel}, False, 1),
    ]
    assert found({channel: 9}) == [({channel}, False, 3)], "nothing is enumerated for a plan with an edge without pairs"
    first, again = (passes(edges, {title: 3, channel: 11}, 10, 6) for _ in range(2))
    numbers = [[p.plans.number for p in each if p.plans is not None] for each in (first, again)]
    assert numbers[0] == numbers[1] and len(set(numbers[0])) == 2


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, unique=True),
    st.dictionaries(st.integers(0, 12), st.integers(0, 100)),
    st.integers(0, 200),
)
def test_every_plan_has_an_edge_on_whose_pairs_all_else_is_known(
    texts: list[str], counts: dict[int, int], spare: int
) -> None:
    built = program(*texts)
    order = join_order(built, counts, spare)
    finding = {edge.number for edge in built.edges.values() if edge.key.finds}
    assert order.enumerated <= finding
    plans = [*built.instances.values(), *built.links.values()]
    anchors = {plan.name: min(plan.needs & finding, key=lambda edge: (counts.get(edge, 0), edge)) for plan in plans}
    for plan in plans:
        anchor = anchors[plan.name]
        assert anchor in order.enumerated
        assert plan.needs <= order.enumerated.union(*order.needs.get(anchor, ()))
        assert set(order.required.get(anchor, ())) <= plan.needs
    assert all(order.enumerated.isdisjoint(need) for plans in order.needs.values() for need in plans)
    assert all(need.issuperset(others) for edge, others in order.required.items() for need in order.needs[edge])
    least = sum(counts.get(edge, 0) for edge in set(anchors.values()))
    most = sum(counts.get(edge, 0) for edge in order.enumerated)
    shared = sum(len(plan.needs & finding) - 1 for plan in plans)
    assert most <= least * (1 + shared) + spare
