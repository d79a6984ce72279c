"""Sources as users name them, into records: paths, tables, data frames, databases; and directories that grow."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from xscl.base.durations import parse_pause
from xscl.base.errors import EngineError, SourceError
from xscl.base.failpoints import step
from xscl.base.types import Event
from xscl.catalog.source_offsets import position_of
from xscl.ingest.event_file import event_of
from xscl.ingest.following import Follower, source_name
from xscl.ingest.reading import Reading
from xscl.ingest.records import (
    Drop,
    FeedDocument,
    Flush,
    Heartbeat,
    Noted,
    Position,
    Record,
    Register,
    Rejected,
    Removal,
    RowTable,
)
from xscl.ingest.sources import read_paths
from xscl.ingest.sql_tables import read_sql_table, shown_url, sql_source
from xscl.intake.data_frames import arrow_table
from xscl.intake.intake import Intake, IntakeReport
from xscl.intake.row_columns import check_columns

__all__ = ["Taker", "follow_paths", "paths_in", "records_of", "take_sql_table"]


class Taker(Protocol):
    """Taker of records that are followed, which keeps how far they go: a home, or a service from afar."""

    def take(self, records: Iterable[Record], /) -> IntakeReport:
        """Take records in their order, with the positions among them."""

    def positions(self, start: str, /) -> Mapping[str, str]:
        """Return the positions that are kept of inputs whose names start with a text."""


_AT_ONCE = 20_000
"""Records of one report at most."""


def records_of(source: object, reading: Reading) -> Iterable[Record]:
    """Give the records of a source: a path, paths, events, dicts, or a table of rows.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: nothing can be taken in from the source.  While records are read,
            ``XSCL_BAD_EVENT``: an item of an iterable is no event.
        SourceError: ``XSCL_SOURCE_UNREADABLE``: a path leads nowhere.  ``XSCL_NO_COLUMN``, ``XSCL_BAD_OPTION``,
            ``XSCL_COLUMN_TYPE``: a table, or the one file that is named, does not have the columns of the options.
    """
    if isinstance(source, (str, Path)):
        records = read_paths(_existing([source]), reading)
        # Files of a folder are what they are; the columns of the one file that the call names can be asked for.
        return records if Path(source).is_dir() else _columns_checked(records)
    if (rows := arrow_table(source)) is not None:
        if reading.channel is None:
            raise EngineError("XSCL_BAD_OPTION", "a table of rows needs a channel", hint="channel='readings'")
        reading.refuse_split("table", "it has rows")
        check_columns(rows.schema, reading.rows)
        return [RowTable(reading.channel, rows, "table", options=reading.rows, schema=reading.declared, named=False)]
    if isinstance(source, (bytes, Mapping)) or not isinstance(source, Iterable):
        raise _no_source(source)
    items = iter(source)
    first = list(itertools.islice(items, 1))
    items = itertools.chain(first, items)
    if first and isinstance(first[0], (str, Path)):
        return read_paths(_existing(list(items)), reading)
    reading.refuse_split("items", "they are events")
    return _item_records(items)


def paths_in(source: object) -> list[str | Path] | None:
    """Return the paths that a source names, which all lead somewhere; None of other sources.

    Raises:
        SourceError: ``XSCL_SOURCE_UNREADABLE``: a path leads nowhere.
    """
    if isinstance(source, (str, Path)):
        return _existing([source])
    if isinstance(source, (list, tuple)) and source and isinstance(source[0], (str, Path)):
        return _existing(source)
    return None


def take_sql_table(intake: Intake, url: str, table: str, *, key: str, reading: Reading) -> IntakeReport:
    """Take the rows of a table or view that are above the last key taken; the key is kept with the rows.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: no channel is given.
        SourceError: the database, the table or a column is not there.
        DocumentError: the rows do not fit the channel as a whole; what was taken before stays taken.
    """
    channel = reading.channel
    if channel is None:
        raise EngineError("XSCL_BAD_OPTION", "a table needs the URL of its database, a key and a channel")
    reading.refuse_split(f"{shown_url(url)} {table}", "it has rows")
    with intake.catalog.read() as connection:
        position = position_of(connection, sql_source(shown_url(url), table, channel))
    return intake.take(read_sql_table(url, table, key=key, channel=channel, position=position, reading=reading))


def follow_paths(taker: Taker, paths: Sequence[str | Path], reading: Reading, *, every: str) -> Iterator[IntakeReport]:
    """Take in what is there, then what is added, without end.

    There is a report for some thousand records at most, and an empty one behind each look.

    Args:
        taker: where to.
        paths: files and directories.
        reading: options of reading.
        every: time between two looks, 1 ms at least.

    Raises:
        EngineError: ``XSCL_BAD_OPTION``: standard input, or no duration to wait.
    """
    try:
        pause = parse_pause(every)
    except ValueError as error:
        raise EngineError("XSCL_BAD_OPTION", f"every: {error}") from None
    if any(str(path) == "-" for path in paths):
        raise EngineError("XSCL_BAD_OPTION", "standard input is read until it ends without being followed")
    known: dict[str, str] = {}
    for path in paths:
        known |= taker.positions(source_name(path))
    follower = Follower([Path(path) for path in paths], reading, known, every_s=pause)
    return _looks(taker, follower, pause)


def _looks(taker: Taker, follower: Follower, pause: float) -> Iterator[IntakeReport]:
    while True:
        began = time.monotonic()
        records = follower.look()
        for first in records:
            report = taker.take(itertools.chain([first], itertools.islice(records, _AT_ONCE - 1)))
            step("follow.taken")
            yield report
        yield IntakeReport()
        time.sleep(max(0.0, pause - (time.monotonic() - began)))


def _existing(paths: Sequence[object]) -> list[str | Path]:
    """Check that all paths lead somewhere, and return them."""
    existing: list[str | Path] = []
    for path in paths:
        if not isinstance(path, (str, Path)):
            raise _no_source(path)
        if "\0" in str(path) or not os.path.lexists(path):
            raise SourceError(
                "XSCL_SOURCE_UNREADABLE",
                f"{str(path)!r} leads to no file",
                hint="texts of documents go in events: engine.ingest([xscl.Event(channel, xml=…)])"
                if str(path).lstrip()[:1] in ("<", "{", "[")
                else f"paths begin at {Path.cwd()}",
            )
        existing.append(path)
    return existing


def _columns_checked(records: Iterator[Record]) -> Iterator[Record]:
    """Yield the records; the first table of rows among them must have the columns that its options name."""
    for record in records:
        if isinstance(record, RowTable):
            check_columns(record.rows.schema, record.options)
            yield record
            break
        yield record
    yield from records


def _item_records(items: Iterable[object]) -> Iterator[Record]:
    for number, item in enumerate(items, start=1):
        if type(item) is Event:  # in most cases
            is_text = type(item.xml) is str and item.row is None
            yield item if is_text or _has_content(item) else _without_content(item, number)
            continue
        match item:
            case (
                Event()
                | FeedDocument()
                | RowTable()
                | Register()
                | Drop()
                | Flush()
                | Heartbeat()
                | Removal()
                | Rejected()
                | Noted()
                | Position()
            ):
                yield item
            case Mapping():
                yield event_of(item, source=f"item {number}")
            case _:
                raise EngineError(
                    "XSCL_BAD_EVENT",
                    f"item {number} is {type(item).__name__}, and no event",
                    hint='xscl.Event(…), or a dict like {"channel": "S", "xml": "<a/>"}; those before it were taken '
                    "as far as their part was full",
                )


def _has_content(event: Event) -> bool:
    """Return whether what an event has for a document or a row is one."""
    xml, row = event.xml, event.row
    has_row = row is None or type(row) is dict or isinstance(row, Mapping)
    return has_row and (xml is None or type(xml) is str or isinstance(xml, str | bytes))


def _without_content(event: Event, number: int) -> Rejected:
    """Refuse an event by itself whose document is no text, or whose row has no columns."""
    row: object = event.row
    if row is None or isinstance(row, Mapping):
        message = f"the document is {type(event.xml).__name__}, and not a text or bytes"
    else:
        message = f"the row is {type(row).__name__}, and not a mapping from columns to values"
    channel, id_ = (each if isinstance(each, str) else None for each in (event.channel, event.id))
    return Rejected(event.source or f"item {number}", "XSCL_BAD_EVENT", message, channel, id_)


def _no_source(source: object) -> EngineError:
    return EngineError(
        "XSCL_BAD_OPTION",
        f"nothing can be taken in from {type(source).__name__}",
        hint="wrap it in a list: engine.ingest([{…}])"
        if isinstance(source, Mapping)
        else "a path, a list of paths, of events or of dicts, a table of rows, or a DataFrame",
    )
