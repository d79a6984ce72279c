"""Signatures: the matched edges of pairs that are alike, and what plans find there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.base.number_order import each_once, order_of
from xscl.templates.class_columns import ClassColumns
from xscl.templates.columns import Int32s, Int64s, numbered
from xscl.templates.joins.matched_edges import MatchedEdges
from xscl.templates.joins.solve import Solution
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.plans import InstancePlan, LinkPlan, Windows
from xscl.templates.results import Admitted, ClassRow, ResultColumns
from xscl.templates.shapes import mixed

__all__ = [
    "Admitting",
    "Signature",
    "Signatures",
    "Solved",
    "SolvedLinks",
    "class_columns",
    "class_rows",
    "numbered_pairs",
    "places_by_number",
    "refuse_admitted",
    "refuse_pairs",
]

_FEW = 8
"""Numbers up to which a pass over all places for each is cheaper than to sort the places."""


class Solved(NamedTuple):
    """The meaning of a signature for one instance or link."""

    plan: InstancePlan | LinkPlan
    solution: Solution


class Signatures(NamedTuple):
    """Signatures of pairs, numbered from 0 on."""

    first: npt.NDArray[np.uint64]
    """Half a hash of each."""
    second: npt.NDArray[np.uint64]
    edges: MatchedEdges
    begin: Int64s
    """The first of the matched edges of each."""
    end: Int64s

    @classmethod
    def of_single(cls, edges: MatchedEdges, seeds: tuple[int, int]) -> Signatures:
        """Return signatures of one matched edge each."""
        first, second = (mixed(edges, seed) for seed in seeds)
        begin = np.arange(len(edges.edge))
        return cls(first, second, edges, begin, begin + 1)

    def key(self, number: int) -> tuple[int, int]:
        """Return the hash of one."""
        return int(self.first[number]), int(self.second[number])

    def of(self, number: int) -> MatchedEdges:
        """Return the matched edges of one."""
        begin, end = self.begin[number], self.end[number]
        return MatchedEdges(*(column[begin:end] for column in self.edges))

    def some(self, numbers: Int64s) -> Signatures:
        """Return some of them."""
        begin, end = self.begin[numbers], self.end[numbers]
        return Signatures(self.first[numbers], self.second[numbers], self.edges, begin, end)


class SolvedLinks(NamedTuple):
    """Rows of the links of a signature, in columns."""

    link: Int64s
    """The key of the link of each row."""
    lo: Int64s
    """Bounds of the link, as those of ``Windows``."""
    hi: Int64s
    starts: Int64s
    """The first node of each row, and the end."""
    nodes: Int32s


@dataclass(slots=True)
class Signature:
    """The meaning of a signature for plans that have windows without guards, and for links."""

    instances: list[Solved]
    links: list[Solved]
    """Links that have rows, or exceed a limit."""
    asked: frozenset[tuple[bool, int]] = frozenset()
    """Names of the plans that were looked for."""
    version: int = -1
    """The version of the program that has the windows."""
    windows: Windows | None = None
    """Windows without guards of all groups of all instances, one instance after another."""
    starts: tuple[int, ...] = (0,)
    """The first window of each instance, and the end."""
    whole: tuple[int, int] | None = None
    """Between which documents all windows admit every document of no stream by itself; None: some window does not."""
    rows: list[ClassRow] | None = None
    """Rows of its class where all windows admit; None until they are needed."""
    solved_links: SolvedLinks | None = None
    """Rows of ``links``; None until they are needed."""

    @property
    def refuses(self) -> bool:
        """Whether a plan exceeds a limit."""
        return any(solved.solution.refusals for solved in (*self.instances, *self.links))

    @property
    def size(self) -> int:
        """The numbers in it, about."""
        return sum([solved.solution.size for solved in (*self.instances, *self.links)]) + self.starts[-1]


class Admitting(NamedTuple):
    """Windows with guards that admit pairs."""

    windows: Windows
    pair: Int64s
    """Places of pairs, rising."""
    row: Int64s
    """The window beside each."""
    solved: Sequence[Solved]
    """Plans as they are solved in signatures."""
    of: Int64s
    """The place in ``solved`` of each window's plan in the pair's signature."""


def numbered_pairs(
    first: npt.NDArray[np.uint64], second: npt.NDArray[np.uint64]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return a number for each pair of hashes, the same for equal pairs, and a place of each number."""
    _, examples, which = numbered(first.view(np.int64))
    if (second[examples][which] == second).all():
        return which, examples
    # Half a hash of two different signatures is equal; that is as rare as it is harmless.
    both = np.stack([first, second], axis=1)
    _, examples, which = np.unique(both, axis=0, return_index=True, return_inverse=True)
    return which.reshape(-1), examples


