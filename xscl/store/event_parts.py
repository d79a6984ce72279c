"""Events of a channel that come after a place of the intake order, or were published after one, by files.

Events that are taken in have places that only grow, in the order in which they can be seen.  Documents that queries
publish have places of their members, so the batch that published them tells their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Self

import numpy as np
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.base.sealed import missing_file
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import EVENT_IDS, INTAKE_FILES
from xscl.store.event_spans import Events, groups_with
from xscl.store.home import Home

__all__ = ["BEGIN", "EventPart", "Offset", "all_parts", "last_offset", "limited", "parts_between"]

_WHOLE = (1 << 63) - 1
"""Number behind all documents that a batch published."""


@dataclass(frozen=True, slots=True)
class Offset:
    """Place in the order in which the events of a channel come to be seen."""

    place: int
    """Place of the last event that was taken in."""
    published: int
    """Last place of the last batch whose published documents count."""
    docid: int
    """Number of the last document that counts, among those of that batch."""

    @classmethod
    def at(cls, place: int) -> Self:
        """Return the offset behind everything up to a place, and behind the batches that end up to it."""
        return cls(place, place, _WHOLE)

    @classmethod
    def read(cls, offset: Mapping[str, int]) -> Self:
        """Read the offset of a stream."""
        return cls(offset["place"], offset["published"], offset["docid"])

    def json(self) -> dict[str, int]:
        """Return the offset of a stream."""
        return {"place": self.place, "published": self.published, "docid": self.docid}


BEGIN = Offset.at(0)
"""Before everything."""


@dataclass(frozen=True, slots=True)
class EventPart:
    """Row groups of a file, and which of their events are wanted."""

    path: str
    groups: tuple[int, ...]
    first: int = 0
    """Least number of an event."""
    last: int = _WHOLE
    only: bytes | None = None
    """If given, the wanted numbers, sorted, 64 bits each."""


def last_offset(home: Home, channel: str, start: Offset = BEGIN) -> Offset:
    """Return the offset behind all events of a channel; parts of ``start`` stay where nothing came since."""
    with home.catalog.read() as connection:
        processed, taken_in = read_last_places(connection)
        files = _files(connection, home, Events(channel, first=start.place + 1, last=PUBLISHED - 1))
        place = taken_in if any(files) else start.place
        some = sa.select(EVENT_IDS.c.docid).where(*_published(channel, start, Offset.at(processed))).limit(1)
        if connection.scalar(some) is None:
            return Offset(place, start.published, start.docid)
    return Offset(place, processed, _WHOLE)


def limited(home: Home, channel: str, start: Offset, end: Offset, most: int) -> Offset:
    """Return the offset behind the first events after ``start``, at most so many, up to ``end``."""
    with home.catalog.read() as connection:
        wanted = Events(channel, first=start.place + 1, last=min(end.place, PUBLISHED - 1))
        places = list(islice(_docids(_files(connection, home, wanted), wanted), most))
        place = places[-1] if len(places) == most else end.place
        rest = most - len(places)
        statement = sa.select(EVENT_IDS.c.published, EVENT_IDS.c.docid).where(*_published(channel, start, end))
        ordered = statement.order_by(EVENT_IDS.c.published, EVENT_IDS.c.docid).limit(rest)
        found = connection.execute(ordered).all() if rest else []
    if len(found) == rest:
        published, docid = found[-1] if found else (start.published, start.docid)
        return Offset(place, published, docid)
    return Offset(place, end.published, end.docid)


def parts_between(home: Home, channel: str, start: Offset, end: Offset) -> list[EventPart]:
    """Return where the events between two offsets are."""
    with home.catalog.read() as connection:
        wanted = Events(channel, first=start.place + 1, last=min(end.place, PUBLISHED - 1))
        parts = [
            EventPart(path, groups, wanted.first, wanted.last) for path, groups in _files(connection, home, wanted)
        ]
        statement = sa.select(EVENT_IDS.c.docid).where(*_published(channel, start, end)).order_by(EVENT_IDS.c.docid)
        docids = np.fromiter(connection.scalars(statement), dtype=np.int64)
        if len(docids):
            spread = Events(channel, first=int(docids[0]), last=int(docids[-1]))
            parts += [
                EventPart(path, groups, only=docids.tobytes()) for path, groups in _files(connection, home, spread)
            ]
    return parts


def all_parts(connection: Connection, home: Home, wanted: Events) -> list[EventPart]:
    """Return where all events are that are asked for."""
    return [EventPart(path, groups) for path, groups in _files(connection, home, wanted)]


_Files = Iterator[tuple[str, tuple[int, ...]]]


def _files(connection: Connection, home: Home, wanted: Events) -> _Files:
    """Iterate over the files with events that are asked for and their row groups, in the order of numbers."""
    files = INTAKE_FILES.c
    spanned = files.last >= wanted.first, files.first <= wanted.last
    for name in connection.scalars(sa.select(files.path).where(*spanned).order_by(files.first)):
        path = home.root / name
        try:
            groups = groups_with(path, wanted)
        except FileNotFoundError:
            raise missing_file(path) from None
        if groups:
            yield str(path), tuple(groups)


def _docids(files: _Files, wanted: Events) -> Iterator[int]:
    """Iterate over the numbers of the events that are asked for."""
    for path, groups in files:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            for group in groups:
                table = file.read_row_group(group, columns=["docid", "channel"])
                rows = zip(table["docid"].to_pylist(), table["channel"].to_pylist(), strict=True)
                yield from (
                    docid for docid, name in rows if name == wanted.channel and wanted.first <= docid <= wanted.last
                )


def _published(channel: str, start: Offset, end: Offset) -> Sequence[sa.ColumnElement[bool]]:
    """Write the conditions of the documents that were published between two offsets."""
    published, docid = EVENT_IDS.c.published, EVENT_IDS.c.docid
    return (
        EVENT_IDS.c.channel == channel,
        published.between(start.published, end.published),
        sa.or_(published > start.published, docid > start.docid),
        sa.or_(published < end.published, docid <= end.docid),
    )
