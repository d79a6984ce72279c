"""How files of rows are written: options as users name them, and formats told by name and content."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, cast

from xscl.base.errors import SourceError
from xscl.base.safe_xml import DEFAULT_LIMITS
from xscl.base.types import is_name
from xscl.ingest.event_file import read_row_line
from xscl.ingest.records import RowOptions
from xscl.ingest.row_times import check_times
from xscl.ingest.rows import parse_schema

__all__ = [
    "BOM",
    "ENDINGS",
    "Format",
    "RowFormat",
    "check_width",
    "ending",
    "file_channel",
    "row_format",
    "row_options",
]


Format = Literal["csv", "jsonl", "parquet"]


_PARQUET = b"PAR1"


BOM = b"\xef\xbb\xbf"
ENDINGS = {".csv": ",", ".tsv": "\t"}


_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst)\Z")


_CONTROL = ("channel", "register", "drop", "flush")


@dataclass(frozen=True, slots=True)
class RowFormat:
    """How files of rows are written."""

    format: Format | None = None
    """None: told from name and content."""
    delimiter: str | None = None
    """Of CSV; None: a tab in ``.tsv`` files, else a comma."""
    header: bool | None = None
    """Whether the first line of CSV names the columns; None: unless ``schema`` does and the line has other names."""
    nulls: tuple[str, ...] = ()
    """Texts of CSV that stand for NULL, besides nothing."""
    schema: Mapping[str, str] | None = None
    """The columns and types of a channel that is not known yet (``rows.parse_schema``); names CSV without a header."""
    options: RowOptions = field(default_factory=RowOptions)


def row_options(
    *,
    format: str | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    null: Sequence[str] = (),
    schema: str | None = None,
    columns: str | Sequence[str] | None = None,
    id: str | None = None,
    ts: str | None = None,
    ts_format: str | None = None,
    ts_zone: str = "UTC",
) -> RowFormat:
    """How rows are written and read, by the names that users give.

    Args:
        format: ``csv``, ``jsonl`` or ``parquet``.
        delimiter: between the values of CSV.
        header: whether CSV begins with the names of its columns.
        null: texts of CSV that stand for NULL.
        schema: columns and types, as ``parse_schema`` takes them.
        columns: the columns to take, in a list or by commas.
        id: the column of ids.
        ts: the column of event times, or several by white space.
        ts_format: as ``RowOptions.ts_format``.
        ts_zone: where times without a zone were written.

    Raises:
        SourceError: ``XSCL_BAD_OPTION``, ``XSCL_BAD_SCHEMA``.
    """
    if format not in (None, "csv", "jsonl", "parquet"):
        raise SourceError("XSCL_BAD_OPTION", f"there is no format {format!r}", hint="csv, jsonl or parquet")
    if isinstance(columns, str):
        columns = [name.strip() for name in columns.split(",")]
    check_times(ts_format, ts_zone)
    options = RowOptions(None if columns is None else tuple(columns), id, ts, ts_format, ts_zone)
    nulls = (null,) if isinstance(null, str) else tuple(null)
    declared = None if schema is None else parse_schema(schema)
    return RowFormat(cast("Format | None", format), delimiter, header, nulls, declared, options)


def row_format(name: str, head: bytes, asked: Format | None = None) -> Format | None:
    """The format of a file of rows, by its name and first bytes, unpacked; None if it is none.

    JSON lines are told from an event file by their first line, which has no key of an event file.
    """
    if asked is not None:
        return asked
    if head.startswith(_PARQUET):
        return "parquet"
    if ending(name) in ENDINGS:
        return "csv"
    line = head.removeprefix(BOM).lstrip().partition(b"\n")[0]
    if not line.startswith(b"{"):
        return None
    try:
        found = read_row_line(line)
    except SourceError:
        return None
    return "jsonl" if found and not any(key in found for key in _CONTROL) else None


def ending(name: str) -> str:
    """Find the ending of a file's name, in small letters, without that of a compression."""
    return Path(_PACKED.sub("", name.lower())).suffix


def file_channel(name: str) -> str | None:
    """The channel of a file's rows where none is given: the file's name without endings, if it can be one.

    >>> file_channel("data/readings.csv.gz"), file_channel("2026.csv"), file_channel("days.tar!a/readings.csv")
    ('readings', None, 'readings')
    """
    stem = Path(name.rpartition("!")[2]).name.partition(".")[0]
    return stem if is_name(stem) else None


def check_width(columns: int, source: str) -> None:
    """Refuse a table of which no row could be taken, before its columns are looked at.

    Raises:
        SourceError: ``XSCL_DOCUMENT_LIMIT``.
    """
    most = DEFAULT_LIMITS.max_names
    if columns > most:
        raise SourceError("XSCL_DOCUMENT_LIMIT", f"{source}: {columns:,} columns; the limit max_names is {most:,}")
