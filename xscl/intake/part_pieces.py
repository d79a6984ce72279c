"""A part of the input as a task reads it: its records are checked as by the driver, and kept beside the home's files.

The driver gets *pieces*, in the order of the records: runs of rows, runs of events, and what else an event file holds.
A piece names the file of what was checked; the driver decides by ids, times and digests.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from xscl.base.collecting import collecting_later
from xscl.base.document_limits import Limits
from xscl.base.errors import SourceError, XsclError
from xscl.base.safe_xml import in_fresh_dictionary
from xscl.base.types import Event
from xscl.catalog.records import ChannelInfo
from xscl.ingest.file_parts import FilePart, read_part
from xscl.ingest.reading import Reading
from xscl.ingest.records import Control, FeedDocument, Noted, Record, Rejected, RowTable
from xscl.intake.checks import CheckedEvent, KeptDocument, check_events
from xscl.intake.feed_entries import CheckedFeed, check_feed
from xscl.intake.part_files import keep_rows, keep_texts
from xscl.intake.record_runs import record_runs
from xscl.intake.row_batch import RowBatch, read_batch, settle
from xscl.intake.row_digests import row_digests
from xscl.intake.rows import row_chunks
from xscl.store.event_content import document_digest

__all__ = ["EventPiece", "PartTerms", "PartWork", "Piece", "RowPiece", "checked_part", "checked_records", "rows_piece"]


@dataclass(frozen=True, slots=True)
class PartWork:
    """A part, and how a task checks it."""

    part: FilePart
    reading: Reading
    terms: PartTerms
    skip: int = 0
    """Pieces that are done."""


@dataclass(frozen=True, slots=True)
class PartTerms:
    """The home as the driver saw it before the tasks began."""

    folder: str
    """Folder of the files that are kept."""
    channels: Mapping[str, ChannelInfo]
    streams: frozenset[str]
    limits: Limits


@dataclass(frozen=True, slots=True)
class RowPiece:
    """Rows of one table that were checked."""

    table: RowTable
    """The table without its rows; its numbers are the first and the last."""
    count: int
    """Rows of the table."""
    refusals: tuple[Rejected, ...]
    error: XsclError | None = None
    """Reason why none of the rows can be taken."""
    assumed: ChannelInfo | None = None
    """The channel that they were checked for."""
    fixed: Mapping[str, str | None] | None = None
    """Its columns, with the types that the rows fix."""
    prefix: str = ""
    ids: tuple[int, int] | None = None
    """First and last number of ids that are a prefix and growing numbers."""
    file: str | None = None
    """None: no row is kept."""


@dataclass(frozen=True, slots=True)
class EventPiece:
    """Events that were checked."""

    file: str
    """List of ``CheckedEvent``, ``CheckedFeed`` and ``Rejected``, pickled."""
    texts: str
    """File of their documents."""


Piece = RowPiece | EventPiece | Control | Noted


def checked_part(work: PartWork) -> list[Piece] | None:
    """Read and check a part; None for one that only the driver can take."""
    records = read_part(work.part, work.reading)
    # What is made of a part refers to itself nowhere.
    with collecting_later():
        return checked_records(records, work.terms, work.skip)


def checked_records(records: Iterable[Record], terms: PartTerms, skip: int = 0) -> list[Piece] | None:
    """Check records; None where they are rows of a stream, whose ids are told from those of other streams."""
    pieces: list[Piece] = []
    number = 0

    def without_notes() -> Iterator[Record]:
        nonlocal number
        for record in records:
            if not isinstance(record, Noted):
                yield record
                continue
            number += 1
            if number > skip:
                pieces.append(record)

    for run in record_runs(without_notes()):
        first = run[0]
        if isinstance(first, RowTable):
            if first.channel in terms.streams:
                return None
            for table in row_chunks(first):
                number += 1
                if number > skip:
                    pieces.append(rows_piece(table, terms))
            continue
        number += 1
        if number <= skip:
            continue
        if isinstance(first, Control):
            pieces.append(first)
        else:
            pieces.append(_event_piece(run, terms))
    return pieces


def rows_piece(table: RowTable, terms: PartTerms) -> RowPiece:
    """Check the rows of a table, and keep what can be taken."""
    assert table.numbers is not None
    count = len(table.rows)
    ends = table.numbers[[0, -1]] if count else table.numbers
    stub = replace(table, rows=table.rows.slice(0, 0), numbers=ends, exact={})
    if not count:
        return RowPiece(stub, 0, ())
    channel = terms.channels.get(table.channel) or ChannelInfo.new(table.channel, "rows")
    try:
        batch, refusals = read_batch(table, channel, terms.limits)
    except XsclError as error:
        return RowPiece(stub, count, (), error, channel)
    except pa.ArrowException as error:  # as a dictionary of long texts that many rows name
        unreadable = SourceError("XSCL_SOURCE_UNREADABLE", f"the rows cannot be held: {error}")
        return RowPiece(stub, count, (), unreadable, channel)
    batch, more = settle(table, batch, terms.limits)
    numbers, batch = table.numbers[batch.kept], batch.only_kept()
    found = RowPiece(stub, count, (*refusals, *more), None, channel, batch.channel.schema)
    if not len(numbers):
        return found
    ids = batch.ids.numbers
    return replace(
        found,
        prefix=batch.ids.prefix,
        ids=None if ids is None else (int(ids[0]), int(ids[-1])),
        file=keep_rows(terms.folder, batch, numbers, _digests(batch)),
    )


def _digests(batch: RowBatch) -> list[str] | None:
    """Return digests of rows whose ids are kept one by one."""
    if batch.ids.numbers is not None:
        return None
    assert batch.channel.schema is not None
    return row_digests(batch.channel.schema, batch.cells, len(batch.kept))


def _event_piece(records: Sequence[Record], terms: PartTerms) -> EventPiece:
    texts: list[bytes] = []
    checked = in_fresh_dictionary(_checked, records, terms.limits, texts)
    path = Path(terms.folder) / f"{uuid.uuid4().hex}.events"
    path.write_bytes(pickle.dumps(checked, pickle.HIGHEST_PROTOCOL))
    return EventPiece(str(path), keep_texts(terms.folder, texts))


def _checked(
    records: Sequence[Record], limits: Limits, texts: list[bytes]
) -> list[CheckedEvent | CheckedFeed | Rejected]:
    """Check records; their documents go to ``texts``."""
    events = iter(check_events([record for record in records if isinstance(record, Event)], limits))
    checked: list[CheckedEvent | CheckedFeed | Rejected] = []
    for record in records:
        if isinstance(record, FeedDocument):
            checked.append(check_feed(record, limits, texts))
        elif isinstance(record, Event):
            event = next(events)
            checked.append(event if isinstance(event, Rejected) else _kept(event, texts))
        else:
            assert isinstance(record, Rejected)
            checked.append(record)
    return checked


def _kept(checked: CheckedEvent, texts: list[bytes]) -> CheckedEvent:
    """Put the document of an event to ``texts``."""
    content, event = checked.content, checked.event
    if not isinstance(content, bytes):
        return checked
    texts.append(content)
    # Without a digest that was given, the event's own is that of the document.
    digest = checked.digest if event.digest is None else document_digest(content)
    return checked._replace(event=replace(event, xml=""), content=KeptDocument(len(texts) - 1, digest))
