"""Rows of R_out and matches of the same events in all orders; ``ONCE`` chooses among them.

A match goes if its exchange, the same events with two of them in the other order, matches too and is complete before
it; where one document completes both, the match stays whose left member is first by time, channel and id.  Whatever the
cuts of batches, exactly one of two such matches stays, and no match that was emitted has to be taken back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from xscl.base.docids import place_of
from xscl.templates.bounds import Case
from xscl.templates.plans import Assembly
from xscl.templates.program import Program
from xscl.templates.results import MAX_MATCHES, MAX_ROUT, Admitted, ClassRow, Member, ResultColumns, admitted

__all__ = ["AssembledDocuments", "Bindings", "add_all_orders"]

_MOST_CLASSES = 10_000
"""Number of classes that are remembered, so that equal ones are written once."""
_EARLIER = -1
"""Stands for the place at which an earlier batch completed a match: before all places of this batch."""


class Bindings:
    """The bindings of some documents in an assembly: the least one of each match, and rows of R_out."""

    def __init__(self, assembly: Assembly) -> None:
        self.assembly = assembly
        self.matches: dict[tuple[int, ...], tuple[int, ...]] = {}
        """Nodes that make a match to a row of R_out, one more than ``MAX_MATCHES`` at most."""
        self.rows: set[tuple[int, ...]] | None = set()
        """Rows of R_out; None: more than ``MAX_ROUT``."""

    def add(self, nodes: Sequence[int]) -> None:
        """Add a binding of all places."""
        row = tuple(nodes[: self.assembly.width])
        results = tuple(nodes[place] for place in self.assembly.results)
        if results in self.matches or len(self.matches) <= MAX_MATCHES:
            self.matches[results] = min(row, self.matches.get(results, row))
        if self.rows is not None:
            self.rows.add(row)
            if len(self.rows) > MAX_ROUT:
                self.rows = None


class AssembledDocuments(NamedTuple):
    """Documents that rows of an assembly's links put together, and their bindings."""

    members: Sequence[Member]
    """Documents by block."""
    bindings: Bindings
    earlier: bool = False
    """Whether an earlier batch put them together, so that they only take the place of their exchanges."""

    @property
    def places(self) -> tuple[str, ...]:
        """The events by block."""
        return tuple(member.place for member in self.members)

    @property
    def complete(self) -> int:
        """The place of the intake order at which the last document came."""
        return _EARLIER if self.earlier else max(place_of(member.docid) for member in self.members)


_Complete = Mapping[tuple[int, tuple[str, ...]], int]
"""Group and events by block to the place at which the last document came."""


def add_all_orders(
    program: Program, alike: Sequence[AssembledDocuments], out: ResultColumns, classes: dict[object, int]
) -> None:
    """Add the rows of R_out and the matches of the same events in all orders; ``classes`` are those made so far."""
    admitting = [
        admitted(
            each.bindings.assembly.groups.values(), each.members, each.bindings.assembly.pairs, program.memberships
        )
        for each in alike
    ]
    complete = {
        (gid, each.places): each.complete for each, by in zip(alike, admitting, strict=True) for gid in by.groups
    }
    for each, by in zip(alike, admitting, strict=True):
        staying = [
            (gid, case)
            for gid, case in zip(*by, strict=True)
            if not each.earlier
            and not _is_exchanged(program.groups[gid].group.cases[case - 1], gid, each.members, complete)
        ]
        if staying:
            gids, cases = zip(*staying, strict=True)
            _add(each, Admitted(gids, cases), out, classes)


def _is_exchanged(case: Case, gid: int, members: Sequence[Member], complete: _Complete) -> bool:
    """Tell whether a group's match of these documents goes because of an exchange."""
    places = [member.place for member in members]
    for bounds, (i, j) in zip(case, combinations(range(len(members)), 2), strict=True):
        if bounds.exchange:
            exchanged = list(places)
            exchanged[i], exchanged[j] = places[j], places[i]
            right_first = (members[j].ts, places[j]) < (members[i].ts, places[i])
            other, own = complete.get((gid, tuple(exchanged))), complete[gid, tuple(places)]
            if other is not None and (other < own or (other == own and right_first)):
                return True
    return False


def _add(documents: AssembledDocuments, by: Admitted, out: ResultColumns, classes: dict[object, int]) -> None:
    """Add the rows of R_out and the matches of some documents for some groups."""
    members, bindings, _ = documents
    assembly = bindings.assembly
    if len(bindings.matches) > MAX_MATCHES:
        out.add_refused(members, by.groups, "matches")
        return
    if bindings.rows is None:
        out.add_refused(members, by.groups, "rout")
    rows = (
        *(ClassRow("rout", assembly.instance, row, None, by) for row in sorted(bindings.rows or ())),
        *(ClassRow("match", assembly.instance, *match, by) for match in sorted(bindings.matches.items())),
    )
    if rows not in classes:
        if len(classes) >= _MOST_CLASSES:
            classes.clear()
        classes[rows] = out.add_class(rows)
    out.add_documents([member.docid for member in members], classes[rows])
