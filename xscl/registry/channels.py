"""Creating, changing and dropping channels and their streams."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.durations import parse_duration
from xscl.base.errors import CatalogError
from xscl.base.types import MAX_NAME, is_name, with_fields
from xscl.base.ways import way
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import (
    add_stream,
    note_lateness,
    note_settled,
    put_channel,
    read_channels,
    read_facts,
    read_streams,
    remove_channel,
    remove_stream,
    require_channel_name,
    set_source,
)
from xscl.catalog.clocks import LONGEST
from xscl.catalog.event_counts import event_count
from xscl.catalog.feed_clocks import forget_feed_clocks
from xscl.catalog.intake_order import next_place
from xscl.catalog.memberships import hold_stream
from xscl.catalog.records import RAW, ChannelInfo, StreamInfo
from xscl.catalog.suggestions import how_created, nearest, no_channel
from xscl.catalog.tables import FEEDS, NEVER, QUERIES, STREAMS
from xscl.ingest.rows import parse_schema
from xscl.registry.memory import Memory
from xscl.registry.publish_graph import is_published
from xscl.registry.query_list import reads
from xscl.registry.recompile import refresh
from xscl.registry.settled_times import keep_settled

__all__ = ["NEW_CHANNEL", "ChannelOptions", "add_channel", "drop_channel", "set_channel"]


@dataclass(frozen=True, slots=True)
class ChannelOptions:
    """Options of a channel; one that is None is the default of a new channel, and no change of another."""

    kind: str | None = None
    """``xml``, the default, or ``rows``."""
    element: str | None = None
    """Root element of a row's document; by default the channel's name."""
    schema: str | None = None
    """Columns of a row channel, ``room string, temp double``; by default the first row fixes them."""
    lateness: str | None = None
    """Time that an event may be behind the channel's clock; ``none``, the default, is no limit.  With ``auto`` each
    feed has a clock and a lateness of its own (``registry.feed_lateness``)."""
    clock: str | None = None
    """Name of a clock that several channels share; by default each channel has its own."""
    idle: str | None = None
    """Time that the clock is behind the newest of all channels at most, so that a channel without events does not hold
    up the others; ``none``, the default, is no limit."""
    retention: str | None = None
    """Time that events are held, by the channel's clock; ``none``, the default, is for ever."""
    wall: str | None = None
    """Time behind now of the heartbeats that runs send while something waits for the channel; ``none``, the default, is
    no such heartbeats."""
    of: str | None = None
    """Channel that has the new channel as a stream.  Both share all settings above.  A channel that is not
    there is made, for documents."""
    source: str | None = None
    """Label of a stream: equal events of streams of one source are one event; ``none`` is no source."""


NEW_CHANNEL = ChannelOptions()


def add_channel(catalog: Catalog, name: str, options: ChannelOptions = NEW_CHANNEL, **given: Any) -> list[str]:
    """Create a channel, or a stream of one; return notes on it.

    Args:
        catalog: of the home.
        name: the channel's name.
        options: its options; ``given`` are fields of them.

    Raises:
        CatalogError: the name is taken or an option is no good.
        SourceError: the schema is no good.
    """
    options = with_fields(options, given)
    require_channel_name(name)
    of, source = options.of, None if options.source == "none" else options.source
    if of is not None:
        if options not in (ChannelOptions(kind, of=of, source=options.source) for kind in (None, "xml")):
            raise _bad(
                "a stream has the kind, element, columns, lateness, clock, idle time and so on of its channel",
                f"set them of {of} itself, as in 'xscl channel set {of}'",
            )
        return _add_stream(catalog, name, of, source)
    if source is not None:
        raise _bad("only streams have a source", f"make it a stream of a channel, with {way('--of', 'of=')}")
    channel = ChannelInfo.new(name)
    with catalog.begin() as connection:
        _require_free(connection, name)
        _put(connection, _with_options(channel, options))
    return []


