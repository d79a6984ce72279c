"""Paths and standard input into records, told apart by their content, whatever they are called.

* gzip (by its first bytes) is unpacked, up to ``MAX_UNPACKED_BYTES``
* ``<`` first, also after a byte order mark or in UTF-16: an XML document, or a feed, which is split
* ``{`` first: an event file, read line by line
* CSV by its name, JSON lines by a first line that is no event, Parquet by its first bytes: rows (``row_files``)

Everything else is rejected, and so is what cannot be read; the other inputs go on.  A document that begins
like a feed but is not well-formed is read by ``broken_feed``, which gives the same normalised items without
the published entries.
"""

from __future__ import annotations

import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, Literal

from xscl.errors import DocumentLimitError, MalformedDocumentError, SourceError, XsclError
from xscl.ingest.broken_feed import looks_like_feed, read_broken_feed
from xscl.ingest.event_file import ByteStream, bounded_lines, read_event_lines
from xscl.ingest.feed import is_feed, split_feed
from xscl.ingest.records import Record, rejected
from xscl.ingest.row_files import RowFormat, file_channel, read_row_file, row_format
from xscl.safexml import DEFAULT_LIMITS, Limits, in_fresh_dictionary, parse_xml
from xscl.types import Event

__all__ = ["MAX_UNPACKED_BYTES", "read_paths"]

MAX_UNPACKED_BYTES = 256 * 1024 * 1024
"""What a gzip file may unpack to, and what a document may have before it is parsed; inclusive."""

MAX_ENTRY_CHARACTERS = 64 * 1024 * 1024
"""What the entries of one feed may have together when they are written out; inclusive."""

_HEAD_BYTES = 4096
"""How much white space may stand before the content."""
_GZIP = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")
_BLANKS = b" \t\r\n"


def read_paths(
    paths: Sequence[str | Path],
    *,
    channel: str | None = None,
    whole: bool = False,
    stdin: BinaryIO | None = None,
    limits: Limits = DEFAULT_LIMITS,
    rows: RowFormat | None = None,
) -> Iterator[Record]:
    """The records of files, of all files in directories (in sorted order), and of standard input (``-``).

    In directories, hidden files, links that lead outside and links to directories are passed over.

    Args:
        paths: read in their order.
        channel: for documents (else ``documents``) and feed items (else ``items``); events of event files
            keep theirs.
        whole: take a feed as one document.
        stdin: what ``-`` reads, the process's standard input if None.
        limits: what a document may be.
        rows: how files of rows are written; their channel is else called as the file.

    Yields:
        Events and other records, lazily.  What cannot be taken is a ``Rejected`` with one of the conditions
        ``XSCL_SOURCE_UNREADABLE``, ``XSCL_SOURCE_LIMIT``, ``XSCL_UNKNOWN_FORMAT``, ``XSCL_NOT_A_FEED``,
        ``XSCL_MALFORMED_DOCUMENT``, ``XSCL_DOCUMENT_LIMIT`` or ``XSCL_BAD_EVENT_LINE``.
    """
    how = rows or RowFormat()
    for path in paths:
        if str(path) == "-":
            standard = stdin or sys.stdin.buffer
            if how.format is not None:
                yield from _read_rows(standard, how.format, "-", channel, how)
            else:
                yield from _read_stream(standard, "-", channel, whole, limits)
        else:
            yield from _read_path(Path(path), channel, whole, limits, how)


def _read_rows(
    stream: BinaryIO, kind: Literal["csv", "jsonl", "parquet"], name: str, channel: str | None, how: RowFormat
) -> Iterator[Record]:
    wanted = channel or file_channel(name)
    if wanted is None:
        error = SourceError("XSCL_BAD_CHANNEL_NAME", f"{name}: no channel is given for these rows", hint="--channel")
        yield rejected(name, error)
        return
    yield from read_row_file(stream, kind, channel=wanted, source=name, how=how)


def _read_path(path: Path, channel: str | None, whole: bool, limits: Limits, rows: RowFormat) -> Iterator[Record]:
    problems: list[OSError] = []
    try:
        files = _files(path, problems) if path.is_dir() else [path]
    except (OSError, ValueError) as error:
        yield rejected(_name(path), _unreadable(_name(path), error), channel)
        return
    for problem in problems:
        name = _name(problem.filename or path)
        yield rejected(name, _unreadable(name, problem), channel)
    for file in files:
        name = _name(file)
        try:
            stream = file.open("rb")
        except (OSError, ValueError) as error:  # ValueError: a NUL in the name
            yield rejected(name, _unreadable(name, error), channel)
            continue
        with stream:
            kind = _row_format(stream, name, rows)
            if kind is not None:
                yield from _read_rows(stream, kind, name, channel, rows)
            else:
                yield from _read_stream(stream, name, channel, whole, limits)


def _row_format(stream: io.BufferedReader, name: str, rows: RowFormat) -> Literal["csv", "jsonl", "parquet"] | None:
    try:
        return row_format(name, stream.peek(), rows.format)
    except (OSError, zlib.error):
        return None  # reading it says why


