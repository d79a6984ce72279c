"""Latest batches of a home, and the events that they lost, for people who watch it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.matches.newest import matches_of_batches
from xscl.base.types import Match
from xscl.catalog.catalog import Catalog
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import BATCHES, EVENT_IDS, REJECTED, in_parts
from xscl.store.home import Home

__all__ = ["activity", "latest_matches", "recent_batches", "recent_losses", "waits"]

_LONGEST = 4
"""Batches of a part of a span whose events are looked at: those that took longest."""
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


def waits(catalog: Catalog, now: int, span: int, parts: int) -> list[float]:
    """Return for each part of a span of time until now how long events had waited for their batch, in seconds.

    A part has the longest wait of the batches that took longest, also while they were under way, and of what waits now.
    Rows of files do not count, because the catalogue does not know the time of their receipt.
    """
    begin = now - span
    with catalog.read() as connection:
        found = _waited(connection, _longest(connection, begin, span, parts))
        processed, last = read_last_places(connection)
        if last > processed:
            behind = EVENT_IDS.c.docid > processed, EVENT_IDS.c.published.is_(None)
            oldest = sa.select(EVENT_IDS.c.received).where(*behind).order_by(EVENT_IDS.c.docid).limit(1)
            if (received := connection.scalar(oldest)) is not None:
                found.append((received, now))
    waited = [0] * parts
    for received, committed in found:
        for part in range(parts):
            start, end = begin + span * part // parts, begin + span * (part + 1) // parts
            if received < end and committed > start:
                waited[part] = max(waited[part], min(committed, end) - received)
    return [each / 1e6 for each in waited]


def _longest(connection: Connection, begin: int, span: int, parts: int) -> list[int]:
    """Return the batches that took longest of those committed in each part of a span."""
    column = BATCHES.c
    seconds = column.prepare_s + column.stage1_s + column.join_s + column.commit_s
    wanted = sa.select(column.batch, column.committed, seconds.label("seconds")).where(column.committed > begin)
    held: dict[int, list[tuple[float, int]]] = {}
    for row in connection.execute(wanted):
        held.setdefault((row.committed - begin) * parts // span, []).append((row.seconds, row.batch))
    return [batch for some in held.values() for _, batch in sorted(some)[-_LONGEST:]]


def _waited(connection: Connection, batches: Sequence[int]) -> list[tuple[int, int]]:
    """Return when the first event of each batch was received, and when the batch was committed."""
    column, event = BATCHES.c, EVENT_IDS.c
    of_batch = event.docid.between(column.first, column.last), event.published.is_(None)
    first = sa.select(event.received).where(*of_batch).order_by(event.docid).limit(1).scalar_subquery()
    found: list[tuple[int, int]] = []
    for some in in_parts(batches):
        rows = connection.execute(sa.select(first.label("received"), column.committed).where(column.batch.in_(some)))
        found += [(row.received, row.committed) for row in rows if row.received is not None]
    return found


def recent_losses(catalog: Catalog, limit: int) -> list[dict[str, object]]:
    """Return the latest events that were rejected, the last one first."""
    with catalog.read() as connection:
        order = REJECTED.c.number.desc()
        rows = connection.execute(sa.select(REJECTED).order_by(order).limit(limit)).mappings().all()
    return [dict(row) for row in rows]


def latest_matches(home: Home, query: str | None, limit: int, written: Callable[[Match], object]) -> list[object]:
    """Return the last matches of the latest batches that have any, the last one first.

    Args:
        home: the home.
        query: name of the query; None: of all.
        limit: matches at most.
        written: makes of each match what is wanted of it.
    """
    with home.catalog.read() as connection:
        having = sa.select(BATCHES.c.batch).where(BATCHES.c.matches > 0)
        batches = connection.scalars(having.order_by(BATCHES.c.batch.desc()).limit(_LOOKED)).all()
    return [written(match) for match in reversed(matches_of_batches(home, query, batches, limit))]
