"""The transaction of a chunk: events get places, channels and clocks move, and all of it is written, or nothing."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from sqlalchemy.engine import Connection

from xscl.base.document_limits import Limits
from xscl.base.errors import CatalogError, DocumentError
from xscl.base.failpoints import step
from xscl.base.types import FIRST_TIME, Event, Scalar, format_time
from xscl.catalog.channels import (
    channel_facts,
    note_heartbeat,
    note_newest,
    put_channel,
    read_channels,
    read_newest,
    read_streams,
)
from xscl.catalog.clocks import Clocks, is_late, judges
from xscl.catalog.events import IdRow, add_event_files, add_event_ids
from xscl.catalog.home_channels import HOME_CHANNELS, HOME_POLLS, HOME_REJECTED
from xscl.catalog.intake_order import add_heartbeat, take_places
from xscl.catalog.late import add_late, note_rejected
from xscl.catalog.memberships import Memberships
from xscl.catalog.records import ChannelInfo, StreamInfo
from xscl.catalog.suggestions import how_created, no_channel
from xscl.catalog.tables import INTAKE_FILES
from xscl.ingest.records import Rejected
from xscl.intake.checks import require_kind
from xscl.intake.feed_times import FeedTimes
from xscl.intake.identity import KnownEvents
from xscl.intake.new_events import EventTuple, event_table
from xscl.intake.report import IntakeReport
from xscl.registry.publish_graph import is_fed, is_published
from xscl.registry.recompile import refresh
from xscl.registry.registry import Registry
from xscl.store.event_files import new_event_file, write_event_file
from xscl.store.home import Home
from xscl.store.home_rows import tell_home
from xscl.store.inventory import may_be_named
from xscl.store.taken_events import keep_written

__all__ = ["Chunk", "Terms", "note_refusals", "open_chunk", "told_file"]


@dataclass(frozen=True, slots=True)
class Terms:
    """Terms of an intake: the home, and the rules for records."""

    home: Home
    registry: Registry
    now: Callable[[], int]
    """Microseconds since the epoch."""
    strict: bool
    """Whether channels have to be there."""
    limits: Limits
    """Limits of a document."""


@dataclass(slots=True)
class Chunk:
    """State of one transaction, and the rows that it is going to write."""

    terms: Terms
    connection: Connection
    now: int
    channels: dict[str, ChannelInfo]
    streams: Mapping[str, StreamInfo]
    clocks: Clocks
    memberships: Memberships
    known: KnownEvents
    feeds: FeedTimes
    moves: int = 0
    """Number of times that clocks moved."""
    moved: set[str] = field(default_factory=set)
    """Channels that have a newer event than before."""
    placed: dict[tuple[str, str], list[tuple[int, int]]] = field(default_factory=dict)
    """Places in ``rows`` of events whose streams are of a source, by channel and id, each after the moves so far."""
    tables: list[pa.Table] = field(default_factory=list)
    """Rows of the file of events."""
    rows: list[EventTuple] = field(default_factory=list)
    """Rows behind these."""
    ids: list[IdRow] = field(default_factory=list)
    """Rows of ``event_ids``."""
    late: list[dict[str, object]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    polls: list[Mapping[str, Scalar]] = field(default_factory=list)
    """Rows about polls whose documents are taken here."""
    files: list[Path] = field(default_factory=list)
    """Files that were written so far."""
    written: list[tuple[Path, pa.Table]] = field(default_factory=list)
    """Files of events among these, with their rows."""
    report: IntakeReport = field(default_factory=IntakeReport)
    _unknown: dict[str, CatalogError] = field(default_factory=dict)
    """The refusal of each channel that has to be there and is not."""

    @property
    def timeless(self) -> bool:
        """Whether no event can be late."""
        return not any(map(judges, self.channels.values()))

    def places(self, count: int) -> tuple[int, int]:
        """Take the next offsets of the intake order; return the first and its time of receipt."""
        return take_places(self.connection, count, self.now)

    def channel_of(self, event: Event) -> ChannelInfo:
        """Return the channel of an event; one that is not there yet is as the event says.

        Raises:
            CatalogError: ``XSCL_UNKNOWN_CHANNEL``: it has to be there.
            DocumentError: ``XSCL_CHANNEL_KIND``.
        """
        channel = self.channels.get(event.channel)
        if channel is None:
            if self.terms.strict:
                how = how_created(event.channel, strict=True)
                if event.channel not in self._unknown:
                    self._unknown[event.channel] = no_channel(self.connection, event.channel, how)
                raise self._unknown[event.channel].with_traceback(None)
            if event.row is not None and is_published(self.connection, event.channel):
                raise DocumentError(
                    "XSCL_CHANNEL_KIND",
                    f"queries publish documents to the channel {event.channel}, so it takes no rows",
                )
            kind = "xml" if event.row is None else "rows"
            channel = ChannelInfo.new(event.channel, kind)
        require_kind(channel, event)
        return channel if channel.feed or event.feed is None else replace(channel, feed=True)

    def put_channel(self, channel: ChannelInfo) -> None:
        """Note a channel that an event has made or changed; its queries learn of new columns."""
        before = self.channels.get(channel.name)
        if channel is before or channel == before:
            return
        self.channels[channel.name] = channel
        put_channel(self.connection, channel)
        if channel.schema != (None if before is None else before.schema):
            known = None if before is None else channel_facts(before)
            refresh(self.terms.registry.memory, self.connection, channel.name, known)

    def see(self, channel: ChannelInfo, ts: int) -> None:
        """Note the time of an event that is taken in."""
        self.moves += self.clocks.see(channel, ts)
        self.moved.add(channel.name)

    def judged(self, channel: ChannelInfo, ts: int, feed: str = "") -> tuple[int | None, int]:
        """Judge an event of a time, which moves the channel's clock and its feed's.

        Returns:
            The clock's time, or the heartbeat's, if the event is late now, else None; how far the clock is beyond it.
        """
        shown = self.clocks.shown(channel)
        of_feed = self.feeds.late_by(channel, feed, ts, self.clocks.greatest) if channel.auto else None
        self.see(channel, ts)
        behind = 0 if shown is None else max(0, shown - ts)
        if of_feed is not None:
            return of_feed, behind
        if not is_late(channel, ts, shown):
            return None, behind
        return channel.heartbeat if shown is None else shown, behind

    def settle_feeds(self, names: Iterable[str]) -> None:
        """Send heartbeats to those of some channels whose feeds have settled their times further."""
        for name in sorted(names):
            channel = self.channels.get(name)
            if channel is None or not channel.auto or is_fed(self.connection, name):
                continue
            settled = self.feeds.settled(channel, self.clocks.greatest)
            if settled is None or settled <= max(FIRST_TIME, (channel.heartbeat or FIRST_TIME) + 1):
                continue
            add_heartbeat(self.connection, self.places(1)[0], name, settled - 1)
            note_heartbeat(self.connection, name, settled - 1)
            self.channels[name] = replace(channel, heartbeat=settled - 1)

    def note_late(self, channel: str, id_: str, docid: int, ts: int, received: int, clock: int) -> None:
        """Note a late event that came when its clock showed ``clock``."""
        self.report.late += 1
        beat = self.channels[channel].heartbeat
        whose = "the lateness of its feed" if self.channels[channel].auto else "the channel's lateness"
        message = f"more than {whose} behind {format_time(clock)}"
        if beat is not None and ts <= beat:
            message = f"not behind the heartbeat of {format_time(beat)}"
        self.late.append(
            {
                "channel": channel,
                "id": id_,
                "docid": docid,
                "ts": ts,
                "received": received,
                "condition": "XSCL_LATE",
                "message": message,
            }
        )

    def add_table(self, table: pa.Table) -> None:
        """Add events behind those that were noted; where there are streams, nothing but rows is added."""
        self._end_rows()
        self.tables.append(table)

    def _end_rows(self) -> None:
        """Make a table of the rows that wait."""
        if self.rows:
            self.tables.append(event_table(self.rows))
            self.rows.clear()

    def write_file(self, table: pa.Table) -> str:
        """Write a file of events, which have the shape of ``EVENT_SCHEMA``, by number; return its path in the home."""
        first, last = table.column("docid")[0].as_py(), table.column("docid")[-1].as_py()
        step("intake.write")
        file = write_event_file(new_event_file(self.terms.home.folder("events"), first), table)
        self.files.append(file)
        self.written.append((file, table))
        step("intake.wrote")
        path = f"events/{file.name}"
        add_event_files(self.connection, [{"path": path, "first": first, "last": last, "rows": len(table)}])
        return path

    def write_ids(self) -> None:
        """Write the ids that were noted, so that whoever asks the catalogue in this transaction finds them."""
        add_event_ids(self.connection, self.ids)
        self.ids.clear()

    def write(self) -> None:
        """Write what was noted."""
        connection = self.connection
        self._end_rows()
        if self.tables:
            self.write_file(pa.concat_tables(self.tables))
        self.write_ids()
        self.feeds.write()
        for name in self.moved:
            note_newest(connection, name, self.clocks.newest[name])
        add_late(connection, self.late)
        home = self.terms.home
        self.files += note_refusals(home, connection, self.rejected, self.now)
        self.files += tell_home(connection, HOME_POLLS, self.polls, self.now, told_file(home))


@contextmanager
def open_chunk(terms: Terms, report: IntakeReport) -> Iterator[Chunk]:
    """Open a transaction that is written at the end, and counted in ``report`` once it is committed."""
    catalog = terms.home.catalog
    chunk: Chunk | None = None
    step("intake.chunk")
    try:
        with catalog.begin() as connection:
            streams, memberships = read_streams(connection), Memberships(connection)
            channels = read_channels(connection)
            chunk = Chunk(
                terms,
                connection,
                terms.now(),
                channels,
                streams,
                Clocks(channels.values(), read_newest(connection)),
                memberships,
                KnownEvents(connection, terms.home, streams, memberships),
                FeedTimes(connection),
            )
            yield chunk
            chunk.write()
            step("intake.commit")
    except BaseException:
        if chunk is not None:
            _discard(terms.home, chunk.files)
        raise
    step("intake.committed")
    for file, table in chunk.written:
        keep_written(file, table)
    for problem in chunk.rejected:
        chunk.report.note(problem)
    report.add(chunk.report)


def _discard(home: Home, files: list[Path]) -> None:
    """Unlink the files of a transaction that failed; one that may have been committed keeps them."""
    if files and not may_be_named(home, INTAKE_FILES.c.path, f"events/{files[0].name}"):
        for file in files:
            file.unlink(missing_ok=True)


def note_refusals(home: Home, connection: Connection, problems: Sequence[Rejected], now: int) -> list[Path]:
    """Note what was refused, and tell of it; return the files that were written."""
    rows = [*map(_rejection, problems)]
    note_rejected(connection, rows, now)
    told = [{name: row.get(name) for name in HOME_CHANNELS[HOME_REJECTED]} for row in rows]
    return tell_home(connection, HOME_REJECTED, told, now, told_file(home))


def told_file(home: Home) -> Path:
    """Make up a name for a file of rows about the home."""
    return home.folder("events") / f"told-{uuid.uuid4().hex[:16]}.parquet"


def _rejection(problem: Rejected) -> dict[str, Any]:
    """Return a row of ``rejected``, without the time."""
    texts = {name: getattr(problem, name) for name in ("channel", "id", "condition", "message", "source")}
    shown = {name: None if text is None else _shown(text) for name, text in texts.items()}
    return {**shown, "ts": problem.ts}


def _shown(text: str) -> str:
    # PostgreSQL stores no NUL.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")
