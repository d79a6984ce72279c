"""Numbers in order by digits and tables are those that numpy's comparisons give."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pytest

from xscl.base.number_order import each_once, order_by, order_of, places_in

Ints = npt.NDArray[np.int64]
LEAST, MOST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SPANS = ((0, 9), (-5, 70_000), (LEAST, MOST), (0, 1 << 62), (-(1 << 40), 3), (10**12, 10**12 + 9_000), (MOST - 7, MOST))
COUNTS = (0, 1, 7, 1_499, 1_500, 6_000)


def arrays(seed: int) -> Iterator[Ints]:
    """Numbers of every span, few and many, in no order and in order."""
    choose = np.random.default_rng(seed)
    for least, most in SPANS:
        for count in COUNTS:
            numbers = choose.integers(least, most, count, endpoint=True)
            yield numbers
            yield np.sort(numbers)


@pytest.mark.parametrize("seed", range(3))
def test_orders(seed: int) -> None:
    for numbers in arrays(seed):
        order = np.argsort(numbers, kind="stable")
        assert (order_of(numbers) == order).all()
        if len(numbers) and numbers.min() >= 0 and numbers.max() < MOST:
            assert (order_of(numbers, int(numbers.max()) + 1) == order).all()
        unsigned = numbers.view(np.uint64)
        for some in (numbers, unsigned):
            found = each_once(some)
            assert found.dtype == some.dtype and (found == np.unique(some)).all()


def test_orders_by_several_columns() -> None:
    choose = np.random.default_rng(1)
    for count in COUNTS:
        columns = [choose.integers(0, most, count) for most in (5, 1 << 20, 3)]
        assert (order_by(*columns) == np.lexsort(columns[::-1])).all()


def test_places() -> None:
    for rising in arrays(1):
        rising.sort()
        for wanted in arrays(2):
            assert (places_in(rising, wanted) == np.searchsorted(rising, wanted)).all()
