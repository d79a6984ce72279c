"""Signatures: the matched edges of pairs that are alike, and what plans find there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.base.number_order import order_of
from xscl.templates.class_columns import ClassColumns
from xscl.templates.columns import Int64s, numbered
from xscl.templates.joins.guarded_windows import GuardedWindows
from xscl.templates.joins.solve import Solution
from xscl.templates.joins.window_cells import Documents, MatchedPairs
from xscl.templates.plans import InstancePlan, LinkPlan, Windows
from xscl.templates.results import Admitted, ClassRow, ResultColumns

__all__ = [
    "Cells",
    "Signature",
    "Solved",
    "class_columns",
    "class_rows",
    "numbered_pairs",
    "places_by_number",
    "refuse_pairs",
]

_FEW = 8
"""Numbers up to which a pass over all places for each is cheaper than to sort the places."""


class Solved(NamedTuple):
    """The meaning of a signature for one instance or link."""

    plan: InstancePlan | LinkPlan
    solution: Solution

    @property
    def size(self) -> int:
        """The numbers in it, about."""
        rows = sum(len(row.nodes) + sum(map(len, row.others or ())) for row in self.solution.rows)
        return rows + sum(len(results) for results, _ in self.solution.matches)


@dataclass(slots=True)
class Signature:
    """The meaning of a signature."""

    instances: list[Solved]
    links: list[Solved]
    version: int = -1
    """The version of the program that has the windows."""
    windows: Windows | None = None
    """Windows of all groups of all instances, one instance after another."""
    starts: tuple[int, ...] = (0,)
    """The first window of each instance, and the end."""
    plain: npt.NDArray[np.int64] | None = None
    """Places of the windows without guards; None: none has one."""
    guarded: GuardedWindows | None = None
    """The others."""
    whole: tuple[int, int] | None = None
    """Between which documents all windows admit every document of no stream by itself; None: some window does not."""
    rows: list[ClassRow] | None = None
    """Rows of its class where all windows admit; None until they are needed."""

    @property
    def refuses(self) -> bool:
        """Whether a plan exceeds a limit."""
        return any(solved.solution.refusals for solved in (*self.instances, *self.links))


class Cells(NamedTuple):
    """Cells of pairs: all pairs of one are admitted by the same windows."""

    starts: Int64s
    """The first window of each cell, and the end."""
    rows: Int64s
    """Places of windows, those of each cell rising."""

    def of(self, cell: int) -> Int64s:
        """Return the places of the windows of a cell."""
        return self.rows[self.starts[cell] : self.starts[cell + 1]]


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


def class_columns(signature: Signature, cells: Cells) -> Iterator[ClassColumns]:
    """Iterate over the rows of the classes of a signature's pairs, a class for each cell."""
    windows = signature.windows
    assert windows is not None
    cell = np.repeat(np.arange(len(cells.starts) - 1), np.diff(cells.starts))
    instance = np.searchsorted(signature.starts, cells.rows, side="right") - 1
    order = order_of(instance, len(signature.instances))
    ends = np.searchsorted(instance[order], np.arange(len(signature.instances) + 1)).tolist()
    for solved, start, end in zip(signature.instances, ends[:-1], ends[1:], strict=True):
        if start == end:
            continue
        plan, of = solved.plan, order[start:end]
        assert isinstance(plan, InstancePlan)
        begins = np.flatnonzero(np.diff(cell[of], prepend=-1))
        rows = cells.rows[of]
        columns = cell[of][begins], np.append(begins, len(of)), windows.gid[rows], windows.case[rows]
        for row in solved.solution.rows:
            yield ClassColumns("rout", plan.number, row.nodes, None, row.others, *columns)
        for results, nodes in solved.solution.matches:
            yield ClassColumns("match", plan.number, results, nodes, None, *columns)
