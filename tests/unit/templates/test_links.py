"""Links: what pairs of blocks of longer queries ask of each other."""

from __future__ import annotations

import pytest
from both_sides import channel_facts
from budget import examples
from local_engine import compiled
from strategies import CHANNELS, NUMERIC, TEXTS, Dice, many_block_query

from xscl.base.errors import QueryError
from xscl.language.facts import ChannelFacts
from xscl.templates.bounds import Bounds, pair_index
from xscl.templates.graph import ValueJoin
from xscl.templates.links import Link, anchor, linked_blocks, links_of
from xscl.templates.template import Instance

FACTS = channel_facts(NUMERIC, TEXTS)
CHAIN = "S//a->x JOIN {x = y, 1 h} T//b->y JOIN {y = z, 1 h} U//c->z"


def instance(text: str) -> Instance:
    return compiled(text).group.instance


def links(text: str) -> dict[tuple[int, int], Link]:
    return {link.blocks: link for link in links_of(instance(text))}


def random_instances(first: int, last: int) -> list[Instance]:
    found = []
    for seed in range(first, last):
        choose = Dice(seed)
        channels = choose.one(CHANNELS, ("R", "Q", "S"))
        try:
            query = compiled(many_block_query(choose, channels, least=3, most=5, constructors=True), FACTS)
        except QueryError:
            continue
        found.append(query.group.instance)
    return found


# -- which blocks are linked ---------------------------------------------------------------------------------------


def test_all_pairs_that_are_joined_by_value() -> None:
    assert list(links(CHAIN)) == [(0, 1), (1, 2)]
    assert list(links(CHAIN.replace("y = z", "x = z"))) == [(0, 1), (0, 2)]
    assert list(links(CHAIN.replace("y = z", "y = z AND x = z"))) == [(0, 1), (0, 2), (1, 2)]
    assert list(links(CHAIN.replace("y = z", "y != z"))) == [(0, 1), (1, 2)]


def test_the_closest_in_time_where_values_leave_blocks_apart() -> None:
    text = "S//a->x FOLLOWED BY {x = y} T//b->y FOLLOWED BY {%s} U//c->z"
    assert list(links(text % "5 s")) == [(0, 1), (1, 2)]
    assert list(links(text % "z - x IN [0 s, 5 s]")) == [(0, 1), (0, 2)]
    assert list(links(text % "z - x IN [0 s, 9 s], z - y IN [0 s, 2 s]")) == [(0, 1), (1, 2)]
    only_times = "S//a FOLLOWED BY {5 s} S//b FOLLOWED BY {1 s} S//c FOLLOWED BY {2 s} S//d"
    assert list(links(only_times)) == [(0, 1), (1, 2), (2, 3)]


def test_linked_blocks() -> None:
    wide, close, closer = Bounds(), Bounds(0, 9), Bounds(3, 4)
    assert linked_blocks(1, set(), ()) == ()
    assert linked_blocks(2, set(), (close,)) == ((0, 1),)
    assert linked_blocks(3, set(), (wide, close, closer)) == ((0, 2), (1, 2))
    assert linked_blocks(3, {(0, 1)}, (wide, close, closer)) == ((0, 1), (1, 2))
    # Of equals the first.
    assert linked_blocks(3, set(), (close, close, close)) == ((0, 1), (0, 2))


def test_values_that_find_pairs_need_no_anchor() -> None:
    assert anchor(instance(CHAIN), (0, 1)) is None
    unequal = instance(CHAIN.replace("y = z", "y != z"))
    (join,) = [join for join in unequal.joins if join.kind == "NE"]
    assert anchor(unequal, (1, 2)) == (join.left, join.right)
    by_time = instance(CHAIN.replace("y = z, 1 h", "5 s"))
    places = anchor(by_time, (1, 2))
    assert places is not None
    assert [by_time.nodes[place].block for place in places] == [1, 2]


# -- what links bind -----------------------------------------------------------------------------------------------


def test_nodes_of_a_link() -> None:
    text = "S//r->p[./a->x][./b->y] JOIN {x = u, 1 h} T//b->u JOIN {y = v, 1 h} U//c->v"
    found = links(text)
    query = compiled(text)
    names = {blocks: {query.meta_names[place] for place in link.places} for blocks, link in found.items()}
    # The node above x and y is in both, so that they are of one.
    assert names == {(0, 1): {"p", "x", "u"}, (0, 2): {"p", "y", "v"}}


def test_output_nodes_hang_in_one_link() -> None:
    text = "SELECT o FROM S//r->p[./a->x][./b->y][./o->o] JOIN {x = u, 1 h} T//b->u JOIN {y = v, 1 h} U//c->v"
    found = links(text)
    whole = instance(text)
    (hanging,) = range(len(whole.variables), len(whole.nodes))
    assert [hanging in link.places for link in found.values()] == [True, False]


