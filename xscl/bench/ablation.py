"""Ablation of the Filter workload (Figure 4.14 of the thesis): what its index of conditions and its lanes are worth.

The same subscriptions are answered with both, with one of them left out, and each by itself in a loop over its events,
as automata in Python do.  Without the index each step of each subscription asks all events.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from xscl.bench.report import Row
from xscl.bench.subscriptions import WIDTH, Subscriptions, alone, columns_of, index_of, moved
from xscl.templates.columns import Int64s

__all__ = ["Ablated", "measure_ablated"]

T = TypeVar("T")
_LOOPED = 20
"""Subscriptions, about, that a loop answers; the others are taken to cost as much."""


@dataclass(frozen=True, slots=True)
class Ablated:
    """Subscriptions whose parts are left out one by one."""

    data: Subscriptions


def measure_ablated(case: Ablated, sample: int) -> tuple[Row, bool]:
    """Return how many times as long all takes without a part, and whether the answers are equal.

    Args:
        case: the subscriptions.
        sample: how many of those with an answer the loop answers, too.
    """
    data = case.data
    index, columns = index_of(data), columns_of(data.events)
    for _ in index.satisfied(columns_of(data.events[:10])):
        pass  # as for all subscriptions

    def by_index() -> tuple[Int64s, Int64s]:
        row, number = (np.concatenate(each) for each in zip(*index.satisfied(columns), strict=True))
        return row, number

    index_s, found = _timed(by_index)
    asked_s, same = _timed(lambda: _asked(data))
    lanes_s, matches = _timed(lambda: moved(data, *found))
    apart_s, others = _timed(lambda: moved(data, *found, in_lanes=False))
    having = np.unique(matches[0][:, 0])[:sample].tolist()
    chosen = sorted({*np.linspace(0, len(data) - 1, _LOOPED).astype(int).tolist(), *having})
    loop_s, looped = _timed(lambda: [set(alone(data, one)) for one in chosen])
    told = {tuple(match) for each in matches for match in each.tolist()}
    agrees = [{match for match in told if match[0] == one} for one in chosen] == looped
    agrees &= told == {tuple(match) for each in others for match in each.tolist()}
    agrees &= set(zip(*(each.tolist() for each in found), strict=True)) == set(
        zip(*(each.tolist() for each in same), strict=True)
    )
    whole_s, none_s = index_s + lanes_s, loop_s * len(data) / len(chosen)
    figures: Row = {
        "matches": len(matches[1]),
        "events_per_s": len(data.events) / whole_s,
        "slowdown_without_index": (asked_s + lanes_s) / whole_s,
        "slowdown_without_lanes": (index_s + apart_s) / whole_s,
        "slowdown_without_both": (asked_s + apart_s) / whole_s,
        "slowdown_of_loops": none_s / whole_s,
    }
    return figures, agrees


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    begin = time.process_time()
    found = work()
    return time.process_time() - begin, found


def _asked(data: Subscriptions) -> tuple[Int64s, Int64s]:
    """Return the events that satisfy each step of each subscription, one step after another."""
    columns = np.ascontiguousarray(data.events.T)
    rows, numbers = [], []
    for number, (equal, ranges) in enumerate(
        zip(data.equal.reshape(-1, 3).tolist(), data.ranges.reshape(-1, 2, 2).tolist(), strict=True)
    ):
        first, attribute, second = equal
        good = (columns[0] == first) & (columns[attribute] == second)
        for column, low in ranges:
            good &= (columns[column] >= low) & (columns[column] <= low + WIDTH)
        row = np.flatnonzero(good)
        rows.append(row)
        numbers.append(np.full(len(row), number))
    return np.concatenate(rows), np.concatenate(numbers)
