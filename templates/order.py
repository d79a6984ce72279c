"""Which edges of a batch are enumerated, and which are verified on the pairs that others find.

A value that many documents share (a channel's name) makes nearly all pairs of a batch, and hardly a query needs them:
most also ask for a value that few documents share.  So an *unselective* edge is looked up on the pairs that selective
edges find, like an inequality, and enumerated only for plans that have no selective edge.

The law: for every plan there is an enumerated edge among its needs on whose pairs all its other needs are enumerated or
verified.  So the choice never changes an answer, and may be another one in each batch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from xscl.templates.program import InstancePlan, LinkPlan, Program

__all__ = ["JoinOrder", "join_order", "pair_limit", "unselective_edges"]

_PAIRS_PER_ROW = 10
_ROWS_AT_LEAST = 10_000
_HYSTERESIS = 4


@dataclass(frozen=True, slots=True)
class JoinOrder:
    """How the pairs of one batch are found."""

    enumerated: frozenset[int]
    """Edges whose pairs are enumerated; those of one document (``ONE``) always are."""
    verified: Mapping[int, tuple[int, ...]]
    """Enumerated edge to the edges that are looked up on its pairs."""


def pair_limit(rows: int) -> int:
    """The number of pairs above which an edge is unselective in a batch of so many witness rows."""
    return _PAIRS_PER_ROW * (rows + _ROWS_AT_LEAST)


def unselective_edges(
    counts: Mapping[int, float], limit: float, before: Collection[int] = frozenset()
) -> frozenset[int]:
    """The edges with more than ``limit`` pairs.

    Those that were unselective ``before`` remain so until they have less than a quarter of it, so that the choice does
    not change with every batch.
    """
    return frozenset(
        edge for edge, pairs in counts.items() if pairs > (limit / _HYSTERESIS if edge in before else limit)
    )


def join_order(program: Program, counts: Mapping[int, float], unselective: Collection[int] = frozenset()) -> JoinOrder:
    """The order in which the edges of a program are joined.

    ``counts`` are the pairs of each edge as far as known, exact or estimated; an edge that is missing has none.  Plans
    without a selective edge have their edge with the fewest pairs enumerated.
    """
    finding = frozenset(number for number, edge in program.edges.items() if edge.key.finds)
    enumerated = selective = finding.difference(unselective)

    def fewest(edges: Collection[int]) -> int:
        return min(edges, key=lambda edge: (counts.get(edge, 0), edge))

    waiting = [plan for plan in _plans(program) if not plan.needs <= selective]
    enumerated |= {fewest(plan.needs & finding) for plan in waiting if plan.needs.isdisjoint(selective)}
    verified: dict[int, set[int]] = {}
    for plan in waiting:
        others = plan.needs - enumerated
        if others:
            verified.setdefault(fewest(plan.needs & enumerated), set()).update(others)
    return JoinOrder(enumerated, {edge: tuple(sorted(others)) for edge, others in sorted(verified.items())})


def _plans(program: Program) -> Iterator[InstancePlan | LinkPlan]:
    yield from program.instances.values()
    yield from program.links.values()