def follows(found: Instance, join: ValueJoin) -> bool:
    """Whether an equality follows from those of the instance: one way leads from its left side to its right one."""
    reached = {(join.left, join.fn_l)}
    equal = [((j.left, j.fn_l), (j.right, j.fn_r)) for j in found.joins if j.kind == "EQ"]
    for _ in equal:
        reached |= {end for ends in equal if reached & set(ends) for end in ends}
    return join.kind == "EQ" and (join.right, join.fn_r) in reached


def test_equalities_that_follow_take_the_place_of_time() -> None:
    """The same story in three feeds: the first and the third are compared where their titles are equal."""
    block = "S//item[./title->t{0}][./feed->c{0}]"
    text = (
        f"{block.format(1)} JOIN {{t1 = t2 AND c1 != c2, 1 h}} {block.format(2)} "
        f"JOIN {{t2 = t3 AND c2 != c3 AND c1 != c3, 1 h}} {block.format(3)}"
    )
    parts = links_of(compiled(text).group.instance)
    assert [link.blocks for link in parts] == [(0, 1), (0, 2), (1, 2)]
    assert all(link.anchor is None for link in parts)
    assert [sorted(join.kind for join in link.joins) for link in parts] == [["EQ", "NE"]] * 3
    apart = links_of(compiled(text.replace("t2 = t3", "lower(t2) = t3")).group.instance)
    assert [link.anchor is None for link in apart] == [True, False, True]


def test_random_links_obey_the_law() -> None:
    instances = random_instances(0, 300)
    assert len(instances) > 200
    for found in instances:
        count = len(found.nodes)
        width = len(found.variables)
        parts = links_of(found)
        assert tuple(link.blocks for link in parts) == found.links
        # Together they bind all nodes and have all joins.
        assert set().union(*(link.places for link in parts)) == set(range(count))
        all_joins = [join for link in parts for join in link.joins]
        assert sorted(map(repr, (j for j in all_joins if j in found.joins))) == sorted(map(repr, found.joins))
        assert all(follows(found, join) for join in all_joins if join not in found.joins)
        # All blocks hang together.
        tied = {0}
        for _ in parts:
            tied |= {block for link in parts if tied & set(link.blocks) for block in link.blocks}
        assert tied == set(range(max(node.block for node in found.nodes) + 1))
        with_output = {found.nodes[lower].block for _, lower in found.output_edges}
        above = {
            lower: upper
            for upper, lower in (*found.tree_edges, *found.output_edges)
            if (upper, lower) in found.output_edges or found.nodes[lower].block not in with_output
        }
        for link in parts:
            assert {found.nodes[place].block for place in link.places} == set(link.blocks)
            assert len(set(link.places)) == len(link.places)
            # Closed upwards, every way with its edges.
            assert set(link.edges) == {(above[place], place) for place in link.places if place in above}
            assert all(upper in link.places for upper, _ in link.edges)
            ends = {end for join in link.joins for end in (join.left, join.right)} | set(link.anchor or ())
            assert ends <= set(link.places) and all(end < width for end in ends)
            assert (link.anchor is None) == any(join.kind == "EQ" for join in link.joins)
        # Where two links are of one block, they share all common ancestors of what they bind.
        ways = [{place: way(above, place) for place in link.places} for link in parts]
        for one in ways:
            for other in ways:
                for a in one:
                    for b in other:
                        assert one[a] & other[b] <= one.keys() & other.keys()


def way(above: dict[int, int], place: int) -> set[int]:
    found = {place}
    while place in above:
        place = above[place]
        found.add(place)
    return found


# -- keys ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        (CHAIN.replace("x", "p").replace("y", "q"), (0, 1)),
        (CHAIN.replace("1 h", "2 h"), (0, 1)),
        (CHAIN.replace("U//c->z", "V//d->z"), (0, 1)),
        (CHAIN.replace("x = y", "y = x"), (0, 1)),
        ("S//a->x JOIN {x = y, 3 s} T//b->y JOIN {x != z, 1 h} V//d->z", (0, 1)),
        ("V//d->z JOIN {z = x} S//a->x JOIN {x = y, 1 h} T//b->y", (1, 2)),
        ("S//a->x JOIN {x = z} V//d->z JOIN {x = y, 1 h} T//b->y", (0, 2)),
        ("S//a->x FOLLOWED BY {x = z} (V//d->z FOLLOWED BY {1 h} T//b->y) FOLLOWED BY {x = y} T//b", None),
    ],
)
def test_links_that_queries_share(text: str, blocks: tuple[int, int] | None) -> None:
    expected = links(CHAIN)[0, 1]
    if blocks is None:
        with pytest.raises(QueryError):
            links(text)
        return
    found = links(text)[blocks]
    assert found.key == expected.key
    # Their rows have the same columns.
    variables, others = instance(CHAIN).variables, instance(text).variables
    assert [variables[place] for place in expected.places] == [others[place] for place in found.places]


