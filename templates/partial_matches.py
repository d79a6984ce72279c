"""Partial matches of queries of many blocks: the documents and nodes that rows of links have bound so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from xscl.templates.plans import Assembly
from xscl.templates.results import Member, different

__all__ = ["Members", "Nodes", "empty", "exchanges", "joined", "members_of"]

Members = tuple[Member | None, ...]
"""Documents by block; None where no row of a link has bound one."""
Nodes = tuple[int | None, ...]
"""Node ids by place of the instance; None where no row of a link has bound one."""


def members_of(rows: Sequence[Mapping[str, Any] | None]) -> Members:
    """Make members of structs of Arrow."""
    return tuple(None if row is None else Member.of(row) for row in rows)


def empty(assembly: Assembly) -> tuple[Members, Nodes]:
    """Return the partial match in which nothing is bound."""
    return (None,) * assembly.blocks, (None,) * assembly.nodes


def joined(
    assembly: Assembly, use: int, members: Members, nodes: Nodes, row_members: Members, row_nodes: Sequence[int]
) -> tuple[Members, Nodes] | None:
    """Join a partial match with a row of link ``use``; None if they do not fit."""
    link = assembly.links[use]
    all_members, all_nodes = list(members), list(nodes)
    for block, member in zip(link.blocks, row_members, strict=True):
        bound = all_members[block]
        if bound is None:
            all_members[block] = member
        elif member is None or bound.docid != member.docid:
            return None
    for place, node in zip(link.places, row_nodes, strict=True):
        if all_nodes[place] is None:
            all_nodes[place] = node
        elif all_nodes[place] != node:
            return None
    if not _is_possible(assembly, all_members):
        return None
    return tuple(all_members), tuple(all_nodes)


def _is_possible(assembly: Assembly, members: Sequence[Member | None]) -> bool:
    """Tell whether some group could still take these documents."""
    if not different([member for member in members if member is not None]):
        return False
    for bounds, (a, b) in zip(assembly.bounds, combinations(members, 2), strict=True):
        if a is not None and b is not None and not bounds.lo <= b.ts - a.ts <= bounds.hi:
            return False
    return True


def exchanges(assembly: Assembly, members: Sequence[Member]) -> Iterator[tuple[str, ...]]:
    """Iterate over the events by block, told by ``Member.place``, of matches that may have come in an earlier batch.

    They have the same events with two exchanged, between blocks that read different streams: a stream may bring its
    copy of an event in a later batch, so the two orders of two events are not always complete together.
    """
    for i, j in sorted(assembly.crossings):
        places = [member.place for member in members]
        places[i], places[j] = places[j], places[i]
        yield tuple(places)
