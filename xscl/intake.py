"""Taking in: events, registrations and drops get their place in the home's intake order (language.md, section 2).

Events are checked here, once: a document that is not well-formed, a row that does not fit, an id that is taken for
other content are rejected with a named condition and counted, and nothing else is lost.  What is taken is written to
one Parquet file for each chunk, which the catalogue names in the same transaction as the ids.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog import ChannelInfo, StreamInfo, channel_facts
from xscl.errors import CatalogError, DocumentError, DocumentLimitError, XsclError
from xscl.feed_memory import FeedState, feed_state, note_document, write_feeds
from xscl.home import Home
from xscl.ingest.expand import entry_events
from xscl.ingest.identity import Identified, identify, remember
from xscl.ingest.records import Drop, FeedDocument, Flush, Position, Record, Register, Rejected, RowTable
from xscl.ingest.rows import cells_digest, cells_document, fit_row, infer_schema, row_cells, row_digest
from xscl.positions import put_positions
from xscl.publishing import is_published
from xscl.registry import Registry
from xscl.row_ranges import rows_by_id
from xscl.safexml import DEFAULT_LIMITS, Limits, in_fresh_dictionary, parse_stored, parse_xml, serialize
from xscl.streams import Memberships, resolve_stream
from xscl.tables import CLOCKS, EVENT_IDS, FLUSHES, INTAKE_FILES, LATE
from xscl.templates.members import Membership
from xscl.types import MAX_NAME, Event, format_time, is_name, to_micros
from xscl.values import digest_text

__all__ = [
    "EVENT_SCHEMA",
    "CheckedEvent",
    "Intake",
    "IntakeReport",
    "check_event",
    "event_content",
    "event_document",
    "require_kind",
    "resolved",
    "stored_document",
]

EVENT_SCHEMA = pa.schema(
    [
        ("docid", pa.int64()),
        ("channel", pa.string()),
        ("id", pa.string()),
        ("version", pa.int32()),
        ("item", pa.int64()),
        ("ts", pa.int64()),
        ("received", pa.int64()),
        ("late", pa.bool_()),
        ("declared", pa.int64()),  # the time the source gave, before any clamp; NULL: none, or not kept
        ("time_source", pa.string()),  # published, updated, feed, given or received; NULL: not kept
        ("content", pa.string()),  # the document; NULL where there are cells
        ("cells", pa.list_(pa.string())),  # of a row: the columns' texts in the order of the channel's schema
        ("membership", pa.int32()),  # the streams it came by (``streams``); NULL: none
    ]
)
"""Files of earlier versions lack ``cells``, and the rows in them are documents, or ``membership``.  Older ones lack
``declared``, too.
"""

_CHUNK_EVENTS = 10_000
_CHUNK_CHARACTERS = 32 * 1024 * 1024
_COUNTS = ("taken", "versions", "duplicates", "shared", "late", "rejected", "tolerant", "registered", "dropped")
_LONG_ROW = 40_000
"""Characters; documents of longer rows are parsed when they are taken in, because parsers bound names and texts."""
_ROW_GROUP = 2_000  # small enough that a batch is read by all cores


@dataclass(slots=True)
class IntakeReport:
    """What became of an intake."""

    taken: int = 0
    versions: int = 0
    """Of those taken, newer versions of known items."""
    duplicates: int = 0
    shared: int = 0
    """Events known by another stream of their source, of whose stream they are a member since."""
    late: int = 0
    rejected: int = 0
    tolerant: int = 0
    """Feeds that are not well-formed and were read all the same."""
    registered: int = 0
    dropped: int = 0
    problems: list[Rejected] = field(default_factory=list)
    """The first hundred rejections."""
    flaws: list[str] = field(default_factory=list)
    """What is wrong with the first hundred feeds that were read tolerantly: source, place and reason."""

    def add(self, other: IntakeReport) -> None:
        """Count what another intake did, too."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.problems += other.problems[: 100 - len(self.problems)]
        self.flaws += other.flaws[: 100 - len(self.flaws)]

    def note(self, problem: Rejected) -> None:
        """Count a rejection."""
        self.rejected += 1
        if len(self.problems) < 100:
            self.problems.append(problem)

    def note_flaw(self, flaw: str) -> None:
        """Count a feed that was read tolerantly."""
        self.tolerant += 1
        if len(self.flaws) < 100:
            self.flaws.append(flaw)


