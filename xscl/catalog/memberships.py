"""Streams of channels: events of one shape that come by several ways, and which of them each event came by.

An event's **membership** is the set of streams it belongs to, and whether it is *whole*: the event itself, rather than
a later copy of it that another stream brought.  Blocks that name the channel see what is whole, blocks that name a
stream what belongs to it; so a block sees each event once, in whatever pieces it came.  Few different memberships
occur; they are numbered, and 0 is that of an event of the channel alone.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.records import RAW, StreamInfo
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import EVENT_IDS, MEMBERSHIPS, STREAMS
from xscl.templates.members import NONE, Membership

__all__ = [
    "Memberships",
    "aliases",
    "hold_stream",
    "member_names",
    "resolve_stream",
    "stored_memberships",
]


def resolve_stream(streams: Mapping[str, StreamInfo], name: str) -> tuple[str, StreamInfo | None]:
    """Return the channel of events that name ``name``, and the stream that they come by."""
    stream = streams.get(name)
    return (name, None) if stream is None else (stream.channel, stream)


def stored_memberships(connection: Connection, after: int = 0) -> dict[int, Membership]:
    """Return the memberships with greater numbers than ``after``, by number; a stored one never changes."""
    rows = connection.execute(*_behind(after))
    column = MEMBERSHIPS.c.streams
    return {row.number: Membership(frozenset(read_stored(column, row.streams)), row.whole) for row in rows}


@prepared
def _behind(number: int) -> sa.Select[Any]:
    return sa.select(MEMBERSHIPS).where(MEMBERSHIPS.c.number > number)


@dataclass(slots=True)
class Memberships:
    """Numbers of memberships, as one transaction that writes sees them; it makes those that are not there."""

    connection: Connection
    _by_number: dict[int, Membership] | None = None
    _numbers: dict[Membership, int] = field(default_factory=dict)

    def number(self, membership: Membership) -> int:
        """Return the number of a membership."""
        if membership == NONE:
            return 0
        known = self._known
        number = self._numbers.get(membership)
        if number is None:
            number = max(known, default=0) + 1
            streams = json.dumps(sorted(membership.streams))
            values = {"number": number, "streams": streams, "whole": membership.whole}
            self.connection.execute(MEMBERSHIPS.insert().values(**values))
            known[number] = membership
            self._numbers[membership] = number
        return number

    def of_stream(self, stream: int) -> list[int]:
        """Return the numbers of the memberships that have a stream."""
        return [number for number, membership in self._known.items() if stream in membership.streams]

    def __getitem__(self, number: int) -> Membership:
        return NONE if number == 0 else self._known[number]

    @property
    def _known(self) -> dict[int, Membership]:
        if self._by_number is None:
            self._by_number = stored_memberships(self.connection)
            self._numbers = {membership: number for number, membership in self._by_number.items()}
        return self._by_number


def aliases(connection: Connection) -> list[int]:
    """Return the numbers of the memberships of later copies, which are no events of their own."""
    return list(connection.scalars(sa.select(MEMBERSHIPS.c.number).where(MEMBERSHIPS.c.whole == sa.false())))


def hold_stream(connection: Connection, stream: int) -> bool:
    """Whether some event belongs to a stream."""
    found = Memberships(connection).of_stream(stream)
    some = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.membership.in_(found)).limit(1)
    return bool(found) and connection.execute(some).first() is not None


def member_names(connection: Connection) -> Iterator[tuple[int, str, list[int], list[str], bool]]:
    """Yield (number, channel, streams, their names, whether it is whole) of each membership, by channel."""
    streams = {row.number: row for row in connection.execute(sa.select(STREAMS))}
    memberships = stored_memberships(connection)
    for number, membership in memberships.items():
        yield from _rows_by_channel(
            number, membership, [streams[stream] for stream in membership.streams if stream in streams]
        )


def _rows_by_channel(
    number: int, membership: Membership, streams: Collection[sa.Row[tuple[object, ...]]]
) -> Iterator[tuple[int, str, list[int], list[str], bool]]:
    names, numbers = sorted(stream.name for stream in streams), sorted(membership.streams)
    for channel in sorted({stream.channel for stream in streams}):
        yield number, channel, numbers, names, membership.whole
        if not channel.endswith(RAW):
            yield number, channel + RAW, numbers, [name + RAW for name in names], membership.whole
