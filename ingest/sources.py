"""Paths and standard input into records, told apart by their content, whatever they are called.

* gzip, bzip2, xz and zstd are unpacked, tar archives read member by member (``archives``)
* ``<`` first, also after a byte order mark or in UTF-16: an XML document, or a feed, which is split
* ``{`` first: a JSON Feed if its beginning says so, else an event file, read line by line
* CSV by its name, JSON lines by a first line that is no event, Parquet by its first bytes: rows (``row_files``)

Everything else is rejected, and so is what cannot be read; the other inputs go on.  A feed is one record
(``feed_bytes``).
"""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import BinaryIO, cast

from xscl.base.errors import DocumentError, SourceError, XsclError
from xscl.base.home_folders import is_home
from xscl.base.safe_xml import in_fresh_dictionary, parse_xml
from xscl.base.types import Event, to_micros
from xscl.ingest.archive_parts import MemberRange
from xscl.ingest.archives import Budget, first_character, members, peeled, unreadable
from xscl.ingest.dates import parse_date
from xscl.ingest.event_file import read_event_lines
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.json_feed import looks_like_json_feed
from xscl.ingest.lines import ByteStream, bounded_lines
from xscl.ingest.paths import SplitPath
from xscl.ingest.reading import DEFAULT_READING, Reading
from xscl.ingest.records import Noted, Record, Rejected, RowTable, rejected
from xscl.ingest.row_files import read_row_file
from xscl.ingest.row_format import Format, file_channel, row_format
from xscl.ingest.row_times import day_read_as_seconds
from xscl.ingest.splitting import SplitRecord, split_records

__all__ = [
    "MAX_DOCUMENT_BYTES",
    "files_in",
    "files_of",
    "home_noted",
    "read_file",
    "read_paths",
    "read_stream",
    "shown_name",
]

MAX_DOCUMENT_BYTES = 256 * 1024 * 1024
"""Bytes of a document before it is parsed; inclusive."""

_UTF8_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r\n"
_TIME = re.compile(r"(.*[_ ])?(ts|time|timestamp|date|datetime|date[_ ]?time|at)", re.IGNORECASE)
"""Names of columns that are likely to have times."""
_SECONDS = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,9})?")
_ALL_MEMBERS = MemberRange(0, None)
_RUN_RECORDS = 1_000
_RUN_BYTES = 4 * 1024 * 1024


def read_paths(
    paths: Sequence[str | Path], reading: Reading = DEFAULT_READING, *, stdin: BinaryIO | None = None
) -> Iterator[Record]:
    """Yield the records of files, of all files in directories (in sorted order), and of standard input (``-``).

    In directories and archives, hidden files, links that lead outside and links to directories are passed over.  So
    are homes of xscl, with a note.

    Args:
        paths: read in their order.
        reading: how.
        stdin: what ``-`` reads, the process's standard input if None.

    Yields:
        Events and other records, lazily; their ``source`` is ``path``, ``path!member`` or one of these with ``:line``.
        An input that cannot be taken is a ``Rejected`` with one of the conditions ``XSCL_SOURCE_UNREADABLE``,
        ``XSCL_SOURCE_LIMIT``, ``XSCL_UNKNOWN_FORMAT``, ``XSCL_NOT_A_FEED``, ``XSCL_NO_RECORDS``,
        ``XSCL_MALFORMED_DOCUMENT``, ``XSCL_DOCUMENT_LIMIT``, ``XSCL_BAD_EVENT_TIME`` or ``XSCL_BAD_EVENT_LINE``.
    """
    for path in paths:
        if str(path) == "-":
            yield from read_stream(cast("ByteStream", stdin or sys.stdin.buffer), "-", reading)
        else:
            for file in files_of(Path(path), reading):
                if isinstance(file, Rejected | Noted):
                    yield file
                else:
                    yield from read_file(file, reading)