@dataclass(frozen=True, slots=True)
class CheckedEvent:
    """An event whose content is sound."""

    event: Event
    id: str
    ts: int | None
    content: str | None
    """The document; None for a row, which becomes one when its channel's columns are known."""
    digest: str
    """Of the content, by which an id seen again is told from an id reused."""
    stream: StreamInfo | None = None
    """What it named, if that was a stream of its channel (``resolved``)."""

    @property
    def by(self) -> int:
        """The number of its stream, 0 without one."""
        return 0 if self.stream is None else self.stream.number


@dataclass(frozen=True, slots=True)
class _Known:
    """An id that was taken in before, and by which way."""

    id: str
    feed: str
    stream: int
    version: int
    docid: int
    item: int
    digest: str
    ts: int | None
    received: int | None
    """When it was first seen; None: not kept."""
    whole: bool
    """Not a copy of an event that another stream brought."""

    @property
    def scope(self) -> tuple[str, int]:
        """Within one scope an id is of one item: a feed, else a stream, else the channel."""
        return self.feed, 0 if self.feed else self.stream

    @property
    def event(self) -> tuple[int, str, int | None]:
        """What copies have in common."""
        return self.item, self.digest, self.ts


@dataclass(frozen=True, slots=True)
class _Identity:
    """Which event an event is."""

    id: str
    """Unique in its channel, in ``event_ids``."""
    feed: str
    version: int
    item: int | None
    """docid of the item's first version; None: its own."""
    copied: _Known | None = None
    """The event that it is a copy of, by another stream."""


@dataclass(slots=True)
class _Chunk:
    """The state of one transaction."""

    connection: Connection
    channels: dict[str, ChannelInfo]
    clocks: dict[str, int]
    known: dict[tuple[str, str], list[_Known]]
    """Versions of what an event may be a version or repetition of, by channel and id without feed and version."""
    taken: set[tuple[str, str]]
    """Ids of channels that are known to be taken."""
    streams: dict[str, StreamInfo]
    moves: int = 0
    """How often a clock has moved."""
    placed: dict[tuple[str, str], list[tuple[int, dict[str, Any]]]] = field(default_factory=dict)
    """By channel and id the rows of events whose streams are of a source, each with the moves until then."""
    rows: list[dict[str, object]] = field(default_factory=list)
    ids: list[dict[str, object]] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    late: list[dict[str, object]] = field(default_factory=list)
    asked: set[tuple[str, str]] = field(default_factory=set)
    """Channels and ids of which ``known`` and ``taken`` tell."""
    feeds: dict[str, FeedState] = field(default_factory=dict)
    """By identity as read."""
    memberships: Memberships = field(init=False)

    def __post_init__(self) -> None:
        self.memberships = Memberships(self.connection)


def _wall_clock() -> int:
    return time.time_ns() // 1000


