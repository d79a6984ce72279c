"""Canonical join graphs against isomorphism by trying all permutations."""

from __future__ import annotations

import random
import time
from collections import Counter
from itertools import permutations, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from local_engine import compiled

from xscl.templates.canonical import canonicalize
from xscl.templates.graph import JoinGraph, ValueJoin, Vertex
from xscl.templates.template import Template, template_of

Q1 = (
    "S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 7 days} "
    "S//blog->x4[./author->x5][./title->x6]"
)


@st.composite
def graphs(draw, blocks: int = 2, most: int = 4) -> JoinGraph:
    """A tree of up to ``most`` vertices for every block, and joins from an earlier block to a later one."""
    vertices: list[Vertex] = []
    places: list[list[int]] = []
    for block in range(blocks):
        first = len(vertices)
        for place in range(draw(st.integers(1, most))):
            parent = first + draw(st.integers(0, place - 1)) if place else -1
            vertices.append(Vertex(block, parent, draw(st.sampled_from("ddde"))))
        places.append(list(range(first, len(vertices))))
    joins = []
    for _ in range(draw(st.integers(1, 4))):
        a, b = sorted(draw(st.permutations(range(blocks)))[:2])
        kind = draw(st.sampled_from(["EQ", "EQ", "NE"]))
        fn = draw(st.sampled_from(["", "", "lower"]))
        joins.append(ValueJoin(draw(st.sampled_from(places[a])), draw(st.sampled_from(places[b])), kind, fn, fn))
    return JoinGraph(tuple(vertices), tuple(joins))


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
        ValueJoin(place[j.left], place[j.right], j.kind, fn if fn is not None else j.fn_l, j.fn_r)
        for j in graph.joins
        for fn in [shuffle.choice(fns)]
    ]
    shuffle.shuffle(joins)
    return JoinGraph(tuple(vertices), tuple(joins))


def isomorphic(a: JoinGraph, b: JoinGraph) -> bool:
    """By all permutations within blocks: trees, joins and kinds as they are, definitions and columns not looked at."""
    blocks = sorted({v.block for v in a.vertices})
    mine = [[i for i, v in enumerate(a.vertices) if v.block == block] for block in blocks]
    yours = [[i for i, v in enumerate(b.vertices) if v.block == block] for block in blocks]
    if [len(x) for x in mine] != [len(y) for y in yours] or {v.block for v in b.vertices} != set(blocks):
        return False
    wanted = Counter((j.left, j.right, j.kind) for j in b.joins)
    for choice in product(*(permutations(group) for group in yours)):
        to = {-1: -1} | {m: y for old, new in zip(mine, choice, strict=True) for m, y in zip(old, new, strict=True)}
        if any(b.vertices[to[i]].parent != to[v.parent] for i, v in enumerate(a.vertices)):
            continue
        if Counter((to[j.left], to[j.right], j.kind) for j in a.joins) == wanted:
            return True
    return False


@settings(max_examples=250, deadline=None)
@given(graphs(most=3), graphs(most=3))
def test_equal_certificates_are_isomorphic_graphs(a: JoinGraph, b: JoinGraph) -> None:
    assert (canonicalize(a).certificate == canonicalize(b).certificate) == isomorphic(a, b)


@settings(max_examples=200, deadline=None)
@given(graphs(), st.randoms(use_true_random=False), st.data())
def test_one_changed_join(graph: JoinGraph, shuffle: random.Random, data: st.DataObject) -> None:
    other = shuffled(graph, shuffle)
    *kept, last = other.joins
    same_block = [i for i, v in enumerate(other.vertices) if v.block == other.vertices[last.right].block]
    changed = ValueJoin(last.left, data.draw(st.sampled_from(same_block)), last.kind)
    other = JoinGraph(other.vertices, (*kept, changed))
    assert (canonicalize(graph).certificate == canonicalize(other).certificate) == isomorphic(graph, other)