def files_of(path: Path, reading: Reading) -> Iterator[Path | Rejected | Noted]:
    """Yield the file at a path, or the files of a directory behind what was passed over or could not be looked at."""
    problems: list[OSError] = []
    homes: list[Path] = []
    try:
        files = files_in(path, problems, homes) if path.is_dir() else [path]
    except (OSError, ValueError) as error:
        yield rejected(shown_name(path), unreadable(shown_name(path), error), reading.channel)
        return
    yield from map(home_noted, homes)
    for problem in problems:
        name = shown_name(problem.filename or path)
        yield rejected(name, unreadable(name, problem), reading.channel)
    yield from files


def read_file(
    file: Path, reading: Reading, within: MemberRange | None = None, *, name: str | None = None
) -> Iterator[Record]:
    """Yield the records of one file, as of ``read_paths``; of an archive those of some members, or of all.

    ``name`` is what the source is called; by default the file's path.
    """
    name = shown_name(file) if name is None else name
    try:
        stream = file.open("rb")
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        yield rejected(name, unreadable(name, error), reading.channel)
        return
    with stream:
        if row_format(name, stream.peek(4), reading.format) == "parquet":
            # Its end is read first, which a stream that is unpacked cannot.
            yield from _read_rows(cast("ByteStream", stream), "parquet", name, reading)
        else:
            yield from _read_layer(stream, name, reading, Budget(name), within)


def shown_name(path: str | Path) -> str:
    """Return the path as text that can be stored: names of files are bytes, and not always UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def home_noted(home: Path) -> Noted:
    """Note a home whose files are not read."""
    return Noted(shown_name(home), "this is a home of xscl; its files are no input and were passed over")


def files_in(folder: Path, problems: list[OSError], homes: list[Path]) -> list[Path]:
    """Return the files in a folder and its folders, sorted; without what is hidden, lies elsewhere or is a home's.

    Args:
        folder: where to look.
        problems: gets what could not be looked at.
        homes: gets the homes, whose files are not returned.
    """
    home = folder.resolve()
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=problems.append):
        if is_home(Path(parent)):
            homes.append(Path(parent))
            folders.clear()
            continue
        folders[:] = [name for name in folders if not name.startswith(".")]
        files = (Path(parent, name) for name in names if not name.startswith("."))
        found.extend(file for file in files if _belongs(file, home, problems))
    return sorted(found)


def _belongs(file: Path, home: Path, problems: list[OSError]) -> bool:
    try:
        # Only regular files: opening a pipe would wait for its writer.
        return file.is_file() and file.resolve().is_relative_to(home)
    except OSError as error:
        problems.append(error)
        return False


def read_stream(stream: ByteStream, source: str, reading: Reading = DEFAULT_READING) -> Iterator[Record]:
    """Yield the records of one file that is open, as of ``read_paths``."""
    yield from _read_layer(stream, source, reading, Budget(source))


def _read_layer(
    stream: ByteStream, source: str, reading: Reading, budget: Budget, within: MemberRange | None = None
) -> Iterator[Record]:
    try:
        head, content, is_tar = peeled(stream, budget)
        if is_tar:
            yield from _read_archive(content, source, reading, budget, within or _ALL_MEMBERS)
        else:
            yield from _read_content(head, content, source, reading)
    except XsclError as error:
        yield rejected(source, error, reading.channel)


def _read_archive(
    content: io.BufferedIOBase, source: str, reading: Reading, budget: Budget, within: MemberRange
) -> Iterator[Record]:
    layers = budget.layers
    for number, (name, member) in enumerate(members(content, budget)):
        if number < within.first:
            continue
        budget.layers = layers
        yield from _read_layer(member, f"{source}!{_printable(shown_name(name))}", reading, budget)
        # What comes behind the last member is told by whoever reads the next range.
        if budget.used_up or number + 1 == within.end:
            return


def _printable(name: str) -> str:
    """Return a name that a stranger gave, without what terminals would obey."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def _read_content(head: bytes, content: io.BufferedIOBase, source: str, reading: Reading) -> Iterator[Record]:
    first = first_character(head)
    kind = row_format(source, head, reading.format)
    if kind == "parquet":
        yield from _read_rows(io.BytesIO(_read_all(content, source)), kind, source, reading)
    elif kind is not None:
        yield from _read_rows(content, kind, source, reading)
    elif first == "<" and reading.split_path is not None:
        yield from _read_split(content, reading.split_path, source, reading)
    elif first == "<" or (first == "{" and looks_like_json_feed(head)):
        if first == "{":
            reading.refuse_split(source, "it is a JSON Feed")
        document = _read_all(content, source)
        whole = reading.whole and first == "<"
        yield in_fresh_dictionary(_read_document, document, source, reading, whole)
    elif first == "{":
        reading.refuse_split(source, "it is an event file")
        yield from read_event_lines(bounded_lines(content), source=source)
    else:
        blank = f"begins with {len(head):,} blank bytes" if head else "is empty"
        shown = repr(first) if first.isprintable() and first != "�" else f"the bytes {head[:8].hex(' ')}"
        found = f"begins with {shown}" if first else blank
        raise SourceError(
            "XSCL_UNKNOWN_FORMAT",
            f"{source} {found}; accepted are XML documents and feeds (<), event files and rows with one JSON object"
            " a line ({), .csv, .tsv and Parquet, each also as gzip, bzip2, xz or zstd, and in tar archives",
            hint=_rows_hint(head),
        )


