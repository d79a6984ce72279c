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
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from xscl.base.docids import PUBLISHED
from xscl.base.number_order import each_once, order_by
from xscl.base.values import COMPARISONS
from xscl.templates.columns import Int32s, Int64s, gather, numbered, stacked, take
from xscl.templates.joins.asked_edges import AskedEdges, asked_edges
from xscl.templates.joins.edge_sets import EdgeSet, EdgeSets, GuardedPlans, Plans
from xscl.templates.joins.guarded import Sought
from xscl.templates.joins.guarded_windows import GuardedWindows, unguarded
from xscl.templates.joins.link_rows import LinkRows, add_link_rows, link_rows
from xscl.templates.joins.matched_edges import Matched, MatchedEdges
from xscl.templates.joins.signatures import (
    Admitting,
    Signature,
    Signatures,
    Solved,
    class_columns,
    class_rows,
    numbered_pairs,
    places_by_number,
    refuse_admitted,
    refuse_pairs,
)
from xscl.templates.joins.solve import Solution, solve
from xscl.templates.joins.window_cells import Documents, MatchedPairs, admit_all, whole_span, window_cells
from xscl.templates.plans import Edge, InstancePlan, LinkPlan
from xscl.templates.program import Program
from xscl.templates.results import ResultColumns
from xscl.templates.shapes import Shapes, mixed

