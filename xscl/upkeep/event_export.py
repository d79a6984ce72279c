"""Export of a home's intake as an event file: events, registrations, drops, flushes, heartbeats and removals in intake
order.

Ingested into a home with the same channels, the file gives the same matches with the same ids.  Left out are:

- *Feeds.*  Items come as events with the ids they got (``guid#2`` for a second version), and so are no versions of each
  other any more: a query may join them.  Of such an item each version is removed by itself.  Copies of an item in feeds
  of several streams of a source become events apart.
- Rows about the home itself: a home that ingests the file tells of itself.
- Removed events, rejected events, offsets of inputs, subscriptions.
- Settings of channels, which ``Replay.channels`` has as commands, as they are now: a lateness that changed on the way
  is not told.
"""

from __future__ import annotations

import heapq
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import BinaryIO

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.base.durations import format_duration
from xscl.base.types import format_time
from xscl.catalog.channels import read_channels, read_streams
from xscl.catalog.home_channels import HOME_CHANNELS
from xscl.catalog.intake_order import read_heartbeats
from xscl.catalog.memberships import stored_memberships
from xscl.catalog.queries import query_info
from xscl.catalog.records import RAW
from xscl.catalog.removals import read_removals
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import CHANNELS, FLUSHES, LATE, NEVER, QUERIES, STREAMS
from xscl.language.declared import prefixes
from xscl.language.facts import is_sub_query
from xscl.language.syntax import ast
from xscl.language.syntax.format import format_statement
from xscl.store.event_lines import EventLines, Line
from xscl.store.home import Home
from xscl.store.inventory import named_files

__all__ = ["EventLines", "Replay", "export_events"]


@dataclass(frozen=True, slots=True)
class Replay:
    """Summary of a file that was written."""

    events: int
    """Lines of events: one for each stream that an event came by."""
    queries: int
    channels: tuple[str, ...]
    """Commands that make the channels, to be run before."""
    notes: tuple[str, ...]
    """Facts of this home that the file leaves out."""


def export_events(home: Home, stream: BinaryIO) -> Replay:
    """Write what the home has taken in to a stream, as lines of an event file (NDJSON)."""
    with home.catalog.read() as connection:
        streams = read_streams(connection)
        others = {name: each for name, each in read_channels(connection).items() if name not in HOME_CHANNELS}
        writing = EventLines(home, others, streams, stored_memberships(connection))
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


def _controls(connection: Connection) -> Iterator[tuple[int, Line]]:
    """Yield registrations, drops, flushes, heartbeats and removals with their places."""
    for row in connection.execute(sa.select(QUERIES).order_by(QUERIES.c.docid_from)).mappings():
        info = query_info(row)
        if is_sub_query(info.name):
            continue  # registered anew with whoever reads it
        declared = "".join(
            f"{format_statement(ast.DeclareNamespace(prefix, uri))}\n"
            for prefix, uri in prefixes(info.namespaces).items()
        )
        # The text as it was written: ids of matches speak of it.
        line = {"name": info.name, "text": f"{declared}{info.said}"}
        yield info.docid_from, {"register": line | ({"owner": info.owner} if info.owner else {})}
        if info.docid_until != NEVER:
            # The place of a suspension is that of the next event, which the query does not see.
            yield info.docid_until - (info.suspended is not None), {"drop": info.name}
    for place in connection.scalars(sa.select(FLUSHES.c.place)):
        yield place, {"flush": True}
    for place, channel, time in read_heartbeats(connection):
        if channel in HOME_CHANNELS:
            continue
        yield place, {"heartbeat": {"channel": channel, "ts": format_time(time)}}
    for removed in read_removals(connection):
        if removed.docid >= PUBLISHED or removed.channel in HOME_CHANNELS:
            continue  # whoever takes the events in publishes and removes its documents anew
        yield removed.place, {"retract": {"channel": removed.channel, "id": removed.id}}


def _channel_commands(connection: Connection) -> Iterator[str]:
    for row in connection.execute(
        sa.select(CHANNELS).where(CHANNELS.c.name.not_in(HOME_CHANNELS)).order_by(CHANNELS.c.name)
    ):
        if is_sub_query(row.name):
            continue
        options: list[str] = []
        if row.kind == "rows":
            columns = read_stored(CHANNELS.c.schema, row.schema) if row.schema else {}
            options += ["--kind", "rows"]
            if columns and all(columns.values()):
                options += ["--schema", ", ".join(f"{name} {kind}" for name, kind in columns.items())]
            if row.element not in (None, row.name):
                options += ["--element", row.element]
        for name in ("lateness", "retention", "idle", "wall"):
            if getattr(row, name) is not None:
                options += [f"--{name}", format_duration(getattr(row, name))]
        if row.auto:
            options += ["--lateness", "auto"]
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
    for name in connection.scalars(sa.select(CHANNELS.c.name).where(CHANNELS.c.auto).order_by(CHANNELS.c.name)):
        yield f"items of {name} were judged by their feeds; in it heartbeats alone say which are late"
    suspended = connection.scalar(sa.select(sa.func.count()).where(QUERIES.c.suspended.is_not(None)))
    if suspended:
        yield (
            f"quotas suspended queries ({suspended:,}); in it these are dropped there and, where they were resumed, "
            "registered again, with answers from before if their STARTING asks for them"
        )
    replayed = connection.scalar(sa.select(sa.func.count()).where(LATE.c.replayed.is_not(None)))
    if replayed:
        yield f"{replayed:,} late events were taken as if in time afterwards; in it they are late"
