"""Partial matches of queries of many blocks, in columns; rows of links complete them, link by link.

A new row of a link starts a partial match of every instance that has the link.  Rows of the other links that have its
documents extend it, until all links are there.  The delta rule of incremental joins keeps every combination from being
found twice: of the links before the one that started, only rows of earlier batches extend it.

Partial matches of all assemblies lie in the same columns, so that each look-up is made for all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from xscl.base.number_order import each_once
from xscl.templates.bounds import UNBOUNDED, pair_index
from xscl.templates.columns import Int32s, Int64s, gather, stacked, take
from xscl.templates.many_blocks.runs import LinkRun, MetRows
from xscl.templates.many_blocks.state import UNBOUND, Asked, LinkState, count_of, met_of
from xscl.templates.plans import Assembly
from xscl.templates.program import Program

__all__ = ["Chains", "Partials", "Way", "new_chains"]

_MOST = 100_000
"""Partial matches that are looked at together, about."""
_MANY = 1_000
"""Rows that a partial match may meet before another way is looked for."""
_NO_NODE = -1 << 31
_MOST_STARTED = 4_000_000
"""Ways that are started together, about."""
_FEW_STARTED = 10_000
"""Ways that are started without a look whether they go on."""
_MOST_CELLS = 1 << 25
"""Links and documents, each with the other, up to which there is a table of them."""


class Way(NamedTuple):
    """An order in which the links of an assembly are bound."""

    assembly: Assembly
    uses: Sequence[int]
    """Places of the links in the assembly."""
    start: int
    """New rows bind the links from this place on."""


class Partials(NamedTuple):
    """Partial matches in columns; documents by block, nodes by place of the instance."""

    way: Int64s
    docid: Int64s
    item: Int64s
    ts: Int64s
    nodes: Int32s


class Chains:
    """Ways to complete partial matches, in tables, and the rows that do it."""

    def __init__(self, ways: Sequence[Way], state: LinkState, new: Sequence[LinkRun]) -> None:
        self.ways = list(ways)
        self._state, self._new = state, new
        self._blocks = max((way.assembly.blocks for way in ways), default=0)
        self._nodes = max((way.assembly.nodes for way in ways), default=0)
        self._others: dict[tuple[int, int, int], int] = {}
        """Way, step and the use that is bound at that step instead, to the way that does so."""
        self._make_tables()

    def _make_tables(self) -> None:
        self._steps = np.array([len(way.uses) for way in self.ways], np.int64)
        table = np.zeros((6, len(self.ways), int(self._steps.max(initial=0))), np.int64)
        self._link, self._left, self._right, self._first, self._width, self._fresh = table
        places: list[int] = []
        for number, way in enumerate(self.ways):
            for step, use in enumerate(way.uses):
                link = way.assembly.links[use]
                row = (link.key, *link.blocks, len(places), len(link.places), use >= way.start)
                table[:, number, step] = row
                places += link.places
        self._places = np.array(places, np.int64)
        self._bounds = {pair: self._bounds_of(pair) for pair in combinations(range(self._blocks), 2)}

    def _bounds_of(self, pair: tuple[int, int]) -> tuple[Int64s, Int64s]:
        """Return the least and the greatest difference of times of two blocks, by way."""
        found = [
            way.assembly.bounds[pair_index(way.assembly.blocks)[pair]] if pair[1] < way.assembly.blocks else None
            for way in self.ways
        ]
        least = [-UNBOUNDED if bounds is None else max(bounds.lo, -UNBOUNDED) for bounds in found]
        most = [UNBOUNDED if bounds is None else min(bounds.hi, UNBOUNDED) for bounds in found]
        return np.array(least, np.int64), np.array(most, np.int64)

    def empty(self, way: Int64s) -> Partials:
        """Return partial matches in which nothing is bound."""
        docid = np.full((len(way), self._blocks), UNBOUND, np.int64)
        nodes = np.full((len(way), self._nodes), _NO_NODE, np.int32)
        return Partials(way, docid, np.zeros_like(docid), np.zeros_like(docid), nodes)

    def joined(self, partials: Partials, rows: MetRows, step: int) -> Partials:
        """Join each partial match with the row beside it, of the link of a step; drop those that do not fit."""
        way, docid, item, ts, nodes = partials
        every = np.arange(len(way))
        fits = np.ones(len(way), np.bool_)
        docid, item, ts, nodes = docid.copy(), item.copy(), ts.copy(), nodes.copy()
        for side, blocks in enumerate((self._left, self._right)):
            block = blocks[way, step]
            bound = docid[every, block]
            fits &= (bound == UNBOUND) | (bound == rows.docid[side])
            docid[every, block] = rows.docid[side]
            item[every, block] = rows.item[side]
            ts[every, block] = rows.ts[side]
        at, row = gather(self._first[way, step], rows.widths)
        place = self._places[at]
        known = nodes[row, place]
        fits[row[(known != _NO_NODE) & (known != rows.nodes)]] = False
        nodes[row, place] = rows.nodes
        return self.possible(take(Partials(way, docid, item, ts, nodes), fits))

    def possible(self, partials: Partials) -> Partials:
        """Return the partial matches that some group could still take."""
        way, docid, item, ts, _ = partials
        fits = np.ones(len(way), np.bool_)
        for (i, j), (least, most) in self._bounds.items():
            apart = ts[:, j] - ts[:, i]
            both = (docid[:, i] != UNBOUND) & (docid[:, j] != UNBOUND)
            fits &= ~both | (item[:, i] != item[:, j]) & (least[way] <= apart) & (apart <= most[way])
        return partials if fits.all() else take(partials, fits)

    def completed(self, partials: Partials, step: int) -> Iterator[Partials]:
        """Yield the ways to complete partial matches that have the links of so many steps."""
        done = self._steps[partials.way] == step
        if done.any():
            yield take(partials, done)
            partials = take(partials, ~done)
        if len(partials.way):
            for longer in self._extended(self._rerouted(partials, step), step):
                yield from self.completed(longer, step + 1)

    def _extended(self, partials: Partials, step: int) -> Iterator[Partials]:
        """Yield partial matches with the link of one step more, many together."""
        waiting: list[Partials] = []
        for at, rows in self._met(partials, step):
            waiting.append(self.joined(take(partials, at), rows, step))
            if sum(len(part.way) for part in waiting) >= _MOST:
                yield stacked(waiting)
                waiting = []
        if any(len(part.way) for part in waiting):
            yield stacked(waiting)

    def _met(self, partials: Partials, step: int) -> Iterator[tuple[Int64s, MetRows]]:
        """Yield the rows of the link of a step that have the documents of partial matches, and which ones these are."""
        asked, usable = self._asked(partials, step)
        yield from self._state.met(asked, _MOST)
        if len(usable):
            for run in self._new:
                for at, rows in met_of(run, take(asked, usable), _MOST):
                    yield usable[at], rows

    def _asked(self, partials: Partials, step: int) -> tuple[Asked, Int64s]:
        """Return the rows that partial matches ask for at a step, and the places of those that new rows may extend."""
        way, every = partials.way, np.arange(len(partials.way))
        left, right = (partials.docid[every, block[way, step]] for block in (self._left, self._right))
        return Asked(self._link[way, step], left, right), np.flatnonzero(self._fresh[way, step])

    # -- documents with many rows ----------------------------------------------------------------------------------

    def _rerouted(self, partials: Partials, step: int) -> Partials:
        """Have partial matches that would meet many rows go another way, where that meets fewer."""
        at = np.flatnonzero(self._steps[partials.way] > step + 1)
        if not len(at) or not step:
            return partials
        counts = self._count(take(partials, at), step)
        at, counts = at[counts > _MANY], counts[counts > _MANY]
        ways = partials.way.copy()
        for number in np.unique(partials.way[at]).tolist():
            own = partials.way[at] == number
            some, fewest = take(partials, at[own]), counts[own]
            for way in self._ways_from(number, step):
                count = self._count(some._replace(way=np.full(len(fewest), way)), step)
                ways[at[own][count < fewest]] = way
                fewest = np.minimum(fewest, count)
        return partials._replace(way=ways)

    def _count(self, partials: Partials, step: int) -> Int64s:
        """Return the number of rows that each partial match would meet."""
        asked, usable = self._asked(partials, step)
        found = self._state.count(asked)
        for run in self._new:
            found[usable] += count_of(run, take(asked, usable))
        return found

    def _ways_from(self, number: int, step: int) -> Iterator[int]:
        """Yield ways that bind the same links as one before a step, and another link then."""
        assembly, uses, start = self.ways[number]
        bound = {block for use in uses[:step] for block in assembly.links[use].blocks}
        for use in uses[step + 1 :]:
            if bound.isdisjoint(assembly.links[use].blocks):
                continue
            if (number, step, use) not in self._others:
                self._others[number, step, use] = len(self.ways)
                rest = (other for other in uses[step:] if other != use)
                self.ways.append(Way(assembly, (*uses[:step], use, *rest), start))
                self._make_tables()
            yield self._others[number, step, use]

    def started(self, run: LinkRun, begin: int, end: int, ways: dict[int, list[int]]) -> Iterator[Partials]:
        """Yield what the rows of a new run between two places start: the ways of each link's key."""
        starting = [ways.get(link, []) for link in run.links.tolist()]
        counts = np.array([len(some) for some in starting], np.int64)
        numbers = np.array([way for some in starting for way in some], np.int64)
        first = np.cumsum(counts) - counts
        link = np.searchsorted(run.starts, np.arange(begin, end), side="right") - 1
        part = np.cumsum(counts[link]) // _MOST_STARTED
        for number in each_once(part).tolist():
            places = begin + np.flatnonzero(part == number)
            of = link[places - begin]
            at, row = gather(first[of], counts[of])
            way, docids = numbers[at], run.documents.docid
            some = self._may_go_on(way, row, (docids[run.left[places]], docids[run.right[places]]))
            if len(some):
                yield self.joined(self.empty(way[some]), run.rows(places[row[some]]), 0)

    def _may_go_on(self, way: Int64s, row: Int64s, docids: tuple[Int64s, Int64s]) -> Int64s:
        """Return which ways may go on from the rows that start them: their next link has a row of the same document.

        A link that a thousand queries share starts as many ways, and few of these go on.

        Args:
            way: the ways.
            row: the place of the row that starts each.
            docids: the left and the right documents of rows.
        """
        every = np.arange(len(way))
        if len(way) <= _FEW_STARTED or self._link.shape[1] < 2:
            return every
        links, next_link = np.unique(self._link[:, 1], return_inverse=True)
        documents = each_once(np.concatenate(docids))
        if len(links) * len(documents) > _MOST_CELLS:
            return every
        met = np.zeros((2, len(links), len(documents)), np.bool_)
        for run in (*self._state.runs, *self._state.added, *self._new):
            for side in (0, 1):
                met[side][run.meeting(links, documents, left=not side)] = True
        # The next link has a block of the first one, on its left side or on its right one.
        left = (self._left[:, 1] == self._left[:, 0]) | (self._left[:, 1] == self._right[:, 0])
        shared = np.where(left, self._left[:, 1], self._right[:, 1]) == self._right[:, 0]
        one, other = (np.searchsorted(documents, each)[row] for each in docids)
        held = met[np.where(left, 0, 1)[way], next_link[way], np.where(shared[way], other, one)]
        return np.flatnonzero(held | (self._steps[way] == 1))


