"""Rows of links to rows of R_out and matches of queries of three and more blocks, in the driver.

A new row of a link starts a partial match of every instance that has the link; rows of the other links that have one of
its documents extend it, until all links are there.  The delta rule of incremental joins keeps every combination from
being found twice: of the links before the one that started, only rows of earlier batches extend it.

All orders of the same events are looked at together, because ``ONCE`` chooses among them (``once``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

from xscl.templates.link_rows import LinkRow, LinkRows
from xscl.templates.once import AssembledDocuments, Bindings, add_all_orders
from xscl.templates.partial_matches import Members, Nodes, empty, exchanges, joined, members_of
from xscl.templates.plans import Assembly
from xscl.templates.program import Program
from xscl.templates.results import Member, ResultColumns

__all__ = ["assemble"]

_T = TypeVar("_T")
_Usable = Callable[[int, LinkRow], bool]
"""Tells whether a row of a link, by the link's place in its assembly, may extend a partial match."""


def assemble(program: Program, rows: LinkRows, new: pa.Table, batch: int, out: ResultColumns) -> None:
    """Add the matches that a batch's new rows of links complete; the new rows become part of ``rows``."""
    rows.add(new, batch)
    assembled: dict[tuple[int, Members], Bindings] = {}
    for row in new.select(["link", "members", "nodes"]).to_pylist():
        for number, place in program.starts.get(row["link"], ()):
            assembly = program.assemblies[number]
            start = joined(assembly, place, *empty(assembly), members_of(row["members"]), row["nodes"])
            if start is not None:
                for members, nodes in _extended(assembly, rows, place, 0, *start, _is_delta(batch, place)):
                    if (number, members) not in assembled:
                        assembled[number, members] = Bindings(assembly)
                    assembled[number, members].add(_all_bound(nodes))
    alike: defaultdict[tuple[str, ...], list[AssembledDocuments]] = defaultdict(list)
    for (_, members), bindings in assembled.items():
        documents = AssembledDocuments(_all_bound(members), bindings)
        alike[tuple(sorted(documents.places))] += [documents, *_earlier_exchanges(program, rows, documents, batch)]
    classes: dict[object, int] = {}
    for each in alike.values():
        add_all_orders(program, each, out, classes)


def _is_delta(batch: int, start: int) -> _Usable:
    """Let rows of earlier batches extend what began with link ``start``, and new rows of the links behind it."""
    return lambda use, row: row.batch != batch or use >= start


def _all_bound(values: Sequence[_T | None]) -> list[_T]:
    return [value for value in values if value is not None]


def _extended(
    assembly: Assembly, rows: LinkRows, start: int, step: int, members: Members, nodes: Nodes, usable: _Usable
) -> Iterator[tuple[Members, Nodes]]:
    """Iterate over the ways to complete a partial match that began with a row of link ``start``."""
    if step == len(assembly.steps[start]):
        yield members, nodes
        return
    use, side = assembly.steps[start][step].use, assembly.steps[start][step].known
    link = assembly.links[use]
    member = members[link.blocks[side]]
    assert member is not None
    for row in rows.of_event(link.key, side, member.place):
        if usable(use, row):
            longer = joined(assembly, use, members, nodes, row.members, row.nodes)
            if longer is not None:
                yield from _extended(assembly, rows, start, step + 1, *longer, usable)


def _earlier_exchanges(
    program: Program, rows: LinkRows, documents: AssembledDocuments, batch: int
) -> Iterator[AssembledDocuments]:
    """Iterate over the matches of earlier batches that have the same events with two of them exchanged."""
    assembly = documents.bindings.assembly
    for places in exchanges(assembly, documents.members):
        for other in program.assemblies_of(assembly.instance):
            for members in _earlier_members(other, rows, places, batch):
                yield AssembledDocuments(members, Bindings(other), earlier=True)


def _earlier_members(assembly: Assembly, rows: LinkRows, places: Sequence[str], batch: int) -> set[tuple[Member, ...]]:
    """Return the documents that rows of earlier batches put together of some events, told by block."""

    def usable(use: int, row: LinkRow) -> bool:
        events = zip(assembly.links[use].blocks, row.members, strict=True)
        return row.batch != batch and all(member and member.place == places[block] for block, member in events)

    fewest = min(
        (
            (place, rows.of_event(link.key, side, places[link.blocks[side]]))
            for place, link in enumerate(assembly.links)
            for side in (0, 1)
        ),
        key=lambda candidate: len(candidate[1]),
    )
    start, candidates = fewest
    complete = set()
    for row in candidates:
        if usable(start, row):
            first = joined(assembly, start, *empty(assembly), row.members, row.nodes)
            if first is not None:
                for members, _ in _extended(assembly, rows, start, 0, *first, usable):
                    complete.add(tuple(_all_bound(members)))
    return complete
