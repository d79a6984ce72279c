"""Records in columns against lists of records."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.templates.columns import Int32s, Int64s, gather, stacked, take


class Two(NamedTuple):
    a: Int64s
    b: Int32s


def two(rows: list[tuple[int, int]]) -> Two:
    return Two(np.array([a for a, _ in rows], dtype=np.int64), np.array([b for _, b in rows], dtype=np.int32))


def told(columns: Two) -> list[tuple[int, int]]:
    return list(zip(*(column.tolist() for column in columns), strict=True))


rows = st.lists(st.tuples(st.integers(-9, 9), st.integers(-9, 9)), max_size=6)


@settings(deadline=None)
@given(rows, st.data())
def test_take(some: list[tuple[int, int]], draw: st.DataObject) -> None:
    at = draw.draw(st.lists(st.integers(0, len(some) - 1), max_size=5)) if some else []
    kept = draw.draw(st.lists(st.booleans(), min_size=len(some), max_size=len(some)))
    found = take(two(some), np.array(at, dtype=np.int64))
    assert isinstance(found, Two) and told(found) == [some[place] for place in at]
    assert told(take(two(some), np.array(kept, dtype=np.bool_))) == [
        row for row, keep in zip(some, kept, strict=True) if keep
    ]


@settings(deadline=None)
@given(st.lists(rows, min_size=1, max_size=4))
def test_stacked(parts: list[list[tuple[int, int]]]) -> None:
    found = stacked([two(part) for part in parts])
    assert told(found) == [row for part in parts for row in part]
    assert (found.a.dtype, found.b.dtype) == (np.int64, np.int32)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 4)), max_size=6))
def test_gather(spans: list[tuple[int, int]]) -> None:
    columns = two(spans)
    at, span = gather(columns.a, columns.b.astype(np.int64))
    expected = [(start + i, number) for number, (start, count) in enumerate(spans) for i in range(count)]
    assert list(zip(at.tolist(), span.tolist(), strict=True)) == expected
