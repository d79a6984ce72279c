"""Large archives in ranges of members, for tasks.

Whoever reads a range unpacks what stands before it, too, and so counts the same bytes and members.  Unpacking costs a
hundredth of what is done with a document, and an archive has few ranges.
"""

from __future__ import annotations

import io
from dataclasses import dataclass
from pathlib import Path

from xscl.base.errors import SourceError
from xscl.ingest.archives import MAX_LAYERS, Budget, members, peeled

__all__ = ["MemberRange", "member_ranges"]

RANGE_BYTES = 4 * 1024 * 1024
"""Bytes of a range at least."""
_RANGES = 16
"""Ranges of an archive at most."""
_CHUNK = 64 * 1024


@dataclass(frozen=True, slots=True)
class MemberRange:
    """Members of an archive that one task reads."""

    first: int
    """Number of the first one, from 0, without those that are passed over."""
    end: int | None
    """Number behind the last one; None: up to the end of the archive, whatever comes there."""


def member_ranges(path: str) -> list[MemberRange]:
    """Unpack an archive and return its ranges; nothing for what is none, or has archives or packed files in it."""
    sizes: list[int] = []
    try:
        with Path(path).open("rb") as stream:
            budget = Budget(path)
            _, archive, is_tar = peeled(stream, budget)
            if not is_tar:
                return []
            for _, member in members(archive, budget):
                size = _plain_size(member, path)
                if size is None:
                    return []  # what is unpacked there counts, too
                sizes.append(size)
    except (OSError, SourceError):
        pass  # whoever reads the last range comes to the same place
    least = max(RANGE_BYTES, -(-sum(sizes) // _RANGES))
    begins, filled = [0], 0
    for number, size in enumerate(sizes):
        if filled >= least:
            begins.append(number)
            filled = 0
        filled += size
    return [MemberRange(begin, end) for begin, end in zip(begins, [*begins[1:], None], strict=True)]


def _plain_size(member: io.BufferedIOBase, path: str) -> int | None:
    """Read a member; return its bytes, or None if it is an archive or packed."""
    inner = Budget(path)
    try:
        _, content, _ = peeled(member, inner)
    except SourceError:
        return None
    if inner.layers < MAX_LAYERS:
        return None
    size = 0
    while data := content.read1(_CHUNK):
        size += len(data)
    return size
