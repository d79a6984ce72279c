"""Rounds of a FOLD, in which open instances take their next rows together and go on while a condition holds.

An instance waits for the first rows that satisfy the condition of the step.  Rows that satisfy WHILE make the instances
of the next round, and other rows end the run.  Rows of times that are not settled wait, and so do instances that may
take one.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.lanes import Lane, Requests, advance

__all__ = ["MOST_INSTANCES", "MOST_ROUNDS", "Folded", "Rules", "folded"]

MOST_ROUNDS = 10_000
"""Iterations of a run, and instances that begin with one left."""
MOST_INSTANCES = 500_000
"""Instances that are made at once; runs that go on behind them are cut off, or memory would end."""


class Rules(Protocol):
    """Conditions and values of a FOLD, over instances that are numbered from 0 on as they are made."""

    def passes(self, instance: Int64s, at: Int64s) -> Bools:
        """Tell which rows of the lane are those that instances wait for."""

    def holds(self, instance: Int64s, at: Int64s) -> Bools:
        """Tell which rows satisfy WHILE."""

    def go_on(self, instance: Int64s, at: Int64s) -> None:
        """Add the instances that have taken these rows, in this order."""

    def requests(self, instance: Int64s) -> Requests:
        """Return what instances ask for."""


class Folded(NamedTuple):
    """Outcome of all rounds."""

    parent: Int64s
    """Instance that each new one was made of; new ones are numbered behind those of the beginning."""
    at: Int64s
    """Row of the lane that each new one has taken."""
    waiting: Int64s
    """Instances that wait for their next rows."""
    ended: Int64s
    """Instances whose runs have ended: no further row satisfies WHILE."""
    end: Int64s
    """Time up to which that had to be settled, of each."""
    too_long: Int64s
    """Instances at which runs were cut off, since these have more iterations or instances than runs may have."""


def folded(
    lane: Lane,
    count: int,
    taken: Int64s,
    left: Int64s,
    rules: Rules,
    settled: int,
    at_most: Int64s | None = None,
    most: int = MOST_INSTANCES,
) -> Folded:
    """Run a FOLD over what is settled.

    Args:
        lane: the rows.
        count: number of open instances at the beginning.
        taken: rows that each of them has taken so far.
        left: number of the left that each began with.
        rules: the conditions.
        settled: rows before this time are looked at.
        at_most: rows that each of them takes.
        most: instances that are made at once.
    """
    active = np.arange(count)
    parents, rows, waiting, ended, ends, too_long = ([active[:0]] for _ in range(6))
    while len(active):
        asked = rules.requests(active)
        seen = asked._replace(until=np.minimum(asked.until, settled - 1))
        hits = advance(lane, seen, lambda request, at, of=active: rules.passes(of[request], at))  # type: ignore[misc]
        found = np.zeros(len(active), dtype=np.bool_)
        found[hits.request] = True
        may_come = ~found & (asked.until >= settled)
        waiting.append(active[may_come])
        goes_on = rules.holds(active[hits.request], hits.at)
        over, when = _ended(lane, asked, hits.request, hits.at, goes_on, found | may_come)
        ended.append(active[over])
        ends.append(when)
        request, at = hits.request[goes_on], hits.at[goes_on]
        rules.go_on(active[request], at)
        parents.append(active[request])
        rows.append(at)
        taken = np.append(taken, taken[active[request]] + 1)
        left = np.append(left, left[active[request]])
        at_most = None if at_most is None else np.append(at_most, at_most[active[request]])
        active = np.arange(len(left) - len(at), len(left))
        goes = taken[active] < (MOST_ROUNDS + 1 if at_most is None else at_most[active])
        cut = (_cut(taken, left, active) | (len(left) - count > most)) & goes
        too_long.append(active[cut])
        goes &= ~cut
        ended.append(active[~goes])
        ends.append(lane.ts[at][~goes])
        active = active[goes]
    return Folded(
        np.concatenate(parents),
        np.concatenate(rows),
        np.concatenate(waiting),
        np.concatenate(ended),
        np.concatenate(ends),
        np.concatenate(too_long),
    )


def _ended(
    lane: Lane, asked: Requests, request: Int64s, at: Int64s, goes_on: Bools, open_: Bools
) -> tuple[Int64s, Int64s]:
    """Return the active instances that no row satisfies WHILE for, and the time that told so."""
    when = np.where(open_, -1, asked.until)
    over = ~open_
    failed = np.zeros(len(open_), dtype=np.bool_)
    failed[request] = True
    failed[request[goes_on]] = False
    when[request] = lane.ts[at]
    found = np.flatnonzero(over | failed)
    return found, when[found]


def _cut(taken: Int64s, left: Int64s, active: Int64s) -> Bools:
    """Tell which instances are of runs that are too long, or of lefts with too many instances at once."""
    cut: Bools = taken[active] >= MOST_ROUNDS
    if len(active) >= MOST_ROUNDS:
        numbers, code, counts = np.unique(left[active], return_inverse=True, return_counts=True)
        cut |= counts[code] >= MOST_ROUNDS
    return cut