def _rows_hint(head: bytes) -> str | None:
    """Return what to do with a content that looks like rows of CSV under another name; None of another content."""
    line = head.partition(b"\n")[0].decode("utf-8", "replace")
    if not any(mark in line for mark in ",;\t") or not line.rstrip("\r").replace("\t", " ").isprintable():
        return None
    columns = [name.strip(' \r"') for name in re.split("[,;\t]", line)]
    ts = next(filter(_TIME.fullmatch, columns), "COLUMN")
    return f"rows of CSV are read with --format csv --channel NAME, and --ts {ts} names the column of their times"


def _read_rows(stream: ByteStream, kind: Format, source: str, reading: Reading) -> Iterator[Record]:
    try:
        reading.refuse_split(source, "it has rows")
    except SourceError as refusal:
        yield rejected(source, refusal, reading.channel)
        return
    channel = reading.channel or file_channel(source)
    if channel is None:
        error = SourceError("XSCL_BAD_CHANNEL_NAME", f"{source}: no channel is given for these rows", hint="--channel")
        yield rejected(source, error)
        return
    records = read_row_file(stream, kind, channel=channel, source=source, reading=reading)
    for record in records:
        if isinstance(record, RowTable):
            yield from _without_times(record) if reading.ts is None else _days(record, reading)
            yield record
            break
        yield record
    yield from records


def _days(table: RowTable, reading: Reading) -> Iterator[Noted]:
    """Note times that are written as days without hyphens, and are read as seconds."""
    if (day := day_read_as_seconds(table.rows, reading.rows)) is not None:
        told = f"{day} in column {reading.ts} is so many seconds since 1970; --ts-format %Y%m%d reads it as a day"
        yield Noted(table.source, told, of_times=True)


def _without_times(table: RowTable) -> Iterator[Noted]:
    """Note a column that looks like times where none is named."""
    found = [name for name in table.rows.column_names if _TIME.fullmatch(name)]
    if found:
        told = (
            f"rows of the channel {table.channel} have the time of receipt; --ts {found[0]} takes it from that column"
        )
        yield Noted(table.source, told, of_times=True)


