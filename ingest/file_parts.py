"""Inputs in parts that tasks read each by itself: groups of small files, and ranges of large ones.

The records of all parts, one part after another, are those that are read from the beginning: the same tables, places
and refusals.  A file whose ranges only reading from the beginning can tell is one part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeVar, cast

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.errors import SourceError
from xscl.ingest import csv_files
from xscl.ingest.archive_parts import MemberRange, member_ranges
from xscl.ingest.archives import first_character, is_tar
from xscl.ingest.csv_files import CsvRange, csv_columns, record_ends
from xscl.ingest.event_file import read_event_lines
from xscl.ingest.lines import ByteStream, LineRange, placed_lines
from xscl.ingest.reading import Reading
from xscl.ingest.records import Noted, Record, Rejected
from xscl.ingest.row_files import TABLE_ROWS, GroupRange, group_ranges, read_row_file
from xscl.ingest.row_format import Format, file_channel, row_format
from xscl.ingest.sources import files_of, read_file, shown_name

__all__ = ["FilePart", "estimated_seconds", "file_parts", "read_part"]

_GROUP_BYTES = 4 * 1024 * 1024
"""Small files are read by one task up to so many bytes together."""
_HEAD = 4096
_SECONDS = {"csv": 46e-9, "jsonl": 92e-9, "parquet": 70e-9, "events": 300e-9, "archive": 650e-9, None: 650e-9}
"""Processor seconds of a byte that is read, checked and written, by what the file holds, as measured."""
_ARCHIVE_BYTES = 32 * 1024 * 1024
"""Archives of more bytes, unpacked, are cut."""
_UNPACKED = 5
"""Bytes that a byte of a compressed file stands for, about."""
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd")

_Range = CsvRange | LineRange | GroupRange | MemberRange
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Place(Protocol):
    """A place where blocks of a file are looked at."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Return the result of each item, in their order."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """Files, or a range of one file, that one task reads."""

    files: tuple[str, ...]
    seconds: float
    """Processor seconds that taking it in costs, about."""
    kind: str | None = None
    """Kind of the range: ``csv``, ``jsonl``, ``parquet``, ``events`` or ``archive``; None: files are read whole."""
    within: _Range | None = None
    folder: str = ""
    """Folder at which relative names begin: tasks may work in another."""

    def path_of(self, file: str) -> Path:
        """Return the path of one of the files, wherever this process works."""
        return Path(self.folder, file)


@dataclass(frozen=True, slots=True)
class _Scan:
    """Facts about the bytes of one block."""

    lines: int
    """Line feeds."""
    quotes: int
    returns: bool
    """Whether a carriage return alone ends a line."""
    first: int
    """Offset behind the first line feed; -1 without one."""
    closed: bool
    """Whether it ends with a line feed."""
    ends: tuple[tuple[int, int], tuple[int, int]]
    """Whether the block begins outside or inside quotation marks: the offset behind the last line feed outside them,
    -1 without one, and the line feeds up to there."""


def file_parts(paths: Sequence[str | Path], reading: Reading, place: Place) -> Iterator[FilePart | Rejected | Noted]:
    """Yield the parts of files and directories, and what could not be looked at, in their order.

    Args:
        paths: as of ``read_paths``, without standard input.
        reading: how.
        place: where the blocks of large files are looked at.
    """
    group: list[str] = []
    seconds = size = 0.0
    folder = "" if all(Path(path).is_absolute() for path in paths) else str(Path.cwd())
    for path in paths:
        for file in files_of(Path(path), reading):
            ranges: list[FilePart] = []
            cost = bytes_ = 0.0
            if isinstance(file, Path):
                kind, bytes_, cost = _facts(file, reading)
                found = _ranges(file, kind, int(bytes_), reading, place)
                ranges = [FilePart((str(file),), cost / len(found), kind, each, folder) for each in found]
            if group and (ranges or not isinstance(file, Path) or size + bytes_ > _GROUP_BYTES):
                yield FilePart(tuple(group), seconds, folder=folder)
                group, seconds, size = [], 0.0, 0.0
            if not isinstance(file, Path):
                yield file
            elif ranges:
                yield from ranges
            else:
                group.append(str(file))
                seconds, size = seconds + cost, size + bytes_
    if group:
        yield FilePart(tuple(group), seconds, folder=folder)


def estimated_seconds(paths: Sequence[str | Path], reading: Reading, enough: float) -> float:
    """Return the processor seconds that taking in the files costs, about; counting ends where they are ``enough``."""
    seconds = 0.0
    for path in paths:
        for file in files_of(Path(path), reading):
            if isinstance(file, Path):
                seconds += _facts(file, reading)[2]
            if seconds >= enough:
                return seconds
    return seconds


def read_part(part: FilePart, reading: Reading) -> Iterator[Record]:
    """Yield the records of a part."""
    if part.kind is None:
        for file in part.files:
            yield from read_file(part.path_of(file), reading, name=shown_name(Path(file)))
        return
    name, within = part.files[0], part.within
    if isinstance(within, MemberRange):
        yield from read_file(part.path_of(name), reading, within, name=name)
        return
    with part.path_of(name).open("rb") as stream:
        if not isinstance(within, GroupRange) and within is not None:
            stream.seek(within.begin)
        if isinstance(within, LineRange) and part.kind == "events":
            lines = (line for _, line in placed_lines(stream, begin=within.begin, end=within.end))
            yield from read_event_lines(lines, source=name, first_line=within.line)
            return
        channel = reading.channel or file_channel(name)
        assert channel is not None
        found = cast("ByteStream", stream)
        yield from read_row_file(
            found, cast("Format", part.kind), channel=channel, source=name, reading=reading, within=within
        )


