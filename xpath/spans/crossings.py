"""Rows that satisfy two entries of an alternative at once: one that asks for a single rank, and a span of ranks.

Rows in the order of two dimensions have those of a rank in the first and of a span in the second side by side.  So
their number is known exactly, and few are left to be checked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from xscl.xpath.columns.chunk import Bools
from xscl.xpath.runs import Int64s, gather
from xscl.xpath.spans.tables import Compiled

__all__ = ["Crossings", "crossings"]

_FEW = 8
"""Rows of an alternative that are sooner checked one by one."""


@dataclass(frozen=True, slots=True)
class Crossings:
    """Alternatives whose rows are found by two entries."""

    by: Int64s
    """The entry of each alternative that asks for a single rank."""
    begin: Int64s
    """Begin of each alternative's rows in ``rows``; -1: they are not found so."""
    count: Int64s
    rows: Int64s

    def of(self, some: Int64s) -> tuple[Int64s, Int64s]:
        """Return the rows of some of these alternatives; (rows, alternatives)."""
        at, back = gather(self.begin[some], self.count[some])
        return self.rows[at], some[back]


def crossings(
    sets: Compiled,
    sizes: Int64s,
    counts: Int64s,
    low: Int64s,
    high: Int64s,
    single: Bools,
    rows: int,
    ranks: Callable[[int], Int64s],
) -> Crossings | None:
    """Return the rows of alternatives that have two fitting entries, where this is sooner done; None: nowhere.

    Entries are those of dimensions that are ``single``: each of so many ``rows`` has one rank there, as ``ranks`` says.
    ``sizes`` are the rows of each entry, and ``counts`` those of each alternative's smallest entry.  ``low`` and
    ``high`` are the ranks of each span.
    """
    fit = single[sets.dimension] & (np.diff(sets.spans) == 1) & ~sets.negated & (sizes < rows)
    first = sets.spans[:-1]
    equal = fit & (high[first] == low[first] + 1)
    one = _least(sets, sizes, equal)
    fit[one[one >= 0]] = False
    other = _least(sets, sizes, fit)
    asked = np.flatnonzero((one >= 0) & (other >= 0))
    asked = asked[counts[asked] >= _FEW]
    if not len(asked):
        return None
    by, one, other = one, one[asked], other[asked]
    begin, count = np.full(len(sets.set_), -1), np.zeros(len(sets.set_), dtype=np.int64)
    orders: list[Int64s] = []
    both = sets.dimension[one] * len(sets.told) + sets.dimension[other]
    for pair in np.unique(both).tolist():
        of = np.flatnonzero(both == pair)
        if 2 * counts[asked[of]].sum() < rows:
            continue
        outer, inner = (ranks(number) for number in divmod(pair, len(sets.told)))
        most = int(high[first[other[of]]].max(initial=0)) + 1
        keys = outer * most + np.minimum(inner, most - 1)
        order = np.argsort(keys, kind="stable")
        rising = keys[order]
        base = low[first[one[of]]] * most
        here, behind = (np.searchsorted(rising, base + ends[first[other[of]]]) for ends in (low, high))
        fewer = behind - here < counts[asked[of]]
        of = of[fewer]
        begin[asked[of]], count[asked[of]] = (here + rows * len(orders))[fewer], (behind - here)[fewer]
        orders.append(order)
    return Crossings(by, begin, count, np.concatenate(orders)) if orders else None


def _owners(sets: Compiled) -> Int64s:
    """Return the alternative of each entry."""
    return np.repeat(np.arange(len(sets.set_)), np.diff(sets.entries))


def _least(sets: Compiled, sizes: Int64s, fit: Bools) -> Int64s:
    """Return for each alternative the entry that the fewest rows satisfy among those that fit; -1: none does."""
    found = np.full(len(sets.set_), -1)
    entries = np.flatnonzero(fit)
    if len(entries):
        owners = _owners(sets)[entries]
        order = np.lexsort((sizes[entries], owners))
        begins = np.flatnonzero(np.diff(owners[order], prepend=-1))
        found[owners[order][begins]] = entries[order][begins]
    return found
