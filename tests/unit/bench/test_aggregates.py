"""The bench of windows of rows: what it expects, against a loop, and against DuckDB."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

import pytest

from xscl.bench.aggregates import Asked, AskedAgain, Readings, told

ASKED = tuple(Asked(*each) for each in product([("k",), ("k", "l")], ["count()", "sum(v)", "max(v)"], [1, 3]))


@pytest.mark.parametrize("asked", ASKED)
def test_values_are_those_of_a_loop(asked: Asked) -> None:
    readings = Readings(20_000, ASKED, 10, seed=2)
    windows: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for row in readings.table.slice(0, 20_000).to_pylist()[::50]:
        for back in range(asked.minutes):
            windows[row["ts"] // 60_000_000 - back, *(row[name] for name in asked.grouping)].append(row["v"])
    made = {"count()": len, "sum(v)": sum, "max(v)": max}[asked.function]
    expected = sorted(made(values) for values in windows.values())
    table = readings.table.take(list(range(0, 20_000, 50)))
    assert sorted(told(table, asked).tolist()) == expected


def test_duckdb_has_as_many_answers() -> None:
    pytest.importorskip("duckdb")
    readings = Readings(3_000, ASKED, 40, seed=3)
    again = AskedAgain(readings.thresholds)
    for start in range(0, 3_000, 1_000):
        again.take(readings.table.slice(start, 1_000))
    assert again.answers == sum(readings.expected().values()) > 3
