"""Suspensions of queries, which see nothing from a place of the intake order on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.queries import suspend_query
from xscl.catalog.tables import NEVER, QUERIES
from xscl.language.facts import is_sub_query
from xscl.registry.query_list import reads

__all__ = ["Culprit", "Suspension", "suspend"]


@dataclass(frozen=True, slots=True)
class Suspension:
    """Suspension of a query that exceeded a quota in a batch, or that made one fail."""

    query: str
    owner: str
    place: int
    """First place of the intake order that the query does not see."""
    reason: str
    condition: str

    def __str__(self) -> str:
        return f"query {self.query} is suspended from place {self.place} on: [{self.condition}] {self.reason}"


class Culprit(NamedTuple):
    """A query that is to be suspended, and the reason."""

    query: int
    name: str
    owner: str
    reason: str


def suspend(connection: Connection, queries: Iterable[Culprit], place: int, condition: str) -> list[Suspension]:
    """Suspend queries from a place on, with those around the ones that stand in parentheses; return what to tell."""
    found, ended = list[Suspension](), set[int]()
    for each in queries:
        for one in (each, *_around(connection, each)):
            if one.query not in ended:
                ended.add(one.query)
                suspend_query(connection, one.query, place, one.reason)
                found.append(Suspension(one.name, one.owner, place, one.reason, condition))
    # A query in parentheses is a part of those around it, which tell of it.
    return [each for each in found if not is_sub_query(each.query)]


def _around(connection: Connection, part: Culprit) -> Iterator[Culprit]:
    """Yield the live queries that have a sub-query: they would wait for it in silence."""
    if is_sub_query(part.name):
        mine = QUERIES.c.docid_until == NEVER, reads(connection, part.name)
        for row in connection.execute(sa.select(QUERIES.c.query, QUERIES.c.qid, QUERIES.c.owner).where(*mine)).all():
            around = Culprit(row.query, row.qid, row.owner, part.reason)
            yield around
            yield from _around(connection, around)