@pytest.mark.parametrize(
    "text",
    [
        CHAIN.replace("S//a", "S//z"),
        CHAIN.replace("S//a", "V//a"),
        CHAIN.replace("x = y", "x != y"),
        CHAIN.replace("x = y", "lower(x) = y"),
        CHAIN.replace("x = y", "x = y AND x != y"),
        CHAIN.replace("x = y", "x <= 2 * y"),
        CHAIN.replace("x = y, 1 h", "1 h"),
        CHAIN.replace("S//a->x", "S//a[./b]->x").replace("[./b]->x", "->x[./b]"),
        CHAIN.replace("S//a->x", "S//r[./a->x]"),
        "T//b->y JOIN {x = y, 1 h} S//a->x JOIN {y = z, 1 h} U//c->z",
    ],
)
def test_links_that_ask_for_something_else(text: str) -> None:
    assert links(CHAIN)[0, 1].key not in {link.key for link in links(text).values()}


def test_one_query_may_have_a_link_twice() -> None:
    found = links("S//a->x JOIN {x = y, 1 h} S//a->y JOIN {y = z, 1 h} S//a->z")
    assert found[0, 1].key == found[1, 2].key
    assert found[0, 1].places != found[1, 2].places


def atom(choose: Dice, left: str, right: str) -> str:
    op = choose.one("=", "=", "!=", "<=")
    return f"{left}{choose.one('', chr(39))} {op} {right}{choose.one('', chr(39))}"


def test_equal_keys_are_equal_links() -> None:
    """Whatever has one key asks for the same, node by node."""
    asked: dict[int, object] = {}
    shared = 0
    for seed in range(examples(560)):
        choose = Dice(seed)
        patterns = [
            choose.one("S//r[./a->{0}][./a->{0}']", "S//a->{0}'[./b->{0}]", "S//r[./a->{0}'][.//b->{0}]") for _ in "xyz"
        ]
        blocks = [pattern.format(name) for pattern, name in zip(patterns, "xyz", strict=True)]
        atoms = [
            " AND ".join(atom(choose, left, right) for _ in range(choose.one(1, 1, 2)))
            for left, right in (("x", "y"), choose.one(("x", "z"), ("y", "z")))
        ]
        found = instance(f"{blocks[0]} JOIN {{{atoms[0]}, 1 h}} {blocks[1]} JOIN {{{atoms[1]}, 1 h}} {blocks[2]}")
        for link in links_of(found):
            local = {place: number for number, place in enumerate(link.places)}
            content = (
                [(found.nodes[p].block == link.blocks[1], found.nodes[p].var) for p in link.places],
                {(local[upper], local[lower]) for upper, lower in link.edges},
                {(local[j.left], local[j.right], j.kind, j.fn_l, j.fn_r, j.f, j.add, j.op) for j in link.joins},
                link.anchor and tuple(local[place] for place in link.anchor),
            )
            shared += link.key in asked
            assert asked.setdefault(link.key, content) == content
    assert shared > 20


def test_a_link_keeps_its_key_when_columns_of_another_block_become_known() -> None:
    """Which of two equal variables comes first in the instance depends on the third block; the link does not."""
    text = (
        "A[./x->a1][./x->a2] JOIN {lower(a1) = lower(b1) AND lower(a2) = lower(b2), 1 h} B[./v->b1][./u->b2] "
        "JOIN {a1 = c1 AND a2 = c2, 1 h} C[./p->c1][./q->c2]"
    )
    xml = {"A": ChannelFacts("xml"), "B": ChannelFacts("xml")}
    rows = [
        ChannelFacts("rows", frozenset(numeric), frozenset("pq") - frozenset(numeric)) for numeric in ("", "p", "q")
    ]
    keys = {links_of(compiled(text, {**xml, "C": facts}).group.instance)[0].key for facts in (ChannelFacts(), *rows)}
    assert len(keys) == 1


def test_each_case_links_what_is_near_in_it() -> None:
    """The latest of A and B is near C, the other one need not be: linking it with C would pair everything for ever."""
    group = compiled("(A[./x->x] JOIN {x = y} B[./y->y]) FOLLOWED BY {5 s} C").group
    pairs = pair_index(3)
    assert sorted(group.links) == [((0, 1), (0, 2)), ((0, 1), (1, 2))]
    for case, links in zip(group.cases, group.links, strict=True):
        assert all(case[pairs[pair]].finite for pair in links if pair != (0, 1))
    assert group.instance.links == ((0, 1), (0, 2), (1, 2))
