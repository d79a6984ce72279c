"""Directories and event files that grow: their new records since the last look, and how far each file was read.

* An **event file** is read from where it was left, whole lines only.  A file was *renamed* if another name has it and
  its beginning, and is then read on under the new name.  A file was *replaced or cut short* if its beginning is another
  or a part that was read is no longer there, and is then read from its start.
* Every **other file** is read in whole once it has not changed for one interval.  If it cannot be taken then, it may be
  half written: it is tried again when it has changed, and rejected when it has stayed the same for ten intervals.  A
  file that changes after it was taken is taken again.

A last line without its end is taken after ten intervals without change.  A file has been unchanged since its time of
modification, or since it was first seen like that, whichever is longer ago.

``Position`` records tell how far files were read; the intake keeps them in the transaction of the records before them.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO, cast

from xscl.base.values import digest_text
from xscl.ingest.archives import first_character, unreadable
from xscl.ingest.event_file import read_event_lines
from xscl.ingest.json_feed import looks_like_json_feed
from xscl.ingest.lines import MAX_LINE_BYTES, ByteStream, bounded_lines
from xscl.ingest.reading import Reading
from xscl.ingest.records import Control, FeedDocument, Position, Record, Rejected, rejected
from xscl.ingest.sources import files_in, home_noted, read_stream, shown_name

__all__ = ["FilePosition", "Follower", "Signature", "resume", "source_name", "unchanged_s"]

PATIENCE = 10
"""Intervals without change after which a file is as complete as it will be."""

_HEAD_BYTES = 4096
"""Facts that identify a file."""
_LINES = 256
"""At most so many lines are read between two positions."""
_HALF_WRITTEN = frozenset(
    {"XSCL_MALFORMED_DOCUMENT", "XSCL_SOURCE_UNREADABLE", "XSCL_UNKNOWN_FORMAT", "XSCL_NOT_A_FEED", "XSCL_NO_RECORDS"}
)
"""Conditions of a file that is not there in whole."""


@dataclass(frozen=True, slots=True)
class Signature:
    """Facts that change when a file does."""

    size: int
    modified: int
    """Nanoseconds since the epoch."""
    file: str
    """Device and inode."""


@dataclass(frozen=True, slots=True)
class FilePosition:
    """Position up to which a file was read."""

    signature: Signature
    """Signature of the file at that time."""
    offset: int | None = None
    """Bytes of an event file that were read; None for another file, which was read in whole."""
    lines: int = 0
    """Lines that were read."""
    head_size: int = 0
    head: str = ""
    """Digest of its first ``head_size`` bytes."""
    generation: int = 1
    """Number of files of this name that were begun."""

    def text(self) -> str:
        """Write the position as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def of(text: str) -> FilePosition:
        """Read a position that ``text`` wrote."""
        values = json.loads(text)
        return FilePosition(**{**values, "signature": Signature(**values["signature"])})


def source_name(path: str | Path) -> str:
    """Return the name under which positions of a file are kept, or with which those of a folder's files begin."""
    return shown_name(Path(path).absolute())


def unchanged_s(signature: Signature, seen_s: float, *, clock_s: float, now_s: float) -> float:
    """Return the seconds for which a file has been as it is.

    Args:
        signature: as it is.
        seen_s: when it was first seen like that.
        clock_s: the time now, of the clock that ``seen_s`` was read from.
        now_s: the time now, in seconds since the epoch.
    """
    return max(clock_s - seen_s, now_s - signature.modified / 1e9)


def resume(
    signature: Signature,
    same_head: Callable[[FilePosition], bool],
    by_name: FilePosition | None,
    by_file: FilePosition | None,
) -> FilePosition:
    """Find the position at which to read an event file on.

    Args:
        signature: of the file now.
        same_head: whether the file begins as it did at a position.
        by_name: the position that is kept for its name.
        by_file: the position that was kept last for the same file under any name.
    """
    for position in (by_name, by_file):
        if position is None or position.offset is None or position.offset > signature.size:
            continue
        if same_head(position):
            return replace(position, signature=signature)
    return FilePosition(signature, offset=0, generation=1 if by_name is None else by_name.generation + 1)


@dataclass(slots=True)
class _Seen:
    signature: Signature
    since_s: float
    tried: bool = False
    """Whether it could not be taken as it is."""
    refused: bool = False
    """Whether an option does not go with it; other options may."""


