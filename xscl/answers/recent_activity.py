"""Latest batches of a home, and the events that they lost, for people who watch it."""

from __future__ import annotations

from collections.abc import Callable

import sqlalchemy as sa

from xscl.answers.match_cursors import Cursor
from xscl.answers.match_listing import Listing, list_matches
from xscl.base.types import Match
from xscl.catalog.catalog import Catalog
from xscl.catalog.tables import BATCHES, REJECTED
from xscl.store.home import Home

__all__ = ["activity", "latest_matches", "recent_batches", "recent_losses"]

_READ = 100
"""Matches that are read from one place."""
_LOOKED = 1_024
"""Batches with matches that are looked at."""


def recent_batches(catalog: Catalog, limit: int) -> list[dict[str, object]]:
    """Return the latest batches, the last one first, with the times of their commits."""
    with catalog.read() as connection:
        rows = connection.execute(sa.select(BATCHES).order_by(BATCHES.c.batch.desc()).limit(limit)).mappings().all()
    return [dict(row) for row in rows]


def activity(catalog: Catalog, now: int, span: int, parts: int) -> dict[str, list[int]]:
    """Count the events and matches of the batches that were committed in each part of a span of time until now.

    Args:
        catalog: the home's.
        now: end of the span, microseconds.
        span: its length.
        parts: number of its parts.
    """
    column = BATCHES.c
    wanted = sa.select(column.committed, column.events, column.matches).where(column.committed > now - span)
    counted = {"events": [0] * parts, "matches": [0] * parts}
    with catalog.read() as connection:
        for row in connection.execute(wanted):
            place = min(parts - 1, (row.committed - now + span) * parts // span)
            counted["events"][place] += row.events
            counted["matches"][place] += row.matches
    return counted


def recent_losses(catalog: Catalog, limit: int) -> list[dict[str, object]]:
    """Return the latest events that were rejected, the last one first."""
    with catalog.read() as connection:
        order = REJECTED.c.number.desc()
        rows = connection.execute(sa.select(REJECTED).order_by(order).limit(limit)).mappings().all()
    return [dict(row) for row in rows]


def latest_matches(home: Home, query: str | None, limit: int, written: Callable[[Match], object]) -> list[object]:
    """Return some matches of the latest batches that have any, the last ones first.

    Args:
        home: the home.
        query: name of the query; None: of all.
        limit: matches at most.
        written: makes of each match what is wanted of it.
    """
    with home.catalog.read() as connection:
        having = sa.select(BATCHES.c.batch).where(BATCHES.c.matches > 0)
        batches = connection.scalars(having.order_by(BATCHES.c.batch.desc()).limit(_LOOKED)).all()
    size = 1
    found: list[Match] = []
    while batches:
        begin = batches[min(size, len(batches)) - 1]
        listing = list_matches(home, Listing(query=query, after=str(Cursor(begin)), limit=_READ))
        held: dict[str, Match] = {}
        for match in listing:
            held.pop(match.id, None)
            if match.retracted is None:
                held[match.id] = match
        found = list(held.values())
        if len(found) >= limit or size >= len(batches):
            break
        size *= 2
    return [written(match) for match in reversed(found[-limit:])]
