"""Numbers of shapes: equal for equal nodes with equal sets of rows, different for others, in whatever batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.arrow import CHAIN
from xscl.templates.shapes import ChainEntry, Shapes, mixed

FIELDS = ("var1", "var2", "node1", "node2")
entries = st.tuples(
    *(st.sampled_from([-(1 << 63), -1, 0, 1, 2, (1 << 63) - 1]) for _ in "12"), *(st.integers(-1, 3),) * 2
)
chains = st.lists(st.lists(entries, max_size=3, unique=True), max_size=8)


def column(some: list[list[ChainEntry]]) -> pa.ListArray:
    return pa.array([[dict(zip(FIELDS, entry, strict=True)) for entry in chain] for chain in some], CHAIN)


@settings(deadline=None)
@given(chains, st.data())
def test_numbers_tell_shapes_apart(some: list[list[ChainEntry]], draw: st.DataObject) -> None:
    shapes = Shapes()
    cut = draw.draw(st.integers(0, len(some)))
    nodes = [draw.draw(st.integers(-1, 2)) for _ in some]
    whole, at = column([[], *some]), pa.array([0, *nodes], pa.int32())
    # Slices begin somewhere in the columns that they share.
    parts = (shapes.numbers(at.slice(*part), whole.slice(*part)) for part in ((1, cut), (1 + cut, len(some) - cut)))
    found = [number for part in parts for number in part.tolist()]
    for number, node, chain in zip(found, nodes, some, strict=True):
        assert shapes[number].node == node and sorted(shapes[number].chain) == sorted(chain)
    different = {(node, frozenset(chain)) for node, chain in zip(nodes, some, strict=True)}
    assert len(set(found)) == len(different) == len(shapes)


def test_others_are_forgotten() -> None:
    shapes = Shapes()
    nodes = pa.array([1, 2, 0], pa.int32())
    one, two, _ = shapes.numbers(nodes, column([[(1, 2, 0, 1)], [(1, 2, 0, 2)], []])).tolist()
    shapes.keep(np.array([two, two], np.int32))
    assert len(shapes) == 1 and shapes[two] == (2, ((1, 2, 0, 2),))
    with pytest.raises(KeyError):
        shapes[one]
    (again,) = shapes.numbers(nodes[:1], column([[(1, 2, 0, 1)]])).tolist()
    assert again not in (one, two) and shapes[again] == (1, ((1, 2, 0, 1),)), "no number is given twice"


def test_bits_depend_on_every_column_its_place_and_the_seed() -> None:
    rows = [(1, 2), (2, 1), (1, 3), (0, 0), (3, 3)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    found = [mixed(columns, seed).tolist() for seed in (1, 2)]
    assert len({number for numbers in found for number in numbers}) == 2 * len(rows)
    assert mixed([columns[0].astype(np.int32), columns[1]], 1).tolist() == found[0], "whatever the width"
