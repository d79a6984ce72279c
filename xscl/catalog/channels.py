"""Channels and their streams: the one module that writes tables ``channels`` and ``streams``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.types import require_name
from xscl.catalog.home_channels import HOME_CHANNELS, home_channel, whose_rows
from xscl.catalog.prepared import prepared
from xscl.catalog.records import RAW, ChannelInfo, StreamInfo
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import CHANNELS, STREAMS
from xscl.language.facts import ChannelFacts, is_made

__all__ = [
    "add_stream",
    "all_facts",
    "channel_of_row",
    "channel_facts",
    "forget_times",
    "move_bounds",
    "note_beaten",
    "note_heartbeat",
    "note_lateness",
    "note_newest",
    "note_processed",
    "note_published",
    "note_settled",
    "note_watermark",
    "put_channel",
    "read_channels",
    "read_facts",
    "read_newest",
    "read_streams",
    "read_watermarks",
    "remove_channel",
    "remove_stream",
    "require_channel_name",
    "set_source",
]


# -- reading ---------------------------------------------------------------------------------------------------


def read_channels(connection: Connection) -> dict[str, ChannelInfo]:
    """Return all channels by name."""
    return {row["name"]: channel_of_row(row) for row in connection.execute(*_infos()).mappings()}


def channel_of_row(row: sa.RowMapping) -> ChannelInfo:
    """Return the channel of a row that has all columns that ``ChannelInfo`` needs."""
    schema = None if row["schema"] is None else read_stored(CHANNELS.c.schema, row["schema"])
    values = {name: row[name] for name in _OF_INFO}
    return ChannelInfo(**{**values, "element": row["element"] or row["name"], "schema": schema})


_OF_INFO = [field.name for field in fields(ChannelInfo)]
"""Columns of table ``channels`` that a ``ChannelInfo`` has."""


@prepared
def _infos() -> sa.Select[Any]:
    return sa.select(*(CHANNELS.c[name] for name in _OF_INFO)).order_by(CHANNELS.c.name)


def read_streams(connection: Connection) -> dict[str, StreamInfo]:
    """Return all streams by name, with those of ``C.raw`` that feeds of a stream of ``C`` fill."""
    found = {}
    for row in connection.execute(*_streams()):
        stream = StreamInfo(**row._mapping)
        found[stream.name] = stream
        if not stream.channel.endswith(RAW):
            raw = replace(stream, name=stream.name + RAW, channel=stream.channel + RAW)
            found[raw.name] = raw
    return found


@prepared
def _streams() -> sa.Select[Any]:
    return sa.select(STREAMS).order_by(STREAMS.c.name)


def read_facts(connection: Connection) -> dict[str, ChannelFacts]:
    """Return the facts that registration needs of every channel and stream, by name."""
    return all_facts(read_channels(connection), read_streams(connection))


def read_newest(connection: Connection) -> dict[str, int | None]:
    """Return the greatest event time that each channel has taken in; None before the first event."""
    return {row.name: row.newest for row in connection.execute(*_newest())}


@prepared
def _newest() -> sa.Select[Any]:
    return sa.select(CHANNELS.c.name, CHANNELS.c.newest)


def read_watermarks(connection: Connection) -> dict[str, int | None]:
    """Return the time below which each channel is settled; None: events of any age may come."""
    return {row.name: row.watermark for row in connection.execute(*_watermarks())}


@prepared
def _watermarks() -> sa.Select[Any]:
    return sa.select(CHANNELS.c.name, CHANNELS.c.watermark)


def channel_facts(channel: ChannelInfo) -> ChannelFacts:
    """Return the facts that registration needs of a channel."""
    columns = channel.schema or {}

    def of_types(*types: str) -> frozenset[str]:
        return frozenset(name for name, type_ in columns.items() if type_ in types)

    numeric = of_types("bigint", "double", "decimal")
    times, truths = of_types("timestamp", "date"), of_types("boolean")
    return ChannelFacts(channel.kind, numeric, of_types("string"), times, truths)


def all_facts(channels: Mapping[str, ChannelInfo], streams: Mapping[str, StreamInfo]) -> dict[str, ChannelFacts]:
    """Return the facts that registration needs of these channels and streams, by name."""
    # The columns of the home's own channels are known before they have events.
    facts = {name: channel_facts(home_channel(name)) for name in HOME_CHANNELS if name not in channels}
    facts |= {name: channel_facts(channel) for name, channel in channels.items()}
    for name, stream in streams.items():
        of_channel = facts.get(stream.channel, ChannelFacts())
        facts[name] = replace(of_channel, channel=stream.channel, stream=stream.number)
    return facts


# -- settings --------------------------------------------------------------------------------------------------


def require_channel_name(name: str) -> None:
    """Refuse a name that no channel of events can have.

    Raises:
        CatalogError: ``XSCL_BAD_NAME``.
    """
    require_name(name)
    if is_made(name):
        raise CatalogError(
            "XSCL_BAD_NAME",
            f"{name} is for what queries find: the answers of windows, and those of queries in parentheses",
            hint="give the channel another name",
        )
    if (reason := whose_rows(name)) is not None:
        raise CatalogError("XSCL_BAD_NAME", reason, hint="read it in queries, or give your channel another name")


def put_channel(connection: Connection, channel: ChannelInfo) -> None:
    """Add or replace a channel."""
    values = asdict(channel) | {"schema": None if channel.schema is None else json.dumps(channel.schema)}
    del values["name"]
    if not _update(connection, channel.name, **values):
        connection.execute(CHANNELS.insert().values(name=channel.name, **values))


def remove_channel(connection: Connection, name: str) -> None:
    """Remove a channel that nothing needs."""
    connection.execute(CHANNELS.delete().where(CHANNELS.c.name == name))


def add_stream(connection: Connection, name: str, channel: str, source: str | None) -> None:
    """Add a stream of a channel under the next number."""
    number = (connection.scalar(sa.select(sa.func.max(STREAMS.c.number))) or 0) + 1
    connection.execute(STREAMS.insert().values(number=number, name=name, channel=channel, source=source))


def set_source(connection: Connection, stream: int, source: str | None) -> None:
    """Change the source of a stream."""
    connection.execute(STREAMS.update().where(STREAMS.c.number == stream).values(source=source))


def remove_stream(connection: Connection, stream: int) -> None:
    """Remove a stream that nothing needs."""
    connection.execute(STREAMS.delete().where(STREAMS.c.number == stream))


# -- times -----------------------------------------------------------------------------------------------------


def note_settled(connection: Connection, clock: str, place: int) -> None:
    """Note that events up to a place may have been judged by other settings of this clock's channels."""
    connection.execute(CHANNELS.update().where(CHANNELS.c.clock == clock).values(settled=place, former=None))


