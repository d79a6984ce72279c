"""The bench of levels of consistency: what its loops tell, by hand, and that a small run finds what it must."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pytest

from xscl.bench.bench import Options, run_bench
from xscl.bench.consistency import BENCH, LEVELS
from xscl.bench.orders import LATENESS_S, ORDERS, PAYMENTS, WINDOW_S, Part
from xscl.bench.seen_orders import QUESTIONS, Answers, Seen

S = 1_000_000


def part(orders: dict[int, int], payments: dict[int, int], shops: str = "") -> Part:
    """Return events that come together; shops are letters, by the order of the orders."""
    tables = [{"no": [*some], "ts": [ts * S for ts in some.values()]} for some in (orders, payments)]
    tables[0]["shop"] = [*(shops or "A" * len(orders))]
    return Part(*map(pa.table, tables))


def seen(parts: Sequence[Part], memory: int) -> Seen:
    found = Seen(memory)
    for each in parts:
        found.take(each)
    return found


def answers(name: str, events: Seen) -> Answers:
    (question,) = (each for each in QUESTIONS if each.name == name)
    return question.answers(events)


@pytest.mark.parametrize(
    ("memory", "unpaid", "forgotten"), [(LATENESS_S, {4}, (0, 0)), (60, {3, 4}, (0, 1)), (0, {1, 4}, (1, 2))]
)
def test_what_a_memory_leaves(memory: int, unpaid: set[int], forgotten: tuple[int, int]) -> None:
    parts = [
        part({1: 0, 2: 100, 3: 40}, {2: 200, 9: 300}),
        part({4: 500}, {1: 250, 3: 100, 4: 500 + WINDOW_S + 1}),
    ]
    events = seen(parts, memory)
    times = {1: 0, 2: 100, 3: 40, 4: 500}
    assert answers("absence", events) == {(number,): (times[number] + WINDOW_S) * S for number in unpaid}
    assert (events.forgotten[ORDERS], events.forgotten[PAYMENTS]) == forgotten


def test_what_comes_next_and_runs() -> None:
    """Order 15 comes late, and ends runs over it."""
    parts = [part({1: 1, 10: 10, 12: 12, 30: 30, 41: 41}, {}, "ABAAB"), part({15: 15, 50: 50}, {}, "AA")]
    first = seen(parts[:1], LATENESS_S)
    assert answers("NEXT", first) == {(1, 12): 12 * S, (12, 30): 30 * S, (10, 41): 41 * S}
    assert answers("FOLD", first) == {(1, 12): 12 * S, (1, 30): 30 * S, (12, 30): 30 * S, (10, 41): 41 * S}
    both = seen(parts, LATENESS_S)
    assert [*answers("NEXT", both)] == [(1, 12), (12, 15), (15, 30), (30, 50), (10, 41)]
    assert [*answers("FOLD", both)] == [(1, 12), (15, 30), (15, 50), (30, 50), (10, 41)]


def test_the_bench_checks_what_it_finds() -> None:
    report = run_bench(replace(BENCH, sizes=replace(BENCH.sizes, disorder=(0.4,))), Options(items=150, batch=40), print)
    assert report.figures["digest_equal"] is True
    assert len(report.table) == len(QUESTIONS) * len(LEVELS)
    for question in QUESTIONS:
        rows = {row["level"]: row for row in report.table if row["question"] == question.name}
        assert [*rows] == [*LEVELS]
        assert rows["STRONG"]["quality"] == rows["MIDDLE"]["quality"] == 1 > rows["WEAK"]["quality"]
        assert rows["MIDDLE"]["retractions"] > 0 == rows["STRONG"]["retractions"]
        assert rows["STRONG"]["blocking_s"] > 0 == rows["MIDDLE"]["blocking_s"]
