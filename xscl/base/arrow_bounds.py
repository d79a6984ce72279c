"""Bounds on Arrow files of strangers: one whose columns are compressed is refused by what its headers say.

Files of this program are not compressed, so nothing in them unpacks to more than the file has.  Arrow would unpack
columns before anybody could ask how large they are.  So two numbers are looked up in the headers themselves.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pyarrow as pa

__all__ = ["compressed"]

_MAGIC = b"ARROW1"
_RECORD_BATCHES = 3
"""Number of the field of a footer that says where the record batches lie."""
_HEADER = 2
"""Number of the field of a message that says what it is."""
_COMPRESSION = 3
"""Number of the field of a record batch that says how its columns are compressed."""


def compressed(path: Path) -> str | None:
    """Tell how an Arrow file is not as this program writes it; None: it has one record batch, not compressed."""
    with pa.memory_map(str(path)) as file:
        content = memoryview(file.read_buffer())
        try:
            if bytes(content[:6]) != _MAGIC or bytes(content[-6:]) != _MAGIC:
                return "it is no Arrow file"
            size = _int(content, len(content) - 10)
            footer = content[len(content) - 10 - size : len(content) - 10]
            batches = _indirect(footer, _field(footer, _indirect(footer, 0), _RECORD_BATCHES))
            if _int(footer, batches) != 1:
                return f"it has {_int(footer, batches):,} record batches"
            begin, length = struct.unpack_from("<qi", footer, batches + 4)
            if not 0 <= begin <= len(content):
                return "its headers lead out of it"
            # A message begins with a mark, and with its length.
            message = content[begin + 8 : begin + length]
            batch = _indirect(message, _field(message, _indirect(message, 0), _HEADER))
            return "its columns are compressed" if _field(message, batch, _COMPRESSION) else None
        except (struct.error, ValueError):
            return "its headers lead out of it"


def _int(content: memoryview, at: int) -> int:
    if at < 0:
        raise ValueError(at)
    found: int = struct.unpack_from("<i", content, at)[0]
    return found


def _indirect(content: memoryview, at: int) -> int:
    """Follow an offset."""
    return at + _int(content, at)


def _field(content: memoryview, table: int, number: int) -> int:
    """Return the place of a field of a table of FlatBuffers; 0: it has none."""
    fields = table - _int(content, table)
    (size,) = struct.unpack_from("<H", content, fields) if fields >= 0 else (0,)
    at = 4 + 2 * number
    (offset,) = struct.unpack_from("<H", content, fields + at) if at < size else (0,)
    return table + offset if offset else 0