class Intake:
    """Takes records into a home.  ``now`` gives microseconds since the epoch; ``limits`` say what a document may be."""

    def __init__(
        self,
        home: Home,
        *,
        strict: bool = False,
        now: Callable[[], int] = _wall_clock,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.home = home
        self.catalog = home.catalog
        self.registry = Registry(home.catalog)
        self.strict = strict
        self.now = now
        self.limits = limits

    def take(self, records: Iterable[Record]) -> IntakeReport:
        """Take records in their order; everything that can be taken is."""
        report = IntakeReport()
        for chunk in _chunks(records):
            first = chunk[0]
            if isinstance(first, (Register, Drop, Flush)):
                self._act(first, report)
            elif isinstance(first, RowTable):
                from xscl.row_intake import take_rows  # which imports this module

                take_rows(self, first, report)
            else:
                self._take_chunk(chunk, report)
        return report

    # -- registrations, drops, flushes -------------------------------------------------------------------------

    def _act(self, record: Register | Drop | Flush, report: IntakeReport) -> None:
        try:
            match record:
                case Register(text, name):
                    self.registry.register(text, name=name, strict=self.strict)
                    report.registered += 1
                case Drop(name):
                    self.registry.drop(name)
                    report.dropped += 1
                case Flush():
                    with self.catalog.begin() as connection:
                        place, _ = self.catalog.take_places(connection, 1, self.now())
                        connection.execute(FLUSHES.insert().values(place=place))
        except XsclError as error:
            problem = Rejected(record.source, error.condition, str(error).partition("] ")[2])
            report.note(problem)
            with self.catalog.begin() as connection:
                self.catalog.reject(connection, [_rejection(problem)], self.now())

    # -- events ------------------------------------------------------------------------------------------------

    def _take_chunk(self, records: list[Record], report: IntakeReport) -> None:
        positions = {record.source: record.position for record in records if isinstance(record, Position)}
        records = [record for record in records if not isinstance(record, Position)]
        plain: list[Record] = [record for record in records if not isinstance(record, FeedDocument)]
        checked = iter(in_fresh_dictionary(_check_all, plain, self.limits) if plain else [])
        file: Path | None = None
        try:
            with self.catalog.begin() as connection:
                clocks = {row.name: row.greatest for row in connection.execute(sa.select(CLOCKS))}
                streams = self.catalog.streams(connection)
                chunk = _Chunk(connection, self.catalog.channels(connection), clocks, {}, set(), streams)
                now = self.now()
                for is_feed, run in groupby(records, lambda record: isinstance(record, FeedDocument)):
                    if is_feed:
                        for document in run:
                            assert isinstance(document, FeedDocument)
                            self._take_feed(chunk, document, now, report)
                    else:
                        self._take_events(chunk, list(islice(checked, len(list(run)))), now, report)
                file = self._file(chunk.rows[0]["docid"]) if chunk.rows else None
                self._write(chunk, file, now)
                put_positions(connection, positions, now)
        except BaseException:
            # The catalogue names no file of a transaction that failed.
            if file is not None:
                file.unlink(missing_ok=True)
            raise
        for problem in chunk.rejected:
            report.note(problem)

    def _take_events(
        self, chunk: _Chunk, checked: Sequence[CheckedEvent | Rejected], now: int, report: IntakeReport
    ) -> list[bool]:
        """Take what was checked; whether the channel of each has it now, be it that it had it before."""
        if chunk.streams:
            checked = [resolved(item, chunk.streams) if isinstance(item, CheckedEvent) else item for item in checked]
        sound = [item for item in checked if isinstance(item, CheckedEvent)]
        place, received = self.catalog.take_places(chunk.connection, len(sound), now)
        _learn(chunk, sound)
        self._note_ranges(chunk, sound)
        done: list[bool] = []
        for item in checked:
            if isinstance(item, Rejected):
                chunk.rejected.append(item)
                done.append(False)
                continue
            try:
                self._place(chunk, item, place, received, report)
                done.append(True)
            except XsclError as error:
                chunk.rejected.append(_refused(item.event, error, item.id, item.ts))
                done.append(False)
            place += 1
            received += 1
        return done

    # -- feeds -------------------------------------------------------------------------------------------------

    def _take_feed(self, chunk: _Chunk, document: FeedDocument, now: int, report: IntakeReport) -> None:
        """Take the entries of a feed that its channel does not have yet, and remember them."""
        state = self._feed_state(chunk, document, now)
        rows, refused = len(chunk.rows), len(chunk.rejected)
        found = identify(state.memory, document.entries, document.channel)
        has = [known or repeat for known, repeat in zip(found.known, found.repeats, strict=True)]
        for n in _taken_already(chunk.connection, document, found, state.identity):
            has[n] = True
        wanted = [n for n in range(len(has)) if not has[n]]
        report.duplicates += _events_of(document) - _events_of(document, wanted)
        if wanted:
            made = in_fresh_dictionary(_check_entries, document, wanted, found, state.identity, self.limits)
            done = iter(self._take_events(chunk, [event for events in made for event in events], now, report))
            for n, events in zip(wanted, made, strict=True):
                has[n] = [next(done) for _ in events][0]
        state.memory = remember(found, document.entries, has)
        note_document(state, document)
        versions = {row["id"]: row["version"] for row in chunk.rows[rows:]}  # of the item and of the published entry
        state.items += len(versions)
        state.versions += sum(version != 1 for version in versions.values())
        state.rejected += len(chunk.rejected) - refused
        if document.flaw is not None:
            report.note_flaw(f"{document.source}: {document.flaw}")

    @staticmethod
    def _feed_state(chunk: _Chunk, document: FeedDocument, now: int) -> FeedState:
        key = document.feed.identity if document.poll is None else f"{document.poll.subscription} subscribed"
        if key not in chunk.feeds:
            if document.poll is not None:
                # Its row may take in that of a feed that was read from a file.
                _write_feeds(chunk)
                chunk.feeds.clear()
            state = feed_state(chunk.connection, document, now)
            same = next((other for other in chunk.feeds.values() if other.number == state.number), None)
            chunk.feeds[key] = same or state
        return chunk.feeds[key]

    def _note_ranges(self, chunk: _Chunk, items: list[CheckedEvent]) -> None:
        """Note which of the ids of rows are those of rows in ranges."""
        wanted: dict[str, set[str]] = {}
        for item in items:
            if item.event.row is not None:
                wanted.setdefault(item.event.channel, set()).add(item.id)
        for channel, row in rows_by_id(chunk.connection, self.home, wanted):
            digest = cells_digest(chunk.channels[channel].schema or {}, row.cells)
            chunk.known.setdefault((channel, row.id), []).append(
                _Known(row.id, "", 0, 1, row.docid, row.docid, digest, None, None, whole=True)
            )
            chunk.taken.add((channel, row.id))

    def _place(self, chunk: _Chunk, item: CheckedEvent, docid: int, received: int, report: IntakeReport) -> None:
        event = item.event
        channel = self._channel(chunk, event)
        feed, mine = _own(chunk, channel, item)
        ts = received if item.ts is None else item.ts
        if event.feed is not None:
            ts = min(ts, _first_seen(chunk, item, mine[0].item if mine else None, received))
        identity = _identify(chunk, channel, item, ts, feed, mine)
        if identity is None:
            report.duplicates += 1
            return
        content, cells, channel = event_content(channel, item, self.limits)
        self._put(chunk, channel)
        late = self._is_late(chunk, channel, ts)
        copied = identity.copied
        row: dict[str, Any] = {
            "docid": docid,
            "channel": channel.name,
            "id": identity.id if copied is None else copied.id,
            "version": identity.version if copied is None else copied.version,
            "item": docid if identity.item is None else identity.item,
            "ts": ts,
            "received": received,
            "late": late,
            "declared": item.ts,
            "time_source": event.time_source or ("received" if item.ts is None else "given"),
            "content": content,
            "cells": cells,
            "membership": chunk.memberships.number(Membership(frozenset({item.by} - {0}), copied is None)),
        }
        united = None if copied is None else _united(chunk, row, copied)
        known = _Known(
            identity.id,
            identity.feed,
            item.by,
            identity.version,
            docid if united is None else united,
            docid if identity.item is None else identity.item,
            item.digest,
            ts,
            received,
            copied is None,
        )
        if united is None:
            chunk.rows.append(row)
            if item.stream is not None and item.stream.source is not None:
                chunk.placed.setdefault((channel.name, row["id"]), []).append((chunk.moves, row))
        chunk.ids.append(
            {
                "channel": channel.name,
                "id": known.id,
                "base": item.id,
                "feed": known.feed,
                "version": known.version,
                "docid": known.docid,
                "item": known.item,
                "digest": item.digest,
                "ts": ts,
                "received": received,
                "membership": row["membership"],
            }
        )
        chunk.taken.add((channel.name, known.id))
        chunk.known.setdefault((channel.name, item.id), []).append(known)
        if copied is None:
            report.taken += 1
            report.versions += identity.version > 1
        else:
            report.shared += 1
        if late:
            report.late += 1
            chunk.late.append(
                {
                    "channel": channel.name,
                    "id": row["id"],
                    "ts": ts,
                    "received": received,
                    "condition": "XSCL_LATE",
                    "message": f"more than the channel's lateness behind {format_time(chunk.clocks[channel.clock])}",
                }
            )

    def _channel(self, chunk: _Chunk, event: Event) -> ChannelInfo:
        kind = "xml" if event.row is None else "rows"
        channel = chunk.channels.get(event.channel)
        if channel is None:
            if self.strict:
                raise CatalogError(
                    "XSCL_UNKNOWN_CHANNEL",
                    f"there is no channel {event.channel!r}",
                    hint=f"create it with 'xscl channel add {event.channel}', or leave out --strict",
                )
            if kind == "rows" and is_published(chunk.connection, event.channel):
                raise DocumentError(
                    "XSCL_CHANNEL_KIND",
                    f"queries publish documents to the channel {event.channel}, so it takes no rows",
                )
            channel = ChannelInfo(event.channel, kind, False, event.channel, None, None, event.channel)
        require_kind(channel, event)
        return replace(channel, feed=channel.feed or event.feed is not None)

    def _put(self, chunk: _Chunk, channel: ChannelInfo) -> None:
        """Note a channel that an event has made or changed; its queries learn of new columns."""
        before = chunk.channels.get(channel.name)
        if channel == before:
            return
        chunk.channels[channel.name] = channel
        self.catalog.put_channel(chunk.connection, channel)
        if channel.schema != (None if before is None else before.schema):
            known = None if before is None else channel_facts(before)
            self.registry.refresh(chunk.connection, channel.name, known)

    @staticmethod
    def _is_late(chunk: _Chunk, channel: ChannelInfo, ts: int) -> bool:
        greatest = chunk.clocks.get(channel.clock)
        if greatest is None or ts > greatest:
            chunk.clocks[channel.clock] = ts
            chunk.moves += 1
        return greatest is not None and channel.lateness is not None and ts < greatest - channel.lateness

    def _file(self, first: object) -> Path:
        return self.home.folder("events") / f"{first:012d}-{uuid.uuid4().hex[:8]}.parquet"

    def _write(self, chunk: _Chunk, file: Path | None, received: int) -> None:
        connection = chunk.connection
        if file is not None:
            pq.write_table(
                pa.Table.from_pylist(chunk.rows, schema=EVENT_SCHEMA),
                file,
                row_group_size=_ROW_GROUP,
                compression="zstd",
            )
            connection.execute(EVENT_IDS.insert(), chunk.ids)
            connection.execute(
                INTAKE_FILES.insert().values(
                    path=f"events/{file.name}",
                    first=chunk.rows[0]["docid"],
                    last=chunk.rows[-1]["docid"],
                    rows=len(chunk.rows),
                )
            )
            for clock, greatest in chunk.clocks.items():
                changed = connection.execute(CLOCKS.update().where(CLOCKS.c.name == clock).values(greatest=greatest))
                if changed.rowcount == 0:
                    connection.execute(CLOCKS.insert().values(name=clock, greatest=greatest))
        if chunk.late:
            connection.execute(LATE.insert(), chunk.late)
        _write_feeds(chunk)
        self.catalog.reject(connection, map(_rejection, chunk.rejected), received)


def _chunks(records: Iterable[Record]) -> Iterator[list[Record]]:
    """Events in runs of a bounded size; everything else alone, in its place."""
    run: list[Record] = []
    count = size = 0
    for record in records:
        if not isinstance(record, (Register, Drop, Flush, RowTable)):
            run.append(record)
            events, characters = _weight(record)
            count += events
            size += characters
            if count >= _CHUNK_EVENTS or size >= _CHUNK_CHARACTERS:
                yield run
                run, count, size = [], 0, 0
            continue
        if run:
            yield run
            run, count, size = [], 0, 0
        yield [record]
    if run:
        yield run


def _events_of(document: FeedDocument, numbers: Sequence[int] | None = None) -> int:
    """How many events the entries of a feed make, or those with these numbers."""
    entries = document.entries if numbers is None else [document.entries[n] for n in numbers]
    return sum(1 if entry.raw is None else 2 for entry in entries)


def _weight(record: Record) -> tuple[int, int]:
    """How many events a record makes at most, and with how many characters."""
    if isinstance(record, FeedDocument):
        return _events_of(record), sum(len(entry.raw or "") for entry in record.entries)
    return 1, len(record.xml or "") if isinstance(record, Event) else 0


def _check_all(records: list[Record], limits: Limits) -> list[CheckedEvent | Rejected]:
    return [check_event(record, limits) if isinstance(record, Event) else _as_rejected(record) for record in records]


def _check_entries(
    document: FeedDocument, wanted: Sequence[int], found: Identified, feed: str, limits: Limits
) -> list[list[CheckedEvent | Rejected]]:
    """The events of some entries of a feed, by their numbers."""
    return [
        [
            check_event(event, limits)
            for event in entry_events(
                document, document.entries[n], found.ids[n], feed=feed, policy=found.memory.policy
            )
        ]
        for n in wanted
    ]


def _as_rejected(record: object) -> Rejected:
    """What is no event at all is refused like a bad one."""
    if isinstance(record, Rejected):
        return record
    return Rejected("", "XSCL_BAD_EVENT", f"a {type(record).__name__} is no event")


def check_event(event: Event, limits: Limits = DEFAULT_LIMITS) -> CheckedEvent | Rejected:
    """Everything that can be said of an event by itself."""
    ts: int | None = None
    try:
        if not isinstance(event.channel, str) or not is_name(event.channel):
            raise DocumentError(
                "XSCL_BAD_CHANNEL_NAME",
                f"{event.channel!r} is no name for a channel; letters, digits, '_', '-' and '.' make one, "
                f"of at most {MAX_NAME} characters",
            )
        event = replace(event, id=_checked_id(event.id))
        if (event.xml is None) == (event.row is None):
            raise DocumentError("XSCL_BAD_EVENT", "an event has either 'xml' or 'row'")
        if event.ts is not None:
            try:
                ts = to_micros(event.ts)
            except ValueError as error:
                raise DocumentError("XSCL_BAD_EVENT_TIME", str(error)) from None
        content = None if event.xml is None else stored_document(event.xml, limits)
    except XsclError as error:
        return _refused(event, error, event.id, ts)
    digest = event.digest or _content_digest(event, content)
    return CheckedEvent(event, event.id or _own_id(event, ts, digest), ts, content, digest)


def resolved(item: CheckedEvent, streams: Mapping[str, StreamInfo]) -> CheckedEvent:
    """An event of its channel, where it named a stream; ``streams`` are all by name (``Catalog.streams``)."""
    channel, stream = resolve_stream(streams, item.event.channel)
    return item if stream is None else replace(item, event=replace(item.event, channel=channel), stream=stream)


def require_kind(channel: ChannelInfo, event: Event) -> None:
    """Refuse a row for a channel of documents, and the reverse.

    Raises:
        DocumentError: ``XSCL_CHANNEL_KIND``.
    """
    if channel.kind != ("xml" if event.row is None else "rows"):
        raise DocumentError(
            "XSCL_CHANNEL_KIND",
            f"the channel {channel.name} takes {'documents' if channel.kind == 'xml' else 'rows'}",
        )


def event_content(
    channel: ChannelInfo, item: CheckedEvent, limits: Limits = DEFAULT_LIMITS
) -> tuple[str | None, list[str | None] | None, ChannelInfo]:
    """The event's document, or the cells of its row; and the channel with what the event says of its columns.

    Raises:
        DocumentError: the row does not fit its channel, XML cannot hold it, or its document would be over a limit.
    """
    if item.content is not None:
        return item.content, None, channel
    assert item.event.row is not None
    schema = dict(channel.schema) if channel.schema is not None else infer_schema(item.event.row)
    row, fitted = fit_row(item.event.row, schema)
    cells = row_cells(row, element=channel.element)
    _check_cells(dict(zip(row, cells, strict=True)), limits)
    if sum(map(len, row)) + sum(len(cell) for cell in cells if cell is not None) > _LONG_ROW:
        parse_stored(cells_document(cells, list(row), element=channel.element))
    return None, cells, replace(channel, schema=fitted)


def _check_cells(cells: Mapping[str, str | None], limits: Limits) -> None:
    """A row has the limits of its document, but speaks of columns."""
    if len(cells) > limits.max_names:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT", f"{len(cells):,} columns; the limit max_names is {limits.max_names:,}"
        )
    for name, cell in cells.items():
        if cell is not None and len(cell) > limits.max_text:
            raise DocumentLimitError(
                "XSCL_DOCUMENT_LIMIT",
                f"column {name}: {len(cell):,} characters; the limit max_text is {limits.max_text:,}",
            )
    size = sum(len(cell.encode()) for cell in cells.values() if cell is not None)
    if size > limits.max_bytes:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT", f"the row has {size:,} bytes; the limit max_bytes is {limits.max_bytes:,}"
        )


