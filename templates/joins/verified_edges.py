"""Edges that a pass looks up on the pairs that its other edges have found, edge after edge.

Pairs leave as soon as an edge does not hold that all their plans require.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import each_once, order_by, order_of
from xscl.templates.columns import Int32s, Int64s, gather, take
from xscl.templates.joins.families import Family
from xscl.templates.joins.line_search import LineSearch, LookUps, Ranges
from xscl.templates.joins.order import JoinOrder
from xscl.templates.joins.verify import held_in_family, held_on_lines, held_on_pairs, ranges_on_pairs
from xscl.templates.plans import Edge
from xscl.templates.program import Program
from xscl.templates.runs.run import Key
from xscl.templates.runs.view import FinderNumbers, RunView

__all__ = ["Met", "Places"]

_BITS = 32


class Met(NamedTuple):
    """Pairs of rows with one matched edge each."""

    edge: Int32s
    doc_l: Int64s
    doc_r: Int64s
    ts_l: Int64s
    ts_r: Int64s
    shape_l: Int32s
    shape_r: Int32s


@dataclass(frozen=True, slots=True)
class Places:
    """Runs in which edges of pairs are looked up."""

    numbers: FinderNumbers
    program: Program
    views: Sequence[RunView]
    """The runs that may have documents of a pair."""
    look_ups: Callable[[frozenset[frozenset[int]]], LookUps]
    """Tells how the edges that plans need are looked up."""

    def verified(self, met: Met, order: JoinOrder) -> Iterator[Met]:
        """Iterate over the matched edges among those that are looked up on the pairs that others have found."""
        waiting = np.flatnonzero(np.isin(met.edge, np.fromiter(order.needs, np.int64, len(order.needs))))
        if not len(waiting):
            return
        asking = _each_once(take(met, waiting))
        for step in range(max(map(len, order.required.values()), default=0)):
            wanted = {edge: others[step : step + 1] for edge, others in order.required.items()}
            at, other = _asked(asking.edge, wanted)
            held = np.ones(len(asking.edge), dtype=np.bool_)
            held[at] = False
            for of, found in self._looked_up(asking, at, other):
                held[of] = True
                yield found
            asking = take(asking, held)
        look_ups = {
            edge: self.look_ups(_without(needs, order.required.get(edge))) for edge, needs in order.needs.items()
        }
        single = {edge: of.families.others for edge, of in look_ups.items() if of.families.others}
        for _, found in self._looked_up(asking, *_asked(asking.edge, single)):
            yield found
        for edge, how in look_ups.items():
            pairs = take(asking, asking.edge == edge)
            if len(pairs.edge):
                yield from (self._in_family(family, pairs) for family in how.families.families)
                yield from self._searched(how.searches, pairs)

    def _searched(self, searches: Sequence[LineSearch], pairs: Met) -> Iterator[Met]:
        """Iterate over the rows of edges of plans whose inequalities may all hold on pairs."""
        ranges: dict[tuple[Key, Key], Ranges] = {}
        codes: defaultdict[tuple[Key, Key, str], list[Int64s]] = defaultdict(list)
        for search in searches:
            keys = [_keys_of(like) for like in search.likes]
            for each in keys:
                if each not in ranges:
                    ranges[each] = ranges_on_pairs(
                        self.views, self._numbers(each, len(pairs.edge)), pairs.doc_l, pairs.doc_r
                    )
            for pair, plan in search.found([ranges[each] for each in keys]):
                for like, of_plan, each in zip(search.likes, search.edges, keys, strict=True):
                    edge = of_plan[plan].astype(np.int64)
                    codes[*each, like.key.op].append((pair << _BITS | edge)[edge >= 0])
        for (one, other, _), found in codes.items():
            asked = each_once(np.concatenate(found))
            if len(asked):
                yield self._on_lines(
                    (one, other), (asked & ((1 << _BITS) - 1)).astype(np.int32), take(pairs, asked >> _BITS)
                )

    def _on_lines(self, keys: tuple[Key, Key], edges: Int32s, pairs: Met) -> Met:
        """Return the rows of inequalities on the same values, an edge for each pair."""
        numbers = self._numbers(keys, len(edges))
        held = held_on_lines(self.views, self.program.edges, edges, numbers, pairs.doc_l, pairs.doc_r)
        of = take(pairs, held.pair)
        return Met(edges[held.pair], of.doc_l, of.doc_r, of.ts_l, of.ts_r, held.shape_l, held.shape_r)

    def _numbers(self, keys: tuple[Key, Key], many: int) -> tuple[Int64s, Int64s]:
        """Return the numbers of the keys of both sides, for so many pairs."""
        one, other = (np.full(many, self.numbers.key(each), dtype=np.int64) for each in keys)
        return one, other

    def _looked_up(self, pairs: Met, at: Int64s, edges: Int64s) -> Iterator[tuple[Int64s, Met]]:
        """Iterate over the rows of ``edges`` on the pairs at some places, an edge for each; and the places where there
        are rows.
        """
        order = order_of(edges)
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
            held, found = self._holding(like, edges[of], take(pairs, at[of]))
            yield at[of][held], found

    def _holding(self, like: Edge, numbers: Int64s, pairs: Met) -> tuple[Int64s, Met]:
        """Return the rows of edges on some pairs, and the place of each row's pair.

        ``numbers`` are the edges, one for each pair, which compare values as ``like`` does.
        """
        distinct, which = np.unique(numbers, return_inverse=True)
        edges = [self.program.edges[number].key for number in distinct.tolist()]
        keys_l = self.numbers.keys(tuple((key.lvar, key.lfn) for key in edges))[which]
        keys_r = self.numbers.keys(tuple((key.rvar, key.rfn) for key in edges))[which]
        held = held_on_pairs(self.views, like, (keys_l, keys_r), pairs.doc_l, pairs.doc_r)
        of = take(pairs, held.pair)
        number = numbers[held.pair].astype(np.int32)
        return held.pair, Met(number, of.doc_l, of.doc_r, of.ts_l, of.ts_r, held.shape_l, held.shape_r)

    def _in_family(self, family: Family, pairs: Met) -> Met:
        """Return the rows of the edges of a family on some pairs."""
        of_l, of_r = self._numbers(_keys_of(family.like), len(pairs.edge))
        held, edges = held_in_family(self.views, self.program.edges, family, (of_l, of_r), pairs.doc_l, pairs.doc_r)
        of = take(pairs, held.pair)
        return Met(edges, of.doc_l, of.doc_r, of.ts_l, of.ts_r, held.shape_l, held.shape_r)


def _keys_of(edge: Edge) -> tuple[Key, Key]:
    key = edge.key
    return (key.lvar, key.lfn), (key.rvar, key.rfn)


def _without(needs: frozenset[frozenset[int]], some: Sequence[int] | None) -> frozenset[frozenset[int]]:
    """Return what plans need besides some edges."""
    if not some:
        return needs
    known = frozenset(some)
    return frozenset(need - known for need in needs)


def _each_once(met: Met) -> Met:
    """Leave one row of each pair and edge."""
    met = take(met, order_by(met.edge, met.doc_l, met.doc_r))
    new = np.ones(len(met.edge), dtype=np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in (met.edge, met.doc_l, met.doc_r)])
    return take(met, new)


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
