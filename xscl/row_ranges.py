"""Ids of rows that are kept as ranges: one row of ``row_ranges`` for many, instead of one of ``event_ids`` for each.

The ids of a range are a prefix and a number, growing with the documents' numbers; not every number between the first
and the last need be there.  The documents' numbers are without gaps.  The file of a range may hold other events, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.home import Home
from xscl.streams import aliases
from xscl.tables import EVENT_IDS, ROW_RANGES

__all__ = [
    "RangeRow",
    "StoredRows",
    "channel_counts",
    "event_count",
    "first_events",
    "nth_event",
    "rows_by_id",
    "split_id",
    "stored_rows",
]

_NUMBERED = re.compile(r"(.*:)?(0|-?[1-9][0-9]{0,17})\Z", re.DOTALL)


def split_id(text: str) -> tuple[str, int] | None:
    """The prefix and the number of an id that a range may hold; None for others.

    >>> split_id("readings.csv:17"), split_id("17"), split_id("a17"), split_id("x:07")
    (('readings.csv:', 17), ('', 17), None, None)
    """
    found = _NUMBERED.match(text)
    return None if found is None else (found[1] or "", int(found[2]))


@dataclass(frozen=True, slots=True)
class RangeRow:
    """A row that a range holds."""

    id: str
    docid: int
    cells: list[str | None]


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The rows of a range."""

    numbers: npt.NDArray[np.int64]
    """Growing."""
    cells: pa.ListArray


def stored_rows(
    connection: Connection, home: Home, channel: str, prefix: str, first: int, last: int
) -> Iterator[StoredRows]:
    """The rows with this prefix of the ranges that may hold a number between two, the range's other rows too."""
    statement = sa.select(ROW_RANGES).where(
        ROW_RANGES.c.channel == channel,
        ROW_RANGES.c.prefix == prefix,
        ROW_RANGES.c.last >= first,
        ROW_RANGES.c.first <= last,
    )
    for one in connection.execute(statement).all():
        [path] = home.paths([one.path])
        table = pq.read_table(path, columns=["id", "cells"], filters=_inside(one.docid, one.last_docid))
        digits = pc.utf8_slice_codeunits(table.column("id"), len(prefix))
        numbers = digits.cast(pa.int64()).to_numpy()
        yield StoredRows(numbers, table.column("cells").combine_chunks())


def rows_by_id(
    connection: Connection, home: Home, wanted: Mapping[str, Iterable[str]]
) -> Iterator[tuple[str, RangeRow]]:
    """(channel, row) of the ids that ranges hold; ``wanted`` are ids by channel."""
    for channel, ids in wanted.items():
        by_prefix: dict[str, dict[int, str]] = {}
        for text in ids:
            if (found := split_id(text)) is not None:
                by_prefix.setdefault(found[0], {})[found[1]] = text
        if not by_prefix:
            continue
        for prefix, of_prefix in by_prefix.items():
            least, most = min(of_prefix), max(of_prefix)
            ranges = sa.select(ROW_RANGES).where(
                ROW_RANGES.c.channel == channel,
                ROW_RANGES.c.prefix == prefix,
                ROW_RANGES.c.last >= least,
                ROW_RANGES.c.first <= most,
            )
            for one in connection.execute(ranges).all():
                here = [text for number, text in of_prefix.items() if one.first <= number <= one.last]
                if not here:
                    continue
                [path] = home.paths([one.path])
                found = pc.field("id").isin(here) & _inside(one.docid, one.last_docid)
                table = pq.read_table(path, columns=["id", "docid", "cells"], filters=found)
                for row in table.to_pylist():
                    yield channel, RangeRow(row["id"], row["docid"], row["cells"])


def _inside(first: int, last: int) -> pc.Expression:
    return (pc.field("docid") >= first) & (pc.field("docid") <= last)


# -- counting events -------------------------------------------------------------------------------------------

_SPANS = sa.select(ROW_RANGES.c.channel, ROW_RANGES.c.docid, ROW_RANGES.c.last_docid)


def channel_counts(connection: Connection, first: int | None = None, last: int | None = None) -> dict[str, int]:
    """The events of each channel that has some, of those with numbers from ``first`` to ``last`` if given."""
    # An event that came by several streams has several ids, and a copy that came later a number of its own.
    ids = sa.select(EVENT_IDS.c.channel, sa.func.count(sa.distinct(EVENT_IDS.c.docid))).group_by(EVENT_IDS.c.channel)
    if first is None:
        ids = ids.where(EVENT_IDS.c.membership.not_in(aliases(connection)))
    spans = _SPANS
    if first is not None and last is not None:
        ids = ids.where(EVENT_IDS.c.docid.between(first, last))
        spans = spans.where(ROW_RANGES.c.last_docid >= first, ROW_RANGES.c.docid <= last)
    counts: dict[str, int] = {row[0]: row[1] for row in connection.execute(ids)}
    for channel, begin, end in connection.execute(spans):
        low = begin if first is None else max(begin, first)
        high = end if last is None else min(end, last)
        counts[channel] = counts.get(channel, 0) + high - low + 1
    return counts


def first_events(connection: Connection, first: int, last: int) -> dict[str, int]:
    """The least number of an event of each channel that has some, of those with numbers from ``first`` to ``last``."""
    ids = sa.select(EVENT_IDS.c.channel, sa.func.min(EVENT_IDS.c.docid)).group_by(EVENT_IDS.c.channel)
    between = EVENT_IDS.c.docid.between(first, last)
    found: dict[str, int] = {row[0]: row[1] for row in connection.execute(ids.where(between))}
    spans = _SPANS.where(ROW_RANGES.c.last_docid >= first, ROW_RANGES.c.docid <= last)
    for channel, begin, _ in connection.execute(spans):
        found[channel] = min(found.get(channel, last), max(begin, first))
    return found


def event_count(connection: Connection, channel: str | None = None) -> int:
    """All events, or those of a channel."""
    ids = sa.select(sa.func.count()).select_from(EVENT_IDS)
    ids = ids.where(EVENT_IDS.c.membership.not_in(aliases(connection)))
    spans = sa.select(sa.func.coalesce(sa.func.sum(ROW_RANGES.c.last_docid - ROW_RANGES.c.docid + 1), 0))
    if channel is not None:
        ids, spans = ids.where(EVENT_IDS.c.channel == channel), spans.where(ROW_RANGES.c.channel == channel)
    return int(connection.scalar(ids) or 0) + int(connection.scalar(spans) or 0)


def nth_event(connection: Connection, first: int, last: int, count: int) -> int | None:
    """The number of the ``count``-th event (from 1) of those from ``first`` to ``last``; None if there are fewer."""
    between = EVENT_IDS.c.docid.between(first, last)
    spans = connection.execute(
        sa.select(ROW_RANGES.c.docid, ROW_RANGES.c.last_docid)
        .where(ROW_RANGES.c.last_docid >= first, ROW_RANGES.c.docid <= last)
        .order_by(ROW_RANGES.c.docid)
        .limit(count)
    ).all()
    ids = sa.select(EVENT_IDS.c.docid).distinct().where(between).order_by(EVENT_IDS.c.docid)
    if not spans:
        return connection.scalar(ids.offset(count - 1).limit(1))
    singles = connection.scalars(ids.limit(count)).all()
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
