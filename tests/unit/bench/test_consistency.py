"""The bench of levels of consistency: what its loop tells, by hand, and that a small run finds what it must."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa

from xscl.bench.bench import Options, run_bench
from xscl.bench.consistency import BENCH, LEVELS, remembered_unpaid
from xscl.bench.orders import LATENESS_S, WINDOW_S, Part

S = 1_000_000


def part(orders: dict[int, int], payments: dict[int, int]) -> Part:
    tables = [{"no": [*some], "ts": [ts * S for ts in some.values()]} for some in (orders, payments)]
    return Part(*map(pa.table, tables))


def test_what_a_memory_leaves() -> None:
    parts = [
        part({1: 0, 2: 100, 3: 40}, {2: 200, 9: 300}),
        part({4: 500}, {1: 250, 3: 100, 4: 500 + WINDOW_S + 1}),
    ]
    assert remembered_unpaid(iter(parts), LATENESS_S) == ({4}, 0)
    assert remembered_unpaid(iter(parts), 60) == ({3, 4}, 1)
    assert remembered_unpaid(iter(parts), 0) == ({1, 4}, 3)


def test_the_bench_checks_what_it_finds() -> None:
    report = run_bench(replace(BENCH, sizes=replace(BENCH.sizes, disorder=(0.4,))), Options(items=150, batch=40), print)
    assert report.figures["digest_equal"] is True
    rows = {row["level"]: row for row in report.table}
    assert [*rows] == [*LEVELS]
    assert rows["STRONG"]["quality"] == rows["MIDDLE"]["quality"] == 1 > rows["WEAK"]["quality"]
    assert rows["MIDDLE"]["retractions"] > 0 == rows["STRONG"]["retractions"]
    assert rows["STRONG"]["blocking_s"] > 0 == rows["MIDDLE"]["blocking_s"]
