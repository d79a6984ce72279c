"""Passes of a unit of work: plans that are resolved together, on the pairs of some edges.

Plans whose anchor (``order``) has few pairs are resolved together, on the pairs of all such anchors.  The others are
resolved anchor by anchor; and those that ask for nothing else apart from these, because their pairs need not be looked
at one by one.  A plan with an edge that has no pair matches nothing in the batch, and nothing is enumerated for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

import numpy as np

from xscl.base.number_order import each_once
from xscl.templates.columns import Int64s
from xscl.templates.joins.edge_sets import Plans
from xscl.templates.joins.order import JoinOrder, PlanEdges, order_of

__all__ = ["Pass", "passes"]

_SPARES = 2
"""Spare pairs as many times, above which plans whose anchor is all that they ask for are resolved apart."""


class Pass(NamedTuple):
    """Plans that are resolved together, on the pairs of some edges."""

    order: JoinOrder
    plans: Plans | None
    """None: all plans."""
    single: bool
    """One edge, which is all that its plans ask for."""
    lines: frozenset[int] = frozenset()
    """Inequalities on numbers, one that each plan needs, where one edge finds all pairs; none: nothing is known."""


def passes(edges: PlanEdges, counts: Mapping[int, float], limit: float, spare: float) -> list[Pass]:
    """Return the passes of a batch.

    Args:
        edges: the plans of the program.
        counts: the exact number of pairs of each edge, which is missing if it has none.
        limit: the pairs of an anchor above which its plans are resolved apart; of plans that ask for nothing else,
            fewer are enough, because these pairs need not be written down.
        spare: the pairs that may be enumerated besides those of anchors.
    """
    anchor, pairs = edges.anchors(counts)
    alone = np.array([len(plan.needs) == 1 for plan in edges.plans], dtype=np.bool_)
    apart = pairs > np.where(alone, min(limit, _SPARES * spare), limit)
    large = np.flatnonzero(apart)
    together = np.flatnonzero((pairs > 0) & ~apart)
    order = order_of(edges, anchor, together, counts, spare)
    lines = _lines(edges, order, together)
    if not len(large):
        return [Pass(order, None, single=False, lines=lines)]
    found = [Pass(order, _plans("without", edges, large), single=False, lines=lines)]
    for single, places in ((True, large[alone[large]]), (False, large[~alone[large]])):
        for edge in each_once(anchor[places]).tolist():
            some = places[anchor[places] == edge]
            order = order_of(edges, anchor, some, counts, spare=0)
            found.append(Pass(order, _plans("only", edges, some), single, _lines(edges, order, some)))
    return found


def _lines(edges: PlanEdges, order: JoinOrder, some: Int64s) -> frozenset[int]:
    """Return ``lines`` of a pass of some plans."""
    return edges.lines_of(some) if len(order.enumerated) == 1 else frozenset()


def _plans(which: Literal["only", "without"], edges: PlanEdges, some: Int64s) -> Plans:
    """Return some plans or all others; equal ones of two batches have one number, so that signatures are found
    again.
    """
    names = frozenset(edges.plans[place].name for place in some.tolist())
    wanted = which == "only"
    return Plans(hash((which, names)), lambda plan: (plan.name in names) is wanted)
