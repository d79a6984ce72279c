"""NEXT for many constants at once: one walk along record values answers each constant with the first row that does.

Patterns that differ in a constant alone, as ``q >= c * p`` does, ask along one lane for the first row whose value is
great enough.  A row answers an interval of the constants: those behind the greatest one that earlier rows satisfy.
Only rows that are greater than all between them and the request answer any, and pointers lead from each to the next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.templates.columns import Int64s
from xscl.templates.sequences.lanes import Lane, Requests

__all__ = ["Answered", "Records", "answer_constants", "records_of"]


class Records(NamedTuple):
    """Rows of a lane by their times, and from each time the next one with a greater value."""

    begins: Int64s
    """Place of the first row of each key and time, and behind them the number of rows."""
    greatest: npt.NDArray[np.int64 | np.float64]
    """Greatest value of the rows of each."""
    onward: Int64s
    """The next of the same key with a greater value; behind the last one: there is none."""


class Answered(NamedTuple):
    """Rows with the intervals of constants that each answers for a request."""

    request: Int64s
    at: Int64s
    low: Int64s
    """Number of the first constant; constants are numbered as they are harder to satisfy."""
    high: Int64s
    """Number behind the last one."""


def records_of(lane: Lane, values: npt.NDArray[np.int64 | np.float64]) -> Records:
    """Find the next greater value of each time; values are those of the lane's rows."""
    begins = np.unique(np.append(lane.ties, 0))
    groups = begins[:-1]
    if not len(groups):
        return Records(begins, values, begins[:0])
    greatest = np.maximum.reduceat(values, groups)
    key = lane.key[groups]
    count = len(groups)
    ends = np.searchsorted(key, key, "right")  # where the next key begins
    onward = np.append(np.arange(1, count + 1), count)
    waits = np.arange(count)
    while len(waits):
        waits = waits[onward[waits] < ends[waits]]
        waits = waits[greatest[onward[waits]] <= greatest[waits]]
        # What stands between a value and the pointer of a smaller one is smaller than both.
        onward[waits] = onward[onward[waits]]
    onward[:count][onward[:count] >= ends] = count
    return Records(begins, greatest, onward)


def answer_constants(
    lane: Lane,
    records: Records,
    asked: Requests,
    satisfied: Callable[[Int64s, Int64s], Int64s],
    most: int,
) -> Answered:
    """Return for each request the first rows, one time after another, until all constants are answered.

    Args:
        lane: rows that are points in time.
        records: the values.
        asked: the requests.
        satisfied: tells how many constants rows satisfy for requests; greater values satisfy as many or more.
        most: the number of constants.
    """
    pos = lane.after(asked.key, np.maximum(asked.after, asked.low - 1))
    end = lane.after(asked.key, asked.until)
    mine = np.flatnonzero(pos < end)
    group = np.searchsorted(records.begins, pos[mine], "left")
    known = np.zeros(len(mine), dtype=np.int64)
    found = [Answered(mine[:0], mine[:0], mine[:0], mine[:0])]
    while len(mine):
        first, last = records.begins[group], records.begins[group + 1]
        which = np.repeat(np.arange(len(mine)), last - first)
        at = np.arange(len(which)) + np.repeat(last - np.cumsum(last - first), last - first)
        high = satisfied(mine[which], at)
        new = high > known[which]
        found.append(Answered(mine[which[new]], at[new], known[which[new]], high[new]))
        np.maximum.at(known, which, high)
        group = records.onward[group]
        goes = (known < most) & (group < len(records.greatest))
        goes[goes] = records.begins[group[goes]] < end[mine[goes]]
        mine, group, known = mine[goes], group[goes], known[goes]
    return Answered(*(np.concatenate(column) for column in zip(*found, strict=True)))
