"""Matched edges of document pairs to classes: which groups a pair satisfies, with which nodes.

Values were joined elsewhere; what is left is to see, for each pair of documents, which instances have all their edges
matched on nodes that hang together as the reduced patterns say.  That depends only on the pair's *signature*, the set
of its matched edges with their nodes and chains.  Signatures are told apart column by column; a distinct one is solved
once and remembered, and documents of one layout (feed items) have few.  Windows and guards, in which the
groups of an instance differ, cut the pairs of a signature into classes.

The law, held by tests: the rows are those of CQ_T (``sql``) for every query of every group.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from xscl.base.docids import PUBLISHED
from xscl.base.number_order import each_once, order_by
from xscl.base.values import COMPARISONS
from xscl.templates.columns import Int32s, Int64s, gather, numbered, stacked, take
from xscl.templates.joins.asked_edges import AskedEdges, asked_edges
from xscl.templates.joins.guarded import Sought
from xscl.templates.joins.guarded_windows import GuardedWindows, guarded, guarded_windows
from xscl.templates.joins.link_rows import LinkRows, add_link_rows, link_rows
from xscl.templates.joins.matched_edges import Matched, MatchedEdges
from xscl.templates.joins.signatures import (
    Cells,
    Signature,
    Solved,
    class_columns,
    class_rows,
    numbered_pairs,
    places_by_number,
    refuse_pairs,
)
from xscl.templates.joins.solve import Solution, solve
from xscl.templates.joins.window_cells import Documents, MatchedPairs, admit_all, whole_span, window_cells
from xscl.templates.plans import Edge, InstancePlan, LinkPlan
from xscl.templates.program import Program
from xscl.templates.results import ResultColumns
from xscl.templates.shapes import Shapes, mixed

__all__ = ["LOOK", "Plans", "Resolver", "grouped", "holds_exactly"]

LOOK = -2
"""Class that differs from pair to pair."""
_BITS = 32
_MEMO_SIZE = 50_000
_MOST_SOLUTIONS = 100_000
"""Solutions that are remembered; behind them all are forgotten."""
_MANY_ADMITTED = 1 << 24
"""Pairs and guarded windows, each with the other, that are looked at together."""
_MANY_EDGES = 8
"""Matched edges of a pair from which on it is worth a look which of them queries may ask for."""
_MEMO_NUMBERS = 10_000_000
"""Numbers remembered for all signatures: nodes of rows and matches, and windows; some 50 bytes each."""


class Resolver:
    """Resolves pairs for one program; remembers signatures."""

    def __init__(self, program: Program, shapes: Shapes) -> None:
        self.program = program
        self.shapes = shapes
        self._seeds = secrets.randbits(64), secrets.randbits(64)
        self._memo: dict[tuple[int, int], Signature] = {}
        self._solutions: dict[object, Solution] = {}
        """Solutions by plan and the matched pairs of the edges that it needs."""
        self._size = 0
        """Numbers in the signatures."""
        self._structure = program.structure
        self._known: tuple[int, AskedEdges] | None = None
        """Edges with what else has to be so where a query asks for them, and the version of the program."""

    def resolve(
        self,
        pairs: MatchedPairs,
        starts: Int64s,
        edges: MatchedEdges,
        documents: Documents,
        out: ResultColumns,
        plans: Plans | None = None,
    ) -> None:
        """Add what pairs come to; ``edges[starts[i]:starts[i + 1]]`` are all matched edges of pair i.

        With ``plans`` only those instances and links are looked for.
        """
        if len(edges.edge) >= _MANY_EDGES * len(pairs.left):
            pairs, starts, edges = self._asked(pairs, starts, edges, documents)
        if not len(pairs.left):
            return
        hashes = [mixed(edges, seed) for seed in self._seeds]
        first, second = (np.add.reduceat(column, starts[:-1]) for column in hashes)
        which, examples = numbered_pairs(first, second)
        self.classify(
            pairs,
            which,
            [
                ((int(first[at]), int(second[at])), take(edges, np.arange(starts[at], starts[at + 1])))
                for at in examples.tolist()
            ],
            documents,
            out,
            plans,
        )

    def _asked(
        self, pairs: MatchedPairs, starts: Int64s, edges: MatchedEdges, documents: Documents
    ) -> tuple[MatchedPairs, Int64s, MatchedEdges]:
        """Return pairs with the matched edges that some query may ask for; pairs without any are left out."""
        if self._known is None or self._known[0] != self.program.version:
            self._known = self.program.version, asked_edges(self.program)
        pair = np.repeat(np.arange(len(pairs.left)), np.diff(starts))
        kept = self._known[1].asked(pairs, pair, edges.edge.astype(np.int64), documents)
        if kept.all():
            return pairs, starts, edges
        left, counts = np.unique(pair[kept], return_counts=True)
        return take(pairs, left), np.append(0, np.cumsum(counts)), take(edges, np.flatnonzero(kept))

    def resolve_single(
        self,
        pairs: MatchedPairs,
        which: npt.NDArray[np.integer],
        edges: MatchedEdges,
        documents: Documents,
        out: ResultColumns,
        plans: Plans,
    ) -> None:
        """Return the same for pairs of one matched edge: row ``which[i]`` of ``edges``, whose rows are all
        different.
        """
        first, second = (mixed(edges, seed) for seed in self._seeds)
        self.classify(
            pairs,
            which,
            [((int(first[at]), int(second[at])), take(edges, np.array([at]))) for at in range(len(first))],
            documents,
            out,
            plans,
        )

    def whole_classes(self, edges: MatchedEdges, places: tuple[int, int], out: ResultColumns, plans: Plans) -> Int32s:
        """Return the class of all pairs that have one matched edge each and that no time and no stream tells apart.

        Args:
            edges: the matched edges, a row for each answer.
            places: the least and the greatest document.
            out: gets the classes.
            plans: the instances and links in question.

        Returns:
            The class; -1 where there is none, ``LOOK`` where each pair has to be looked at.
        """
        first, second = (mixed(edges, seed) for seed in self._seeds)
        found = np.full(len(first), LOOK, dtype=np.int32)
        for at in range(len(first) if places[1] < PUBLISHED else 0):
            key = int(first[at]), int(second[at])
            signature = self._signature(key, take(edges, np.array([at])), plans)
            windows = signature.windows
            if signature.links or signature.refuses:
                continue
            if windows is None:
                found[at] = -1
            elif signature.guarded is None and admit_all(windows, *places):
                rows = list(class_rows(signature, np.arange(len(windows.gid))))
                found[at] = out.add_class(rows) if rows else -1
        return found

    def resolve_ones(
        self, docs: Int64s, ts: Int64s, edges: MatchedEdges, documents: Documents, out: ResultColumns
    ) -> None:
        """Add what documents come to for queries of one block, each row a document and its one node of an edge."""
        if not len(docs):
            return
        codes = edges.edge.astype(np.int64) << 32 | edges.shape_l
        _, examples, which = numbered(codes)
        least, greatest = int(docs.min()), int(docs.max())
        ordinary = greatest < PUBLISHED and documents.memberships is None
        distinct = take(edges, examples)
        keys = zip(*(mixed(distinct, seed).tolist() for seed in self._seeds), strict=True)
        classes = np.full(len(examples), -1, dtype=np.int32)
        others: list[tuple[tuple[int, int], MatchedEdges]] = []
        place_of_other = np.full(len(examples), -1, dtype=np.int64)
        for number, key in enumerate(keys):
            own = MatchedEdges(*(column[number : number + 1] for column in distinct))
            signature = self._signature(key, own, None)
            whole = signature.whole
            plain = ordinary and whole is not None and whole[0] <= least and greatest <= whole[1]
            if plain and not signature.links and not signature.refuses:
                if signature.rows is None:
                    assert signature.windows is not None
                    every = np.arange(len(signature.windows.gid))
                    signature.rows = list(class_rows(signature, every))
                classes[number] = out.add_class(signature.rows)
            else:
                place_of_other[number] = len(others)
                others.append((key, own))
        of_row = classes[which]
        kept = of_row >= 0
        out.add_pairs(docs[kept], np.full(int(kept.sum()), -1), of_row[kept])
        if others:
            of = np.flatnonzero(place_of_other[which] >= 0)
            pairs = MatchedPairs(docs[of], np.full(len(of), -1), ts[of], ts[of])
            self.classify(pairs, place_of_other[which[of]], others, documents, out, None)

    def classify(
        self,
        pairs: MatchedPairs,
        which: npt.NDArray[np.integer],
        signatures: Sequence[tuple[tuple[int, int], MatchedEdges]],
        documents: Documents,
        out: ResultColumns,
        plans: Plans | None,
    ) -> None:
        """Add what pairs come to whose signatures are numbered; what each number stands for is told once."""
        guards = self.program.guards
        if guards and len(signatures) > 1 and len(pairs.left) * len(guards.facts_read) <= _MANY_ADMITTED:
            docs = each_once(np.concatenate([pairs.left, pairs.right]))
            documents = documents.looked_up(docs[docs >= 0])
        links: list[LinkRows] = []
        for number, members in places_by_number(which, len(signatures)):
            key, edges = signatures[number]
            signature = self._signature(key, edges, plans)
            of = pairs if members is None else take(pairs, members)
            links += link_rows(signature, of, documents, self.program, out)
            if signature.instances:
                if signature.guarded is None:
                    self._add_classes(signature, of, documents, out)
                    continue
                for part, sought in _parts(signature.guarded, of, documents):
                    self._add_guarded(signature, part, sought, documents, out)
        add_link_rows(links, documents, out)

    # -- signatures --------------------------------------------------------------------------------------------

    def _signature(self, key: tuple[int, int], edges: MatchedEdges, plans: Plans | None) -> Signature:
        full = len(self._memo) >= _MEMO_SIZE or self._size >= _MEMO_NUMBERS
        if self._structure != self.program.structure or full:
            self._memo.clear()
            self._solutions.clear()
            self._size = 0
            self._structure = self.program.structure
        if plans is not None:
            key = key[0] ^ plans.number, key[1]
        known = self._memo.get(key)
        if known is None:
            known = self._memo[key] = self._solve(edges, plans)
            self._size += sum(solved.size for solved in (*known.instances, *known.links))
        if known.version != self.program.version:
            windows = [self.program.windows(solved.plan.number) for solved in known.instances]  # type: ignore[union-attr]
            self._size -= known.starts[-1]
            known.starts = tuple(np.cumsum([0, *(len(each.gid) for each in windows)]).tolist())
            known.windows = stacked(windows) if windows else None
            known.plain = known.guarded = None
            if known.windows is not None and guarded(known.windows).any():
                known.guarded = guarded_windows(known.windows, self.program.guards.table)
                known.plain = np.flatnonzero(~guarded(known.windows))
            known.version = self.program.version
            known.whole, known.rows = whole_span(known.windows), None
            self._size += known.starts[-1]
        return known

    def _solve(self, edges: MatchedEdges, plans: Plans | None) -> Signature:
        matched = Matched(edges, self.shapes, self.program)
        found = Signature([], [])
        for edge in sorted(matched.edges):
            for plan in self.program.by_edge.get(edge, ()):
                if plan.needs <= matched.edges and (plans is None or plans.includes(plan)):
                    solution = self._solution(plan, matched)
                    if solution:
                        solved = Solved(plan, solution)
                        (found.links if isinstance(plan, LinkPlan) else found.instances).append(solved)
        return found

    def _solution(self, plan: InstancePlan | LinkPlan, matched: Matched) -> Solution:
        """Solve a plan, or remember how it was solved where other edges were matched besides those that it needs."""
        own = tuple([matched.pairs_of(edge) for edge in sorted(plan.needs)])
        key = plan.name, own, matched.is_sorted, not plan.specs.isdisjoint(matched.refused)
        solution = self._solutions.get(key)
        if solution is None:
            if len(self._solutions) >= _MOST_SOLUTIONS:
                self._solutions.clear()
            solution = self._solutions[key] = solve(plan, matched)
        return solution

    # -- what they come to -------------------------------------------------------------------------------------

    def _add_classes(self, signature: Signature, pairs: MatchedPairs, documents: Documents, out: ResultColumns) -> None:
        assert signature.windows is not None
        cells, seen = window_cells(signature.windows, pairs, documents, self.program.memberships, self.program.ordinals)
        admits = [np.flatnonzero(each) for each in seen]
        classes = np.empty(len(admits), dtype=np.int32)
        for cell, found in enumerate(admits):
            rows = list(class_rows(signature, found))
            classes[cell] = out.add_class(rows) if rows else -1
            if signature.refuses:
                of = pairs if cells is None else take(pairs, np.flatnonzero(cells == cell))
                refuse_pairs(signature, found, of, documents, out)
        if cells is None:
            if classes[0] >= 0:
                out.add_pairs(pairs.left, pairs.right, np.full(len(pairs.left), classes[0], dtype=np.int32))
            return
        _add_known(pairs, classes[cells], out)

    def _add_guarded(
        self, signature: Signature, pairs: MatchedPairs, sought: Sought, documents: Documents, out: ResultColumns
    ) -> None:
        """Add what pairs come to that windows with guards admit: as many classes as different sets of groups."""
        which, cells = self._cells(signature, pairs, sought, documents)
        classes = out.add_classes(len(cells.starts) - 1, list(class_columns(signature, cells)))
        if signature.refuses:
            for cell, members in places_by_number(which, len(classes)):
                of = pairs if members is None else take(pairs, members)
                refuse_pairs(signature, cells.of(cell), of, documents, out)
        _add_known(pairs, classes[which], out)

    def _cells(
        self, signature: Signature, pairs: MatchedPairs, sought: Sought, documents: Documents
    ) -> tuple[Int64s, Cells]:
        """Return a number for each pair, equal where the same windows admit; and the windows of each."""
        windows, memberships, plain = signature.windows, self.program.memberships, signature.plain
        ordinals = self.program.ordinals
        assert windows is not None and plain is not None and signature.guarded is not None
        cells, admits = np.zeros(len(pairs.left), dtype=np.int64), [np.empty(0, dtype=np.int64)]
        if len(plain):
            of_pair, seen = window_cells(take(windows, plain), pairs, documents, memberships, ordinals)
            cells, admits = cells if of_pair is None else of_pair, [plain[np.flatnonzero(each)] for each in seen]
        pair, row = signature.guarded.admitting(pairs, sought, documents, memberships, ordinals)
        which, examples = _alike(pair, row, cells, self._seeds)
        # Of the windows without guards those of the example's cell, and behind them the guarded ones.
        sizes = np.array([len(each) for each in admits])
        at, cell = gather((np.cumsum(sizes) - sizes)[cells[examples]], sizes[cells[examples]])
        begin = np.searchsorted(pair, examples)
        own, of_own = gather(begin, np.searchsorted(pair, examples, side="right") - begin)
        rows, cell = np.concatenate([np.concatenate(admits)[at], row[own]]), np.concatenate([cell, of_own])
        both = cell << _BITS | rows
        both.sort()
        starts = np.searchsorted(both, np.arange(len(examples) + 1) << _BITS)
        return which, Cells(starts, both & ((1 << _BITS) - 1))


def _add_known(pairs: MatchedPairs, classes: Int32s, out: ResultColumns) -> None:
    """Add the pairs that are of a class."""
    kept = classes >= 0
    out.add_pairs(pairs.left[kept], pairs.right[kept], classes[kept])


def _parts(windows: GuardedWindows, pairs: MatchedPairs, documents: Documents) -> Iterator[tuple[MatchedPairs, Sought]]:
    """Yield pairs some at a time, and how their windows are looked for, so that what guards admit of each part fits in
    memory.
    """
    sought, many = windows.sought(pairs, documents), len(pairs.left)
    if many == 1 or windows.most(sought) <= _MANY_ADMITTED:
        yield pairs, sought
        return
    for part in (slice(0, many // 2), slice(many // 2, many)):
        yield from _parts(windows, MatchedPairs(*(column[part] for column in pairs)), documents)


def _alike(pair: Int64s, row: Int64s, cells: Int64s, seeds: tuple[int, int]) -> tuple[Int64s, Int64s]:
    """Return equal numbers for pairs of one cell that have the same rows, and a pair of each number.

    ``pair`` is rising, with a row of each pair in ``row``.
    """
    sums = []
    for seed in seeds:
        found = np.zeros(len(cells), dtype=np.uint64)
        np.add.at(found, pair, mixed([row], seed))
        sums.append(mixed([found.view(np.int64), cells], seed))
    return numbered_pairs(*sums)


@dataclass(frozen=True)
class Plans:
    """Some instances and links of a program."""

    number: int
    """Different for different ones."""
    includes: Callable[[InstancePlan | LinkPlan], bool]


def grouped(left: Int64s, right: Int64s) -> tuple[npt.NDArray[np.int64], Int64s]:
    """Return an order of rows in which those of one pair of documents stand together; and where each pair begins, and
    the end.

    Nothing is sorted that is in order.
    """
    rising = (left[1:] > left[:-1]) | ((left[1:] == left[:-1]) & (right[1:] >= right[:-1]))
    order = np.arange(len(left)) if rising.all() else order_by(left, right)
    in_order_l, in_order_r = left[order], right[order]
    new = (in_order_l[1:] != in_order_l[:-1]) | (in_order_r[1:] != in_order_r[:-1])
    starts = np.concatenate([[0], np.flatnonzero(new) + 1, [len(left)]]) if len(left) else np.zeros(1, dtype=np.int64)
    return order, starts.astype(np.int64)


def holds_exactly(edge: Edge, left: str, right: str) -> bool:
    """Return a BAND edge on two numbers that are too close for doubles to tell."""
    key = edge.key
    return bool(COMPARISONS[key.op](Fraction(left), key.f * Fraction(right) + key.add))
