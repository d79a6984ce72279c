"""How the plans of a program are resolved in the driver: in passes, each on the pairs of some edges.

Plans with an edge that few pairs satisfy are resolved together, on the pairs of all such edges.  Those that have none
are resolved on the pairs of the one that fewest pairs satisfy, edge by edge; and those that ask for nothing else apart
from these, because their pairs need not be looked at one by one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import NamedTuple

from xscl.templates.order import join_order
from xscl.templates.program import InstancePlan, LinkPlan, Program
from xscl.templates.resolve import Plans

__all__ = ["Pass", "passes"]

_NUMBERS_OF_PLANS = count(1)


class Pass(NamedTuple):
    """Plans that are resolved together, on the pairs of some edges."""

    enumerated: frozenset[int]
    verified: Mapping[int, tuple[int, ...]]
    """Enumerated edge to the edges looked up on its pairs."""
    plans: Plans | None
    """None: all plans."""
    single: bool
    """One edge, which is all that its plans ask for."""


def passes(program: Program, counts: Mapping[int, float], unselective: frozenset[int]) -> list[Pass]:
    """The passes of a program; ``counts`` are the pairs of each edge, which is missing if it has none."""
    if not unselective:
        order = join_order(program, counts)
        return [Pass(order.enumerated, order.verified, None, single=False)]
    # An anchored plan has an edge that few pairs satisfy; all anchored plans are resolved on the pairs of such edges.
    finding = frozenset(number for number, edge in program.edges.items() if edge.key.finds)
    selective = finding - unselective

    def fewest(edges: Iterable[int]) -> int:
        return min(edges, key=lambda edge: (counts.get(edge, 0.0), edge))

    checks: defaultdict[int, set[int]] = defaultdict(set)
    alone: defaultdict[int, set[int]] = defaultdict(set)
    together: defaultdict[int, set[int]] = defaultdict(set)
    plans: list[InstancePlan | LinkPlan] = [*program.instances.values(), *program.links.values()]
    for plan in plans:
        if plan.needs & selective:
            checks[fewest(plan.needs & selective)].update(plan.needs - selective)
            continue
        anchor = fewest(plan.needs & finding)
        others = plan.needs - {anchor}
        (together if others else alone)[anchor].update(others)
    found = [
        Pass(
            selective,
            {edge: tuple(sorted(others)) for edge, others in checks.items() if others},
            Plans(next(_NUMBERS_OF_PLANS), lambda plan: bool(plan.needs & selective)),
            single=False,
        )
    ]

    def unanchored(edge: int) -> Callable[[InstancePlan | LinkPlan], bool]:
        return lambda plan: not plan.needs & selective and fewest(plan.needs & finding) == edge

    for edge in sorted(alone):
        simple = Plans(next(_NUMBERS_OF_PLANS), lambda plan, edge=edge: plan.needs == {edge})  # type: ignore[misc]
        found.append(Pass(frozenset({edge}), {}, simple, single=True))
    for edge in sorted(together):
        mine = unanchored(edge)
        verified = {edge: tuple(sorted(together[edge]))}
        several = Plans(
            next(_NUMBERS_OF_PLANS),
            lambda plan, mine=mine: len(plan.needs) > 1 and mine(plan),  # type: ignore[misc]
        )
        found.append(Pass(frozenset({edge}), verified, several, single=False))
    return found
