"""What a home has taken in, in its order, as an event file: events, registrations, drops and flushes.

Taken into a home with the same channels it gives the same matches, with the same ids.  What an event file cannot say:

- *Feeds.*  Items come as events with the ids they got (``guid#2`` for a second version), and so are no versions of each
  other any more: a query may join them.  Copies of an item in feeds of several streams of a source become events apart.
- What is gone: events that were held no more, what was rejected, how far inputs were read, subscriptions.
- Settings of channels, which ``Replay.channels`` has as commands, as they are now: a lateness that changed on the way
  is not told.
"""

from __future__ import annotations

import heapq
import json
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import BinaryIO

import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl import ast
from xscl.catalog import RAW, ChannelInfo, StreamInfo, query_info
from xscl.durations import format_duration
from xscl.format import format_statement
from xscl.home import Home
from xscl.home_files import named_files
from xscl.ingest.rows import TEXT_TYPES
from xscl.places import PUBLISHED
from xscl.streams import stored_memberships
from xscl.tables import CHANNELS, FLUSHES, LATE, NEVER, QUERIES, STREAMS
from xscl.templates.members import NONE, Membership
from xscl.types import format_time

__all__ = ["EventLines", "Replay", "export_events"]

_COLUMNS = ("docid", "channel", "id", "version", "ts", "content", "cells", "membership")
_ROWS = 2_000
Line = dict[str, object]


@dataclass(frozen=True, slots=True)
class Replay:
    """What was written."""

    events: int
    """Lines of events: one for each stream that an event came by."""
    queries: int
    channels: tuple[str, ...]
    """Commands that make the channels, to be run before."""
    notes: tuple[str, ...]
    """What the file does not say of this home."""


def export_events(home: Home, stream: BinaryIO) -> Replay:
    """Write what the home has taken in to a stream, as lines of an event file (NDJSON)."""
    with home.catalog.snapshot() as connection:
        streams = home.catalog.streams(connection)
        writing = EventLines(home, home.catalog.channels(connection), streams, stored_memberships(connection))
        paths = [f.path for f in named_files(connection) if f.kind == "events" and (f.first or 0) < PUBLISHED]
        controls = sorted(_controls(connection), key=itemgetter(0))
        channels = tuple(_channel_commands(connection))
        notes = [*_notes(connection)]
    lines = heapq.merge(writing.lines(paths), controls, key=itemgetter(0))
    for _, line in lines:
        stream.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
    if writing.versions:
        notes.append(
            f"{writing.versions:,} newer versions of items are events of their own in it, "
            "which queries may join with each other"
        )
    return Replay(writing.count, sum("register" in line for _, line in controls), channels, tuple(notes))


class EventLines:
    """Events as lines of an event file."""

    def __init__(
        self,
        home: Home,
        channels: Mapping[str, ChannelInfo],
        streams: Mapping[str, StreamInfo],
        memberships: Mapping[int, Membership],
    ) -> None:
        self._home = home
        self._channels = channels
        self._names = {(stream.channel, stream.number): stream.name for stream in streams.values()}
        self._memberships = memberships
        self.count = 0
        self.versions = 0

    def lines(self, paths: list[str]) -> Iterator[tuple[int, Line]]:
        """(place, line), by place; some rows of a file are in memory."""
        for path in self._home.paths(paths):
            with pq.ParquetFile(path) as file:
                there = [name for name in _COLUMNS if name in file.schema_arrow.names]
                for batch in file.iter_batches(_ROWS, columns=there):
                    for row in batch.to_pylist():
                        yield from self.of_event(row)

    def of_event(self, row: Mapping[str, object]) -> Iterator[tuple[int, Line]]:
        """(place, line) of an event, a row of ``EVENT_SCHEMA``: one for each stream that it came by."""
        channel, docid, ts = row["channel"], row["docid"], row["ts"]
        assert isinstance(channel, str) and isinstance(docid, int) and isinstance(ts, int)
        number = row["membership"]
        assert isinstance(number, int)
        self.versions += row["version"] != 1
        line: Line = {"channel": channel, "id": row["id"], "ts": format_time(ts)}
        if row["content"] is not None:
            line["xml"] = row["content"]
        else:
            line["row"] = self._row(channel, row["cells"])
        # An event that came by several streams is one if the lines stand together.
        for stream in sorted(self._memberships.get(number, NONE).streams) or [0]:
            self.count += 1
            yield docid, {**line, "channel": self._names.get((channel, stream), channel)}

    def _row(self, channel: str, cells: object) -> Line:
        columns = self._channels[channel].schema or {}
        assert isinstance(cells, list)
        # Columns that came later are not in the rows before.
        return {name: _value(kind, cell) for (name, kind), cell in zip(columns.items(), cells, strict=False)}


def _value(kind: str | None, cell: str | None) -> object:
    """The value of a column, of which a channel makes the same cell again."""
    if cell is None or kind in TEXT_TYPES or kind == "decimal":
        return cell
    if kind == "bigint":
        return int(cell)
    return cell == "true" if kind == "boolean" else float(cell)


def _controls(connection: Connection) -> Iterator[tuple[int, Line]]:
    """Registrations, drops and flushes with their places."""
    for row in connection.execute(sa.select(QUERIES).order_by(QUERIES.c.docid_from)):
        info = query_info(row)
        declared = "".join(
            f"{format_statement(ast.DeclareNamespace(prefix, uri))}\n" for prefix, uri in info.namespaces.items()
        )
        # The text as it was written: ids of matches speak of it.
        yield info.docid_from, {"register": {"name": info.name, "text": f"{declared}{info.text}"}}
        if info.docid_until != NEVER:
            yield info.docid_until, {"drop": info.name}
    for place in connection.scalars(sa.select(FLUSHES.c.place)):
        yield place, {"flush": True}


def _channel_commands(connection: Connection) -> Iterator[str]:
    for row in connection.execute(sa.select(CHANNELS).order_by(CHANNELS.c.name)):
        options: list[str] = []
        if row.kind == "rows":
            columns = json.loads(row.schema) if row.schema else {}
            options += ["--kind", "rows"]
            if columns and all(columns.values()):
                options += ["--schema", ", ".join(f"{name} {kind}" for name, kind in columns.items())]
            if row.element not in (None, row.name):
                options += ["--element", row.element]
        for name in ("lateness", "retention", "idle"):
            if getattr(row, name) is not None:
                options += [f"--{name}", format_duration(getattr(row, name))]
        if row.clock != row.name:
            options += ["--clock", row.clock]
        if options:
            yield shlex.join(["xscl", "channel", "add", row.name, *options])
    own = sa.select(STREAMS).where(STREAMS.c.channel.not_like(f"%{RAW}"))
    for row in connection.execute(own.order_by(STREAMS.c.name)):
        source = [] if row.source is None else ["--source", row.source]
        yield shlex.join(["xscl", "channel", "add", row.name, "--of", row.channel, *source])


def _notes(connection: Connection) -> Iterator[str]:
    for row in connection.execute(sa.select(CHANNELS).where(CHANNELS.c.kept_from.is_not(None))):
        yield f"events of {row.name} from before {format_time(row.kept_from)} may be gone, and are not in it"
    replayed = connection.scalar(sa.select(sa.func.count()).where(LATE.c.replayed.is_not(None)))
    if replayed:
        yield f"{replayed:,} late events were taken as if in time afterwards; in it they are late"
