"""Which edges are enumerated and which are verified."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from local_engine import compiled
from programs import build_program

from xscl.templates.order import JoinOrder, join_order, pair_limit, unselective_edges
from xscl.templates.program import LiveGroup, Program

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


def edge_of(built: Program, text: str) -> int:
    """The edge that some text alone asks for."""
    ((_, key),) = [(edge.number, edge.key) for edge in program(text).edges.values()]
    return next(edge.number for edge in built.edges.values() if edge.key == key)


def test_selective_edges_are_enumerated_and_nothing_is_verified_on_them() -> None:
    built = program(TITLE, CHANNEL, BOTH)
    assert join_order(built, dict.fromkeys(built.edges, 10.0**9)) == JoinOrder(frozenset(built.edges), {})


def test_an_unselective_edge_is_verified_on_the_pairs_of_a_selective_one() -> None:
    built = program(BOTH)
    title, channel = (edge_of(program(BOTH, text), text) for text in (TITLE, CHANNEL))
    assert join_order(built, {}, {channel}) == JoinOrder(frozenset({title}), {title: (channel,)})
    assert join_order(built, {}, {title}) == JoinOrder(frozenset({channel}), {channel: (title,)})


def test_an_unselective_edge_is_enumerated_for_who_has_no_other() -> None:
    built = program(BOTH, CHANNEL)
    title, channel = (edge_of(program(BOTH, CHANNEL, text), text) for text in (TITLE, CHANNEL))
    assert join_order(built, {}, {channel}) == JoinOrder(frozenset({title, channel}), {})


def test_of_unselective_edges_the_one_with_the_fewest_pairs_is_enumerated() -> None:
    built = program(BOTH)
    title, channel = (edge_of(program(BOTH, text), text) for text in (TITLE, CHANNEL))
    for counts, one, other in (({title: 5, channel: 6}, title, channel), ({title: 7, channel: 6}, channel, title)):
        assert join_order(built, counts, {title, channel}) == JoinOrder(frozenset({one}), {one: (other,)})


def test_inequalities_are_verified_on_the_edge_with_the_fewest_pairs() -> None:
    text = UNEQUAL.replace("a = d", "a = d AND a = e")
    built = program(text)
    equal = sorted(edge.number for edge in built.edges.values() if edge.key.finds)
    (unequal,) = (edge.number for edge in built.edges.values() if not edge.key.finds)
    for fewest, most in (equal, equal[::-1]):
        order = join_order(built, {fewest: 1, most: 2})
        assert order == JoinOrder(frozenset(equal), {fewest: (unequal,)})


def test_an_edge_is_unselective_until_it_has_far_fewer_pairs() -> None:
    limit = pair_limit(5_000)
    assert unselective_edges({1: limit, 2: limit + 1}, limit) == {2}
    assert unselective_edges({1: limit / 2, 2: limit / 2, 3: limit / 5}, limit, before={2, 3}) == {2}


@given(
    st.lists(st.sampled_from(TEXTS), min_size=1, unique=True),
    st.dictionaries(st.integers(0, 12), st.integers(0, 100)),
    st.sets(st.integers(0, 12)),
)
def test_every_plan_has_an_edge_on_whose_pairs_all_else_is_known(
    texts: list[str], counts: dict[int, int], unselective: set[int]
) -> None:
    built = program(*texts)
    order = join_order(built, counts, unselective)
    finding = {edge.number for edge in built.edges.values() if edge.key.finds}
    assert finding - unselective <= order.enumerated <= finding
    for plan in (*built.instances.values(), *built.links.values()):
        assert any(
            plan.needs <= order.enumerated.union(order.verified.get(edge, ())) for edge in plan.needs & order.enumerated
        )
    plans = [*built.instances.values(), *built.links.values()]
    for edge in order.enumerated & unselective:
        assert any(edge in plan.needs and plan.needs & finding <= unselective for plan in plans)
    assert all(order.enumerated.isdisjoint(others) for others in order.verified.values())
