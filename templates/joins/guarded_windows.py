"""Windows of groups with guards: which of them admit which pairs of documents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from xscl.base.docids import place_of
from xscl.base.number_order import each_once
from xscl.templates.bounds import UNLESS_EXCHANGED
from xscl.templates.columns import Bools, Int32s, Int64s, gather, take
from xscl.templates.joins.document_facts import DocumentFacts
from xscl.templates.joins.guarded import Conjunctions, Sought
from xscl.templates.joins.window_cells import Documents, MatchedPairs, pair_ages
from xscl.templates.members import Membership, sees
from xscl.templates.ordinals import Ordinals
from xscl.templates.plans import Windows
from xscl.templates.program_guards import GuardTable

__all__ = ["GuardedWindows", "guarded", "guarded_windows", "unguarded"]

_BITS = 32


def guarded(windows: Windows) -> Bools:
    """Tell which windows admit pairs by more than times, places and streams."""
    found: Bools = (windows.guard_l != 0) | (windows.guard_r != 0) | (windows.order == UNLESS_EXCHANGED)
    return found


def unguarded(windows: Windows) -> Windows:
    """Return some windows without those."""
    some = guarded(windows)
    return take(windows, ~some) if some.any() else windows


@dataclass(frozen=True)
class GuardedWindows:
    """Windows that are guarded, by their combinations of guards."""

    rows: Int64s
    """Places of windows, those of one combination together."""
    starts: Int64s
    """The place of each combination's first window among these, and the end."""
    windows: Windows
    rules: Conjunctions

    def sought(self, pairs: MatchedPairs, documents: Documents) -> Sought:
        """Choose how the windows of pairs are looked for."""
        pairs = _with_right(pairs)
        docs = each_once(np.concatenate([pairs.left, pairs.right]))
        left, right = np.searchsorted(docs, pairs.left), np.searchsorted(docs, pairs.right)
        return self.rules.sought(left, right, documents.facts(docs))

    def most(self, sought: Sought) -> int:
        """Return how many windows with one of the pairs each are looked at, counted before."""
        return int(sought.cost @ np.diff(self.starts)[self.rules.combination])

    def admitting(
        self,
        pairs: MatchedPairs,
        sought: Sought,
        documents: Documents,
        memberships: Mapping[int, Membership],
        ordinals: Ordinals,
    ) -> tuple[Int64s, Int64s]:
        """Return places of pairs, rising, and of windows that admit them."""
        given, pairs = pairs, _with_right(pairs)
        left, right, facts = sought.pairs
        ages = pair_ages(take(self.windows, self.rows), given, ordinals)
        found = [np.empty(0, dtype=np.int64)]
        for pair, combination in self.rules.held(sought):
            at, of = gather(self.starts[combination], self.starts[combination + 1] - self.starts[combination])
            pair, row = pair[of], self.rows[at]
            in_time = self._in_time(pair, row, pairs, documents, ages)
            pair, row, of = pair[in_time], row[in_time], of[in_time]
            seen = self._seen(pair, row, given, documents, memberships)
            if not seen.all():
                pair, row, of = pair[seen], row[seen], of[seen]
            codes = pair << _BITS | row
            exchanged = self._exchanged(pair, row, combination, of, pairs, documents, (left, right), facts)
            found.append(np.delete(codes, exchanged) if len(exchanged) else codes)
        codes = each_once(np.concatenate(found))
        return codes >> _BITS, codes & ((1 << _BITS) - 1)

    def _in_time(
        self, pair: Int64s, row: Int64s, pairs: MatchedPairs, documents: Documents, ages: tuple[Int64s, Int64s]
    ) -> Int64s:
        """Return where a pair is in a window, and its members come in the order that the window asks for."""
        windows, difference = self.windows, (pairs.ts_r - pairs.ts_l)[pair]
        held = (windows.lo[row] <= difference) & (difference <= windows.hi[row])
        left, right = place_of(pairs.left), place_of(pairs.right)
        oldest, newest = np.minimum(left, right), np.maximum(left, right)
        # Nearly always all windows see all documents.
        if windows.first.max() > oldest.min():
            held &= windows.first[row] <= oldest[pair]
        if windows.last.min() < newest.max():
            held &= newest[pair] <= windows.last[row]
        for asked, age in zip((windows.rows_l, windows.rows_r), ages, strict=True):
            if len(age) > 1 or age.any():
                rows = asked[row]
                held &= (rows == 0) | (age[np.minimum(pair, len(age) - 1)] < rows)
        if (np.abs(windows.order) == 1).any():
            order = windows.order[row]
            first = documents.left_first(pairs)[pair]
            held &= (np.abs(order) != 1) | ((order == 1) == first)
        return np.flatnonzero(held)

    def _seen(
        self,
        pair: Int64s,
        row: Int64s,
        pairs: MatchedPairs,
        documents: Documents,
        memberships: Mapping[int, Membership],
    ) -> Bools:
        """Tell where the streams that a window names see the documents of a pair."""
        held = np.ones(len(pair), dtype=np.bool_)
        sides = (pairs.left, self.windows.left), (pairs.right, self.windows.right)
        for docs, streams in sides:
            asked = streams[row]
            if documents.memberships is None and not asked.any():
                continue
            numbers = np.zeros(len(docs), dtype=np.int32)
            if documents.memberships is not None:
                # Everything sees the right side of a document by itself.
                numbers = np.where(docs < 0, 0, documents.memberships(docs)).astype(np.int32)
            held &= _sees(numbers[pair], asked, memberships)
        return held

    def _exchanged(
        self,
        pair: Int64s,
        row: Int64s,
        combination: Int64s,
        of: Int64s,
        pairs: MatchedPairs,
        documents: Documents,
        sides: tuple[Int64s, Int64s],
        facts: DocumentFacts,
    ) -> Int64s:
        """Return where a window that asks for it admits the documents in the other order too, and the right one is
        first; ``of`` are the places of the combinations, which are not in order.
        """
        asks = self.windows.order == UNLESS_EXCHANGED
        if not asks.any():
            return np.empty(0, dtype=np.int64)
        some = np.flatnonzero(asks[row] & ~documents.left_first(pairs)[pair])
        difference = (pairs.ts_l - pairs.ts_r)[pair[some]]
        some = some[(self.windows.lo[row[some]] <= difference) & (difference <= self.windows.hi[row[some]])]
        conjunction, which = self.rules.of_combinations(combination[of[some]])
        left, right = sides
        at = pair[some[which]]
        return some[which[self.rules.holds(right[at], left[at], conjunction, facts)]]