def places_by_number(which: npt.NDArray[np.integer], count: int) -> Iterator[tuple[int, npt.NDArray[np.int64] | None]]:
    """Iterate over the places of each number; None for all of them."""
    if count == 1:
        yield 0, None
    elif count <= _FEW:
        for number in range(count):
            yield number, np.flatnonzero(which == number)
    else:
        order = order_of(which, count)
        ends = np.cumsum(np.bincount(which, minlength=count))
        for number, members in enumerate(np.split(order, ends[:-1])):
            yield number, members


def _admitted(signature: Signature, found: npt.NDArray[np.int64]) -> Iterator[tuple[Solved, Admitted]]:
    """Iterate over the instances that some windows, by their rising places, admit, and the groups of these."""
    windows = signature.windows
    assert windows is not None
    cuts = np.searchsorted(found, signature.starts)
    for solved, start, end in zip(signature.instances, cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        if start < end:
            of = found[start:end]
            yield solved, Admitted(windows.gid[of], windows.case[of])


def refuse_pairs(
    signature: Signature,
    admits: npt.NDArray[np.int64],
    pairs: MatchedPairs,
    documents: Documents,
    out: ResultColumns,
) -> None:
    """Say of some pairs which groups, of those that these windows admit, exceed a limit in them."""
    for solved, by in _admitted(signature, admits):
        for reason in solved.solution.refusals:
            for left, right in zip(pairs.left.tolist(), pairs.right.tolist(), strict=True):
                out.add_refused(documents.members(left, right), np.unique(by.groups).tolist(), reason)


def class_rows(signature: Signature, admits: npt.NDArray[np.int64]) -> Iterator[ClassRow]:
    """Iterate over the rows of the class of a signature's pairs that these windows, by their places, admit."""
    for solved, by in _admitted(signature, admits):
        plan = solved.plan
        assert isinstance(plan, InstancePlan)
        for row in solved.solution.rows:
            yield ClassRow("rout", plan.number, row.nodes, None, by, row.others)
        for results, nodes in solved.solution.matches:
            yield ClassRow("match", plan.number, results, nodes, by)


def class_columns(some: Admitting, own: Int64s, cell: Int64s) -> Iterator[ClassColumns]:
    """Iterate over the rows of the classes of cells, whose pairs are admitted alike and have one signature.

    ``own`` are the places of the windows of one pair of each cell, and ``cell`` their cells, rising.
    """
    order = order_of(some.of[own], len(some.solved))
    ends = np.searchsorted(some.of[own][order], np.arange(len(some.solved) + 1)).tolist()
    for solved, start, end in zip(some.solved, ends[:-1], ends[1:], strict=True):
        if start == end:
            continue
        plan, of = solved.plan, order[start:end]
        assert isinstance(plan, InstancePlan)
        begins = np.flatnonzero(np.diff(cell[of], prepend=-1))
        rows = some.row[own[of]]
        columns = cell[of][begins], np.append(begins, len(of)), some.windows.gid[rows], some.windows.case[rows]
        for row in solved.solution.rows:
            yield ClassColumns("rout", plan.number, row.nodes, None, row.others, *columns)
        for results, nodes in solved.solution.matches:
            yield ClassColumns("match", plan.number, results, nodes, None, *columns)


def refuse_admitted(some: Admitting, pairs: MatchedPairs, documents: Documents, out: ResultColumns) -> None:
    """Say which groups, of those whose windows admit some pairs, exceed a limit in them.

    ``pairs`` are those that are admitted, in their order.
    """
    place = np.cumsum(np.diff(some.pair, prepend=-1) > 0) - 1
    for number, solved in enumerate(some.solved):
        for reason in solved.solution.refusals:
            mine = np.flatnonzero(some.of == number)
            for at in each_once(place[mine]).tolist():
                groups = each_once(some.windows.gid[some.row[mine[place[mine] == at]]])
                members = documents.members(int(pairs.left[at]), int(pairs.right[at]))
                out.add_refused(members, groups.tolist(), reason)
