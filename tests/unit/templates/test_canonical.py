"""Canonical join graphs against isomorphism by trying all permutations."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from local_engine import compiled

from xscl.base.errors import UnsupportedFeatureError
from xscl.templates.canonical import canonicalize
from xscl.templates.graph import JoinGraph, ValueJoin, Vertex
from xscl.templates.template import Template, template_of

Q1 = (
    "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 7 days} "
    "S//blog->x4[./author->x5][./title->x6]"
)


KINDS = ("EQ", "EQ", "NE", "BAND")


@st.composite
def graphs(draw, blocks: int = 2, most: int = 4, joins: int = 5) -> JoinGraph:
    """A tree of up to ``most`` vertices for every block, and joins from an earlier block to a later one."""
    vertices: list[Vertex] = []
    places: list[list[int]] = []
    for block in range(blocks):
        first = len(vertices)
        for place in range(draw(st.integers(1, most))):
            # Flat trees have most symmetries.
            parent = first + draw(st.one_of(st.just(0), st.integers(0, place - 1))) if place else -1
            vertices.append(Vertex(block, parent, draw(st.sampled_from("ddde"))))
        places.append(list(range(first, len(vertices))))
    found = []
    for _ in range(draw(st.integers(1, joins)) if blocks > 1 else 0):
        a, b = sorted(draw(st.permutations(range(blocks)))[:2])
        kind = draw(st.sampled_from(KINDS))
        left, right = draw(st.sampled_from(places[a])), draw(st.sampled_from(places[b]))
        found.append(ValueJoin(left, right, kind, *draw(columns(kind))))
    return JoinGraph(tuple(vertices), tuple(found))


def columns(kind: str) -> st.SearchStrategy[tuple[object, ...]]:
    """fn_l, fn_r, f, add, op of a join."""
    plain = st.sampled_from([("", ""), ("", ""), ("lower", "url")])
    if kind != "BAND":
        return plain
    numbers = st.sampled_from([Fraction(1), Fraction(51, 50)])
    return st.builds(lambda fns, f, add, op: (*fns, f, add, op), plain, numbers, numbers, st.sampled_from(["<", ">="]))


@st.composite
def pairs_of_graphs(draw, content: bool = False) -> tuple[JoinGraph, JoinGraph]:
    """Two graphs of up to nine vertices in one to four blocks that have a good chance of being isomorphic."""
    blocks = draw(st.integers(1, 4))
    one = draw(graphs(blocks=blocks, most={1: 6, 2: 4, 3: 3, 4: 2}[blocks]))
    other = shuffled(one, draw(st.randoms(use_true_random=False)), definitions=not content)
    change = draw(st.sampled_from(["nothing", "join", "kind", "turn", "parent", "definition"]))
    vertices, joins = list(other.vertices), list(other.joins)
    if change == "parent" or (change == "definition" and content):
        at = draw(st.integers(0, len(vertices) - 1))
        vertex = vertices[at]
        above = [i for i in range(at) if vertices[i].block == vertex.block]
        if change == "definition":
            vertices[at] = replace(vertex, definition="f")
        elif vertex.parent >= 0:
            vertices[at] = replace(vertex, parent=draw(st.sampled_from(above)))
    elif joins and change in ("join", "kind", "turn"):
        at = draw(st.integers(0, len(joins) - 1))
        join = joins[at]
        same_block = [i for i, v in enumerate(vertices) if v.block == vertices[join.right].block]
        joins[at] = {
            "join": replace(join, right=draw(st.sampled_from(same_block))),
            "kind": replace(join, kind=draw(st.sampled_from(KINDS))),
            "turn": replace(join, left=join.right, right=join.left),
        }[change]
    return one, JoinGraph(tuple(vertices), tuple(joins))


def shuffled(graph: JoinGraph, shuffle: random.Random, *, definitions: bool = False) -> JoinGraph:
    """The same graph with vertices and joins in another order, and other definitions and columns if wanted."""
    order: list[int] = []
    left = list(range(len(graph.vertices)))
    while left:
        ready = [v for v in left if graph.vertices[v].parent in (-1, *order)]
        order.append(shuffle.choice(ready))
        left.remove(order[-1])
    place = {old: new for new, old in enumerate(order)}
    vertices = [
        Vertex(v.block, place.get(v.parent, -1), shuffle.choice("xyz") if definitions else v.definition)
        for v in (graph.vertices[old] for old in order)
    ]
    fns = ["", "lower", "url"] if definitions else [None]
    joins = [
        replace(j, left=place[j.left], right=place[j.right], fn_l=fn if fn is not None else j.fn_l)
        for j in graph.joins
        for fn in [shuffle.choice(fns)]
    ]
    shuffle.shuffle(joins)
    return JoinGraph(tuple(vertices), tuple(joins))


def isomorphic(a: JoinGraph, b: JoinGraph, *, content: bool = False) -> bool:
    """By all permutations within blocks: trees, joins and kinds, and with ``content`` definitions and columns."""
    blocks = sorted({v.block for v in a.vertices})
    mine = [[i for i, v in enumerate(a.vertices) if v.block == block] for block in blocks]
    yours = [[i for i, v in enumerate(b.vertices) if v.block == block] for block in blocks]
    if [len(x) for x in mine] != [len(y) for y in yours] or {v.block for v in b.vertices} != set(blocks):
        return False

    def kind(join: ValueJoin) -> tuple[object, ...]:
        return (join.kind, join.fn_l, join.fn_r, join.f, join.add, join.op) if content else (join.kind,)

    wanted = Counter((j.left, j.right, kind(j)) for j in b.joins)
    for choice in product(*(permutations(group) for group in yours)):
        to = {-1: -1} | {m: y for old, new in zip(mine, choice, strict=True) for m, y in zip(old, new, strict=True)}
        if any(b.vertices[to[i]].parent != to[v.parent] for i, v in enumerate(a.vertices)):
            continue
        if content and any(b.vertices[to[i]].definition != v.definition for i, v in enumerate(a.vertices)):
            continue
        if Counter((to[j.left], to[j.right], kind(j)) for j in a.joins) == wanted:
            return True
    return False


@settings(max_examples=examples(100), deadline=None)
@given(graphs(most=3), graphs(most=3))
def test_equal_certificates_are_isomorphic_graphs(a: JoinGraph, b: JoinGraph) -> None:
    assert (canonicalize(a).certificate == canonicalize(b).certificate) == isomorphic(a, b)


@settings(max_examples=examples(240), deadline=None)
@given(pairs_of_graphs())
def test_certificates_tell_shapes_apart_and_nothing_else(pair: tuple[JoinGraph, JoinGraph]) -> None:
    a, b = pair
    assert (canonicalize(a).certificate == canonicalize(b).certificate) == isomorphic(a, b)


@settings(max_examples=examples(240), deadline=None)
@given(pairs_of_graphs(content=True))
def test_equal_graphs_with_content_come_out_equal(pair: tuple[JoinGraph, JoinGraph]) -> None:
    a, b = pair
    assert (canonicalize(a).graph == canonicalize(b).graph) == isomorphic(a, b, content=True)


@settings(max_examples=examples(60), deadline=None)
@given(graphs(blocks=3, most=3), st.randoms(use_true_random=False))
def test_neither_order_nor_content_changes_the_certificate(graph: JoinGraph, shuffle: random.Random) -> None:
    expected = canonicalize(graph)
    assert canonicalize(shuffled(graph, shuffle)).graph == expected.graph
    other = canonicalize(shuffled(graph, shuffle, definitions=True))
    assert other.certificate == expected.certificate


@settings(max_examples=examples(40), deadline=None)
@given(graphs())
def test_the_canonical_graph_is_the_input(graph: JoinGraph) -> None:
    found = canonicalize(graph)
    assert sorted(found.order) == list(range(len(graph.vertices)))
    place = {-1: -1} | {old: new for new, old in enumerate(found.order)}
    for old, vertex in enumerate(graph.vertices):
        assert found.graph.vertices[place[old]] == Vertex(vertex.block, place[vertex.parent], vertex.definition)
    assert all(vertex.parent < index for index, vertex in enumerate(found.graph.vertices))
    moved = Counter(replace(j, left=place[j.left], right=place[j.right]) for j in graph.joins)
    assert Counter(found.graph.joins) == moved
    assert canonicalize(found.graph).graph == found.graph


def flat(count: int, pairs: Iterable[tuple[int, int]], definition: str = "d") -> JoinGraph:
    """Two roots with ``count`` leaves each, and joins between leaves."""
    sides = [
        [Vertex(block, -1, "r"), *(Vertex(block, block * (count + 1), definition.format(i)) for i in range(count))]
        for block in (0, 1)
    ]
    joins = tuple(ValueJoin(1 + left, count + 2 + right, "EQ") for left, right in pairs)
    return JoinGraph((*sides[0], *sides[1]), joins)


def cycles(*lengths: int) -> JoinGraph:
    """Every leaf has two joins; a length counts the leaves of one side."""
    pairs: list[tuple[int, int]] = []
    first = 0
    for length in lengths:
        pairs += [(first + i, first + (i + step) % length) for i in range(length) for step in (0, 1)]
        first += length
    return flat(first, pairs)


def design(order: int, *differences: int) -> JoinGraph:
    """Every two leaves of a side have one partner in common: as regular as can be (a projective plane)."""
    return flat(order, [(i, (i + d) % order) for i in range(order) for d in differences])


SYMMETRIC = {
    "parallel": flat(24, [(i, i) for i in range(24)]),
    "parallel, other definitions": flat(24, [(i, i) for i in range(24)], "d{}"),
    "star": flat(24, [(0, i) for i in range(24)]),
    "complete": flat(6, product(range(6), repeat=2)),
    "complete, other definitions": flat(6, product(range(6), repeat=2), "d{}"),
    "large complete": flat(12, product(range(12), repeat=2)),
    "cycle": cycles(24),
    "cycles": cycles(4, 4, 2, 8, 3, 3, 6),
    "plane of order two": design(7, 0, 1, 3),
    "plane of order three": design(13, 0, 1, 3, 9),
}


@pytest.mark.parametrize("name", SYMMETRIC)
def test_symmetric_graphs_take_no_time(name: str) -> None:
    graph = SYMMETRIC[name]
    began = time.process_time()
    found = canonicalize(graph)
    assert time.process_time() - began < 10  # all orders of some twenty equal parts would take years
    for seed in range(examples(2)):
        assert canonicalize(shuffled(graph, random.Random(seed))).graph == found.graph
        other = canonicalize(shuffled(graph, random.Random(seed), definitions=True))
        assert other.certificate == found.certificate


def test_work_is_bounded() -> None:
    with pytest.raises(UnsupportedFeatureError) as caught:
        canonicalize(design(57, 0, 1, 3, 13, 32, 36, 43, 52))
    assert caught.value.condition == "XSCL_UNSUPPORTED_SYMMETRY"


@pytest.mark.parametrize(("one", "two"), [((4,), (2, 2)), ((6,), (3, 3)), ((4, 4, 8), (8, 8)), ((5, 3), (4, 4))])
def test_a_cycle_is_not_two_cycles(one: tuple[int, ...], two: tuple[int, ...]) -> None:
    """Colours alone do not tell these apart: every leaf has two joins."""
    assert canonicalize(cycles(*one)).certificate != canonicalize(cycles(*two)).certificate
    assert canonicalize(cycles(*one)).certificate == canonicalize(cycles(*reversed(one))).certificate


# -- templates -------------------------------------------------------------------------------------------------


def template(text: str) -> Template:
    return compiled(text).template


def test_ids_of_templates_stay() -> None:
    assert template(Q1).id == "t6_c05a6395d649ec84"
    assert template("S//a->x JOIN {x = y} S//b->y").id == "t2_09bc611bb4aa3c95"


def test_the_template_of_the_thesis() -> None:
    found = template(Q1)
    assert (found.width, found.block_count, found.pairs) == (6, 2, ((1, 2),))
    assert found.blocks == (0, 0, 0, 1, 1, 1)
    assert found.parents == (-1, 0, 0, -1, 3, 3)
    assert found.tree_edges == ((0, 1), (0, 2), (3, 4), (3, 5))
    assert found.joins == ((1, 4, "EQ"), (2, 5, "EQ"))
    assert template_of(canonicalize(flat(2, [(0, 0), (1, 1)]))) == found


def test_kinds_and_sides_are_part_of_a_template() -> None:
    texts = [
        "S//a->x JOIN {x = y} S//b->y",
        "S//a->x JOIN {x != y, 1 h} S//b->y",
        "S//a[./c->x][./d->z] JOIN {x = y AND z = y} S//b->y",
        "S//b->y JOIN {x = y AND z = y} S//a[./c->x][./d->z]",
    ]
    assert len({template(text).id for text in texts}) == 4
