"""Windows as intervals, and matrices of them."""

from __future__ import annotations

from itertools import combinations, product

from hypothesis import given
from hypothesis import strategies as st

from xscl.templates.bounds import UNBOUNDED, Bounds, DifferenceBounds, NegativeCycle

ENDS = st.integers(-3, 3)
LIMITS = st.lists(st.tuples(st.permutations(range(3)), ENDS, st.integers(-1, 3)), max_size=6)


def test_no_bound() -> None:
    assert not Bounds().finite
    assert not Bounds(0).finite
    assert not Bounds(hi=0).finite
    assert Bounds(0, 0).finite
    assert Bounds().hi == UNBOUNDED == -Bounds().lo
    # All times of the calendar differ by less, and the difference of two of them fits into 64 bits.
    assert 10_000 * 366 * 86_400_000_000 < UNBOUNDED < 2**63


def test_what_encloses_both() -> None:
    assert Bounds(1, 2) | Bounds(4, 5) == Bounds(1, 5)
    assert Bounds(1, 2, 1) | Bounds(0, 5, 1) == Bounds(0, 5, 1)
    assert Bounds(1, 2, 1) | Bounds(0, 5) == Bounds(0, 5)


def test_order_breaks_ties() -> None:
    assert Bounds(0, 0, 1).admits(0, left_first=True)
    assert not Bounds(0, 0, 1).admits(0, left_first=False)
    assert Bounds(0, 0, -1).admits(0, left_first=False)
    assert not Bounds(0, 0).admits(1, left_first=True)


@given(LIMITS)
def test_tightened_bounds_are_those_of_all_solutions(limits: list[tuple[list[int], int, int]]) -> None:
    """Small limits cannot move three times further apart than the range that is tried."""
    matrix = DifferenceBounds(3)
    asked = [(left, right, lo, lo + width) for (left, right, _), lo, width in limits]
    for limit in asked:
        matrix.limit(*limit)
    times = [(0, b, c) for b, c in product(range(-13, 14), repeat=2)]
    solutions = [t for t in times if all(lo <= t[j] - t[i] <= hi for i, j, lo, hi in asked)]
    try:
        tightened = matrix.tightened()
    except NegativeCycle as cycle:
        assert not solutions
        assert cycle.blocks[0] == cycle.blocks[-1]
        assert sum(cycle.steps) > 0
        pairs = zip(cycle.blocks, cycle.blocks[1:], strict=False)
        assert [-matrix.upper[later][earlier] for earlier, later in pairs] == list(cycle.steps)
        return
    assert solutions
    for (i, j), bounds in zip(combinations(range(3), 2), tightened, strict=True):
        differences = {t[j] - t[i] for t in solutions}
        if bounds.finite:
            assert (min(differences), max(differences)) == (bounds.lo, bounds.hi)


def test_the_cycle_that_nothing_satisfies() -> None:
    matrix = DifferenceBounds(3)
    for left, right in ((0, 1), (1, 2), (2, 0)):
        matrix.limit(left, right, 1, 5)
    try:
        matrix.tightened()
    except NegativeCycle as cycle:
        assert (cycle.blocks, cycle.steps) == ((0, 1, 2, 0), (1, 1, 1))
    else:
        raise AssertionError("satisfiable")