class Follower:
    """Looks at files and directories again and again.

    Args:
        paths: files and directories.
        reading: how files are read.
        known: positions that were kept, by ``source_name``.
        every_s: seconds between two looks.
        clock: seconds of a clock that never goes back.
        now: seconds since the epoch.
    """

    def __init__(
        self,
        paths: Sequence[Path],
        reading: Reading,
        known: Mapping[str, str],
        *,
        every_s: float,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._paths = paths
        self._reading = reading
        self._every_s = every_s
        self._clock = clock
        self._now = now
        self._positions = {name: FilePosition.of(text) for name, text in known.items()}
        self._by_file = {position.signature.file: position for position in self._positions.values()}
        self._seen: dict[str, _Seen] = {}
        self._complained: set[str] = set()
        self._homes: set[Path] = set()
        """Homes that were noted."""

    def look(self) -> Iterator[Record]:
        """Yield the records of what is new, and where that ends."""
        found: list[tuple[bool, Path, Signature]] = []
        for path in self._paths:
            homes: list[Path] = []
            files = self._files(path, homes)
            yield from (home_noted(home) for home in homes if home not in self._homes)
            self._homes.update(homes)
            for file in files:
                try:
                    status = file.stat()
                    if not stat.S_ISREG(status.st_mode):
                        raise OSError("only files and directories can be followed")
                    signature = _signature(status)
                except (OSError, ValueError) as error:
                    yield from self._complain(file, error)
                    continue
                renamed = source_name(file) not in self._positions and signature.file in self._by_file
                found.append((not renamed, file, signature))
        # What was renamed is read on before the file that took its name.
        for _, file, signature in sorted(found, key=lambda item: item[0]):
            yield from self._look_at(file, signature)

    def _files(self, path: Path, homes: list[Path]) -> list[Path]:
        problems: list[OSError] = []
        try:
            return files_in(path, problems, homes) if path.is_dir() else [path]
        except (OSError, ValueError):
            return [path]

    def _complain(self, file: Path, error: Exception) -> Iterator[Record]:
        if isinstance(error, FileNotFoundError) and file not in self._paths:
            return  # it has gone from a directory since that was listed
        name = shown_name(file)
        if name not in self._complained:
            self._complained.add(name)
            yield rejected(name, unreadable(name, error), self._reading.channel)

    def _look_at(self, file: Path, signature: Signature) -> Iterator[Record]:
        name = source_name(file)
        position = self._positions.get(name)
        if position is not None and position.signature == signature and position.offset in (None, signature.size):
            return
        seen = self._seen.get(name)
        if seen is None or seen.signature != signature:
            seen = self._seen[name] = _Seen(signature, self._clock())
        quiet_s = unchanged_s(signature, seen.since_s, clock_s=self._clock(), now_s=self._now())
        final = quiet_s >= PATIENCE * self._every_s
        if seen.refused or (seen.tried and not final):
            return
        try:
            stream = file.open("rb")
        except (OSError, ValueError) as error:
            yield from self._complain(file, error)
            return
        with stream:
            if _signature(os.fstat(stream.fileno())).file != signature.file:
                return  # another file took the name since
            if self._reading.split is None and _is_event_file(stream):
                yield from self._read_lines(stream, file, signature, final=final)
            elif quiet_s >= self._every_s:
                yield from self._read_whole(stream, file, signature, seen, final=final)

    def _read_whole(
        self, stream: BinaryIO, file: Path, signature: Signature, seen: _Seen, *, final: bool
    ) -> Iterator[Record]:
        seen.tried = False
        for record in read_stream(cast("ByteStream", stream), shown_name(file), self._reading):
            if not final and _may_be_half_written(record):
                seen.tried = True
            else:
                seen.refused |= isinstance(record, Rejected) and record.condition == "XSCL_BAD_OPTION"
                yield record
        if not (seen.tried or seen.refused) and _signature(os.fstat(stream.fileno())) == signature:
            yield self._put(source_name(file), FilePosition(signature))

    def _read_lines(self, stream: BinaryIO, file: Path, signature: Signature, *, final: bool) -> Iterator[Record]:
        name = source_name(file)

        def same_head(position: FilePosition) -> bool:
            return _head_digest(stream, position.head_size) == position.head

        at = resume(signature, same_head, self._positions.get(name), self._by_file.get(signature.file))
        # A file that was begun anew has other rows in its lines.
        shown = shown_name(file) if at.generation == 1 else f"{shown_name(file)}#{at.generation}"
        stream.seek(at.offset or 0)
        waiting = 0
        for line in bounded_lines(cast("ByteStream", stream)):
            if not line.endswith(b"\n") and len(line) <= MAX_LINE_BYTES and not final:
                break
            before, number = at, at.lines + 1
            offset = stream.tell()
            if at.head_size < _HEAD_BYTES:
                size = min(_HEAD_BYTES, offset)
                at = replace(at, head_size=size, head=_head_digest(stream, size))
                stream.seek(offset)
            at = replace(at, offset=offset, lines=number)
            waiting += 1
            for record in read_event_lines((line,), source=shown, first_line=number):
                if isinstance(record, Control):
                    # These are transactions of their own, which keep how far they go.
                    if waiting > 1:
                        yield self._put(name, before)
                    yield replace(record, position=self._put(name, at))
                    waiting = 0
                else:
                    yield record
            if waiting >= _LINES:
                yield self._put(name, at)
                waiting = 0
            if offset >= signature.size:
                break
        if waiting or self._positions.get(name) != at:
            yield self._put(name, at)

    def _put(self, name: str, position: FilePosition) -> Position:
        self._positions[name] = position
        self._by_file[position.signature.file] = position
        return Position(name, position.text())


def _signature(status: os.stat_result) -> Signature:
    return Signature(status.st_size, status.st_mtime_ns, f"{status.st_dev}:{status.st_ino}")


def _may_be_half_written(record: Record) -> bool:
    if isinstance(record, FeedDocument):
        return record.flaw is not None
    return isinstance(record, Rejected) and record.condition in _HALF_WRITTEN


def _is_event_file(stream: BinaryIO) -> bool:
    head = stream.read(_HEAD_BYTES)
    stream.seek(0)
    return first_character(head) == "{" and not looks_like_json_feed(head)


def _head_digest(stream: BinaryIO, size: int) -> str:
    stream.seek(0)
    return digest_text(stream.read(size).hex())
