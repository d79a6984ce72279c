"""Matched edges of document pairs to classes: which groups a pair satisfies, with which nodes.

Values were joined elsewhere; what is left is to see, for each pair of documents, which instances have all their edges
matched on nodes that hang together as the reduced patterns say.  That depends only on the pair's *signature*, the set
of its matched edges with their nodes and chains.  Signatures are told apart column by column; a distinct one is solved
once and remembered, and documents of one layout (feed items) have few.  Windows, the only thing that differs between
the groups of an instance, cut the pairs of a signature into classes.

The law, held by tests: the rows are those of CQ_T (``sql``) for every query of every group.
"""

from __future__ import annotations

import operator
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.base.docids import PUBLISHED, place_of
from xscl.templates.columns import Int32s, Int64s, numbered, stacked, take
from xscl.templates.members import Membership, sees
from xscl.templates.program import Edge, InstancePlan, LinkPlan, Program, Windows
from xscl.templates.results import Admitted, ClassRow, Member, Refusal, ResultColumns
from xscl.templates.shapes import Shapes, mixed
from xscl.templates.solve import Matched, MatchedEdges, Solution, solve

__all__ = ["Documents", "MatchedEdges", "MatchedPairs", "Plans", "Resolver", "grouped", "holds_exactly"]

_MEMO_SIZE = 50_000
_MEMO_NUMBERS = 10_000_000
"""In what is remembered of all signatures: nodes of rows and matches, and windows; some 50 bytes each."""
_FEW = 8

_COMPARE = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class MatchedPairs(NamedTuple):
    """Pairs of documents, in columns; -1 and the same time on the right for queries of one block."""

    left: Int64s
    right: Int64s
    ts_l: Int64s
    ts_r: Int64s


class _Solved(NamedTuple):
    """What a signature means for one instance or link."""

    plan: InstancePlan | LinkPlan
    solution: Solution

    @property
    def size(self) -> int:
        """The numbers in it, about."""
        rows = sum(len(row.nodes) + sum(map(len, row.others or ())) for row in self.solution.rows)
        return rows + sum(len(results) for results, _ in self.solution.matches)


@dataclass(slots=True)
class _Signature:
    """What a signature means."""

    instances: list[_Solved]
    links: list[_Solved]
    version: int = -1
    """Of the program that the windows are of."""
    windows: Windows | None = None
    """Of all groups of all instances, one instance after another."""
    starts: tuple[int, ...] = (0,)
    """Where the windows of each instance begin, and the end."""
    whole: tuple[int, int] | None = None
    """Between which documents all windows admit every document of no stream by itself; None: some window does not."""
    rows: list[ClassRow] | None = None
    """What it means where all windows admit; made when first asked for."""

    @property
    def refuses(self) -> bool:
        """Whether a plan exceeds a limit."""
        return any(solved.solution.refusals for solved in (*self.instances, *self.links))


