"""Rows of R_out and matches of the same events in all orders; ``ONCE`` chooses among them.

A match goes if its exchange, the same events with two of them in the other order, matches too and is complete before
it; where one document completes both, the match stays whose left member is first by time, channel and id.  Whatever the
cuts of batches, exactly one of two such matches stays, and no match that was emitted has to be taken back.

A query judges by the documents that it sees.  Queries of one group differ in the place after which they see documents,
so a match is stored with the oldest place of its exchange where some of them may not see that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Literal, NamedTuple

from xscl.base.docids import place_of
from xscl.templates.bounds import Case
from xscl.templates.plans import Assembly
from xscl.templates.program import Program
from xscl.templates.results import MAX_MATCHES, MAX_ROUT, Admitted, ClassRow, Member, ResultColumns, admitted

__all__ = ["AssembledDocuments", "Bindings", "add_all_orders", "add_documents", "class_of"]

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

    @property
    def oldest(self) -> int:
        """The place of the intake order at which the first document came."""
        return min(place_of(member.docid) for member in self.members)


_Orders = Mapping[tuple[int, tuple[str, ...]], AssembledDocuments]
"""Group and events by block to the documents."""


def add_all_orders(
    program: Program, alike: Sequence[AssembledDocuments], out: ResultColumns, classes: dict[object, int]
) -> None:
    """Add the rows of R_out and the matches of the same events in all orders; ``classes`` are those made so far."""
    admitting = [
        admitted(
            each.bindings.assembly.groups.values(),
            each.members,
            each.bindings.assembly.pairs,
            program.memberships,
            program.ordinals,
        )
        for each in alike
    ]
    orders = {(gid, each.places): each for each, by in zip(alike, admitting, strict=True) for gid in by.groups}
    for each, by in zip(alike, admitting, strict=True):
        staying: defaultdict[int | None, list[tuple[int, int]]] = defaultdict(list)
        for gid, case in zip(*by, strict=True) if not each.earlier else ():
            live = program.groups[gid]
            exchange = _exchange(live.group.cases[case - 1], gid, each, orders)
            if exchange is None or exchange <= min(live.newest, each.oldest - 1):
                staying[exchange].append((gid, case))
        if staying:
            taken = {exchange: Admitted(*zip(*by, strict=True)) for exchange, by in staying.items()}
            add_documents(each, taken, out, classes)


def _exchange(case: Case, gid: int, own: AssembledDocuments, orders: _Orders) -> int | None:
    """Return the oldest place of an exchange for which a group's match goes, the latest of several; None: it stays."""
    members, places = own.members, own.places
    found = None
    for bounds, (i, j) in zip(case, combinations(range(len(members)), 2), strict=True):
        if bounds.exchange:
            exchanged = list(places)
            exchanged[i], exchanged[j] = places[j], places[i]
            right_first = (members[j].ts, places[j]) < (members[i].ts, places[i])
            other = orders.get((gid, tuple(exchanged)))
            if other is not None and (other.complete, not right_first) < (own.complete, True):
                found = other.oldest if found is None else max(found, other.oldest)
    return found


def add_documents(
    documents: AssembledDocuments, by: Mapping[int | None, Admitted], out: ResultColumns, classes: dict[object, int]
) -> None:
    """Add the rows of R_out and the matches of some documents for some groups, told by ``ClassRow.exchange``."""
    members, bindings, _ = documents
    gids = [gid for each in by.values() for gid in each.groups]
    if len(bindings.matches) > MAX_MATCHES:
        out.add_refused(members, gids, "matches")
        return
    if bindings.rows is None:
        out.add_refused(members, gids, "rout")
    out.add_documents([member.docid for member in members], _class(bindings, by, out, classes))


def class_of(
    bindings: Bindings, by: Mapping[int | None, Admitted], out: ResultColumns, classes: dict[object, int]
) -> int | None:
    """Return the class of documents with some bindings for some groups; None: something of them is refused."""
    if len(bindings.matches) > MAX_MATCHES or bindings.rows is None:
        return None
    return _class(bindings, by, out, classes)


def _class(
    bindings: Bindings, by: Mapping[int | None, Admitted], out: ResultColumns, classes: dict[object, int]
) -> int:
    instance = bindings.assembly.instance
    meant: list[tuple[Literal["rout", "match"], tuple[int, ...], tuple[int, ...] | None]] = [
        *(("rout", row, None) for row in sorted(bindings.rows or ())),
        *(("match", *match) for match in sorted(bindings.matches.items())),
    ]
    rows = tuple(
        ClassRow(relation, instance, nodes, witness, some, None, exchange)
        for exchange, some in by.items()
        for relation, nodes, witness in meant
    )
    if rows not in classes:
        if len(classes) >= _MOST_CLASSES:
            classes.clear()
        classes[rows] = out.add_class(rows)
    return classes[rows]
