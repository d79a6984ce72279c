"""Minors of trees against their definition: the kept nodes and the least common ancestors of them."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.templates.reduce import Minor, reduce_tree


@st.composite
def trees(draw) -> tuple[list[int], set[int]]:
    """Parents of up to nine nodes, and at least one node to keep."""
    size = draw(st.integers(1, 9))
    parents = [-1, *(draw(st.integers(0, node - 1)) for node in range(1, size))]
    return parents, draw(st.sets(st.integers(0, size - 1), min_size=1))


def ancestors(parents: list[int], node: int) -> list[int]:
    """The node and all above it, nearest first."""
    found = []
    while node >= 0:
        found.append(node)
        node = parents[node]
    return found


def brute_minor(parents: list[int], keep: set[int]) -> Minor:
    lcas = {next(n for n in ancestors(parents, a) if n in ancestors(parents, b)) for a, b in combinations(keep, 2)}
    nodes = sorted(keep | lcas)
    above = [next((nodes.index(n) for n in ancestors(parents, node)[1:] if n in nodes), -1) for node in nodes]
    return Minor(tuple(nodes), tuple(above))


@given(trees())
def test_minors_by_definition(tree: tuple[list[int], set[int]]) -> None:
    parents, keep = tree
    minor = reduce_tree(parents, keep)
    assert minor == brute_minor(parents, keep)
    assert minor.parents[0] == -1
    assert all(0 <= parent < place for place, parent in enumerate(minor.parents) if place)
    assert minor.edges == tuple((minor.nodes[p], n) for n, p in zip(minor.nodes, minor.parents, strict=True) if p >= 0)


@given(trees())
def test_a_minor_of_a_minor_is_itself(tree: tuple[list[int], set[int]]) -> None:
    parents, keep = tree
    minor = reduce_tree(parents, keep)
    again = reduce_tree(minor.parents, {minor.nodes.index(node) for node in keep})
    assert again == Minor(tuple(range(len(minor.nodes))), minor.parents)


@pytest.mark.parametrize(
    ("parents", "keep", "nodes", "above"),
    [
        ([-1], {0}, (0,), (-1,)),
        ([-1, 0, 1], {2}, (2,), (-1,)),  # a chain above one leaf goes
        ([-1, 0, 1], {0, 2}, (0, 2), (-1, 0)),  # an inner node with one child is contracted
        ([-1, 0, 1], {1, 2}, (1, 2), (-1, 0)),  # a kept inner node stays
        ([-1, 0, 0, 1], {3}, (3,), (-1,)),  # a leaf that is not kept goes
        ([-1, 0, 1, 1, 0], {2, 3, 4}, (0, 1, 2, 3, 4), (-1, 0, 1, 1, 0)),
    ],
)
def test_minors_by_hand(parents: list[int], keep: set[int], nodes: tuple[int, ...], above: tuple[int, ...]) -> None:
    assert reduce_tree(parents, keep) == Minor(nodes, above)