def set_channel(catalog: Catalog, name: str, options: ChannelOptions = NEW_CHANNEL, **given: Any) -> None:
    """Change a channel, or the source of a stream; ``given`` are fields of ``options``.

    Raises:
        CatalogError: there is no such channel, or it holds events that the change would contradict.
    """
    options = with_fields(options, given)
    with catalog.begin() as connection:
        before = read_channels(connection)
        channel = before.get(name)
        stream = read_streams(connection).get(name)
        if stream is not None:
            _set_stream(connection, stream, options)
            return
        if options.source is not None:
            raise _bad("only streams have a source")
        if channel is None:
            raise no_channel(connection, name, how_created(name))
        changed = _with_options(channel, options)
        _refuse_contradictions(connection, channel, changed, options)
        _put(connection, changed)
        if channel.auto and not changed.auto:
            forget_feed_clocks(connection, name)
        if (changed.lateness, changed.clock, changed.idle) != (channel.lateness, channel.clock, channel.idle):
            keep_settled(connection, before)
            # Events up to here were judged by other settings, which join state waits for.
            last = next_place(connection) - 1
            if (changed.clock, changed.idle) == (channel.clock, channel.idle):
                note_lateness(connection, name, last, channel.lateness)
            else:
                note_settled(connection, changed.clock, last)


def _set_stream(connection: Connection, stream: StreamInfo, options: ChannelOptions) -> None:
    if options.source is None or options != ChannelOptions(source=options.source):
        raise _bad(
            f"{stream.name} is a stream of {stream.channel}: only its source can be set",
            f"--source LABEL or --source none; the rest with 'xscl channel set {stream.channel}'",
        )
    set_source(connection, stream.number, None if options.source == "none" else options.source)


def _refuse_contradictions(
    connection: Connection, channel: ChannelInfo, changed: ChannelInfo, options: ChannelOptions
) -> None:
    """Refuse options that the events of a channel, or the queries that read it, contradict."""
    name = channel.name
    shape = (options.kind, options.element, options.schema)
    if any(value is not None for value in shape) and event_count(connection, name):
        raise _bad(
            f"the channel {name} holds events, so its kind, element and columns stay",
            "lateness, clock, idle time, wall and retention can be changed at any time",
        )
    is_other = options.kind not in (None, channel.kind)
    if (is_other or changed.schema != channel.schema) and _readers(connection, name):
        if is_other:
            raise _bad(
                f"queries read the channel {name}, so its kind stays: documents that joined with it were kept for it",
                "drop the queries first",
            )
        if event_count(connection):
            raise _bad(
                f"queries read the channel {name}, so its columns stay: events that joined with them were kept for it",
                "drop the queries first",
            )


def drop_channel(catalog: Catalog, name: str) -> None:
    """Remove a channel or a stream that nothing needs.

    Raises:
        CatalogError: there is none, or it holds events, queries read it or publish to it, it has streams, or a feed is
            subscribed to it.
    """
    with catalog.begin() as connection:
        stream = read_streams(connection).get(name)
        if stream is None and name not in read_channels(connection):
            raise no_channel(connection, name)
        if stream is not None and stream.name.endswith(RAW) and not _is_stored(connection, name):
            raise CatalogError("XSCL_CHANNEL_USED", f"{name} goes with the stream {name.removesuffix(RAW)}")
        names = [name] if stream is None else [name, name + RAW]
        uses = {
            "queries read it": any(_readers(connection, each) for each in names),
            "queries publish to it": is_published(connection, name),
            "it holds events": event_count(connection, name)
            if stream is None
            else hold_stream(connection, stream.number),
            "it has streams": stream is None and _streams_of(connection, name),
            "feeds are subscribed to it": _subscribed(connection, name),
        }
        reason = next((reason for reason, used in uses.items() if used), None)
        if reason is not None:
            raise CatalogError(
                "XSCL_CHANNEL_USED",
                f"the {'channel' if stream is None else 'stream'} {name} cannot be dropped: {reason}",
                hint="drop queries, streams and subscriptions first; events go only when a retention ends",
            )
        if stream is None:
            remove_channel(connection, name)
        else:
            remove_stream(connection, stream.number)


def _add_stream(catalog: Catalog, name: str, of: str, source: str | None) -> list[str]:
    """Add a stream of a channel, which is made, for documents, if it is not there; return a note on that."""
    notes = []
    with catalog.begin() as connection:
        channels, streams = read_channels(connection), read_streams(connection)
        if of in streams:
            at = streams[of].channel
            raise _bad(f"{of} is a stream itself, of the channel {at}", f"--of {at}")
        for each in (name,) if of.endswith(RAW) else (name, name + RAW):
            _require_free(connection, each)
            # Queries and events speak of a channel of that name already.
            if _readers(connection, each) or is_published(connection, each):
                raise CatalogError(
                    "XSCL_NAME_TAKEN",
                    f"queries read a channel {each!r} or publish to it",
                    hint="give the stream another name, or drop them first",
                )
        if of not in channels:
            require_channel_name(of)
            meant = nearest(of, channels)
            _put(connection, ChannelInfo.new(of))
            made = f"there was no channel {of!r}, so it was made, for documents"
            notes.append(made if meant is None else f"{made}; did you mean {meant!r}?")
        add_stream(connection, name, of, source)
    return notes


