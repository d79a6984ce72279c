"""State of the queries: while it is the same, what a process remembers of them is what the catalogue says."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.tables import HOME, IS_DROPPED, PARTS, QUERIES, STREAMS

__all__ = ["QueryState", "query_state"]


class QueryState(NamedTuple):
    """State of the queries, the parts of their groups, and the streams that they may name."""

    newest: int
    """Greatest number of a query; numbers are not given out again."""
    swept: int
    """Number of times that queries went, or went to other groups (``home.swept``)."""
    dropped: int
    ends: int
    """Sum of the places at which queries were dropped."""
    parts: int
    """Greatest number of a group that is made of others."""
    streams: int
    newest_stream: int

    def goes_on(self, before: QueryState) -> bool:
        """Tell whether queries have come and were dropped since another state, and nothing else has changed."""
        return self.swept == before.swept and self.newest >= before.newest and self.parts >= before.parts


def query_state(connection: Connection) -> QueryState:
    """Read the state; what that costs does not grow with the number of live queries."""
    return QueryState(*(value or 0 for value in connection.execute(*_state()).one()))


@prepared
def _state() -> sa.Select[Any]:
    # Each value is by itself the end of an index, or a count over a partial one.
    values: tuple[sa.Select[Any], ...] = (
        sa.select(sa.func.max(QUERIES.c.query)),
        sa.select(HOME.c.swept),
        sa.select(sa.func.count()).where(IS_DROPPED),
        sa.select(sa.func.sum(QUERIES.c.docid_until)).where(IS_DROPPED),
        sa.select(sa.func.max(PARTS.c.gid)),
        sa.select(sa.func.count()).select_from(STREAMS),
        sa.select(sa.func.max(STREAMS.c.number)),
    )
    return sa.select(*(value.scalar_subquery() for value in values))