def _read_split(content: io.BufferedIOBase, split: SplitPath, source: str, reading: Reading) -> Iterator[Record]:
    run: list[SplitRecord] = []
    size = 0
    try:
        for record in split_records(content, split, source=source, limits=reading.limits):
            run.append(record)
            size += len(record.content) if isinstance(record.content, bytes) else 0
            if len(run) >= _RUN_RECORDS or size >= _RUN_BYTES:
                yield from _documents_of(run, source, reading)
                run, size = [], 0
    except XsclError as error:
        yield from _documents_of(run, source, reading)
        yield rejected(source, error, reading.channel)
        return
    yield from _documents_of(run, source, reading)


def _documents_of(run: list[SplitRecord], source: str, reading: Reading) -> list[Record]:
    if reading.id is None and reading.ts is None:
        return [_document_of(record, source, reading) for record in run]
    return in_fresh_dictionary(lambda: [_document_of(record, source, reading) for record in run])


def _document_of(record: SplitRecord, source: str, reading: Reading) -> Record:
    where = f"{source}:{record.line}"
    if isinstance(record.content, XsclError):
        return rejected(where, record.content, reading.channel)
    try:
        return _document(record.content, where, reading)
    except XsclError as error:
        return rejected(where, error, reading.channel)


def _read_document(data: bytes, source: str, reading: Reading, whole: bool) -> Record:
    stripped = data.removeprefix(_UTF8_BOM).lstrip(_BLANKS)
    if stripped.startswith(b"<?xml"):
        # XML wants its declaration at the very start; publishers leave blank lines before it.
        data = stripped
    limits = reading.limits
    try:
        if not whole:
            feed = read_feed(data, source=source, channel=reading.channel or "items", limits=limits)
            if feed is not None:
                return replace(feed, content=data) if reading.keeps_feeds else feed
        elif reading.id is None and reading.ts is None:
            parse_xml(data, limits=limits)
        return _document(data, source, reading)
    except XsclError as error:
        return rejected(source, error, reading.channel)


def _document(data: bytes, source: str, reading: Reading) -> Event | Rejected:
    """Return the event of one document, which is parsed only if that has its id or time.

    Raises:
        DocumentError: it is not well-formed, or over a limit.
    """
    channel = reading.channel or "documents"
    if reading.no_paths is not None:
        raise reading.no_paths
    if reading.id is None and reading.ts is None:
        return Event(channel, xml=data, source=source)
    root = parse_xml(data, limits=reading.limits)
    id_ = None if reading.id_path is None else reading.id_path.value(root)
    try:
        ts = None if reading.ts_path is None else _time(reading.ts_path.value(root))
    except DocumentError as error:
        return Rejected(source, error.condition, error.message, channel, id_)
    return Event(channel, id_, ts, xml=data, source=source)


def _time(text: str | None) -> datetime | Decimal | None:
    """Return the moment that a document gives, as feeds write it, or in seconds since the epoch.

    Raises:
        DocumentError: ``XSCL_BAD_EVENT_TIME``.
    """
    if text is None:
        return None
    if _SECONDS.fullmatch(text):
        seconds = Decimal(text)
        try:
            to_micros(seconds)
        except ValueError as error:
            raise DocumentError("XSCL_BAD_EVENT_TIME", str(error)) from None
        return seconds
    moment = parse_date(text)
    if moment is None:
        shown = text if len(text) <= 60 else f"{text[:59]}…"
        raise DocumentError(
            "XSCL_BAD_EVENT_TIME",
            f"{shown!r} is no time; ISO 8601, RFC 822 (as in RSS) and seconds since the epoch are",
        )
    return moment


def _read_all(content: io.BufferedIOBase, source: str) -> bytes:
    data = bytearray()
    while chunk := content.read(1 << 20):
        data += chunk
        if len(data) > MAX_DOCUMENT_BYTES:
            raise SourceError(
                "XSCL_SOURCE_LIMIT",
                f"{source} is a document of more than {MAX_DOCUMENT_BYTES:,} bytes; --split reads it",
            )
    return bytes(data)
