"""Combinations of an assembly among whose orders nothing is chosen: their classes are found in columns.

Combinations that have the same nodes, and that the same groups admit, are of one class, which is made once.
"""

from __future__ import annotations

from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.docids import place_of
from xscl.templates.bounds import UNBOUNDED, Case
from xscl.templates.columns import Bools, Int32s, Int64s
from xscl.templates.many_blocks.once import AssembledDocuments, Bindings, add_documents, class_of
from xscl.templates.many_blocks.runs import Documents
from xscl.templates.members import sees
from xscl.templates.plans import Assembly, LiveGroup
from xscl.templates.program import Program
from xscl.templates.results import Admitted, Member, ResultColumns

__all__ = ["Combinations", "add_plain", "is_plain"]

_MOST_ADMITTED = 20_000_000
"""Combinations times groups that are looked at together."""


class Combinations(NamedTuple):
    """Combinations of documents of one assembly, each once, and the rows of nodes of each."""

    docs: Int64s
    """A row of docids for each."""
    starts: Int64s
    """First row of nodes of each, and the number of all."""
    nodes: Int32s
    """Nodes by place of the instance."""
    documents: Documents
    """All documents, and maybe others."""

    @classmethod
    def of(cls, docs: Int64s, nodes: Int32s, documents: Documents) -> Combinations:
        """Bring rows of the same documents together."""
        order = np.lexsort((*nodes.T[::-1], *docs.T[::-1]))
        docs, nodes = docs[order], nodes[order]
        new = np.ones(len(docs), np.bool_)
        new[1:] = (docs[1:] != docs[:-1]).any(axis=1)
        first = np.flatnonzero(new)
        return cls(docs[first], np.append(first, len(docs)), nodes, documents)

    def span(self, begin: int, end: int) -> Combinations:
        """Return those from one place to another."""
        rows = slice(self.starts[begin], self.starts[end])
        return Combinations(
            self.docs[begin:end], self.starts[begin : end + 1] - rows.start, self.nodes[rows], self.documents
        )

    def member(self, at: int) -> list[Member]:
        """Return the documents of one of them."""
        rows = self.documents.found(self.docs[at])[0]
        docid, item, ts, membership, place, _ = self.documents
        columns = (docid[rows], item[rows], ts[rows], place.take(pa.array(rows)), membership[rows])
        return [Member(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def bindings(self, at: int, assembly: Assembly) -> Bindings:
        """Return the bindings of one of them."""
        found = Bindings(assembly)
        for row in self.nodes[self.starts[at] : self.starts[at + 1]].tolist():
            found.add(row)
        return found


def is_plain(assembly: Assembly) -> bool:
    """Tell whether no group of an assembly chooses among orders."""
    return not any(live.group.exchanges for live in assembly.groups.values())


def add_plain(
    program: Program, assembly: Assembly, every: Combinations, out: ResultColumns, classes: dict[object, int]
) -> None:
    """Add the rows of R_out and the matches of combinations of a plain assembly; ``classes`` are those made so far."""
    step = max(1, _MOST_ADMITTED // max(len(assembly.groups), 1))
    for begin in range(0, len(every.docs), step):
        some = every.span(begin, min(begin + step, len(every.docs)))
        taking, masks = _admitting(program, assembly, some)
        if not taking:
            continue
        by = _numbered(np.packbits(masks, axis=0).T)
        kind = _numbered(np.stack((by, _sets(some)), axis=1))
        _, firsts = np.unique(kind, return_index=True)
        known = np.full(int(kind.max()) + 1, -1, np.int64)
        for at in firsts[masks[:, firsts].any(axis=0)].tolist():
            admitted = Admitted(*zip(*(taking[row] for row in np.flatnonzero(masks[:, at]).tolist()), strict=True))
            bindings = some.bindings(at, assembly)
            number = class_of(bindings, {None: admitted}, out, classes)
            if number is not None:
                known[kind[at]] = number
                continue
            for alike in np.flatnonzero(kind == kind[at]).tolist():
                add_documents(AssembledDocuments(some.member(alike), bindings), {None: admitted}, out, classes)
        found = known[kind] >= 0
        out.add_combinations(some.docs[found], known[kind[found]].astype(np.int32))


def _numbered(rows: npt.NDArray[Any]) -> Int64s:
    """Return a number for each row of a table, equal for equal rows."""
    rows = np.ascontiguousarray(rows)
    view = rows.view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)
    numbers: Int64s = np.unique(view, return_inverse=True)[1].reshape(-1)
    return numbers


def _sets(some: Combinations) -> Int64s:
    """Return a number for the set of rows of nodes of each combination."""
    numbers = _numbered(some.nodes)
    found = numbers[some.starts[:-1]].copy()
    several: dict[tuple[int, ...], int] = {}
    for at in np.flatnonzero(np.diff(some.starts) > 1).tolist():
        rows = tuple(sorted(set(numbers[some.starts[at] : some.starts[at + 1]].tolist())))
        found[at] = rows[0] if len(rows) == 1 else several.setdefault(rows, len(numbers) + len(several))
    return found


# -- groups that admit ---------------------------------------------------------------------------------------------


def _admitting(program: Program, assembly: Assembly, some: Combinations) -> tuple[list[tuple[int, int]], Bools]:
    """Return groups and cases that admit some combinations, and which ones each admits."""
    at = some.documents.found(some.docs.reshape(-1))[0].reshape(some.docs.shape)
    places = place_of(some.docs)
    oldest, newest = places.min(axis=1), places.max(axis=1)
    orders = _Orders(some.documents, at)
    visible = _Visible(program, some.documents.membership[at])
    taking: list[tuple[int, int]] = []
    masks: list[Bools] = []
    for live in assembly.groups.values():
        seen = (live.first <= oldest) & (newest <= live.last) & visible.to(live)
        seen &= program.ordinals.admit(live.group.rows, live.channels, some.docs)
        if not seen.any():
            continue
        for number, (case, pairs) in enumerate(zip(live.group.cases, live.group.links, strict=True), start=1):
            if pairs == assembly.pairs and (mask := seen & orders.within(case)).any():
                taking.append((live.gid, number))
                masks.append(mask)
    return taking, np.array(masks)


class _Visible:
    """The groups that see combinations, by the memberships of documents."""

    def __init__(self, program: Program, memberships: Int32s) -> None:
        self._memberships = program.memberships
        self._numbers, which = np.unique(memberships, return_inverse=True)
        self._which: Int64s = which.reshape(memberships.shape)
        self._seen: dict[tuple[int, ...], Bools] = {}

    def to(self, live: LiveGroup) -> Bools:
        """Tell which combinations a group sees."""
        streams = live.group.streams or (0,) * self._which.shape[1]
        if streams not in self._seen:
            found = np.ones(len(self._which), np.bool_)
            for block, stream in enumerate(streams):
                seen = [sees(self._memberships, stream, number) for number in self._numbers.tolist()]
                found &= np.array(seen)[self._which[:, block]]
            self._seen[streams] = found
        return self._seen[streams]


class _Orders:
    """Windows over combinations: differences of times, and which of two members is first."""

    def __init__(self, documents: Documents, at: Int64s) -> None:
        self._documents, self._at = documents, at
        self._ts = documents.ts[at]
        self._first: dict[tuple[int, int], Bools] = {}

    def within(self, case: Case) -> Bools:
        """Tell which combinations satisfy a case."""
        found = np.ones(len(self._ts), np.bool_)
        for bounds, (i, j) in zip(case, combinations(range(self._ts.shape[1]), 2), strict=True):
            apart = self._ts[:, j] - self._ts[:, i]
            found &= (max(bounds.lo, -UNBOUNDED) <= apart) & (apart <= min(bounds.hi, UNBOUNDED))
            if bounds.order:
                found &= self._left_first(i, j) == (bounds.order == 1)
        return found

    def _left_first(self, i: int, j: int) -> Bools:
        if (i, j) not in self._first:
            first = self._ts[:, i] < self._ts[:, j]
            for row in np.flatnonzero(self._ts[:, i] == self._ts[:, j]).tolist():
                left, right = (self._documents.place[int(self._at[row, block])].as_py() for block in (i, j))
                first[row] = left < right
            self._first[i, j] = first
        return self._first[i, j]
