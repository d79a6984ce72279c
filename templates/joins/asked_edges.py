"""Matched edges of pairs of documents, without those that no query may ask for.

Users ask for rises of their own in stocks of their own: a pair of prices may satisfy the factors of hundreds of
queries, and few of them ask for its stock.  An edge is dropped from a pair where no guard of a query that needs it
holds.  So pairs have fewer signatures, and each has fewer plans.  No plan whose guards hold lacks an edge.

Others ask for a rise between two factors of their own, and each pair satisfies one of the two for nearly all of them.
An edge is dropped, too, where each plan that needs it lacks another edge.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int64s, gather
from xscl.templates.joins.guarded import Conjunctions
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.plans import InstancePlan, LinkPlan
from xscl.templates.program import Program
from xscl.templates.program_guards import UNGUARDED

__all__ = ["AskedEdges", "asked_edges"]

_MOST = 8
"""Conjunctions of guards, or plans, up to which an edge is looked at: many that ask for one are no reason for many
signatures."""
_MOST_CELLS = 1 << 25
"""Pairs and edges, each with the other, up to which there is a table of them."""


class _Lists(NamedTuple):
    """Lists of numbers, by a number."""

    starts: Int64s
    """The first of each list, and the end."""
    values: Int64s

    @classmethod
    def of(cls, lists: Mapping[int, Sequence[int]], count: int) -> _Lists:
        """Make lists of so many numbers; those that are not given are empty."""
        every = [lists.get(number, ()) for number in range(count)]
        lengths = np.array([len(each) for each in every], dtype=np.int64)
        values = np.array([value for each in every for value in each], dtype=np.int64)
        return cls(np.append(0, np.cumsum(lengths)), values)

    def gathered(self, numbers: Int64s) -> tuple[Int64s, Int64s]:
        """Return the lists of some numbers, one behind the other, and the place of the number that each value is of."""
        at, of = gather(self.starts[numbers], self.starts[numbers + 1] - self.starts[numbers])
        return self.values[at], of

    def some(self, numbers: Int64s) -> Bools:
        """Tell which numbers have a list that is not empty."""
        found: Bools = self.starts[numbers + 1] > self.starts[numbers]
        return found


@dataclass(frozen=True)
class AskedEdges:
    """Edges with what else has to be so where a query asks for them."""

    conjunctions: _Lists
    """Conjunctions of guards of each edge that only plans need whose groups all have guards."""
    rules: Conjunctions
    plans: _Lists
    """Plans of each edge that only plans need which need another edge that is rarely needed."""
    others: _Lists
    """The edges of each plan that are rarely needed."""

    def asked(self, pairs: MatchedPairs, pair: Int64s, edge: Int64s, documents: Documents) -> Bools:
        """Tell which matched edges some query may ask for.

        Args:
            pairs: pairs of documents.
            pair: the place of each matched edge's pair.
            edge: the number of each.
            documents: the documents' facts.
        """
        return self._guarded(pairs, pair, edge, documents) & self._complete(pair, edge)

    def _guarded(self, pairs: MatchedPairs, pair: Int64s, edge: Int64s, documents: Documents) -> Bools:
        found = ~self.conjunctions.some(edge)
        conjunction, of = self.conjunctions.gathered(edge)
        if len(of):
            right = np.where(pairs.right < 0, pairs.left, pairs.right)
            docs = each_once(np.concatenate([pairs.left, right]))
            one, other = (np.searchsorted(docs, side)[pair[of]] for side in (pairs.left, right))
            found[of[self.rules.holds(one, other, conjunction, documents.facts(docs))]] = True
        return found

    def _complete(self, pair: Int64s, edge: Int64s) -> Bools:
        found = ~self.plans.some(edge)
        plan, of = self.plans.gathered(edge)
        if len(of):
            needed, of_plan = self.others.gathered(plan)
            lacks = np.zeros(len(plan), dtype=np.bool_)
            lacks[of_plan[~_are_there(pair, edge, pair[of[of_plan]], needed)]] = True
            found[of[~lacks]] = True
        return found


def _are_there(pair: Int64s, edge: Int64s, of: Int64s, needed: Int64s) -> Bools:
    """Tell which edges that pairs need are among the matched ones."""
    width = int(max(edge.max(), needed.max())) + 1
    size = (int(pair.max()) + 1) * width
    if size <= _MOST_CELLS:
        cells = np.zeros(size, dtype=np.bool_)
        cells[pair * width + edge] = True
        held: Bools = cells[of * width + needed]
        return held
    found: Bools = np.isin(of * width + needed, pair * width + edge)
    return found


def asked_edges(program: Program) -> AskedEdges:
    """Return what else has to be so where queries of a program ask for an edge."""
    plans = [plan for plans in program.by_edge.values() for plan in plans]
    needing: defaultdict[int, list[int]] = defaultdict(list)
    for number, plan in enumerate(plans):
        for edge in plan.needs:
            needing[edge].append(number)
    count = max(needing, default=0) + 1
    rarely = {edge for edge, numbers in needing.items() if len(numbers) <= _MOST}
    others = {number: sorted(plan.needs & rarely) for number, plan in enumerate(plans)}
    several = {edge: needing[edge] for edge in rarely if all(len(others[number]) > 1 for number in needing[edge])}
    conjunctions, rules = _guards(program, plans)
    return AskedEdges(
        _Lists.of(conjunctions, count), rules, _Lists.of(several, count), _Lists.of(others, len(plans) + 1)
    )


def _guards(
    program: Program, plans: Sequence[InstancePlan | LinkPlan]
) -> tuple[dict[int, Sequence[int]], Conjunctions]:
    """Return the conjunctions of the edges that only plans need whose groups all have guards."""
    guards: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    for plan in plans:
        mine = {(UNGUARDED, UNGUARDED)}
        if isinstance(plan, InstancePlan):
            windows = program.windows(plan.number)
            mine = set(zip(windows.guard_l.tolist(), windows.guard_r.tolist(), strict=True))
        for edge in plan.needs:
            guards[edge] |= mine
    some = [edge for edge, of in guards.items() if len(of) <= _MOST and (UNGUARDED, UNGUARDED) not in of]
    combinations = sorted({both for edge in some for both in guards[edge]})
    left, right = np.array(combinations, dtype=np.int64).reshape(-1, 2).T
    rules = Conjunctions.of(program.guards.table, left, right)
    place = {both: at for at, both in enumerate(combinations)}
    found: dict[int, Sequence[int]] = {}
    for edge in some:
        conjunctions, _ = rules.of_combinations(np.array([place[both] for both in guards[edge]]))
        if len(conjunctions) <= _MOST:
            found[edge] = conjunctions.tolist()
    return found, rules
