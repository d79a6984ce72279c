"""NEXT for many constants in one walk finds what a walk for each constant finds."""

from __future__ import annotations

import numpy as np
import pytest

from tests.budget import examples
from xscl.templates.sequences.lanes import FAR, Requests, advance, lane_of
from xscl.templates.sequences.thresholds import answer_constants, records_of


@pytest.mark.parametrize("seed", range(examples(40)))
def test_intervals_of_constants_are_the_constants_one_by_one(seed: int) -> None:
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    key, ts = random.integers(0, 3, count), random.integers(0, 40, count)
    value = random.integers(0, 30, count)
    lane = lane_of(key, ts, ts)
    values, price = value[lane.row], random.integers(1, 6, count)
    constants = np.sort(random.integers(0, 12, int(random.integers(1, 8))))
    until = ts + random.integers(0, 30, count) if seed % 2 else np.full(count, FAR)
    asked = Requests(key, ts, ts + seed % 3, until)
    found = answer_constants(
        lane,
        records_of(lane, values),
        asked,
        lambda request, at: np.searchsorted(constants, values[at] // price[request], "right"),
        len(constants),
    )
    by_constant = {
        (request, at, constant)
        for request, at, low, high in zip(*(column.tolist() for column in found), strict=True)
        for constant in range(low, high)
    }
    expected = set()
    for number, constant in enumerate(constants.tolist()):
        hits = advance(lane, asked, lambda request, at, c=constant: values[at] >= c * price[request])  # type: ignore[misc]
        expected |= {(request, at, number) for request, at in zip(*(each.tolist() for each in hits), strict=True)}
    assert by_constant == expected
