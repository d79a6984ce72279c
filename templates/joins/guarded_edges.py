"""Matched edges of pairs of documents, without those that no query may ask for because of its guards.

Users ask for rises of their own in stocks of their own: a pair of prices may satisfy the factors of hundreds of
queries, and few of them ask for its stock.  An edge is dropped from a pair where no guard of a query that needs it
holds.  So pairs have fewer signatures, and each has fewer plans.  No plan whose guards hold lacks an edge.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int64s, gather
from xscl.templates.joins.guarded import Conjunctions
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.plans import InstancePlan
from xscl.templates.program import Program
from xscl.templates.program_guards import UNGUARDED

__all__ = ["GuardedEdges", "guarded_edges"]

_MOST = 8
"""Conjunctions of guards up to which an edge is looked at: one that many ask for is no reason for many signatures."""


@dataclass(frozen=True)
class GuardedEdges:
    """Edges that only plans need whose groups all have guards."""

    starts: Int64s
    """The first conjunction of each edge by its number, and the end; other edges have none."""
    conjunctions: Int64s
    rules: Conjunctions

    def asked(self, pairs: MatchedPairs, pair: Int64s, edge: Int64s, documents: Documents) -> Bools:
        """Tell which matched edges some query may ask for.

        Args:
            pairs: pairs of documents.
            pair: the place of each matched edge's pair.
            edge: the number of each.
            documents: the documents' facts.
        """
        counts = self.starts[edge + 1] - self.starts[edge]
        found: Bools = counts == 0
        at, of = gather(self.starts[edge], counts)
        if not len(at):
            return found
        right = np.where(pairs.right < 0, pairs.left, pairs.right)
        docs = each_once(np.concatenate([pairs.left, right]))
        one, other = (np.searchsorted(docs, side)[pair[of]] for side in (pairs.left, right))
        found[of[self.rules.holds(one, other, self.conjunctions[at], documents.facts(docs))]] = True
        return found


def guarded_edges(program: Program) -> GuardedEdges:
    """Return the edges of a program that only plans need whose groups all have guards."""
    guards: defaultdict[int, set[tuple[int, int]]] = defaultdict(set)
    for plan in (plan for plans in program.by_edge.values() for plan in plans):
        mine = {(UNGUARDED, UNGUARDED)}
        if isinstance(plan, InstancePlan):
            windows = program.windows(plan.number)
            mine = set(zip(windows.guard_l.tolist(), windows.guard_r.tolist(), strict=True))
        for edge in plan.needs:
            guards[edge] |= mine
    some = [edge for edge, of in sorted(guards.items()) if len(of) <= _MOST and (UNGUARDED, UNGUARDED) not in of]
    combinations = sorted({both for edge in some for both in guards[edge]})
    left, right = np.array(combinations, dtype=np.int64).reshape(-1, 2).T
    rules = Conjunctions.of(program.guards.table, left, right)
    place = {both: at for at, both in enumerate(combinations)}
    of_edge = [rules.of_combinations(np.array([place[both] for both in guards[edge]]))[0] for edge in some]
    counts = np.zeros(max(guards, default=0) + 1, dtype=np.int64)
    kept = [each for each in of_edge if len(each) <= _MOST]
    counts[[edge for edge, each in zip(some, of_edge, strict=True) if len(each) <= _MOST]] = [
        len(each) for each in kept
    ]
    nothing = np.empty(0, dtype=np.int64)
    return GuardedEdges(np.append(0, np.cumsum(counts)), np.concatenate([nothing, *kept]), rules)
