"""Windows as intervals."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from xscl.templates.bounds import UNBOUNDED, Bounds

ENDS = st.integers(-5, 5)


def holds(bounds: Bounds, value: int) -> bool:
    return bounds.lo <= value <= bounds.hi


@given(ENDS, ENDS, ENDS, ENDS)
def test_both(a: int, b: int, c: int, d: int) -> None:
    left, right = Bounds(a, b), Bounds(c, d)
    both = left & right
    inside = [value for value in range(-6, 7) if holds(left, value) and holds(right, value)]
    assert [value for value in range(-6, 7) if holds(both, value)] == inside
    assert both.empty == (not inside)
    assert both == right & left


def test_no_bound() -> None:
    assert Bounds() & Bounds(1, 2) == Bounds(1, 2)
    assert not Bounds().finite
    assert not Bounds(0).finite
    assert not Bounds(hi=0).finite
    assert Bounds(0, 0).finite
    assert not Bounds().empty
    assert Bounds().hi == UNBOUNDED == -Bounds().lo
    # All times of the calendar differ by less, and the difference of two of them fits into 64 bits.
    assert 10_000 * 366 * 86_400_000_000 < UNBOUNDED < 2**63
