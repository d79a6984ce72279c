"""Numbers of shapes: equal for equal nodes with equal sets of rows, whatever batch they come in; else different."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.arrow_schemas import CHAIN
from xscl.templates.shapes import ChainEntry, Shape, Shapes, mixed

FIELDS = ("var1", "var2", "node1", "node2")
variables = st.sampled_from([-(1 << 63), -1, 0, 1, 2, (1 << 63) - 1])
entries = st.tuples(variables, variables, st.integers(-1, 3), st.integers(-1, 3))
shapes = st.lists(st.tuples(st.integers(-1, 2), st.lists(entries, max_size=3, unique=True)), max_size=8)
Told = list[tuple[int, list[ChainEntry]]]


def columns(some: Told) -> tuple[pa.Array, pa.ListArray]:
    chains = [[dict(zip(FIELDS, entry, strict=True)) for entry in chain] for _, chain in some]
    return pa.array([node for node, _ in some], pa.int32()), pa.array(chains, CHAIN)


def numbers(known: Shapes, some: Told) -> list[int]:
    return known.numbers(*columns(some)).tolist()


@settings(deadline=None)
@given(shapes, st.data())
def test_numbers_tell_shapes_apart(some: Told, draw: st.DataObject) -> None:
    known = Shapes()
    cut = draw.draw(st.integers(0, len(some)))
    nodes, chains = columns([(0, []), *some])
    # Slices begin somewhere in the columns that they share.
    found = [
        number
        for part in (slice(1, 1 + cut), slice(1 + cut, None))
        for number in known.numbers(nodes[part], chains[part]).tolist()
    ]
    for number, (node, chain) in zip(found, some, strict=True):
        ((nodes, found_chain),) = known[number]
        assert nodes == (node,) and sorted(found_chain) == sorted(chain)
    assert len(set(found)) == len({(node, frozenset(chain)) for node, chain in some}) == len(known)


def test_others_are_forgotten() -> None:
    known = Shapes()
    one, two = numbers(known, [(1, [(1, 2, 0, 1)]), (2, [(1, 2, 0, 1)])])
    known.keep(np.array([two, two], dtype=np.int32))
    assert len(known) == 1 and known[two] == (Shape((2,), ((1, 2, 0, 1),)),)
    with pytest.raises(KeyError):
        known[one]
    (again, same) = numbers(known, [(1, [(1, 2, 0, 1)]), (2, [(1, 2, 0, 1)])])
    assert same == two and again not in (one, two), "no number is given twice"


def test_bits_depend_on_every_column_its_place_and_the_seed() -> None:
    rows = [(1, 2), (2, 1), (1, 3), (0, 0), (3, 3)]
    some = [np.array(column) for column in zip(*rows, strict=True)]
    found = [mixed(some, seed).tolist() for seed in (1, 2)]
    assert len({number for of_seed in found for number in of_seed}) == 2 * len(rows)
    assert mixed([some[0].astype(np.int32), some[1]], 1).tolist() == found[0], "whatever the width"