def event_document(content: str | None, cells: list[str | None] | None, channel: ChannelInfo) -> str:
    """The document of an event of ``channel`` that is kept as ``content`` or, a row, as ``cells``."""
    if content is not None:
        return content
    assert cells is not None and channel.schema is not None
    return cells_document(cells, list(channel.schema), element=channel.element)


def stored_document(xml: str | bytes, limits: Limits = DEFAULT_LIMITS) -> str:
    """The document as it is kept: without declaration and DTD, with its own entities expanded.

    Raises:
        DocumentError: it is not well-formed, or over a limit.
    """
    content = serialize(parse_xml(xml, limits=limits))
    size = len(content.encode("utf-8", "surrogatepass"))
    if size > limits.max_bytes:
        raise DocumentLimitError(
            "XSCL_DOCUMENT_LIMIT",
            f"the document has {size:,} bytes when written out; the limit max_bytes is {limits.max_bytes:,}",
        )
    return content


def _content_digest(event: Event, content: str | None) -> str:
    if content is not None:
        return digest_text("xml", content)
    assert event.row is not None
    return row_digest(event.row)


def _own_id(event: Event, ts: int | None, digest: str) -> str:
    """The id of an event that brought none: XML by its content and time if given, rows by their source and line."""
    if event.row is not None:
        # Standard input has lines, but no name that would tell one input from the next.
        named = event.source is not None and not event.source.startswith("-:")
        return event.source if named and event.source else f"row-{uuid.uuid4().hex}"
    return digest if ts is None or event.feed is not None else digest_text(digest, str(ts))


