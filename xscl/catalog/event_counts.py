"""Counting events by what the catalogue says, ids and ranges of ids together; no file is read."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.memberships import aliases
from xscl.catalog.prepared import prepared
from xscl.catalog.tables import EVENT_IDS, ROW_RANGES

__all__ = ["channel_counts", "event_count", "first_events", "nth_event"]

_SPANS = sa.select(ROW_RANGES.c.channel, ROW_RANGES.c.docid, ROW_RANGES.c.last_docid)


def channel_counts(connection: Connection, first: int | None = None, last: int | None = None) -> dict[str, int]:
    """Return the events of each channel that has some, of those with numbers from ``first`` to ``last`` if given."""
    # An event that came by several streams has several ids, and a copy that came later a number of its own.
    if first is not None and last is not None:
        ids, spans = connection.execute(*_counts_between(first, last)), connection.execute(*_spans_between(first, last))
    else:
        ids = connection.execute(_counts().where(EVENT_IDS.c.membership.not_in(aliases(connection))))
        spans = connection.execute(_SPANS)
    counts: dict[str, int] = {row[0]: row[1] for row in ids}
    for channel, begin, end in spans:
        low = begin if first is None else max(begin, first)
        high = end if last is None else min(end, last)
        counts[channel] = counts.get(channel, 0) + high - low + 1
    return counts


def _counts() -> sa.Select[Any]:
    return sa.select(EVENT_IDS.c.channel, sa.func.count(sa.distinct(EVENT_IDS.c.docid))).group_by(EVENT_IDS.c.channel)


@prepared
def _counts_between(first: int, last: int) -> sa.Select[Any]:
    return _counts().where(EVENT_IDS.c.docid.between(first, last))


@prepared
def _spans_between(first: int, last: int) -> sa.Select[Any]:
    return _SPANS.where(ROW_RANGES.c.last_docid >= first, ROW_RANGES.c.docid <= last)


def first_events(connection: Connection, first: int, last: int) -> dict[str, int]:
    """Return the least number of an event of each channel that has some, of those with numbers from ``first`` to
    ``last``.
    """
    ids = sa.select(EVENT_IDS.c.channel, sa.func.min(EVENT_IDS.c.docid)).group_by(EVENT_IDS.c.channel)
    between = EVENT_IDS.c.docid.between(first, last)
    found: dict[str, int] = {row[0]: row[1] for row in connection.execute(ids.where(between))}
    for channel, begin, _ in connection.execute(*_spans_between(first, last)):
        found[channel] = min(found.get(channel, last), max(begin, first))
    return found


def event_count(connection: Connection, channel: str | None = None) -> int:
    """Return all events, or those of a channel."""
    ids = sa.select(sa.func.count()).select_from(EVENT_IDS)
    ids = ids.where(EVENT_IDS.c.membership.not_in(aliases(connection)))
    spans = sa.select(sa.func.coalesce(sa.func.sum(ROW_RANGES.c.last_docid - ROW_RANGES.c.docid + 1), 0))
    if channel is not None:
        ids, spans = ids.where(EVENT_IDS.c.channel == channel), spans.where(ROW_RANGES.c.channel == channel)
    return int(connection.scalar(ids) or 0) + int(connection.scalar(spans) or 0)


def nth_event(connection: Connection, first: int, last: int, count: int) -> int | None:
    """Return the number of the ``count``-th event (from 1) of those from ``first`` to ``last``; None if there are
    fewer.
    """
    if last - first + 1 < count:
        return None  # a place has one event at most
    spans = connection.execute(*_next_spans(first, last, count)).all()
    if not spans:
        only: int | None = connection.scalar(*_next_single(first, last, count - 1))
        return only
    singles = connection.scalars(*_next_singles(first, last, count)).all()
    left, place = count, 0
    for begin, end in spans:
        low, high = max(begin, first), min(end, last)
        while place < len(singles) and singles[place] < low:
            left -= 1
            if not left:
                return int(singles[place])
            place += 1
        if high - low + 1 >= left:
            return int(low + left - 1)
        left -= high - low + 1
    rest = singles[place:]
    return int(rest[left - 1]) if left <= len(rest) else None


@prepared
def _next_spans(first: int, last: int, count: int) -> sa.Select[Any]:
    spans = sa.select(ROW_RANGES.c.docid, ROW_RANGES.c.last_docid).order_by(ROW_RANGES.c.docid).limit(count)
    return spans.where(ROW_RANGES.c.last_docid >= first, ROW_RANGES.c.docid <= last)


@prepared
def _next_single(first: int, last: int, others: int) -> sa.Select[Any]:
    return _singles(first, last).offset(others).limit(1)


@prepared
def _next_singles(first: int, last: int, count: int) -> sa.Select[Any]:
    return _singles(first, last).limit(count)


def _singles(first: int, last: int) -> sa.Select[Any]:
    between = EVENT_IDS.c.docid.between(first, last)
    return sa.select(EVENT_IDS.c.docid).distinct().where(between).order_by(EVENT_IDS.c.docid)