class Resolver:
    """Resolves pairs for one program; remembers signatures."""

    def __init__(self, program: Program, shapes: Shapes) -> None:
        self.program = program
        self.shapes = shapes
        self._seeds = secrets.randbits(64), secrets.randbits(64)
        self._memo: dict[tuple[int, int], _Signature] = {}
        self._size = 0
        """Numbers in it."""
        self._structure = program.structure

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
        if not len(pairs.left):
            return
        hashes = [mixed(edges, seed) for seed in self._seeds]
        first, second = (np.add.reduceat(column, starts[:-1]) for column in hashes)
        which, examples = _numbered(first, second)
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

    def resolve_single(
        self,
        pairs: MatchedPairs,
        which: npt.NDArray[np.integer],
        edges: MatchedEdges,
        documents: Documents,
        out: ResultColumns,
        plans: Plans,
    ) -> None:
        """The same for pairs of one matched edge: row ``which[i]`` of ``edges``, whose rows are all different."""
        first, second = (mixed(edges, seed) for seed in self._seeds)
        self.classify(
            pairs,
            which,
            [((int(first[at]), int(second[at])), take(edges, np.array([at]))) for at in range(len(first))],
            documents,
            out,
            plans,
        )

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
                    every = np.ones(len(signature.windows.gid), dtype=np.bool_)
                    signature.rows = list(_class_rows(signature, every))
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
        for number, members in _members(which, len(signatures)):
            key, edges = signatures[number]
            signature = self._signature(key, edges, plans)
            of = pairs if members is None else take(pairs, members)
            self._add_links(signature, of, documents, out)
            if signature.instances:
                self._add_classes(signature, of, documents, out)

    # -- signatures --------------------------------------------------------------------------------------------

    def _signature(self, key: tuple[int, int], edges: MatchedEdges, plans: Plans | None) -> _Signature:
        full = len(self._memo) >= _MEMO_SIZE or self._size >= _MEMO_NUMBERS
        if self._structure != self.program.structure or full:
            self._memo.clear()
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
            known.version = self.program.version
            known.whole, known.rows = _whole(known.windows), None
            self._size += known.starts[-1]
        return known

    def _solve(self, edges: MatchedEdges, plans: Plans | None) -> _Signature:
        matched = Matched(edges, self.shapes, self.program)
        found = _Signature([], [])
        for edge in sorted(matched.edges):
            for plan in self.program.by_edge.get(edge, ()):
                if plan.needs <= matched.edges and (plans is None or plans.includes(plan)):
                    solution = solve(plan, matched)
                    if solution:
                        solved = _Solved(plan, solution)
                        (found.links if isinstance(plan, LinkPlan) else found.instances).append(solved)
        return found

    # -- what they come to -------------------------------------------------------------------------------------

    def _add_links(self, signature: _Signature, pairs: MatchedPairs, documents: Documents, out: ResultColumns) -> None:
        for solved in signature.links:
            plan = solved.plan
            assert isinstance(plan, LinkPlan)
            # The plan that was solved may be older than the program, which other queries have widened since.
            bounds = self.program.links[plan.key].bounds
            difference = pairs.ts_r - pairs.ts_l
            for at in np.flatnonzero((difference >= bounds.lo) & (difference <= bounds.hi)).tolist():
                members = documents.members(int(pairs.left[at]), int(pairs.right[at]))
                if solved.solution.refusals:
                    self._refuse_link(plan.key, members, solved.solution.refusals, out)
                for row in solved.solution.rows:
                    out.add_link(plan.key, members, row.nodes)

    def _refuse_link(
        self, key: int, members: Sequence[Member], refusals: Sequence[Refusal], out: ResultColumns
    ) -> None:
        places = [place_of(member.docid) for member in members]
        groups = {
            live.gid
            for number, _ in self.program.starts.get(key, ())
            for live in self.program.assemblies[number].groups.values()
            if live.first <= min(places) and max(places) <= live.last
        }
        for reason in refusals:
            out.add_refused(members, sorted(groups), reason)

    def _add_classes(
        self, signature: _Signature, pairs: MatchedPairs, documents: Documents, out: ResultColumns
    ) -> None:
        assert signature.windows is not None
        cells, examples = _cells(signature.windows, pairs, documents, self.program.memberships)
        classes = np.empty(len(examples), dtype=np.int32)
        for cell, admits in enumerate(examples):
            rows = list(_class_rows(signature, admits))
            classes[cell] = out.add_class(rows) if rows else -1
            if signature.refuses:
                of = pairs if cells is None else take(pairs, np.flatnonzero(cells == cell))
                _refuse(signature, admits, of, documents, out)
        if cells is None:
            if classes[0] >= 0:
                out.add_pairs(pairs.left, pairs.right, np.full(len(pairs.left), classes[0], dtype=np.int32))
            return
        of_pair = classes[cells]
        kept = of_pair >= 0
        out.add_pairs(pairs.left[kept], pairs.right[kept], of_pair[kept])


@dataclass(frozen=True)
class Documents:
    """What pairs do not say of their documents themselves: looked up where it is needed, which is seldom."""

    members: Callable[[int, int], list[Member]]
    """The members of a pair; of one document if the right one is -1."""
    left_first: Callable[[MatchedPairs], npt.NDArray[np.bool_]]
    """Of each pair, whether the left document is first by (ts, channel, id)."""
    memberships: Callable[[Int64s], Int32s] | None = None
    """Of each of some documents the number of its membership; None: that of all is 0."""


@dataclass(frozen=True)
class Plans:
    """Some instances and links of a program."""

    number: int
    """Different for different ones."""
    includes: Callable[[InstancePlan | LinkPlan], bool]