def new_chains(
    program: Program, state: LinkState, new: Sequence[LinkRun], share: tuple[int, int]
) -> tuple[Chains, Iterator[Partials]]:
    """Return chains that a share of the new rows start, and the complete matches that they come to.

    Args:
        program: the queries.
        state: rows of earlier batches, and of earlier levels of this one.
        new: the new rows of all shares.
        share: which one of how many equal parts of the new rows.
    """
    ways: list[Way] = []
    of_link: dict[int, list[int]] = {}
    for link in {link for run in new for link in run.links.tolist()}:
        of_link[link] = []
        for number, place in program.starts.get(link, ()):
            assembly = program.assemblies[number]
            of_link[link].append(len(ways))
            ways.append(Way(assembly, (place, *(step.use for step in assembly.steps[place])), place))
    chains = Chains(ways, state, new)
    return chains, _from_share(chains, new, share, of_link)


def _from_share(
    chains: Chains, new: Sequence[LinkRun], share: tuple[int, int], ways: dict[int, list[int]]
) -> Iterator[Partials]:
    for begin, end, run in _spans_of(new, share):
        for partials in chains.started(run, begin, end, ways):
            yield from chains.completed(partials, 1)


def _spans_of(new: Sequence[LinkRun], share: tuple[int, int]) -> Iterator[tuple[int, int, LinkRun]]:
    """Yield the rows of a share: a span of places of each run that has some."""
    number, of = share
    total = sum(map(len, new))
    first, last = total * number // of, total * (number + 1) // of
    before = 0
    for run in new:
        begin, end = max(first - before, 0), min(last - before, len(run))
        if begin < end:
            yield begin, end, run
        before += len(run)