def note_lateness(connection: Connection, channel: str, place: int, former: int | None) -> None:
    """Note that events up to a place were judged by another lateness."""
    row = connection.execute(sa.select(CHANNELS.c.settled, CHANNELS.c.former).where(CHANNELS.c.name == channel)).one()
    parts = [] if row.former is None else read_stored(CHANNELS.c.former, row.former)
    if former is not None and place > row.settled:
        parts.append([row.settled, place, former])
    _update(connection, channel, settled=place, former=json.dumps(parts) if parts else None)


def note_newest(connection: Connection, channel: str, time: int) -> None:
    """Note the greatest event time that a channel has taken in."""
    _update(connection, channel, newest=time)


def note_heartbeat(connection: Connection, channel: str, time: int) -> None:
    """Note that all events of a channel up to a time are in."""
    known = sa.func.coalesce(CHANNELS.c.heartbeat, time)
    _raise(connection, channel, heartbeat=sa.case((known > time, known), else_=time))


def note_beaten(connection: Connection, channel: str, time: int) -> None:
    """Note the greatest time of a channel's processed heartbeats."""
    _update(connection, channel, beaten=time)


def note_processed(connection: Connection, channel: str, time: int) -> None:
    """Note the greatest event time of a channel's processed events."""
    _update(connection, channel, processed=time)


def note_published(connection: Connection, channel: str, time: int) -> None:
    """Raise the greatest event time of documents published to a channel."""
    known = sa.func.coalesce(CHANNELS.c.published, time)
    _raise(connection, channel, published=sa.case((known > time, known), else_=time))


def note_watermark(connection: Connection, channel: str, time: int | None) -> None:
    """Note the event time that no event of a later batch is older than; None: any age is possible."""
    _update(connection, channel, watermark=time)


def move_bounds(connection: Connection, channel: str, held_from: int | None, kept_from: int | None) -> None:
    """Move the event times from which on a channel's events are held and kept."""
    _update(connection, channel, held_from=held_from, kept_from=kept_from)


def forget_times(connection: Connection) -> None:
    """Forget the times that batches have noted of all channels."""
    connection.execute(CHANNELS.update().values(processed=None, published=None, beaten=None, watermark=None))


def _raise(connection: Connection, channel: str, **values: sa.Case[Any]) -> None:
    """Change columns of a channel to what depends on their values."""
    connection.execute(CHANNELS.update().where(CHANNELS.c.name == channel).values(**values))


def _update(connection: Connection, channel: str, **values: object) -> bool:
    """Change columns of a channel; return whether there is one of that name."""
    return connection.execute(_CHANGE, {"of": channel, **values}).rowcount > 0


_CHANGE = CHANNELS.update().where(CHANNELS.c.name == sa.bindparam("of"))
