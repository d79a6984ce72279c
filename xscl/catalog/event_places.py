"""Places of the events of one channel in the intake order, by what the catalogue says; no file is read.

Row windows count them, before all conditions.  A copy that a stream brings later is no event of its own.
"""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.number_order import each_once
from xscl.catalog.memberships import aliases
from xscl.catalog.retained_from import in_sight
from xscl.catalog.tables import EVENT_IDS, ROW_RANGES
from xscl.templates.columns import Int64s

__all__ = ["event_places", "latest_events", "places_before"]


def event_places(connection: Connection, channel: str, first: int, last: int) -> Int64s:
    """Return the places of the events of a channel between two, both included, ascending."""
    ids = _ids(connection, channel).where(EVENT_IDS.c.docid.between(first, last))
    spans = _spans(channel).where(ROW_RANGES.c.last_docid >= first, ROW_RANGES.c.docid <= last)
    ranges = [
        np.arange(max(row.docid, first), min(row.last_docid, last) + 1, dtype=np.int64)
        for row in connection.execute(spans)
    ]
    single = np.fromiter(connection.scalars(ids), np.int64)
    return each_once(np.concatenate([single, *ranges]))


def places_before(connection: Connection, channel: str, before: int, count: int) -> Int64s:
    """Return the greatest places of events of a channel below one, so many at most, ascending."""
    ids = _ids(connection, channel).where(EVENT_IDS.c.docid < before)
    single = np.fromiter(connection.scalars(ids.order_by(EVENT_IDS.c.docid.desc()).limit(count)), np.int64)
    parts, left = [single], count
    spans = _spans(channel).where(ROW_RANGES.c.docid < before).order_by(ROW_RANGES.c.docid.desc()).limit(count)
    for row in connection.execute(spans):
        end = min(row.last_docid, before - 1)
        parts.append(np.arange(max(row.docid, end - left + 1), end + 1, dtype=np.int64))
        left -= len(parts[-1])
        if not left:
            break
    return each_once(np.concatenate(parts))[-count:]


def latest_events(connection: Connection, channel: str, count: int) -> list[int]:
    """Return the greatest numbers of events in sight of a channel, published ones included, the greatest one first.

    Rows whose ids are kept as ranges have no times here, so some of theirs may be out of sight.
    """
    ids = EVENT_IDS.c
    mine = ids.channel == channel, ids.membership.not_in(aliases(connection)), in_sight(connection)
    single = sa.select(ids.docid).where(*mine).distinct().order_by(ids.docid.desc()).limit(count)
    spans = _spans(channel).order_by(ROW_RANGES.c.docid.desc()).limit(count)
    rows = (
        docid
        for row in connection.execute(spans)
        for docid in range(row.last_docid, max(row.docid, row.last_docid - count + 1) - 1, -1)
    )
    return sorted((*connection.scalars(single), *islice(rows, count)), reverse=True)[:count]


def _ids(connection: Connection, channel: str) -> sa.Select[Any]:
    of_channel = EVENT_IDS.c.channel == channel, EVENT_IDS.c.published.is_(None)
    return sa.select(EVENT_IDS.c.docid).where(*of_channel, EVENT_IDS.c.membership.not_in(aliases(connection)))


def _spans(channel: str) -> sa.Select[Any]:
    return sa.select(ROW_RANGES.c.docid, ROW_RANGES.c.last_docid).where(ROW_RANGES.c.channel == channel)