def _taken_already(connection: Connection, document: FeedDocument, found: Identified, feed: str) -> Iterator[int]:
    """Entries that memory does not know and that were taken in as they are, by their numbers.

    Old polls that are read again say what new ones no longer do, also before a guid or link was found to be no good.
    """
    names: dict[str, list[int]] = {}
    for n, entry in enumerate(document.entries):
        # Version 0.1 took the digest of an entry without a guid for its id.
        for name in {entry.guid, entry.link, entry.digest, found.ids[n]}:
            if name is not None and not found.known[n]:
                names.setdefault(name, []).append(n)
    mine = (EVENT_IDS.c.channel == document.channel) & (EVENT_IDS.c.feed == feed)
    ordered = sorted(names)
    for start in range(0, len(ordered), 400):
        part = EVENT_IDS.c.base.in_(ordered[start : start + 400])
        for row in connection.execute(sa.select(EVENT_IDS.c.base, EVENT_IDS.c.digest).where(mine, part)):
            for n in names[row.base]:
                if row.digest in (document.entries[n].digest, document.entries[n].body):
                    yield n


def _write_feeds(chunk: _Chunk) -> None:
    write_feeds(chunk.connection, {state.number: state for state in chunk.feeds.values()}.values())


def _learn(chunk: _Chunk, items: Sequence[CheckedEvent]) -> None:
    """Read what is known of the ids of these events, once in a transaction."""
    new = [item for item in items if (item.event.channel, item.id) not in chunk.asked]
    if new:
        versions, taken = _known_ids(chunk.connection, new, chunk.memberships)
        asked = {(item.event.channel, item.id) for item in new}
        chunk.asked |= asked
        # Of other ids not all versions were read.
        chunk.known |= {key: known for key, known in versions.items() if key in asked}
        chunk.taken |= taken