def _with_right(pairs: MatchedPairs) -> MatchedPairs:
    """Return pairs in which a document by itself stands on both sides; of its right one no window asks anything."""
    return pairs._replace(right=np.where(pairs.right < 0, pairs.left, pairs.right))


def guarded_windows(windows: Windows, table: GuardTable) -> GuardedWindows:
    """Prepare some windows, which are all guarded."""
    codes = windows.guard_l.astype(np.int64) << _BITS | windows.guard_r
    rows = np.argsort(codes, kind="stable")
    codes = codes[rows]
    combinations = each_once(codes)
    starts = np.searchsorted(codes, np.append(combinations, np.iinfo(np.int64).max))
    rules = Conjunctions.of(table, combinations >> _BITS, combinations & ((1 << _BITS) - 1))
    return GuardedWindows(rows, starts, windows, rules)


def _sees(numbers: Int32s, streams: Int32s, memberships: Mapping[int, Membership]) -> Bools:
    """Tell which memberships, by their numbers, the blocks that name these streams see."""
    codes = numbers.astype(np.int64) << _BITS | streams
    distinct, which = np.unique(codes, return_inverse=True)
    sights = [sees(memberships, code & ((1 << _BITS) - 1), code >> _BITS) for code in distinct.tolist()]
    return np.array(sights, dtype=np.bool_)[which]
