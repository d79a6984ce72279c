"""Units of work of a batch: a run of new rows meets other runs, and pairs with matched edges are found and resolved.

All rows of a document are in one run (law R1).  So the units of each new run with each run of the state, with itself,
and with each new run after it see every pair of documents exactly once, with all rows of both.

How many pairs each edge has is known before one of them is written down.  So each unit chooses by exact counts which
edges are enumerated (``passes``), and the choice never changes an answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.base.number_order import each_once
from xscl.templates.columns import Bools, Int32s, Int64s, gather, stacked, take
from xscl.templates.joins.bounds_of_values import Bounds, bounds_of
from xscl.templates.joins.edge_sets import Plans
from xscl.templates.joins.edge_table import HALF_BITS, LOW_BITS, EdgeTable
from xscl.templates.joins.guarded_windows import guarded
from xscl.templates.joins.line_search import LookUps
from xscl.templates.joins.matched_edges import MatchedEdges
from xscl.templates.joins.pair_documents import documents_of_runs
from xscl.templates.joins.passes import Pass
from xscl.templates.joins.resolve import Resolver, grouped
from xscl.templates.joins.told_spans import RowSpans, tell_spans
from xscl.templates.joins.verified_edges import Met, Places
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.plans import Edge, LinkPlan
from xscl.templates.program import Program
from xscl.templates.results import ResultColumns
from xscl.templates.runs.run import KEY_BITS, Run, equal_values
from xscl.templates.runs.view import FinderNumbers, RunView

__all__ = ["Meeting"]

_CHUNK = 1_000_000
"""Pairs of rows that are written down at a time."""


LEAST_TOLD = 20_000
"""Pairs of a new run with another that are told by spans."""
LEAST_BOUNDED = 10_000
"""Pairs of a pass that are looked through by bounds of values."""
_FEW_SHAPES = 1 << 22
"""Pairs of shapes that are counted one by one."""


_Column = npt.NDArray[Any]


class _Spans(NamedTuple):
    """Spans of rows that new rows meet: each row of a span is one pair of rows of one edge."""

    edge: Int32s
    new_left: Bools
    """Whether the new row is the left one."""
    row: Int64s
    """The new row."""
    run: Int32s
    """The run of the other rows, by number."""
    begin: Int64s
    end: Int64s


class _Slices(NamedTuple):
    """Slices of new rows, and of the rows of another run that have their values."""

    new_left: Bools
    """Whether the new rows are the left ones."""
    of_new: Int64s
    of_old: Int64s
    edge: Int64s
    """The place of the edge in the table."""


@dataclass
class Meeting:
    """New rows and the runs that they meet."""

    numbers: FinderNumbers
    table: EdgeTable
    resolver: Resolver
    passes: Callable[[Mapping[int, float], int], list[Pass]]
    """Tells how plans are resolved, by the pairs of each edge and the number of new rows."""
    look_ups: Callable[[frozenset[frozenset[int]]], LookUps]
    """Tells how the edges that plans need are looked up."""
    program: Program
    new: RunView
    others: Sequence[RunView]
    """Runs that the new rows meet; the new one may be among them."""
    out: ResultColumns

    def run(self) -> None:
        """Find the pairs of the new rows and resolve them."""
        spans = self._spans()
        sizes = spans.end - spans.begin
        totals = np.bincount(spans.edge, weights=sizes) if len(sizes) else np.empty(0)
        counts = {int(edge): float(totals[edge]) for edge in np.flatnonzero(totals)}
        looked_at = 0
        for each in self.passes(counts, self.new.run.size):
            enumerated = np.fromiter(each.order.enumerated, np.int32, len(each.order.enumerated))
            some = take(spans, np.isin(spans.edge, enumerated))
            if each.single:
                some, told = self._told(some, each)
                looked_at += told
            elif each.lines:
                some, left_out = self._possible(some, each.lines)
                looked_at += left_out
            for chunk in self._chunks(some):
                looked_at += self._single(chunk, each) if each.single else self._general(chunk, each)
                self.out.spill()
        self.out.add_count(looked_at)

    @property
    def _all(self) -> list[RunView]:
        """The runs that may have documents of a pair."""
        return [*self.others] if self.new in self.others else [*self.others, self.new]

    # -- spans -------------------------------------------------------------------------------------------------

    def _spans(self) -> _Spans:
        return stacked([self._spans_of(view, number) for number, view in enumerate(self.others)] or [_no_spans()])

    def _spans_of(self, other: RunView, number: int) -> _Spans:
        new, table = self.new.run, self.table
        met = stacked(list(self._slices_met(other)))
        if not len(met.edge):
            return _no_spans()
        begin, end = new.slice_starts[met.of_new], new.slice_starts[met.of_new + 1]
        row, which = gather(begin, end - begin)
        edge, left, ts = met.edge[which], met.new_left[which], new.ts[row]
        lo, hi = np.where(left, (table.lo[edge], table.hi[edge]), (-table.hi[edge], -table.lo[edge]))
        begin, end = other.within(met.of_old[which], ts + lo, ts + hi)
        kept = begin < end
        of_run = np.full(int(kept.sum()), number, dtype=np.int32)
        return _Spans(table.numbers[edge[kept]], left[kept], row[kept], of_run, begin[kept], end[kept])

    def _slices_met(self, other: RunView) -> Iterator[_Slices]:
        """Yield the slices of new rows with those of another run that they meet."""
        new, run, table = self.new.run, other.run, self.table
        mine, value = equal_values(new, run)
        first, count_new = new.slices_of_values(mine)
        if run is new:
            # Of most values a batch has one row, which meets no other.
            several = new.slice_starts[first + count_new] - new.slice_starts[first] > 1
            mine, value, first, count_new = (each[several] for each in (mine, value, first, count_new))
        first_old, count_old = run.slices_of_values(value)
        slices, of = gather(first, count_new)
        keys = self.new.keys[new.slice_keys(slices)]
        # Two new documents meet once, because only the left one asks for new partners.
        for new_left in (True,) if run is new else (True, False):
            # A value may be that of many variables, and a variable may have many edges: what is less is gone through.
            order, begin, edges = table.of_keys(keys, left=new_left)
            by_edge = np.bincount(of, weights=edges, minlength=len(mine)) < count_new * count_old
            asking = np.flatnonzero(by_edge[of])
            place, back = gather(begin[asking], edges[asking])
            place, of_new = order[place], asking[back]
            partner = table.codes[place] & LOW_BITS if new_left else table.codes[place] >> HALF_BITS
            local = other.local(partner)
            wanted = value[of[of_new]] << KEY_BITS | local
            met = np.minimum(np.searchsorted(run.slice_codes, wanted), len(run.slice_codes) - 1)
            some = np.flatnonzero((local >= 0) & (run.slice_codes[met] == wanted)) if len(met) else met
            yield _slices(new_left, slices[of_new[some]], met[some], place[some])
            # Every slice of a value with every slice of the same value: as many as it has variables, whatever the rows.
            every = np.flatnonzero(~by_edge[of])
            if not len(every):
                continue
            met, back = gather(first_old[of[every]], count_old[of[every]])
            of_new = slices[every[back]]
            key_new, key_old = keys[every[back]], other.keys[run.slice_keys(met)]
            some, place = table.lookup(*((key_new, key_old) if new_left else (key_old, key_new)))
            yield _slices(new_left, of_new[some], met[some], place)

    def _chunks(self, spans: _Spans) -> Iterator[_Spans]:
        """Cut spans into parts with a bounded number of pairs; those of one new document stay together, and so does
        every pair.
        """
        sizes = spans.end - spans.begin
        if sizes.sum() <= _CHUNK:
            yield spans
            return
        doc = self.new.run.doc[spans.row]
        order = np.argsort(doc, kind="stable")
        of_document = np.concatenate([[0], np.flatnonzero(np.diff(doc[order])) + 1])
        filled = np.cumsum(sizes[order])
        cuts = np.unique((filled[of_document] - sizes[order][of_document]) // _CHUNK, return_index=True)[1]
        for part in np.split(order, of_document[cuts][1:]):
            yield take(spans, part)

    def _met(self, spans: _Spans) -> Met:
        """Return the pairs of rows of some spans, without those of versions of one item."""
        parts = []
        mine = self.new.run
        for number in np.flatnonzero(np.bincount(spans.run, minlength=1)).tolist() or [0]:
            other = self.others[number]
            of = take(spans, spans.run == number)
            run = other.run
            old, span = gather(of.begin, of.end - of.begin)
            new, left = of.row[span], of.new_left[span]
            if self._may_be_one_item(run):
                apart = mine.items[mine.doc[new]] != run.items[run.doc[old]]
                new, old, left, span = new[apart], old[apart], left[apart], span[apart]
            columns: tuple[tuple[_Column, _Column], ...] = (
                (mine.docs[mine.doc[new]], run.docs[run.doc[old]]),
                (mine.ts[new], run.ts[old]),
                (self.new.shapes(mine.shape[new]), other.shapes(run.shape[old])),
            )
            sides = (np.where(left, *both) for pair in columns for both in permutations(pair))
            parts.append(Met(of.edge[span], *sides))
        return stacked(parts)

    def _may_be_one_item(self, run: Run) -> bool:
        return run is self.new.run or not (run.plain and self.new.run.plain)

    def _possible(self, spans: _Spans, lines: frozenset[int]) -> tuple[_Spans, int]:
        """Leave out pairs that satisfy none of some inequalities; return the others, and how many were left out."""
        if (spans.end - spans.begin).sum() < LEAST_BOUNDED:
            return spans, 0
        bounds = bounds_of(self.program.edges, lines, self.numbers.key)
        several = self._of_several(spans)
        kept, left_out = [take(spans, several)], 0
        for number, other in enumerate(self.others):
            for new_left in (True, False):
                of_run = take(spans, (spans.run == number) & (spans.new_left == new_left) & ~several)
                for part in _of_size(of_run, _CHUNK):
                    some, count = self._possible_pairs(part, other, bounds, new_left=new_left)
                    kept.append(some)
                    left_out += count
        return stacked(kept), left_out

    def _possible_pairs(self, spans: _Spans, other: RunView, bounds: Bounds, *, new_left: bool) -> tuple[_Spans, int]:
        """Return the pairs of some spans that may satisfy an inequality, each as a span; and how many do not."""
        left_out = 0
        if not self._may_be_one_item(other.run):
            wanted = bounds.possible_spans(self.new, spans.row, other, (spans.begin, spans.end), new_left=new_left)
            left_out = int((spans.end - spans.begin)[~wanted].sum())
            spans = take(spans, wanted)
        old, span = gather(spans.begin, spans.end - spans.begin)
        new = spans.row[span]
        possible = bounds.possible(self.new, new, other, old, new_left=new_left)
        apart = ~possible
        if self._may_be_one_item(other.run):
            # Versions of one item are no pair.
            mine, run = self.new.run, other.run
            apart &= mine.items[mine.doc[new]] != run.items[run.doc[old]]
        some = np.flatnonzero(possible)
        return take(spans, span[some])._replace(begin=old[some], end=old[some] + 1), left_out + int(apart.sum())

    # -- passes ------------------------------------------------------------------------------------------------

    def _general(self, spans: _Spans, each: Pass) -> int:
        met = self._met(spans)
        if each.order.needs and len(met.edge):
            places = Places(self.numbers, self.program, self._all, self.look_ups)
            met = stacked([met, *places.verified(met, each.order)])
        return _resolve(self.resolver, met, documents_of_runs(self._runs, self.program.guards), self.out, each.plans)

    @property
    def _runs(self) -> list[Run]:
        return [view.run for view in self._all]

    def _single(self, spans: _Spans, each: Pass) -> int:
        """Resolve pairs of one edge that nearly all pairs satisfy, with hardly a look at each; return how many were
        found.
        """
        several = self._of_several(spans)
        found = 0
        if several.any():
            # A document with several such nodes has several matched edges with one partner.
            doc = self.new.run.doc
            partners = np.isin(doc[spans.row], doc[spans.row[several]])
            found = self._general(take(spans, partners), each)
            spans = take(spans, ~partners)
        for number, other in enumerate(self.others):
            for new_left in (True, False):
                of_run = take(spans, (spans.run == number) & (spans.new_left == new_left))
                if len(of_run.edge):
                    found += self._single_part(other, new_left, of_run, each)
        return found

    def _told(self, spans: _Spans, each: Pass) -> tuple[_Spans, int]:
        """Hand out pairs of one edge as spans where no pair differs from others; return the rest, and their number."""
        documents = documents_of_runs(self._runs, self.program.guards)
        kept = np.ones(len(spans.row), dtype=np.bool_)
        if documents.memberships is not None or not len(spans.edge):
            return spans, 0
        if not self._windows_enclose(self.program.edges[int(spans.edge[0])], each):
            return spans, 0
        several = self._of_several(spans)
        found = 0
        for number, other in enumerate(self.others):
            if self._may_be_one_item(other.run):
                continue
            for new_left in (True, False):
                places = np.flatnonzero((spans.run == number) & (spans.new_left == new_left) & ~several)
                of_run = take(spans, places)
                pairs = int((of_run.end - of_run.begin).sum())
                if not pairs or pairs < LEAST_TOLD:
                    continue
                assert each.plans is not None
                asked = RowSpans(int(of_run.edge[0]), new_left, of_run.row, of_run.begin, of_run.end)
                told = tell_spans(self.new, other, asked, self.resolver, each.plans, self.out)
                kept[places[told]] = False
                found += int((of_run.end - of_run.begin)[told].sum())
        return take(spans, kept), found

    def _of_several(self, spans: _Spans) -> Bools:
        """Tell which spans are of a new document that other rows of it, with other values, ask for on the same side."""
        rows = each_once(spans.row << 1 | spans.new_left)
        doc = self.new.run.doc.astype(np.int64)
        _, which, counts = np.unique(doc[rows >> 1] << 1 | rows & 1, return_inverse=True, return_counts=True)
        several = rows[counts[which] > 1]
        found: Bools = np.isin(spans.row << 1 | spans.new_left, several)
        return found

    def _single_part(self, other: RunView, new_left: bool, spans: _Spans, each: Pass) -> int:
        """Resolve spans with new rows on one side only, whose pairs have one matched edge each."""
        new, run = self.new.run, other.run
        old, span = gather(spans.begin, spans.end - spans.begin)
        doc_new = new.doc[spans.row]
        if self._may_be_one_item(run):
            apart = np.flatnonzero(new.items[doc_new][span] != run.items[run.doc[old]])
            old, span = old[apart], span[apart]
        if not len(old):
            return 0

        def sides(mine: _Column, other: _Column) -> tuple[_Column, _Column]:
            return (mine, other) if new_left else (other, mine)

        left, right = sides(new.docs[doc_new][span], run.docs[run.doc[old]])
        edge = self.program.edges[int(spans.edge[0])]
        if self._windows_enclose(edge, each):
            # All windows say the same of all these pairs, so any of the differences stands for all.
            ts_l, ts_r = np.broadcast_to(np.int64(0), len(old)), np.broadcast_to(np.int64(edge.lo), len(old))
        else:
            ts_l, ts_r = sides(new.ts[spans.row][span], run.ts[old])
        count_new, count_old = (len(each.shapes.starts) - 1 for each in (new, run))
        which = new.shape[spans.row][span].astype(np.int64) * count_old + run.shape[old]
        if count_new * count_old <= _FEW_SHAPES:
            counts = np.bincount(which, minlength=count_new * count_old)
            present = np.flatnonzero(counts)
            which = (np.cumsum(counts > 0) - 1)[which]
        else:
            present, which = np.unique(which, return_inverse=True)
        shape_l, shape_r = sides(self.new.shapes(present // count_old), other.shapes(present % count_old))
        edges = MatchedEdges(np.full(len(present), edge.number, dtype=np.int32), shape_l, shape_r)
        pairs = MatchedPairs(left, right, ts_l, ts_r)
        assert each.plans is not None
        self.resolver.resolve_single(
            pairs, which, edges, documents_of_runs(self._runs, self.program.guards), self.out, each.plans
        )
        return len(old)

    def _windows_enclose(self, edge: Edge, each: Pass) -> bool:
        """Tell whether every window of the plans of a pass admits all differences that the edge allows."""
        assert each.plans is not None
        for plan in self.program.by_edge.get(edge.number, ()):
            if each.plans.includes(plan):
                if isinstance(plan, LinkPlan):
                    return False
                windows = self.program.windows(plan.number)
                if (
                    windows.order.any()
                    or guarded(windows).any()
                    or (windows.lo > edge.lo).any()
                    or (windows.hi < edge.hi).any()
                ):
                    return False
        return True


def _no_spans() -> _Spans:
    none, few = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32)
    return _Spans(few, np.empty(0, dtype=np.bool_), none, few, none, none)


def _of_size(spans: _Spans, most: int) -> Iterator[_Spans]:
    """Yield some spans at a time, with about so many pairs, at most."""
    part = np.cumsum(spans.end - spans.begin) // most
    for number in each_once(part).tolist():
        yield take(spans, part == number)


def _slices(new_left: bool, of_new: Int64s, of_old: Int64s, edge: Int64s) -> _Slices:
    return _Slices(np.full(len(edge), new_left), of_new, of_old, edge)


def _resolve(resolver: Resolver, met: Met, documents: Documents, out: ResultColumns, plans: Plans | None) -> int:
    """Bring the rows of each pair together and resolve them; returns the number of pairs."""
    if not len(met.edge):
        return 0
    order, starts = grouped(met.doc_l, met.doc_r)
    met = take(met, order)
    at = starts[:-1]
    pairs = MatchedPairs(met.doc_l[at], met.doc_r[at], met.ts_l[at], met.ts_r[at])
    edges = MatchedEdges(met.edge, met.shape_l, met.shape_r)
    resolver.resolve(pairs, starts, edges, documents, out, plans)
    return len(at)
