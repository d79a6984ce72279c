"""Rows of a listing of channels and their streams."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.durations import format_duration
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_channels, read_streams
from xscl.catalog.event_counts import channel_counts
from xscl.catalog.memberships import stored_memberships
from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import EVENT_IDS
from xscl.language.facts import is_sub_query

__all__ = ["channel_rows"]


def channel_rows(catalog: Catalog) -> Iterator[dict[str, object]]:
    """Yield a row for each channel, and behind it one for each of its streams, for listings."""
    with catalog.read() as connection:
        counts = channel_counts(connection)
        streams = sorted(read_streams(connection).values(), key=lambda stream: stream.name)
        held = _held_by_stream(connection) if streams else {}
        for name, channel in read_channels(connection).items():
            if is_sub_query(name):
                continue
            columns = channel.schema or {}
            common = {
                "kind": channel.kind,
                "lateness": _lateness(channel),
                "clock": channel.clock,
                "idle": None if channel.idle is None else format_duration(channel.idle),
                "wall": None if channel.wall is None else format_duration(channel.wall),
                "retention": "for ever" if channel.retention is None else format_duration(channel.retention),
            }
            schema = ", ".join(f"{c} {t or 'unknown'}" for c, t in columns.items()) or None
            shape = {"element": channel.element if channel.kind == "rows" else None, "schema": schema}
            yield {"channel": name, "events": counts.get(name, 0), **common, **shape, "of": None, "source": None}
            for stream in streams:
                if stream.channel == name:
                    count = held.get((stream.number, name), 0)
                    told = {"of": name, "source": stream.source}
                    yield {"channel": stream.name, "events": count, **common, **shape, **told}


def _held_by_stream(connection: Connection) -> dict[tuple[int, str], int]:
    """Count the events of each stream, by its number and channel."""
    counts: Counter[tuple[int, str]] = Counter()
    memberships = stored_memberships(connection)
    columns = EVENT_IDS.c.membership, EVENT_IDS.c.channel
    statement = sa.select(*columns, sa.func.count()).where(EVENT_IDS.c.membership != 0).group_by(*columns)
    for number, channel, count in connection.execute(statement):
        counts.update({(stream, channel): count for stream in memberships[number].streams})
    return counts


def _lateness(channel: ChannelInfo) -> str:
    if channel.auto:
        return "auto"
    return "no limit" if channel.lateness is None else format_duration(channel.lateness)
