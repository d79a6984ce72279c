"""Creating, changing and listing channels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog import Catalog, ChannelInfo
from xscl.durations import format_duration, parse_duration
from xscl.errors import CatalogError
from xscl.ingest.rows import parse_schema
from xscl.publishing import is_published
from xscl.queries import reads
from xscl.registry import Registry
from xscl.row_ranges import channel_counts, event_count
from xscl.tables import CHANNELS, CLOCKS, HOME, NEVER, QUERIES
from xscl.types import MAX_NAME, is_name

__all__ = ["add_channel", "channel_rows", "set_channel"]


def add_channel(
    catalog: Catalog,
    name: str,
    *,
    kind: str = "xml",
    element: str | None = None,
    schema: str | None = None,
    lateness: str | None = None,
    clock: str | None = None,
) -> None:
    """Create a channel; the arguments are those of ``Engine.add_channel``.

    Raises:
        CatalogError: the name is taken or an argument is no good.
        SourceError: the schema is no good.
    """
    if not is_name(name):
        raise CatalogError(
            "XSCL_BAD_NAME",
            f"{name!r} is no name",
            hint=f"letters, digits, '_', and inside it '-' and '.'; at most {MAX_NAME} characters",
        )
    channel = ChannelInfo(name, "xml", False, name, None, None, name)
    with catalog.begin() as connection:
        if name in catalog.channels(connection):
            raise CatalogError(
                "XSCL_NAME_TAKEN",
                f"there is a channel {name!r} already",
                hint=f"change it with 'xscl channel set {name}'",
            )
        _put(catalog, connection, _changed(channel, kind, element, schema, lateness, clock))


def set_channel(
    catalog: Catalog,
    name: str,
    *,
    kind: str | None = None,
    element: str | None = None,
    schema: str | None = None,
    lateness: str | None = None,
    clock: str | None = None,
) -> None:
    """Change a channel; None leaves a setting as it is.

    Raises:
        CatalogError: there is no such channel, or it holds events that the change would contradict.
    """
    with catalog.begin() as connection:
        channel = catalog.channels(connection).get(name)
        if channel is None:
            raise CatalogError(
                "XSCL_UNKNOWN_CHANNEL",
                f"there is no channel {name!r}",
                hint=f"create it with 'xscl channel add {name}'",
            )
        shape = (kind, element, schema)
        if any(value is not None for value in shape) and event_count(connection, name):
            raise CatalogError(
                "XSCL_BAD_CHANNEL",
                f"the channel {name} holds events, so its kind, element and columns stay",
                hint="lateness and clock can be changed at any time",
            )
        if kind is not None and kind != channel.kind and _readers(connection, name):
            raise CatalogError(
                "XSCL_BAD_CHANNEL",
                f"queries read the channel {name}, so its kind stays: documents that joined with it were kept for it",
                hint="drop the queries first",
            )
        changed = _changed(channel, kind or channel.kind, element, schema, lateness, clock)
        if changed.clock != channel.clock:
            _carry_clock(connection, channel.clock, changed.clock)
        _put(catalog, connection, changed)
        if (changed.lateness, changed.clock) != (channel.lateness, channel.clock):
            # Events up to here were judged by other settings, which join state waits for.
            taken = connection.scalar(sa.select(HOME.c.next_place)) or 1
            connection.execute(CHANNELS.update().where(CHANNELS.c.clock == changed.clock).values(settled=taken - 1))


def channel_rows(catalog: Catalog) -> Iterator[dict[str, object]]:
    """One row a channel, for listings."""
    with catalog.read() as connection:
        counts = channel_counts(connection)
        for name, channel in catalog.channels(connection).items():
            columns = channel.schema or {}
            yield {
                "channel": name,
                "kind": channel.kind,
                "events": counts.get(name, 0),
                "element": channel.element if channel.kind == "rows" else None,
                "schema": ", ".join(f"{c} {t or 'unknown'}" for c, t in columns.items()) or None,
                "lateness": "no limit" if channel.lateness is None else format_duration(channel.lateness),
                "clock": channel.clock,
            }


def _readers(connection: Connection, name: str) -> bool:
    live = sa.select(QUERIES.c.query).where(QUERIES.c.docid_until == NEVER, reads(connection, name))
    return connection.execute(live.limit(1)).first() is not None


def _carry_clock(connection: Connection, old: str, new: str) -> None:
    """A clock has seen what its channels have seen."""
    rows = connection.execute(sa.select(CLOCKS).where(CLOCKS.c.name.in_([old, new])))
    greatest = {row.name: row.greatest for row in rows}
    if old not in greatest:
        return
    if new not in greatest:
        connection.execute(CLOCKS.insert().values(name=new, greatest=greatest[old]))
    elif greatest[old] > greatest[new]:
        connection.execute(CLOCKS.update().where(CLOCKS.c.name == new).values(greatest=greatest[old]))


def _changed(
    channel: ChannelInfo,
    kind: str,
    element: str | None,
    schema: str | None,
    lateness: str | None,
    clock: str | None,
) -> ChannelInfo:
    if kind not in ("xml", "rows"):
        raise CatalogError("XSCL_BAD_CHANNEL", f"a channel is of kind xml or rows, not {kind!r}")
    if kind == "xml" and (schema or element):
        raise CatalogError(
            "XSCL_BAD_CHANNEL", "only channels of kind rows have a schema or an element", hint="add --kind rows"
        )
    if element is not None and not is_name(element):
        raise CatalogError("XSCL_BAD_CHANNEL", f"{element!r} is no name of an element of at most {MAX_NAME} characters")
    columns = parse_schema(schema) if schema else channel.schema
    if kind == "xml":
        columns = None
    late = channel.lateness
    if lateness is not None:
        try:
            late = None if lateness == "none" else parse_duration(lateness)
        except ValueError as error:
            raise CatalogError("XSCL_BAD_CHANNEL", f"lateness: {error}") from None
    return replace(
        channel,
        kind=kind,
        element=element or channel.element,
        schema=columns,
        lateness=late,
        clock=clock or channel.clock,
    )


def _put(catalog: Catalog, connection: Connection, channel: ChannelInfo) -> None:
    before = catalog.facts(connection).get(channel.name)
    if channel.kind == "rows" and is_published(connection, channel.name):
        raise CatalogError(
            "XSCL_BAD_CHANNEL",
            f"queries publish documents to the channel {channel.name}, so it cannot take rows",
            hint="drop the queries first, or take another name",
        )
    catalog.put_channel(connection, channel)
    if catalog.facts(connection).get(channel.name) != before:
        # Queries over the channel compare its numeric columns as numbers from now on.
        Registry(catalog).refresh(connection, channel.name, before)