def _first_seen(chunk: _Chunk, item: CheckedEvent, of_item: int | None, received: int) -> int:
    """What a feed item's date may be at most: a date in the future is the time that what it dates was first seen.

    ``published`` dates the item, every other date the version.
    """
    if item.event.time_source != "published" or of_item is None:
        return received
    versions = chunk.known.get((item.event.channel, item.id), [])
    first = min(
        (row.received for row in versions if row.item == of_item and row.received is not None), default=received
    )
    return min(first, received)


def _known_ids(
    connection: Connection, items: list[CheckedEvent], memberships: Memberships
) -> tuple[dict[tuple[str, str], list[_Known]], set[tuple[str, str]]]:
    """What is known of the ids of these events: versions by id without feed and version, and ids that are taken."""
    wanted: dict[str, set[str]] = {}
    for item in items:
        wanted.setdefault(item.event.channel, set()).add(item.id)
    versions: dict[tuple[str, str], list[_Known]] = {}
    taken: set[tuple[str, str]] = set()
    for channel, bases in wanted.items():
        ordered = sorted(bases)
        for start in range(0, len(ordered), 400):
            part = ordered[start : start + 400]
            mine = EVENT_IDS.c.channel == channel
            either = EVENT_IDS.c.base.in_(part) | EVENT_IDS.c.id.in_(part)
            statement = sa.select(EVENT_IDS).where(mine, either).order_by(EVENT_IDS.c.docid)
            for row in connection.execute(statement):
                taken.add((channel, row.id))
                streams, whole = memberships[row.membership]
                known = _Known(
                    row.id,
                    row.feed,
                    next(iter(streams), 0),
                    row.version,
                    row.docid,
                    row.item,
                    row.digest,
                    row.ts,
                    row.received,
                    whole,
                )
                versions.setdefault((channel, row.base), []).append(known)
    for known_ids in versions.values():
        known_ids.sort(key=lambda known: (known.docid, not known.whole))
    return versions, taken


