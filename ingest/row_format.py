"""Formats of files of rows, told by name and content."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal, get_args

from xscl.base.document_limits import DEFAULT_LIMITS
from xscl.base.errors import SourceError
from xscl.base.types import is_name
from xscl.ingest.event_file import read_row_line

__all__ = [
    "BOM",
    "ENDINGS",
    "FORMATS",
    "Format",
    "check_width",
    "ending",
    "file_channel",
    "row_format",
]


Format = Literal["csv", "jsonl", "parquet"]
FORMATS = get_args(Format)


_PARQUET = b"PAR1"


BOM = b"\xef\xbb\xbf"
ENDINGS = {".csv": ",", ".tsv": "\t"}


_PACKED = re.compile(r"\.(?:gz|bz2|xz|zst)\Z")


_CONTROL = ("channel", "register", "drop", "flush", "heartbeat", "retract")


def row_format(name: str, head: bytes, asked: Format | None = None) -> Format | None:
    """Return the format of a file of rows, by its name and first bytes, unpacked; None if it is none.

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
    """Return the channel of a file's rows where none is given: the file's name without endings, if it can be one.

    >>> file_channel("data/readings.csv.gz"), file_channel("2026.csv"), file_channel("days.tar!a/readings.csv")
    ('readings', None, 'readings')
    """
    stem = Path(name.rpartition("!")[2]).name.partition(".")[0]
    return stem if is_name(stem) else None


def check_width(columns: int, source: str) -> None:
    """Refuse a table that is too wide for any row to be taken, before its columns are looked at.

    Raises:
        SourceError: ``XSCL_DOCUMENT_LIMIT``.
    """
    most = DEFAULT_LIMITS.max_names
    if columns > most:
        raise SourceError("XSCL_DOCUMENT_LIMIT", f"{source}: {columns:,} columns; the limit max_names is {most:,}")
