"""New rows of a batch and the rows that they meet: pairs of one matched edge each, and their resolution."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.templates.columns import Bools, Int32s, Int64s, gather, rising, stacked, take
from xscl.templates.edge_table import HALF_BITS, LOW_BITS, EdgeTable
from xscl.templates.matched_edges import MatchedEdges
from xscl.templates.order import JoinOrder
from xscl.templates.pair_documents import documents_of_runs
from xscl.templates.passes import Pass
from xscl.templates.plans import Edge, LinkPlan
from xscl.templates.program import Program
from xscl.templates.resolve import Plans, Resolver, grouped
from xscl.templates.results import ResultColumns
from xscl.templates.runs import Run
from xscl.templates.slices import SliceCache
from xscl.templates.verify import held_on_pairs
from xscl.templates.window_cells import Documents, MatchedPairs

__all__ = ["BatchPairs", "Fetch", "TooManyRows"]

_CHUNK = 4_000_000
"""Pairs of rows that are written down at a time."""


_FEW_SHAPES = 1 << 22
"""Pairs of shapes that are counted one by one."""


_Column = npt.NDArray[Any]


Fetch = Callable[[Int64s, bool], pa.Table]
"""Witness rows from the files of the state: those of some hashes, or (True) of some documents.

Not all of them, if they are more than ``most_rows``.
"""


class TooManyRows(Exception):
    """More rows than one process should hold; nothing of the batch was written to files."""


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


class _Met(NamedTuple):
    """Pairs of rows with one matched edge each."""

    edge: Int32s
    doc_l: Int64s
    doc_r: Int64s
    ts_l: Int64s
    ts_r: Int64s
    shape_l: Int32s
    shape_r: Int32s


@dataclass
class BatchPairs:
    """The new rows of one batch and what they meet."""

    cache: SliceCache
    table: EdgeTable
    resolver: Resolver
    passes: Callable[[Mapping[int, float], int], list[Pass]]
    """Tells how plans are resolved, by the pairs of each edge and the number of new rows."""
    program: Program
    new: Run
    out: ResultColumns
    fetch: Fetch
    most_rows: int

    def run(self) -> None:
        """Find the pairs of the new rows and resolve them."""
        runs = [*self.cache.runs, self.new]
        spans = self._spans(runs)
        sizes = spans.end - spans.begin
        totals = np.bincount(spans.edge, weights=sizes) if len(sizes) else np.empty(0)
        counts = {int(edge): float(totals[edge]) for edge in np.flatnonzero(totals)}
        passes = self.passes(counts, len(self.new.rows.h))
        needed = frozenset().union(*(each.order.enumerated for each in passes))
        if sum(count for edge, count in counts.items() if edge in needed) > self.most_rows:
            raise TooManyRows
        looked_at = 0
        for each in passes:
            wanted = take(
                spans, np.isin(spans.edge, np.fromiter(each.order.enumerated, np.int32, len(each.order.enumerated)))
            )
            for chunk in self._chunks(wanted):
                looked_at += self._single(runs, chunk, each) if each.single else self._general(runs, chunk, each)
        self.out.add_count(looked_at)

    # -- spans -------------------------------------------------------------------------------------------------

    def _spans(self, runs: list[Run]) -> _Spans:
        parts = [self._spans_of(run, number) for number, run in enumerate(runs)]
        return stacked(parts)

    def _spans_of(self, run: Run, number: int) -> _Spans:
        new, table = self.new, self.table
        parts = []
        for new_left, of_new, of_old, edge in self._slices_met(run):
            row, which = gather(new.slice_starts[of_new], np.diff(new.slice_starts)[of_new])
            edge, ts = edge[which], new.rows.ts[row]
            lo, hi = (table.lo[edge], table.hi[edge]) if new_left else (-table.hi[edge], -table.lo[edge])
            begin, end = run.within(of_old[which], ts + lo, ts + hi)
            kept = begin < end
            of_run = np.full(int(kept.sum()), number, dtype=np.int32)
            left = np.full(len(of_run), new_left)
            parts.append(_Spans(table.numbers[edge[kept]], left, row[kept], of_run, begin[kept], end[kept]))
        return stacked(parts)

    def _slices_met(self, run: Run) -> Iterator[tuple[bool, Int64s, Int64s, Int64s]]:
        """Tell whether new rows are the left ones; and their slices, those of the run that they meet, places of
        edges.
        """
        new, table = self.new, self.table
        at = np.searchsorted(run.values, new.values)
        hit = (
            np.flatnonzero(run.values[np.minimum(at, len(run.values) - 1)] == new.values) if len(run.values) else at[:0]
        )
        value = at[hit]
        run.used[value] = np.maximum(run.used[value], new.used[hit])
        first, second = new.value_slices, run.value_slices
        count_new, count_old = first[hit + 1] - first[hit], second[value + 1] - second[value]
        slices, of = gather(first[hit], count_new)
        keys = new.rows.key[new.slice_starts[slices]]
        # Two new documents meet once, because only the left one asks for new partners.
        for new_left in (True,) if run is new else (True, False):
            # A value may be that of many variables, and a variable may have many edges: what is less is gone through.
            order, begin, edges = table.of_keys(keys, left=new_left)
            by_edge = np.bincount(of, weights=edges, minlength=len(hit)) < count_new * count_old
            asking = np.flatnonzero(by_edge[of])
            place, back = gather(begin[asking], edges[asking])
            place, of_new = order[place], asking[back]
            partner = table.codes[place] & LOW_BITS if new_left else table.codes[place] >> HALF_BITS
            met = np.searchsorted(run.slice_codes, wanted := value[of[of_new]] << HALF_BITS | partner)
            some = np.flatnonzero(run.slice_codes[np.minimum(met, len(run.slice_codes) - 1)] == wanted)
            yield new_left, slices[of_new[some]], met[some], place[some]
            # Every slice of a value with every slice of the same value: as many as it has variables, whatever the rows.
            every = np.flatnonzero(~by_edge[of])
            met, back = gather(second[value[of[every]]], count_old[of[every]])
            of_new = slices[every[back]]
            key_new, key_old = keys[every[back]], run.rows.key[run.slice_starts[met]]
            some, place = table.lookup(*((key_new, key_old) if new_left else (key_old, key_new)))
            yield new_left, of_new[some], met[some], place

    def _chunks(self, spans: _Spans) -> Iterator[_Spans]:
        """Spans with a bounded number of pairs; those of one new document stay together, and so does every pair."""
        sizes = spans.end - spans.begin
        if sizes.sum() <= _CHUNK:
            yield spans
            return
        doc = self.new.rows.doc[spans.row]
        order = np.argsort(doc, kind="stable")
        of_document = np.concatenate([[0], np.flatnonzero(np.diff(doc[order])) + 1])
        filled = np.cumsum(sizes[order])
        cuts = np.unique((filled[of_document] - sizes[order][of_document]) // _CHUNK, return_index=True)[1]
        for part in np.split(order, of_document[cuts][1:]):
            yield take(spans, part)

    def _met(self, runs: list[Run], spans: _Spans) -> _Met:
        """Return the pairs of rows of some spans, without those of versions of one item."""
        parts = []
        for number, run in enumerate(runs):
            of = take(spans, spans.run == number)
            at, span = gather(of.begin, of.end - of.begin)
            new, old, left = of.row[span], at, of.new_left[span]
            apart = self.new.rows.item[new] != run.rows.item[old]
            if not apart.all():
                new, old, left, span = new[apart], old[apart], left[apart], span[apart]
            mine, other = take(self.new.rows, new), take(run.rows, old)
            sides = (
                np.where(left, *both)
                for name in ("doc", "ts", "shape")
                for both in permutations((getattr(mine, name), getattr(other, name)))
            )

            parts.append(_Met(of.edge[span], *sides))
        return stacked(parts)

    # -- passes ------------------------------------------------------------------------------------------------

    def _general(self, runs: list[Run], spans: _Spans, each: Pass) -> int:
        met = self._met(runs, spans)
        if each.order.verified and len(met.edge):
            more = [met, *self._verified(runs, met, each.order)]
            met = stacked(more)
        return _resolve(self.resolver, met, documents_of_runs(runs), self.out, each.plans)

    def _single(self, runs: list[Run], spans: _Spans, each: Pass) -> int:
        """Pairs of one edge that nearly all pairs satisfy: written down, but hardly looked at."""
        again = np.zeros(len(spans.edge), dtype=np.bool_)
        for number, run in enumerate(runs):
            of = np.flatnonzero(spans.run == number)
            several = np.concatenate([[0], np.cumsum(run.rows.again)])
            again[of] = several[spans.end[of]] > several[spans.begin[of]]
        again |= self.new.rows.again[spans.row] | self._of_several(spans)
        found = 0
        if again.any():
            # A document with several such nodes has several matched edges with one partner.
            partners = np.isin(self.new.rows.doc[spans.row], self.new.rows.doc[spans.row[again]])
            found = self._general(runs, take(spans, partners), each)
            spans = take(spans, ~partners)
        for number, run in enumerate(runs):
            for new_left in (True, False):
                of_run = take(spans, (spans.run == number) & (spans.new_left == new_left))
                if len(of_run.edge):
                    found += self._single_part(runs, run, new_left, of_run, each)
        return found

    def _of_several(self, spans: _Spans) -> Bools:
        """Tell which spans are of a new document that other rows of it, with other values, ask for on the same side."""
        rows = rising(spans.row << 1 | spans.new_left)
        _, which, counts = np.unique(
            self.new.rows.doc[rows >> 1] << 1 | rows & 1, return_inverse=True, return_counts=True
        )
        several = rows[counts[which] > 1]
        found: Bools = np.isin(spans.row << 1 | spans.new_left, several)
        return found

    def _single_part(self, runs: list[Run], run: Run, new_left: bool, spans: _Spans, each: Pass) -> int:
        """Resolve spans with new rows on one side only, whose pairs have one matched edge each."""
        new = self.new
        old, span = gather(spans.begin, spans.end - spans.begin)
        if run is new or not (run.plain and new.plain):
            apart = np.flatnonzero(new.rows.item[spans.row][span] != run.rows.item[old])
            old, span = old[apart], span[apart]
        if not len(old):
            return 0

        def sides(mine: _Column, other: _Column) -> tuple[_Column, _Column]:
            return (mine, other) if new_left else (other, mine)

        left, right = sides(new.rows.doc[spans.row][span], run.rows.doc[old])
        edge = self.program.edges[int(spans.edge[0])]
        if self._windows_enclose(edge, each):
            # All windows say the same of all these pairs, so any of the differences stands for all.
            ts_l, ts_r = np.broadcast_to(np.int64(0), len(old)), np.broadcast_to(np.int64(edge.lo), len(old))
        else:
            ts_l, ts_r = sides(new.rows.ts[spans.row][span], run.rows.ts[old])
        (shapes_new, which_new), (shapes_old, which_old) = new.distinct_shapes, run.distinct_shapes
        which = which_new[spans.row][span].astype(np.int64) * len(shapes_old) + which_old[old]
        if len(shapes_new) * len(shapes_old) <= _FEW_SHAPES:
            counts = np.bincount(which, minlength=len(shapes_new) * len(shapes_old))
            present = np.flatnonzero(counts)
            which = (np.cumsum(counts > 0) - 1)[which]
        else:
            present, which = np.unique(which, return_inverse=True)
        shape_l, shape_r = sides(shapes_new[present // len(shapes_old)], shapes_old[present % len(shapes_old)])
        edges = MatchedEdges(np.full(len(present), edge.number, dtype=np.int32), shape_l, shape_r)
        pairs = MatchedPairs(left, right, ts_l, ts_r)
        assert each.plans is not None
        self.resolver.resolve_single(pairs, which, edges, documents_of_runs(runs), self.out, each.plans)
        return len(old)

    def _windows_enclose(self, edge: Edge, each: Pass) -> bool:
        """Tell whether every window of the plans of a pass admits all differences that the edge allows."""
        assert each.plans is not None
        for plan in self.program.by_edge.get(edge.number, ()):
            if each.plans.includes(plan):
                if isinstance(plan, LinkPlan):
                    return False
                windows = self.program.windows(plan.number)
                if windows.order.any() or (windows.lo > edge.lo).any() or (windows.hi < edge.hi).any():
                    return False
        return True

    # -- verification ------------------------------------------------------------------------------------------

    def _verified(self, runs: list[Run], met: _Met, order: JoinOrder) -> Iterator[_Met]:
        """Iterate over the matched edges among those that are looked up on the pairs that others have found."""
        waiting = np.flatnonzero(np.isin(met.edge, np.fromiter(order.verified, np.int64, len(order.verified))))
        if not len(waiting):
            return
        first = np.lexsort((met.doc_r[waiting], met.doc_l[waiting], met.edge[waiting]))
        waiting = waiting[first]
        asking = take(met, waiting)
        new = np.ones(len(waiting), dtype=np.bool_)
        new[1:] = np.logical_or.reduce(
            [column[1:] != column[:-1] for column in (asking.edge, asking.doc_l, asking.doc_r)]
        )
        asking = take(asking, new)
        runs = self._complete(runs, asking)
        rest = {edge: set(others) for edge, others in order.verified.items()}
        for step in range(max(map(len, order.required.values()), default=0)):
            wanted = {edge: others[step : step + 1] for edge, others in order.required.items()}
            for edge, others in wanted.items():
                rest[edge] -= set(others)
            at, other = _asked(asking.edge, wanted)
            held = np.ones(len(asking.edge), dtype=np.bool_)
            held[at] = False
            for of, found in self._looked_up(runs, asking, at, other):
                held[of] = True
                yield found
            asking = take(asking, held)
        for _, found in self._looked_up(runs, asking, *_asked(asking.edge, {e: tuple(o) for e, o in rest.items()})):
            yield found

    def _looked_up(self, runs: list[Run], pairs: _Met, at: Int64s, edges: Int64s) -> Iterator[tuple[Int64s, _Met]]:
        """Iterate over the rows of ``edges`` on the pairs at some places, an edge for each; and the places where there
        are rows.
        """
        order = np.argsort(edges, kind="stable")
        at, edges = at[order], edges[order]
        if not len(edges):
            return
        starts = np.flatnonzero(np.diff(edges, prepend=-1)).tolist()
        values: defaultdict[str, list[Int64s]] = defaultdict(list)
        for start, end in zip(starts, [*starts[1:], len(edges)], strict=True):
            edge = self.program.edges[int(edges[start])]
            # Edges that compare texts for being equal, or different, are looked up together, however many there are.
            together = edge.key.kind if edge.key.kind != "BAND" else f"BAND {edge.number}"
            values[together].append(np.arange(start, end))
        for parts in values.values():
            of = np.concatenate(parts)
            like = self.program.edges[int(edges[of[0]])]
            held, found = self._holding(runs, like, edges[of], take(pairs, at[of]))
            yield at[of][held], found

    def _complete(self, runs: list[Run], met: _Met) -> list[Run]:
        """Return the runs and, of documents with rows in files only, a run with all their rows."""
        docs = rising(np.concatenate([met.doc_l, met.doc_r]))
        missing = self.cache.incomplete(docs[~np.isin(docs, self.new.docs)])
        if not len(missing):
            return runs
        found = self.fetch(missing, True)
        if found.num_rows > self.most_rows:
            raise TooManyRows
        return [*runs, self.cache.run_of(found, 0)]

    def _holding(self, runs: list[Run], like: Edge, numbers: Int64s, pairs: _Met) -> tuple[Int64s, _Met]:
        """Return the rows of edges on some pairs, and the place of each row's pair.

        ``numbers`` are the edges, one for each pair, which compare values as ``like`` does.
        """
        distinct, which = np.unique(numbers, return_inverse=True)
        cache, edges = self.cache, [self.program.edges[number].key for number in distinct.tolist()]
        keys_l = np.array([cache.key(key.lvar, key.lfn) for key in edges], dtype=np.int64)[which]
        keys_r = np.array([cache.key(key.rvar, key.rfn) for key in edges], dtype=np.int64)[which]
        held = held_on_pairs(runs, like, (keys_l, keys_r), pairs.doc_l, pairs.doc_r)
        of = take(pairs, held.pair)
        number = numbers[held.pair].astype(np.int32)
        return held.pair, _Met(number, of.doc_l, of.doc_r, of.ts_l, of.ts_r, held.shape_l, held.shape_r)


def _asked(edges: Int32s, verified: Mapping[int, tuple[int, ...]]) -> tuple[Int64s, Int64s]:
    """Return the edges to look up on pairs that some edges have found: places among those, and the edge to look up
    there.
    """
    by = np.array(sorted(verified), dtype=np.int64)
    if not len(by) or not len(edges):
        return by[:0], by[:0]
    lists = [verified[edge] for edge in by.tolist()]
    others = np.array([other for each in lists for other in each], dtype=np.int64)
    counts = np.array([len(each) for each in lists], dtype=np.int64)
    begin = np.cumsum(counts) - counts
    which = np.minimum(np.searchsorted(by, edges), len(by) - 1)
    some = np.flatnonzero(by[which] == edges)
    at, of = gather(begin[which[some]], counts[which[some]])
    return some[of], others[at]


def _resolve(resolver: Resolver, met: _Met, documents: Documents, out: ResultColumns, plans: Plans | None) -> int:
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