def _own(chunk: _Chunk, channel: ChannelInfo, item: CheckedEvent) -> tuple[str, list[_Known]]:
    """The feed of an event, and what is known of its id by the same way."""
    feed = item.event.feed or ""
    known = chunk.known.get((item.event.channel, item.id), [])
    if item.event.feed is None and channel.feed and known:
        # An event that was not read from a feed, but has the id of an item: a version of that item.
        feed = next((row.feed for row in known if row.stream == item.by or not item.by), "")
    scope = feed, 0 if feed else item.by
    return feed, [row for row in known if row.scope == scope]


def _identify(
    chunk: _Chunk, channel: ChannelInfo, item: CheckedEvent, ts: int, feed: str, mine: Sequence[_Known]
) -> _Identity | None:
    """Which event an event is; None for what is known already.

    Items of different feeds, and events of different streams, are different, even where they share a guid: the first
    keeps the guid as its id, the others get their feed or stream behind it.  Equal events of streams of one source are
    one event.

    Raises:
        DocumentError: the id is taken by other content.
    """
    event = item.event
    known = chunk.known.get((event.channel, item.id), [])
    if not known:
        return _Identity(_free_id(chunk, item, item.id), feed, 1, None)
    copied = _copied(chunk, known, mine, item, ts)
    if copied is None:
        if any(row.digest == item.digest for row in mine):
            return None
        if mine and not channel.feed:
            raise DocumentError(
                "XSCL_EVENT_ID_REUSED",
                f"the id {item.id!r} is taken by other content in channel {event.channel}",
                hint="only items of feeds have versions",
            )
    base = item.id
    if known[0].scope != (feed, 0 if feed else item.by):
        base = f"{item.id} ({feed or (event.channel if item.stream is None else item.stream.name)})"
    if not mine:
        return _Identity(_free_id(chunk, item, base), feed, 1, None if copied is None else copied.item, copied)
    if copied is not None and copied in mine:
        # One feed in two streams: its items are counted once.
        return _Identity(_free_id(chunk, item, f"{copied.id}~"), feed, copied.version, copied.item, copied)
    version = max(row.version for row in mine) + 1
    return _Identity(_free_id(chunk, item, f"{base}#{version}"), feed, version, mine[0].item, copied)


