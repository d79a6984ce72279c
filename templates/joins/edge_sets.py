"""Sets of matched edges: what a program asks of the pairs of documents that have one.

Queries with conditions of their own on a result node are plans of their own, and nearly every document has other such
nodes.  So windows with guards are looked at set by set, for all of its pairs together, and a plan is solved in the
pairs alone that one of its windows admits.  Plans with a window without a guard are solved in all pairs of the set.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from xscl.templates.columns import Int64s, stacked, take
from xscl.templates.joins.guarded_windows import GuardedWindows, guarded, guarded_windows
from xscl.templates.plans import InstancePlan, LinkPlan, Windows
from xscl.templates.program import Program

__all__ = ["EdgeSet", "EdgeSets", "GuardedPlans", "Plans"]

_MOST_NUMBERS = 3_000_000
"""Edges, plans and windows of the sets that are remembered."""


@dataclass(frozen=True)
class Plans:
    """Some instances and links of a program."""

    number: int
    """Different for different ones."""
    includes: Callable[[InstancePlan | LinkPlan], bool]


@dataclass(frozen=True, eq=False)
class GuardedPlans:
    """The plans of a set that have windows with guards."""

    plans: tuple[InstancePlan, ...]
    starts: Int64s
    """The first window of each plan, and the end."""
    windows: Windows
    """Windows with guards, plan by plan."""
    rules: GuardedWindows

    def of_windows(self, rows: Int64s) -> Int64s:
        """Return the place of the plan of each of some windows."""
        found: Int64s = np.searchsorted(self.starts, rows, side="right") - 1
        return found


@dataclass(frozen=True, eq=False)
class EdgeSet:
    """Plans that are asked of pairs with the same matched edges."""

    plans: tuple[InstancePlan | LinkPlan, ...]
    """Links, and instances that have a window without a guard."""
    guarded: GuardedPlans | None
    """Instances that have windows with guards; None: there are none."""
    names: frozenset[tuple[bool, int]]
    """Names of ``plans``."""


class EdgeSets:
    """The sets of a program that were met, for one version of it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._version = program.version
        self._known: dict[tuple[frozenset[int], int | None], EdgeSet] = {}
        self._size = 0

    def of(self, edges: frozenset[int], plans: Plans | None) -> EdgeSet:
        """Return what is asked of pairs with some matched edges; with ``plans`` by these alone."""
        if self._version != self._program.version or self._size >= _MOST_NUMBERS:
            self._known.clear()
            self._version, self._size = self._program.version, 0
        key = edges, None if plans is None else plans.number
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = _edge_set(self._program, edges, plans)
            self._size += len(edges) + len(known.plans)
            self._size += 0 if known.guarded is None else len(known.guarded.windows.gid)
        return known


def _edge_set(program: Program, edges: frozenset[int], plans: Plans | None) -> EdgeSet:
    everywhere: list[InstancePlan | LinkPlan] = []
    of_guards: list[InstancePlan] = []
    windows: list[Windows] = []
    for edge in sorted(edges):
        for plan in program.by_edge.get(edge, ()):
            if not plan.needs <= edges or not (plans is None or plans.includes(plan)):
                continue
            if isinstance(plan, LinkPlan):
                everywhere.append(plan)
                continue
            mine = program.windows(plan.number)
            some = guarded(mine)
            if some.any():
                of_guards.append(plan)
                windows.append(mine if some.all() else take(mine, some))
            if not some.all():
                everywhere.append(plan)
    return EdgeSet(
        tuple(everywhere),
        _guarded_plans(program, of_guards, windows) if of_guards else None,
        frozenset(plan.name for plan in everywhere),
    )


def _guarded_plans(program: Program, plans: Sequence[InstancePlan], windows: Sequence[Windows]) -> GuardedPlans:
    starts = np.cumsum([0, *(len(each.gid) for each in windows)])
    together = stacked(windows)
    return GuardedPlans(tuple(plans), starts, together, guarded_windows(together, program.guards.table))