def _require_free(connection: Connection, name: str) -> None:
    """Refuse a name that a channel or a stream has already."""
    streams = read_streams(connection)
    if name in streams or name in read_channels(connection):
        what = f"stream {name!r} of {streams[name].channel}" if name in streams else f"channel {name!r}"
        raise CatalogError(
            "XSCL_NAME_TAKEN", f"there is a {what} already", hint=f"change it with 'xscl channel set {name}'"
        )


def _is_stored(connection: Connection, name: str) -> bool:
    """Tell whether a stream has a row of its own, and does not only go with another one."""
    return connection.execute(sa.select(STREAMS.c.number).where(STREAMS.c.name == name)).first() is not None


def _streams_of(connection: Connection, channel: str) -> bool:
    mine = sa.select(STREAMS.c.number).where(STREAMS.c.channel.in_([channel, channel.removesuffix(RAW)]))
    return connection.execute(mine.limit(1)).first() is not None


def _subscribed(connection: Connection, name: str) -> bool:
    mine = sa.select(FEEDS.c.number).where(FEEDS.c.channel == name, FEEDS.c.url.is_not(None))
    return connection.execute(mine.limit(1)).first() is not None


def _readers(connection: Connection, name: str) -> bool:
    live = sa.select(QUERIES.c.query).where(QUERIES.c.docid_until == NEVER, reads(connection, name))
    return connection.execute(live.limit(1)).first() is not None


def _bad(fault: str, hint: str | None = None) -> CatalogError:
    return CatalogError("XSCL_BAD_CHANNEL", fault, hint=hint)


def _with_options(channel: ChannelInfo, options: ChannelOptions) -> ChannelInfo:
    kind = options.kind or channel.kind
    if kind not in ("xml", "rows"):
        raise _bad(f"a channel is of kind xml or rows, not {kind!r}")
    if kind == "xml" and (options.schema or options.element):
        raise _bad("only channels of kind rows have a schema or an element", "add --kind rows")
    if options.element is not None and not is_name(options.element):
        raise _bad(f"{options.element!r} is no name of an element of at most {MAX_NAME} characters")
    if options.clock is not None and not options.clock.strip():
        raise _bad("a clock has a name", f"the clock of this channel alone is called {channel.name!r}")
    auto = channel.auto if options.lateness is None else options.lateness == "auto"
    if auto and kind == "rows":
        raise _bad(f"rows of {channel.name} come from no feed, so no feed has a lateness", "a duration, or 'none'")
    columns = parse_schema(options.schema) if options.schema else channel.schema
    return replace(
        channel,
        kind=kind,
        element=options.element or channel.element,
        schema=None if kind == "xml" else columns,
        lateness=_duration("lateness", "none" if auto else options.lateness, channel.lateness),
        auto=auto,
        clock=options.clock or channel.clock,
        idle=_duration("idle", options.idle, channel.idle),
        retention=_duration("retention", options.retention, channel.retention),
        wall=_duration("wall", options.wall, channel.wall),
    )


def _duration(option: str, text: str | None, known: int | None) -> int | None:
    """Return an option's time in microseconds: ``none`` is none, None what is known."""
    if text is None or text == "none":
        return known if text is None else None
    try:
        found = parse_duration(text)
    except ValueError as error:
        raise _bad(f"{option}: {error}") from None
    if found > LONGEST:
        raise _bad(f"{option}: {text!r} is longer than all time", "'none' for no limit")
    return found


def _put(connection: Connection, channel: ChannelInfo) -> None:
    before = read_facts(connection).get(channel.name)
    if channel.kind == "rows" and is_published(connection, channel.name):
        raise _bad(
            f"queries publish documents to the channel {channel.name}, so it cannot take rows",
            "drop the queries first, or take another name",
        )
    put_channel(connection, channel)
    if read_facts(connection).get(channel.name) != before:
        # Queries over the channel compare its numeric columns as numbers from now on.
        refresh(Memory(), connection, channel.name, before)
