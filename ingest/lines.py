"""Lines of byte streams, bounded in length, with their offsets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

__all__ = ["MAX_LINE_BYTES", "ByteStream", "LineRange", "bounded_lines", "placed_lines"]

MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line that is taken, without its line end, inclusive."""


@dataclass(frozen=True, slots=True)
class LineRange:
    """Lines of a file that begin between two offsets."""

    begin: int = 0
    """Offset of the first line."""
    end: int | None = None
    """Offset of the first line behind them; None: all that is left."""
    line: int = 1
    """Number of the first line."""


class ByteStream(Protocol):
    """The part of a binary file that reading needs."""

    def read(self, size: int = -1, /) -> bytes:
        """Read at most ``size`` bytes."""

    def read1(self, size: int = -1, /) -> bytes:
        """Read what is there, at most ``size`` bytes; nothing at the end."""

    def readline(self, size: int = -1, /) -> bytes:
        """Read one line with its end, or its first ``size`` bytes."""


def bounded_lines(stream: ByteStream, *, limit: int = MAX_LINE_BYTES) -> Iterator[bytes]:
    """Yield the lines of ``stream``; a line over ``limit`` bytes is held and given only to ``limit + 2`` bytes."""
    return (line for _, line in placed_lines(stream, limit=limit))


def placed_lines(
    stream: ByteStream, *, begin: int = 0, end: int | None = None, limit: int = MAX_LINE_BYTES
) -> Iterator[tuple[int, bytes]]:
    """Yield the same lines with their offsets, from that of the first up to the line that begins at ``end``."""
    at = begin
    while (end is None or at < end) and (line := stream.readline(limit + 2)):
        yield at, line
        at += len(line)
        if len(line) == limit + 2 and not line.endswith(b"\n"):
            while rest := stream.readline(1 << 20):
                at += len(rest)
                if rest.endswith(b"\n"):
                    break