@settings(max_examples=150, deadline=None)
@given(graphs(blocks=3, most=3), st.randoms(use_true_random=False))
def test_neither_order_nor_content_changes_the_certificate(graph: JoinGraph, shuffle: random.Random) -> None:
    expected = canonicalize(graph)
    assert canonicalize(shuffled(graph, shuffle)).graph == expected.graph
    other = canonicalize(shuffled(graph, shuffle, definitions=True))
    assert other.certificate == expected.certificate


@settings(max_examples=100, deadline=None)
@given(graphs())
def test_the_canonical_graph_is_the_input(graph: JoinGraph) -> None:
    found = canonicalize(graph)
    assert sorted(found.order) == list(range(len(graph.vertices)))
    place = {-1: -1} | {old: new for new, old in enumerate(found.order)}
    for old, vertex in enumerate(graph.vertices):
        assert found.graph.vertices[place[old]] == Vertex(vertex.block, place[vertex.parent], vertex.definition)
    assert all(vertex.parent < index for index, vertex in enumerate(found.graph.vertices))
    moved = Counter(ValueJoin(place[j.left], place[j.right], j.kind, j.fn_l, j.fn_r) for j in graph.joins)
    assert Counter(found.graph.joins) == moved
    assert canonicalize(found.graph).graph == found.graph


def parallel(count: int, definition: str) -> JoinGraph:
    """Two roots with ``count`` leaves each, joined one to one."""
    sides = [
        [Vertex(block, -1, "r"), *(Vertex(block, block * (count + 1), definition.format(i)) for i in range(count))]
        for block in (0, 1)
    ]
    joins = tuple(ValueJoin(1 + i, count + 2 + i, "EQ") for i in range(count))
    return JoinGraph((*sides[0], *sides[1]), joins)


@pytest.mark.parametrize("definition", ["d", "d{}"])
def test_twelve_parallel_joins(definition: str) -> None:
    began = time.perf_counter()
    found = canonicalize(parallel(12, definition))
    assert time.perf_counter() - began < 1
    other = canonicalize(shuffled(parallel(12, definition), random.Random(1)))
    assert found.graph == other.graph


def test_a_cycle_is_not_two_cycles() -> None:
    """Colours alone do not tell these apart: every leaf has two joins."""
    leaves = [Vertex(block, block * 5, "d") for block in (0, 1) for _ in range(4)]
    vertices = (Vertex(0, -1, "r"), *leaves[:4], Vertex(1, -1, "r"), *leaves[4:])
    one = [(i, (i + step) % 4) for i in range(4) for step in (0, 1)]
    two = [(i, i // 2 * 2 + step) for i in range(4) for step in (0, 1)]
    a, b = (JoinGraph(vertices, tuple(ValueJoin(1 + x, 6 + y, "EQ") for x, y in pairs)) for pairs in (one, two))
    assert not isomorphic(a, b)
    assert canonicalize(a).certificate != canonicalize(b).certificate


# -- templates -------------------------------------------------------------------------------------------------


def template(text: str) -> Template:
    return compiled(text).template


def test_ids_of_templates_stay() -> None:
    assert template(Q1).id == "t6_27bd6b989e"
    assert template("S//a->x JOIN {x = y} S//b->y").id == "t2_646adcfaa8"


def test_the_template_of_the_thesis() -> None:
    found = template(Q1)
    assert (found.width, found.block_count, found.pairs) == (6, 2, ((1, 2),))
    assert found.blocks == (0, 0, 0, 1, 1, 1)
    assert found.parents == (-1, 0, 0, -1, 3, 3)
    assert found.tree_edges == ((0, 1), (0, 2), (3, 4), (3, 5))
    assert found.joins == ((1, 4, "EQ"), (2, 5, "EQ"))
    assert template_of(canonicalize(parallel(2, "d"))) == found


def test_kinds_and_sides_are_part_of_a_template() -> None:
    texts = [
        "S//a->x JOIN {x = y} S//b->y",
        "S//a->x JOIN {x != y, 1 h} S//b->y",
        "S//a[./c->x][./d->z] JOIN {x = y AND z = y} S//b->y",
        "S//b->y JOIN {x = y AND z = y} S//a[./c->x][./d->z]",
    ]
    assert len({template(text).id for text in texts}) == 4