def _name(path: str | Path) -> str:
    """The path as text that can be stored: names of files are bytes, and not always UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def _files(folder: Path, problems: list[OSError]) -> list[Path]:
    home = folder.resolve()
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, onerror=problems.append):
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


def _read_stream(stream: ByteStream, source: str, channel: str | None, whole: bool, limits: Limits) -> Iterator[Record]:
    try:
        yield from _read_content(*_unpacked(stream, source), source, channel, whole, limits)
    except SourceError as error:
        yield rejected(source, error, channel)
    except (OSError, EOFError, zlib.error) as error:
        yield rejected(source, _unreadable(source, error), channel)


def _read_content(
    head: bytes, content: ByteStream, source: str, channel: str | None, whole: bool, limits: Limits
) -> Iterator[Record]:
    first = _first_character(head)
    if first == "{":
        yield from read_event_lines(bounded_lines(content), source=source)
    elif first == "<":
        yield from _read_document(_read_all(content, source), source, channel, whole, limits)
    else:
        blank = f"begins with {len(head):,} blank bytes" if head else "is empty"
        found = f"begins with {first!r}" if first else blank
        raise SourceError(
            "XSCL_UNKNOWN_FORMAT",
            f"{source} {found}; accepted are XML documents and feeds (<) and event files with one JSON object"
            " a line ({), each also as gzip",
        )


def _read_document(data: bytes, source: str, channel: str | None, whole: bool, limits: Limits) -> Iterator[Record]:
    stripped = data.removeprefix(_UTF8_BOM).lstrip(_BLANKS)
    if stripped.startswith(b"<?xml"):
        # XML wants its declaration at the very start; publishers leave blank lines before it.
        data = stripped
    yield from in_fresh_dictionary(_events, data, source, channel, whole, limits)


def _events(data: bytes, source: str, channel: str | None, whole: bool, limits: Limits) -> list[Record]:
    try:
        root = parse_xml(data, limits=limits)
        if is_feed(root) and not whole:
            return list(_bounded(split_feed(root, source=source, channel=channel or "items")))
        return [Event(channel or "documents", xml=data, source=source)]
    except XsclError as error:
        broken = isinstance(error, MalformedDocumentError) and looks_like_feed(data) and not whole
        events = read_broken_feed(data, source=source, channel=channel or "items") if broken else []
        return [*events] or [rejected(source, error, channel)]


def _bounded(entries: Iterator[Event]) -> Iterator[Event]:
    """A feed's entries, of at most ``MAX_ENTRY_CHARACTERS`` in all: each repeats the namespaces of the feed."""
    size = 0
    for entry in entries:
        size += len(entry.xml or "")
        if size > MAX_ENTRY_CHARACTERS:
            raise DocumentLimitError(
                "XSCL_DOCUMENT_LIMIT",
                f"the entries of the feed have more than {MAX_ENTRY_CHARACTERS:,} characters when written out",
            )
        yield entry


def _unpacked(stream: ByteStream, source: str) -> tuple[bytes, ByteStream]:
    """The first bytes of the content, up to its first line that is not blank, and the whole content."""
    head = _head(stream)
    if not head.startswith(_GZIP):
        return head, io.BufferedReader(_Rest(head, stream, source))
    packed = gzip.GzipFile(fileobj=io.BufferedReader(_Rest(head, stream, source)), mode="rb")
    head = _head(packed)
    return head, io.BufferedReader(_Rest(head, packed, source, limit=MAX_UNPACKED_BYTES))


def _head(stream: ByteStream) -> bytes:
    # By lines, so that a pipe that is still being written is read no further than needed.
    head = b""
    while len(head) < _HEAD_BYTES and not _first_character(head):
        line = stream.readline(_HEAD_BYTES)
        if not line:
            break
        head += line
    return head


class _Rest(io.RawIOBase):
    """A stream as it was before its head was read, of at most ``limit`` bytes."""

    def __init__(self, head: bytes, stream: ByteStream, source: str, *, limit: int | None = None) -> None:
        self._head = head
        self._stream = stream
        self._source = source
        self._left = limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        size = len(buffer)
        data = self._head[:size] or self._stream.readline(size)
        self._head = self._head[size:]
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise _over_limit(self._source)
        buffer[: len(data)] = data
        return len(data)


def _read_all(content: ByteStream, source: str) -> bytes:
    data = bytearray()
    while chunk := content.read(1 << 20):
        data += chunk
        if len(data) > MAX_UNPACKED_BYTES:
            raise _over_limit(source)
    return bytes(data)


def _first_character(head: bytes) -> str:
    if head.startswith(_UTF16_BOMS):
        text = head.decode("utf-16", "ignore")  # the last character may be there by half
    else:
        text = head.removeprefix(_UTF8_BOM).lstrip(_BLANKS)[:4].decode("utf-8", "replace")
    return text.lstrip(" \t\r\n")[:1]


def _unreadable(source: str, error: Exception) -> SourceError:
    reason = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return SourceError("XSCL_SOURCE_UNREADABLE", f"{source}: {reason}")


def _over_limit(source: str) -> SourceError:
    return SourceError("XSCL_SOURCE_LIMIT", f"{source} has more than {MAX_UNPACKED_BYTES:,} bytes")
