"""Double tops: the published example, and equal answers of all formulations."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from xscl.bench.bench import Options, run_bench
from xscl.bench.double_top import BENCH, new_prices, tops, tops_of_duckdb

PRICES = [120, 100, 110, 130, 120, 105, 120, 128, 110, 90, 95]


def prices(values: list[int], names: tuple[int, ...] = (0,)) -> pa.Table:
    """The same prices of some names, in turns."""
    count = len(values) * len(names)
    columns = {
        "no": range(count),
        "ts": range(count),
        "name": [name for _ in values for name in names],
        "price": [value for value in values for _ in names],
    }
    return pa.table({name: pa.array(column, pa.int64()) for name, column in columns.items()})


@pytest.mark.parametrize("joined", [False, True])
def test_the_published_example(joined: bool) -> None:
    pytest.importorskip("duckdb")
    expected = [(10, 0, 100, 130, 105, 128, 90)]
    assert list(tops(prices(PRICES))) == tops_of_duckdb(prices(PRICES), joined=joined) == expected
    two = prices(PRICES, (3, 7))
    assert list(tops(two)) == sorted(tops_of_duckdb(two, joined=joined))
    assert [each[1] for each in tops(two)] == [3, 7]


@pytest.mark.parametrize(
    "changes",
    [{3: 119, 4: 118}, {5: 111}, {5: 89}, {6: 110, 7: 116}, {7: 144}, {9: 100}, {10: 89}],
)
def test_bounds_of_the_pattern(changes: dict[int, int]) -> None:
    """B is too low; C too high or too low; D too low or too high; E is not below A; E goes on falling."""
    changed = [changes.get(place, price) for place, price in enumerate(PRICES)]
    assert list(tops(prices(changed))) == []


def test_prices_that_are_as_before_are_left_out() -> None:
    made = new_prices(3, 200, 4, seed=2)
    for name in range(3):
        of = made.filter(pa.array(made.column("name").to_numpy() == name)).column("price").to_numpy()
        assert len(of) > 150 and np.all(np.diff(of) != 0)
    assert np.all(np.diff(made.column("ts").to_numpy()) > 0)
    smooth, rough = (np.abs(np.diff(np.log(new_prices(1, 500, days, 1)["price"].to_numpy()))).mean() for days in (9, 1))
    assert smooth < rough / 2


def test_all_formulations_have_the_same_answers() -> None:
    report = run_bench(BENCH, Options(quick=True), lambda _: None)
    assert report.figures["digest_equal"] is True
    found = {(row["smoothing"], row["matches"]) for row in report.table}
    assert len(found) == 2 and all(matches for _, matches in found)
    assert {row["mode"] for row in report.table} >= {"FOLD", "lows and highs", "loop"}
