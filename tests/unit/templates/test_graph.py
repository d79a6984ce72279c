"""Value joins as people would write them."""

from __future__ import annotations

import operator
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xscl.templates.graph import Solved, ValueJoin, solved

COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
NUMBERS = st.fractions(min_value=-5, max_value=5, max_denominator=20)


def band(op: str, f: str, add: str = "0") -> Solved:
    return solved(ValueJoin(0, 1, "BAND", "number", "number", Fraction(f), Fraction(add), op))


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (("<=", "50/51"), ("r", ">=", "51/50", "0")),  # q >= 1.02 * p
        (("<=", "1.02"), ("l", "<=", "51/50", "0")),
        (("<", "0.1"), ("r", ">", "10", "0")),
        (("<=", "50/49"), ("r", ">=", "49/50", "0")),
        (("<=", "1", "3"), ("l", "<=", "1", "3")),
        (("<", "-1/3"), ("r", "<", "-3", "0")),  # x < -y / 3 is y < -3 * x
    ],
)
def test_the_side_that_stands_alone(given_: tuple[str, ...], expected: tuple[str, ...]) -> None:
    alone, op, f, add = expected
    assert band(*given_) == Solved(alone, op, Fraction(f), Fraction(add))  # type: ignore[arg-type]


@given(st.sampled_from(sorted(COMPARE)), NUMBERS.filter(bool), NUMBERS, NUMBERS, NUMBERS)
def test_both_say_the_same(op: str, f: Fraction, add: Fraction, left: Fraction, right: Fraction) -> None:
    form = band(op, str(f), str(add))
    one, other = (left, right) if form.alone == "l" else (right, left)
    assert COMPARE[form.op](one, form.f * other + form.add) == COMPARE[op](left, f * right + add)
