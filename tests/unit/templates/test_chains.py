"""Codes of chains: equal for equal sets of rows, different for others, whatever batch they come in."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.arrow import CHAIN
from xscl.templates.chains import ChainCodes, ChainEntry, mixed

FIELDS = ("var1", "var2", "node1", "node2")
entries = st.tuples(
    *(st.sampled_from([-(1 << 63), -1, 0, 1, 2, (1 << 63) - 1]) for _ in "12"), *(st.integers(-1, 3),) * 2
)
chains = st.lists(st.lists(entries, max_size=3, unique=True), max_size=8)


def column(some: list[list[ChainEntry]]) -> pa.ListArray:
    return pa.array([[dict(zip(FIELDS, entry, strict=True)) for entry in chain] for chain in some], CHAIN)


@settings(deadline=None)
@given(chains, st.data())
def test_codes_tell_chains_apart(some: list[list[ChainEntry]], draw: st.DataObject) -> None:
    codes = ChainCodes()
    cut = draw.draw(st.integers(0, len(some)))
    whole = column([[], *some])
    # Slices begin somewhere in the columns that they share.
    found = [*codes.codes(whole.slice(1, cut)).tolist(), *codes.codes(whole.slice(1 + cut)).tolist()]
    for code, chain in zip(found, some, strict=True):
        assert sorted(codes[code]) == sorted(chain)
    assert len(set(found)) == len({frozenset(chain) for chain in some}) == len(codes)


def test_others_are_forgotten() -> None:
    codes = ChainCodes()
    one, two, _ = codes.codes(column([[(1, 2, 0, 1)], [(1, 2, 0, 2)], []])).tolist()
    codes.keep(np.array([two, two]))
    assert len(codes) == 1 and codes[two] == ((1, 2, 0, 2),)
    with pytest.raises(KeyError):
        codes[one]
    assert codes.codes(column([[(1, 2, 0, 1)]])).tolist() == [one], "the code of a chain stays"
    assert codes[one] == ((1, 2, 0, 1),)


def test_bits_depend_on_every_column_its_place_and_the_seed() -> None:
    rows = [(1, 2), (2, 1), (1, 3), (0, 0), (3, 3)]
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    found = [mixed(columns, seed).tolist() for seed in (1, 2)]
    assert len({number for numbers in found for number in numbers}) == 2 * len(rows)
    assert mixed([columns[0].astype(np.int32), columns[1]], 1).tolist() == found[0], "whatever the width"
