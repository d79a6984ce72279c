"""The choice of edges that a batch enumerates, and of those that it verifies on the pairs of others.

A value that many documents share (a channel's name) makes nearly all pairs of a batch, and hardly a query needs them:
most also ask for a value that few documents share.  So each plan has an *anchor*, its edge with the fewest pairs in the
batch, and anchors are enumerated.  The other edges of a plan are looked up on the pairs of its anchor, like an
inequality, unless all of them together have few pairs more than their anchors.

The law: the anchor of every plan is enumerated, and all other needs of the plan are enumerated or verified on the
anchor's pairs.  So the choice never changes an answer, and may be another one in each batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int64s, gather
from xscl.templates.joins.families import is_line
from xscl.templates.plans import InstancePlan, LinkPlan
from xscl.templates.program import Program

__all__ = ["JoinOrder", "PlanEdges", "order_of", "pair_limit", "plan_edges", "spare_pairs"]

_PAIRS_PER_ROW = 10
_ROWS_AT_LEAST = 10_000
_EDGE_BITS = 28
_MOST_PAIRS = (1 << 62 - _EDGE_BITS) - 1
"""Pairs of one edge that are told apart."""


@dataclass(frozen=True, slots=True)
class JoinOrder:
    """The edges by which the pairs of one batch are found."""

    enumerated: frozenset[int]
    """Edges whose pairs are enumerated; those of one document (``ONE``) always are."""
    needs: Mapping[int, frozenset[frozenset[int]]]
    """Enumerated edge to the edges that are looked up on its pairs: those of each plan."""
    required: Mapping[int, tuple[int, ...]]
    """Enumerated edge to those of its verified edges that all its plans need, the ones with the fewest pairs first:
    where one of them fails, the others need not be looked up.
    """


class PlanEdges(NamedTuple):
    """The plans of a program that look for pairs, and the edges by which each can find them."""

    plans: list[InstancePlan | LinkPlan]
    starts: Int64s
    """The first edge of each plan, and the end."""
    edges: Int64s
    """Numbers of edges, plan by plan."""
    others: Bools
    """Whether a plan has needs besides these edges (inequalities), by plan."""
    lines: Int64s
    """An inequality on numbers that each plan needs (``families.is_line``); -1: it needs none."""

    def lines_of(self, some: Int64s) -> frozenset[int]:
        """Return inequalities on numbers, one that each of some plans needs; none where some plan needs none."""
        found = each_once(self.lines[some])
        return frozenset(found.tolist()) if len(found) and found[0] >= 0 else frozenset()

    def anchors(self, counts: Mapping[int, float]) -> tuple[Int64s, Int64s]:
        """Return for each plan the edge with the fewest pairs, the least of equal ones; and its pairs.

        ``counts`` are the pairs of each edge; an edge that is missing has none.
        """
        if not self.plans:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        pairs = _pairs(counts, self.edges)
        least = np.minimum.reduceat(pairs << _EDGE_BITS | self.edges, self.starts[:-1])
        return least & (1 << _EDGE_BITS) - 1, least >> _EDGE_BITS


def plan_edges(program: Program) -> PlanEdges:
    """Return the plans of a program by the edges that find their pairs; those of one block find none."""
    finding = {number for number, edge in program.edges.items() if edge.key.kind == "EQ"}
    lines = {number for number, edge in program.edges.items() if is_line(edge)}
    plans: list[InstancePlan | LinkPlan] = []
    starts, edges, others = [0], [], []
    every: Iterable[InstancePlan | LinkPlan] = (*program.instances.values(), *program.links.values())
    for plan in every:
        own = [number for number in plan.needs if number in finding]
        if own:
            plans.append(plan)
            edges += own
            starts.append(len(edges))
            others.append(len(own) < len(plan.needs))
    return PlanEdges(
        plans,
        np.array(starts, dtype=np.int64),
        np.array(edges, dtype=np.int64),
        np.array(others, dtype=np.bool_),
        np.array([min(plan.needs & lines, default=-1) for plan in plans], dtype=np.int64),
    )


def pair_limit(rows: int) -> int:
    """Return the number of pairs above which an edge is resolved apart, in a batch of so many witness rows."""
    return _PAIRS_PER_ROW * (rows + _ROWS_AT_LEAST)


def spare_pairs(rows: int) -> int:
    """Return the number of pairs that may be enumerated though anchors find them, because few cost less
    than to look them up; in a batch of so many witness rows.
    """
    return rows + _ROWS_AT_LEAST


def order_of(edges: PlanEdges, anchor: Int64s, wanted: Int64s, counts: Mapping[int, float], spare: float) -> JoinOrder:
    """Return the order for some plans alone.

    Args:
        edges: all plans.
        anchor: the anchor of each plan.
        wanted: places of the plans in question.
        counts: the pairs of each edge.
        spare: the pairs that may be enumerated besides those of anchors.
    """
    enumerated = each_once(anchor[wanted])
    at, of = gather(edges.starts[wanted], (edges.starts[wanted + 1] - edges.starts[wanted]))
    of_anchor = anchor[wanted[of]]
    waiting = ~np.isin(edges.edges[at], enumerated)
    if waiting.any():
        # The pairs of an edge are compared with those on which it would be looked up.
        asked = each_once(edges.edges[at[waiting]] << _EDGE_BITS | of_anchor[waiting])
        edge, which = np.unique(asked >> _EDGE_BITS, return_inverse=True)
        looked_up = np.bincount(which, weights=_pairs(counts, asked & (1 << _EDGE_BITS) - 1))
        more = np.maximum(_pairs(counts, edge) - looked_up, 0)
        cheapest = np.argsort(more, kind="stable")
        few = np.cumsum(more[cheapest]) <= spare
        enumerated = each_once(np.concatenate([enumerated, edge[cheapest[few]]]))
    known = frozenset(enumerated.tolist())
    needs: defaultdict[int, list[frozenset[int]]] = defaultdict(list)
    left = ~np.isin(edges.edges[at], enumerated)
    for place in each_once(np.concatenate([of[left], np.flatnonzero(edges.others[wanted])])).tolist():
        needs[int(anchor[wanted[place]])].append(edges.plans[wanted[place]].needs - known)
    plans = np.unique(anchor[wanted], return_counts=True)
    every = dict(zip(*(column.tolist() for column in plans), strict=True))
    # A plan that has nothing looked up requires nothing.
    required = {edge: frozenset.intersection(*of) for edge, of in needs.items() if len(of) == every[edge]}
    return JoinOrder(
        known,
        {edge: frozenset(needs[edge]) for edge in sorted(needs)},
        {
            edge: tuple(sorted(of, key=lambda other: (counts.get(other, _MOST_PAIRS), other)))
            for edge, of in sorted(required.items())
            if of
        },
    )


def _pairs(counts: Mapping[int, float], edges: Int64s) -> Int64s:
    """Return the pairs of some edges, as far as they are told apart."""
    known = np.array(sorted(counts), dtype=np.int64)
    if not len(known):
        return np.zeros(len(edges), dtype=np.int64)
    pairs = np.array([min(int(counts[edge]), _MOST_PAIRS) for edge in known.tolist()], dtype=np.int64)
    place = np.minimum(np.searchsorted(known, edges), len(known) - 1)
    found: Int64s = np.where(known[place] == edges, pairs[place], 0)
    return found