def grouped(left: Int64s, right: Int64s) -> tuple[npt.NDArray[np.int64], Int64s]:
    """An order of rows in which those of one pair of documents stand together; and where each pair begins, and the end.

    Nothing is sorted that is in order.
    """
    rising = (left[1:] > left[:-1]) | ((left[1:] == left[:-1]) & (right[1:] >= right[:-1]))
    order = np.arange(len(left)) if rising.all() else np.lexsort((right, left))
    in_order_l, in_order_r = left[order], right[order]
    new = (in_order_l[1:] != in_order_l[:-1]) | (in_order_r[1:] != in_order_r[:-1])
    starts = np.concatenate([[0], np.flatnonzero(new) + 1, [len(left)]]) if len(left) else np.zeros(1, dtype=np.int64)
    return order, starts.astype(np.int64)


def holds_exactly(edge: Edge, left: str, right: str) -> bool:
    """A BAND edge on two numbers that are too close for doubles to tell."""
    key = edge.key
    return bool(_COMPARE[key.op](Fraction(left), key.f * Fraction(right) + key.add))


# -- signatures ------------------------------------------------------------------------------------------------


def _numbered(
    first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Numbers of equal pairs of hashes; and a place of each number."""
    _, examples, which = np.unique(first, return_index=True, return_inverse=True)
    if (second[examples][which] == second).all():
        return which, examples
    # Half a hash of two different signatures is equal; that is as rare as it is harmless.
    both = np.stack([first, second], axis=1)
    _, examples, which = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return which.reshape(-1), examples


def _members(which: npt.NDArray[np.integer], count: int) -> Iterator[tuple[int, npt.NDArray[np.int64] | None]]:
    """The places of each number; None for all of them."""
    if count == 1:
        yield 0, None
    elif count <= _FEW:
        for number in range(count):
            yield number, np.flatnonzero(which == number)
    else:
        order = np.argsort(which, kind="stable")
        ends = np.cumsum(np.bincount(which, minlength=count))
        for number, members in enumerate(np.split(order, ends[:-1])):
            yield number, members


# -- windows ---------------------------------------------------------------------------------------------------


def _cells(
    windows: Windows, pairs: MatchedPairs, documents: Documents, memberships: Mapping[int, Membership]
) -> tuple[npt.NDArray[np.int64] | None, list[npt.NDArray[np.bool_]]]:
    """Which windows admit which pairs: the number of each pair's cell, and what each cell admits.

    Pairs are of one cell if no bound of a window lies between them, and the same streams see both documents.  Bounds
    that all pairs, or none, satisfy tell nothing apart; where only such are left, there is one cell, and None stands
    for its number.
    """
    difference = pairs.ts_r - pairs.ts_l
    docs = (pairs.left,) if pairs.right.max() < 0 else (pairs.left, pairs.right)
    least, greatest = min(int(of.min()) for of in docs), max(int(of.max()) for of in docs)
    if greatest < PUBLISHED and (windows.first <= least).all() and (windows.last >= greatest).all():
        # All groups see all documents, so it is not asked which documents these are.
        oldest = newest = np.zeros(1, dtype=np.int64)
        windows = windows._replace(first=np.zeros_like(windows.first), last=np.zeros_like(windows.last))
    else:
        left, right = place_of(pairs.left), place_of(np.where(pairs.right < 0, pairs.left, pairs.right))
        oldest, newest = np.minimum(left, right), np.maximum(left, right)
    ordered = bool(windows.order.any())
    first = documents.left_first(pairs) if ordered else np.zeros(1, dtype=np.bool_)
    # Windows that admit no pair at all are left out of everything but the answer.
    some = (
        (windows.lo <= difference.max())
        & (windows.hi >= difference.min())
        & (windows.first <= oldest.max())
        & (windows.last >= newest.min())
    )
    told = Windows(*(column[some] for column in windows))
    keys = []
    for values, bounds in (
        (difference, np.concatenate([told.lo, told.hi + 1])),
        (oldest, told.first),
        (newest, told.last + 1),
    ):
        between = np.unique(bounds[(bounds > values.min()) & (bounds <= values.max())])
        if len(between):
            keys.append(np.searchsorted(between, values, side="right"))
    if ordered and first.any() and not first.all():
        keys.append(first.astype(np.int64))
    sides = [
        _seen_by(docs, streams, documents, memberships)
        for docs, streams in ((pairs.left, told.left), (pairs.right, told.right))
        if len(streams) and (documents.memberships is not None or streams.any())
    ]
    keys += [side.which for side in sides if side.which is not None]

    def admits(at: int) -> npt.NDArray[np.bool_]:
        at_place, order = min(at, len(oldest) - 1), 1 if first[min(at, len(first) - 1)] else -1
        found = np.zeros(len(some), dtype=np.bool_)
        found[some] = (
            (told.lo <= difference[at])
            & (told.hi >= difference[at])
            & (told.first <= oldest[at_place])
            & (told.last >= newest[at_place])
            & ((told.order == 0) | (told.order == order))
        )
        for side in sides:
            found[some] &= side.sees[0 if side.which is None else side.which[at]]
        return found

    if not keys:
        return None, [admits(0)]
    cells = keys[0]
    for key in keys[1:]:
        _, cells = np.unique(cells * (key.max() + 1) + key, return_inverse=True)
    _, examples, cells = np.unique(cells, return_index=True, return_inverse=True)
    return cells, [admits(at) for at in examples.tolist()]


def _whole(windows: Windows | None) -> tuple[int, int] | None:
    """Between which documents all of some windows admit every document of no stream; None: some window does not."""
    if windows is None or windows.order.any() or (windows.lo > 0).any() or (windows.hi < 0).any():
        return None
    if windows.left.any():
        return None
    return int(windows.first.max()), int(windows.last.min())


class _SeenBy(NamedTuple):
    """Which windows see the documents of one side of some pairs."""

    which: Int64s | None
    """The row of ``sees`` of each pair; None: the first."""
    sees: npt.NDArray[np.bool_]
    """Different rows, with a column for each window."""


def _seen_by(docs: Int64s, streams: Int32s, documents: Documents, memberships: Mapping[int, Membership]) -> _SeenBy:
    """Which windows, that name these streams on one side, see these documents; all see -1, which is none."""
    asked, of_window = np.unique(streams, return_inverse=True)
    numbers = np.zeros(1, dtype=np.int32) if documents.memberships is None else documents.memberships(docs)
    distinct, which = np.unique(numbers, return_inverse=True)
    rows = [
        [number < 0 or sees(memberships, stream, number) for stream in asked.tolist()] for number in distinct.tolist()
    ]
    different, row_of = np.unique(np.array(rows, dtype=np.bool_).reshape(len(rows), -1), axis=0, return_inverse=True)
    return _SeenBy(row_of.reshape(-1)[which] if len(different) > 1 else None, different[:, of_window])


def _admitted(signature: _Signature, admits: npt.NDArray[np.bool_]) -> Iterator[tuple[_Solved, Admitted]]:
    """The instances that some windows admit, and the groups of these."""
    windows = signature.windows
    assert windows is not None
    found = np.flatnonzero(admits)
    cuts = np.searchsorted(found, signature.starts)
    for solved, start, end in zip(signature.instances, cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        if start < end:
            of = found[start:end]
            yield solved, Admitted(tuple(windows.gid[of].tolist()), tuple(windows.case[of].tolist()))


def _refuse(
    signature: _Signature,
    admits: npt.NDArray[np.bool_],
    pairs: MatchedPairs,
    documents: Documents,
    out: ResultColumns,
) -> None:
    """Say of some pairs which groups exceed a limit in them."""
    for solved, by in _admitted(signature, admits):
        for reason in solved.solution.refusals:
            for left, right in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True):
                out.add_refused(documents.members(left, right), sorted(set(by.groups)), reason)


def _class_rows(signature: _Signature, admits: npt.NDArray[np.bool_]) -> Iterator[ClassRow]:
    for solved, by in _admitted(signature, admits):
        plan = solved.plan
        assert isinstance(plan, InstancePlan)
        for row in solved.solution.rows:
            yield ClassRow("rout", plan.number, row.nodes, None, by, row.others)
        for results, nodes in solved.solution.matches:
            yield ClassRow("match", plan.number, results, nodes, by)