__all__ = ["LOOK", "Resolver", "grouped", "holds_exactly"]

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
        self._admitted: dict[tuple[tuple[int, int], int], Solution] = {}
        """Solutions by signature and the number of an instance with guards."""
        self._sets = EdgeSets(program)
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
        signatures = Signatures(first[examples], second[examples], edges, starts[examples], starts[examples + 1])
        self.classify(pairs, which, signatures, documents, out, plans)

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
        self.classify(pairs, which, Signatures.of_single(edges, self._seeds), documents, out, plans)

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
        signatures = Signatures.of_single(edges, self._seeds)
        found = np.full(len(edges.edge), LOOK, dtype=np.int32)
        for at in range(len(edges.edge) if places[1] < PUBLISHED else 0):
            asked = self._sets.of(frozenset([int(edges.edge[at])]), plans)
            signature = self._signature(signatures, at, asked, plans)
            windows = signature.windows
            if signature.links or signature.refuses or asked.guarded is not None:
                continue
            if windows is None:
                found[at] = -1
            elif admit_all(windows, *places):
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
        signatures = Signatures.of_single(take(edges, examples), self._seeds)
        classes = np.full(len(examples), -1, dtype=np.int32)
        others: list[int] = []
        for number, edge in enumerate(signatures.edges.edge.tolist()):
            asked = self._sets.of(frozenset([edge]), None)
            signature = self._signature(signatures, number, asked, None)
            whole = signature.whole
            plain = ordinary and whole is not None and whole[0] <= least and greatest <= whole[1]
            if plain and asked.guarded is None and not signature.links and not signature.refuses:
                if signature.rows is None:
                    assert signature.windows is not None
                    every = np.arange(len(signature.windows.gid))
                    signature.rows = list(class_rows(signature, every))
                classes[number] = out.add_class(signature.rows)
            else:
                others.append(number)
        of_row = classes[which]
        kept = of_row >= 0
        out.add_pairs(docs[kept], np.full(int(kept.sum()), -1), of_row[kept])
        if others:
            some = np.array(others)
            place = np.full(len(examples), -1, dtype=np.int64)
            place[some] = np.arange(len(some))
            of = np.flatnonzero(place[which] >= 0)
            pairs = MatchedPairs(docs[of], np.full(len(of), -1), ts[of], ts[of])
            self.classify(pairs, place[which[of]], signatures.some(some), documents, out, None)

    def classify(
        self,
        pairs: MatchedPairs,
        which: npt.NDArray[np.integer],
        signatures: Signatures,
        documents: Documents,
        out: ResultColumns,
        plans: Plans | None,
    ) -> None:
        """Add what pairs come to whose signatures are numbered; what each number stands for is told once."""
        sets, of_signature = self._sets_of(signatures, plans)
        guards, some = self.program.guards, sum(each.guarded is not None for each in sets)
        if some > 1 and len(pairs.left) * len(guards.facts_read) <= _MANY_ADMITTED:
            docs = each_once(np.concatenate([pairs.left, pairs.right]))
            documents = documents.looked_up(docs[docs >= 0])
        if some:
            for number, members in places_by_number(of_signature[which], len(sets)):
                guarded = sets[number].guarded
                if guarded is not None:
                    at = np.arange(len(which)) if members is None else members
                    self._add_guarded(guarded, take(pairs, at), which[at].astype(np.int64), signatures, documents, out)
        if not any(each.plans for each in sets):
            return
        links: list[LinkRows] = []
        asked = [sets[place] for place in of_signature.tolist()]
        for number, members in places_by_number(which, len(asked)):
            if not asked[number].plans:
                continue
            signature = self._signature(signatures, number, asked[number], plans)
            of = pairs if members is None else take(pairs, members)
            found = link_rows(signature, of, documents, self.program, out)
            links += [] if found is None else [found]
            if signature.instances:
                self._add_classes(signature, of, documents, out)
        add_link_rows(links, documents, out)

    def _sets_of(self, signatures: Signatures, plans: Plans | None) -> tuple[list[EdgeSet], Int64s]:
        """Return the sets of edges of some signatures, with what is asked of them; and which one each has."""
        if len(signatures.begin) == 1:
            edges = frozenset(signatures.of(0).edge.tolist())
            return [self._sets.of(edges, plans)], np.zeros(1, dtype=np.int64)
        counts = signatures.end - signatures.begin
        at, _ = gather(signatures.begin, counts)
        hashes = (mixed([signatures.edges.edge[at]], seed) for seed in self._seeds)
        which, examples = numbered_pairs(*(np.add.reduceat(each, np.cumsum(counts) - counts) for each in hashes))
        edges_of = (frozenset(signatures.of(number).edge.tolist()) for number in examples.tolist())
        return [self._sets.of(edges, plans) for edges in edges_of], which

    # -- signatures --------------------------------------------------------------------------------------------

    def _signature(self, signatures: Signatures, number: int, asked: EdgeSet, plans: Plans | None) -> Signature:
        """Return the meaning of a signature for plans that have windows without guards, and for links."""
        self._forget()
        key = signatures.key(number)
        if plans is not None:
            key = key[0] ^ plans.number, key[1]
        known = self._memo.get(key)
        if known is None or known.version != self.program.version:
            if known is None or known.asked != asked.names:
                self._size -= 0 if known is None else known.size
                known = self._memo[key] = self._solve(signatures.of(number), asked)
                self._size += known.size
            windows = [unguarded(self.program.windows(solved.plan.number)) for solved in known.instances]  # type: ignore[union-attr]
            self._size -= known.starts[-1]
            known.starts = tuple(np.cumsum([0, *(len(each.gid) for each in windows)]).tolist())
            known.windows = stacked(windows) if windows else None
            known.version = self.program.version
            known.whole, known.rows = whole_span(known.windows), None
            self._size += known.starts[-1]
        return known

    def _forget(self) -> None:
        """Forget what is remembered where plans have changed, or where it is much."""
        full = len(self._memo) >= _MEMO_SIZE or self._size >= _MEMO_NUMBERS or len(self._admitted) >= _MOST_SOLUTIONS
        if self._structure != self.program.structure or full:
            self._memo.clear()
            self._solutions.clear()
            self._admitted.clear()
            self._size = 0
            self._structure = self.program.structure

    def _solve(self, edges: MatchedEdges, asked: EdgeSet) -> Signature:
        matched = Matched(edges, self.shapes, self.program)
        found = Signature([], [], asked.names)
        for plan in asked.plans:
            solution = self._solution(plan, matched)
            if solution:
                (found.links if isinstance(plan, LinkPlan) else found.instances).append(Solved(plan, solution))
        return found

    def _solution(self, plan: InstancePlan | LinkPlan, matched: Matched) -> Solution:
        """Solve a plan, or remember how it was solved where other edges were matched besides those that it needs."""
        own = tuple([matched.pairs_of(edge) for edge in sorted(plan.needs)])
        is_refused = bool(matched.refused) and not plan.specs.isdisjoint(matched.refused)
        key = plan.name, own, matched.is_sorted, is_refused
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
        self,
        asked: GuardedPlans,
        pairs: MatchedPairs,
        which: Int64s,
        signatures: Signatures,
        documents: Documents,
        out: ResultColumns,
    ) -> None:
        """Add what pairs of a set come to that windows with guards admit: as many classes as there are different sets
        of groups and signatures.

        ``which`` are the numbers of the pairs' signatures.
        """
        memberships, ordinals = self.program.memberships, self.program.ordinals
        for at, sought in _parts(asked.rules, pairs, np.arange(len(which)), documents):
            part = take(pairs, at)
            pair, row = asked.rules.admitting(part, sought, documents, memberships, ordinals)
            codes = which[at[pair]] * len(asked.plans) + asked.of_windows(row)
            distinct, _, of = numbered(codes)
            solved = self._solved(distinct, asked, signatures)
            if not all(each.solution for each in solved):
                kept = np.array([bool(each.solution) for each in solved])[of]
                pair, row, of = pair[kept], row[kept], of[kept]
            if len(pair):
                some = Admitting(asked.windows, pair, row, solved, of)
                self._add_admitted(some, take(part, each_once(pair)), which[at], documents, out)

    def _add_admitted(
        self, some: Admitting, pairs: MatchedPairs, which: Int64s, documents: Documents, out: ResultColumns
    ) -> None:
        """Add what windows come to that admit some pairs; ``which`` are the numbers of signatures of all pairs."""
        begin = np.flatnonzero(np.diff(some.pair, prepend=-1))
        counts = np.diff(np.append(begin, len(some.pair)))
        alike, examples = _alike(
            np.repeat(np.arange(len(begin)), counts), some.row, which[some.pair[begin]], self._seeds
        )
        own, cell = gather(begin[examples], counts[examples])
        classes = out.add_classes(len(examples), list(class_columns(some, own, cell)))
        if any(each.solution.refusals for each in some.solved):
            refuse_admitted(some, pairs, documents, out)
        _add_known(pairs, classes[alike], out)

    def _solved(self, codes: Int64s, asked: GuardedPlans, signatures: Signatures) -> list[Solved]:
        """Return how plans are solved in signatures: each code is the number of a signature and a plan's place."""
        self._forget()
        found: list[Solved] = []
        matched: dict[int, Matched] = {}
        for code in codes.tolist():
            number, place = divmod(code, len(asked.plans))
            plan = asked.plans[place]
            key = signatures.key(number), plan.number
            solution = self._admitted.get(key)
            if solution is None:
                if number not in matched:
                    matched[number] = Matched(signatures.of(number), self.shapes, self.program)
                solution = self._admitted[key] = self._solution(plan, matched[number])
            found.append(Solved(plan, solution))
        return found


def _add_known(pairs: MatchedPairs, classes: Int32s, out: ResultColumns) -> None:
    """Add the pairs that are of a class."""
    kept = classes >= 0
    out.add_pairs(pairs.left[kept], pairs.right[kept], classes[kept])


def _parts(
    windows: GuardedWindows, pairs: MatchedPairs, at: Int64s, documents: Documents
) -> Iterator[tuple[Int64s, Sought]]:
    """Yield places of pairs, some at a time, and how their windows are looked for, so that what guards admit of each
    part fits in memory.
    """
    sought = windows.sought(take(pairs, at), documents)
    if len(at) == 1 or windows.most(sought) <= _MANY_ADMITTED:
        yield at, sought
        return
    for part in np.split(at, [len(at) // 2]):
        yield from _parts(windows, pairs, part, documents)


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
