"""Records as rows of Spark's data sources, and rows of DataFrames of documents as records.

A record that could not be taken is a row, too: its ``error`` says why and its other columns are NULL but for the
source.  Spark's ``mode`` says what happens to the row: ``PERMISSIVE`` keeps it, ``DROPMALFORMED`` drops it,
``FAILFAST`` ends the read.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any

from xscl.base.document_limits import Limits
from xscl.base.errors import SourceError, XsclError
from xscl.base.safe_xml import in_fresh_dictionary, parse_xml, serialize
from xscl.base.types import Event, to_micros
from xscl.ingest.feed import entry_item
from xscl.ingest.identity import EMPTY, identify
from xscl.ingest.item import Item, item_document, item_time
from xscl.ingest.records import FeedDocument, Noted, Record, Rejected

__all__ = [
    "DOCUMENT_COLUMNS",
    "FEED_COLUMNS",
    "MODES",
    "XML_COLUMNS",
    "Row",
    "chosen",
    "document_records",
    "feed_rows",
    "xml_rows",
]

Row = dict[str, Any]

XML_COLUMNS = "channel STRING, id STRING, ts TIMESTAMP, xml STRING, source STRING, error STRING"
"""Columns of ``xscl-xml``: a row a document."""

FEED_COLUMNS = (
    "channel STRING, id STRING, ts TIMESTAMP, xml STRING, raw STRING, feed STRING, digest STRING, time_source STRING,"
    " source STRING, error STRING, channel_url STRING, channel_title STRING, item_url STRING, title STRING,"
    " authors ARRAY<STRING>, published TIMESTAMP, updated TIMESTAMP, description STRING, categories ARRAY<STRING>,"
    " guid STRING, links ARRAY<STRING>, content STRING, language STRING, comments STRING"
)
"""Columns of ``xscl-feed``: a row an entry."""

DOCUMENT_COLUMNS = ("channel", "id", "ts", "xml", "raw", "feed", "digest", "time_source", "source", "error")
"""Columns that are read of a DataFrame of documents, if it has them."""

MODES = ("PERMISSIVE", "DROPMALFORMED", "FAILFAST")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_RUN = 500
"""Documents that are parsed by one thread."""
_ERROR = re.compile(r"\[(XSCL_[A-Z_]+)\] (.*)", re.DOTALL)


def xml_rows(records: Iterable[Record], limits: Limits) -> Iterator[Row]:
    """Yield the rows of records of ``read_paths``, with documents as they are stored: no declaration, no DTD."""
    for run in _runs(record for record in records if not isinstance(record, Noted)):
        yield from in_fresh_dictionary(lambda run: [_xml_row(record, limits) for record in run], run)


def feed_rows(records: Iterable[Record]) -> Iterator[Row]:
    """Yield the rows of the entries of feeds; anything else is an error.

    Which item an entry is, is told from its feed alone; what earlier polls have shown is not known here.
    """
    for record in records:
        if isinstance(record, FeedDocument):
            yield from in_fresh_dictionary(_entry_rows, record)
        elif not isinstance(record, Noted):
            yield _error_row(record, "XSCL_NOT_A_FEED", "this is no feed")


def chosen(rows: Iterable[Row], mode: str) -> Iterator[Row]:
    """Yield the rows that a mode lets through.

    Raises:
        SourceError: with ``FAILFAST``, the first error.
    """
    for row in rows:
        if row.get("error") is None or mode == "PERMISSIVE":
            yield row
        elif mode == "FAILFAST":
            condition, message = _parted(row["error"])
            where = f"{row['source']}: "
            raise SourceError(condition, where + message.removeprefix(where))


def document_records(values: Mapping[str, Any], channel: str | None) -> Iterator[Event | Rejected]:
    """Yield the records of a row of a DataFrame of documents.

    Args:
        values: by columns: ``xml``; if there are, ``channel``, ``id``, ``ts`` (seconds, ISO text or datetime; one
            without a zone is local time, as Spark gives it), ``source``, and as ``FEED_COLUMNS`` has them ``feed``,
            ``digest``, ``time_source``, ``raw`` and ``error``.  A time that the local zone does not have refuses the
            row.
        channel: for a row that names none.
    """
    name = values.get("channel") or channel or ""
    source = values.get("source")
    error = values.get("error")
    if error is not None:
        yield Rejected(source or "", *_parted(error), name or None, values.get("id"))
        return
    ts = values.get("ts")
    if isinstance(ts, datetime) and ts.tzinfo is None:
        try:
            ts = ts.astimezone()
        except (ValueError, OverflowError):
            told = f"{ts.isoformat()} has no time zone, and this computer's zone has no such time"
            yield Rejected(source or "", "XSCL_BAD_EVENT_TIME", told, name or None, values.get("id"))
            return

    def event(channel: str, xml: str) -> Event:
        return Event(
            channel,
            values.get("id"),
            ts,
            xml=xml,
            source=source,
            feed=values.get("feed"),
            digest=values.get("digest"),
            time_source=values.get("time_source"),
        )

    yield event(name, values["xml"])
    if values.get("raw") is not None:
        yield event(f"{name}.raw", values["raw"])


def _runs(records: Iterable[Record]) -> Iterator[tuple[Record, ...]]:
    iterator = iter(records)
    while run := tuple(islice(iterator, _RUN)):
        yield run


def _xml_row(record: Record, limits: Limits) -> Row:
    if not isinstance(record, Event) or record.xml is None:
        return _error_row(record, "XSCL_UNKNOWN_FORMAT", "this is no document")
    try:
        xml = serialize(parse_xml(record.xml, limits=limits))
        ts = None if record.ts is None else _moment(to_micros(record.ts))
    except XsclError as error:
        return {"channel": record.channel, "source": record.source, "error": f"[{error.condition}] {error.message}"}
    return {"channel": record.channel, "id": record.id, "ts": ts, "xml": xml, "source": record.source}


def _entry_rows(document: FeedDocument) -> list[Row]:
    found = identify(EMPTY, document.entries, document.channel)
    rows = []
    for entry, id_, repeat in zip(document.entries, found.ids, found.repeats, strict=True):
        if repeat:
            continue
        item = entry_item(entry, document.feed)
        declared, time_source = item_time(item, document.feed)
        rows.append(
            {
                "channel": document.channel,
                "id": id_,
                "ts": declared,
                "xml": item_document(item, document.feed),
                "raw": entry.raw,
                "feed": document.feed.identity,
                "digest": entry.digest,
                "time_source": time_source,
                "source": document.source,
                "channel_url": document.feed.url,
                "channel_title": document.feed.title,
                **{name: read(item) for name, read in _FIELDS.items()},
            }
        )
    return rows


_FIELDS: dict[str, Callable[[Item], object]] = {
    "item_url": lambda item: item.item_url,
    "title": lambda item: item.title,
    "authors": lambda item: list(item.authors),
    "published": lambda item: item.published,
    "updated": lambda item: item.updated,
    "description": lambda item: item.description,
    "categories": lambda item: list(item.categories),
    "guid": lambda item: item.guid,
    "links": lambda item: list(item.links),
    "content": lambda item: item.content,
    "language": lambda item: item.language,
    "comments": lambda item: item.comments,
}


def _error_row(record: Record, condition: str, message: str) -> Row:
    row: Row = {"source": record.source, "error": f"[{condition}] {message}"}
    if isinstance(record, Rejected):
        row |= {"channel": record.channel, "id": record.id, "error": f"[{record.condition}] {record.message}"}
    return row


def _parted(error: str) -> tuple[str, str]:
    """Return (condition, message) of an ``error``."""
    found = _ERROR.fullmatch(error)
    return (found[1], found[2]) if found else ("XSCL_BAD_EVENT", error)


def _moment(micros: int) -> datetime:
    return _EPOCH + timedelta(microseconds=micros)