def _copied(
    chunk: _Chunk, known: Sequence[_Known], mine: Sequence[_Known], item: CheckedEvent, ts: int
) -> _Known | None:
    """The event of another stream of the same source that an event equals, and that its stream has not had yet."""
    if item.stream is None or item.stream.source is None:
        return None
    sharing = {stream.number for stream in chunk.streams.values() if stream.source == item.stream.source}
    had = {row.event for row in known if row.stream == item.by}
    for row in known:
        equal = row.whole and (row.digest, row.ts) == (item.digest, ts) and row.stream in sharing
        # Versions of one item never join with each other, so an item stays one item.
        if equal and row.event not in had and all(row.item == own.item for own in mine):
            return row
    return None


def _united(chunk: _Chunk, row: Mapping[str, Any], copied: _Known) -> int | None:
    """The docid of the row of this chunk that holds a copy as well, from now on; None if it needs a row of its own.

    One row has one place in the intake order, at which it is judged late, and so is what is published for it.  Items
    that are equal in two feeds have documents of their own, which name the feeds.
    """
    timeless = all(channel.lateness is None for channel in chunk.channels.values())
    for moves, placed in chunk.placed.get((row["channel"], copied.id), ()):
        alike = all(placed[name] == row[name] for name in ("late", "content", "cells"))
        if alike and (timeless or moves == chunk.moves):
            had, own = (chunk.memberships[each["membership"]] for each in (placed, row))
            placed["membership"] = chunk.memberships.number(had._replace(streams=had.streams | own.streams))
            return int(placed["docid"])
    return None


def _free_id(chunk: _Chunk, item: CheckedEvent, id_: str) -> str:
    """The id, or, where a publisher's own id looks like one of ours (``guid#2``), the id with a mark behind it."""
    channel = item.event.channel
    while (channel, id_) in chunk.taken or (id_ != item.id and _is_taken(chunk.connection, channel, id_)):
        id_ += "~"
    return id_


def _is_taken(connection: Connection, channel: str, id_: str) -> bool:
    """Of the event's own id ``_known_ids`` has told already."""
    statement = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel, EVENT_IDS.c.id == id_)
    return connection.execute(statement).first() is not None


def _checked_id(value: object) -> str | None:
    """An event's id; a whole number is taken as its digits, as in event files."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and value and "\0" not in value and _is_unicode(value)):
        return value
    raise DocumentError("XSCL_BAD_EVENT_ID", "an event's id is a text of at least one character without NUL")


def _is_unicode(text: str) -> bool:
    """Whether a text can be stored: half a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _shown(text: str) -> str:
    # PostgreSQL stores no NUL.
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", "\\x00")


def _refused(event: Event, error: XsclError, id_: str | None, ts: int | None) -> Rejected:
    channel = event.channel if isinstance(event.channel, str) else None
    return Rejected(event.source or "", error.condition, error.message, channel, id_, ts)


def _rejection(problem: Rejected) -> dict[str, object]:
    texts = {name: getattr(problem, name) for name in ("channel", "id", "condition", "message", "source")}
    shown = {name: None if text is None else _shown(text) for name, text in texts.items()}
    return {**shown, "ts": problem.ts}