# -- what a file holds -----------------------------------------------------------------------------------------


def _facts(file: Path, reading: Reading) -> tuple[str | None, int, float]:
    """Return what a file holds, its bytes unpacked, about, and the seconds that taking it in costs, about."""
    try:
        size = file.stat().st_size
        with file.open("rb") as stream:
            head = stream.read(_HEAD)
    except (OSError, ValueError):
        return None, 0, 0.0
    if head.startswith(_PACKED):
        found = row_format(file.name, b"", reading.format)
        return "archive" if found is None else None, size * _UNPACKED, size * _UNPACKED * _SECONDS[found]
    if is_tar(head):
        return "archive", size, size * _SECONDS["archive"]
    kind: str | None = row_format(shown_name(file), head, reading.format)
    if kind is None and first_character(head) == "{" and head.lstrip()[:1] == b"{" and b"\n" in head:
        kind = "events"
    return kind, size, size * _SECONDS[kind]


def _ranges(file: Path, kind: str | None, size: int, reading: Reading, place: Place) -> Sequence[_Range]:
    """Return the ranges of a large file; nothing where it is read whole."""
    name = shown_name(file)
    if kind is None or size <= (_ARCHIVE_BYTES if kind == "archive" else csv_files.CSV_BLOCK) or name != str(file):
        return ()
    if kind not in ("events", "archive") and (reading.channel or file_channel(name)) is None:
        return ()
    if reading.split is not None and kind != "archive":
        return ()  # it is refused, once
    try:
        found: Sequence[_Range]
        if kind == "parquet":
            found = _groups(file)
        elif kind == "archive":
            (found,) = place.map(member_ranges, [str(file.absolute())])
        else:
            block = csv_files.CSV_BLOCK
            scans = place.map(_scanned, [(str(file.absolute()), begin) for begin in range(0, size, block)])
            found = _csv_ranges(file, scans, reading) if kind == "csv" else _line_ranges(scans)
    except (OSError, SourceError, pa.ArrowException):
        return ()  # whoever reads the file says why
    return found if len(found) > 1 else ()


def _groups(file: Path) -> list[GroupRange]:
    """Return the runs of row groups of a Parquet file; rows of a large one in tables."""
    with pq.ParquetFile(file) as parquet:
        meta = parquet.metadata
        return [
            GroupRange(run.groups, run.row, skip, TABLE_ROWS)
            for run in group_ranges(meta)
            for skip in range(0, max(1, sum(meta.row_group(group).num_rows for group in run.groups)), TABLE_ROWS)
        ]


def _csv_ranges(file: Path, scans: Sequence[_Scan], reading: Reading) -> list[CsvRange]:
    with file.open("rb") as stream:
        head = stream.read(scans[0].ends[0][0])
    columns = csv_columns(head, source=shown_name(file), reading=reading)
    found: list[CsvRange] = []
    begin, line, lines, quotes = 0, 1, 0, 0
    for number, scan in enumerate(scans):
        end, before = scan.ends[quotes % 2]
        last = number == len(scans) - 1
        if scan.returns or (end < 0 and not last):
            return []
        cut = (number + 1) * csv_files.CSV_BLOCK - begin
        found.append(CsvRange(begin, None if last else end - begin, cut, line, columns if number else None))
        begin, line = end, lines + before + 1
        lines, quotes = lines + scan.lines, quotes + scan.quotes
    return found


def _line_ranges(scans: Sequence[_Scan]) -> list[LineRange]:
    begins = [(0, 1)]
    lines = scans[0].lines
    for number, scan in enumerate(scans[1:], start=1):
        begin = number * csv_files.CSV_BLOCK
        if scans[number - 1].closed:
            begins.append((begin, lines + 1))
        elif scan.first >= 0:
            begins.append((scan.first, lines + 2))
        lines += scan.lines
    ends = [begin for begin, _ in begins[1:]]
    return [LineRange(begin, end, line) for (begin, line), end in zip(begins, [*ends, None], strict=True)]


def _scanned(block: tuple[str, int]) -> _Scan:
    path, begin = block
    with Path(path).open("rb") as file:
        file.seek(begin)
        data = file.read(csv_files.CSV_BLOCK + 1)
    whole, data = data, data[: csv_files.CSV_BLOCK]
    lines, quotes = data.count(b"\n"), data.count(b'"')
    last = data.rfind(b"\n") + 1
    ends = ((begin + last, lines) if last else (-1, 0), (-1, 0))
    if quotes:
        ends = (_last(record_ends(data), data, begin), _last(record_ends(b'"' + data) - 1, data, begin))
    first = data.find(b"\n")
    returns = data.count(b"\r") > whole.count(b"\r\n")
    return _Scan(lines, quotes, returns, begin + first + 1 if first >= 0 else -1, data.endswith(b"\n"), ends)


def _last(ends: np.ndarray[tuple[int], np.dtype[np.int64]], data: bytes, begin: int) -> tuple[int, int]:
    if not len(ends):
        return -1, 0
    end = int(ends[-1]) + 1
    return begin + end, data.count(b"\n", 0, end)
