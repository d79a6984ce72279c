"""Files of a folder as a stream with offsets that Spark can keep: by when they last changed, then by name.

A file's time is that of its inode's last change (ctime), which nothing sets back: a file that is written, renamed or
moved in gets a new one.  So a folder is a sequence that only grows at its end, and an offset is a place in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from xscl.ingest.sources import files_in

__all__ = ["BEGIN", "Changed", "after", "groups", "listing"]

_GROUP_BYTES = 8 * 1024 * 1024
"""Files are read by one task up to so many bytes together."""


@dataclass(frozen=True, slots=True, order=True)
class Changed:
    """A file and when it last changed; ordered like the sequence."""

    time: int
    """Nanoseconds since the epoch."""
    path: str
    size: int = 0

    def offset(self) -> dict[str, str]:
        """Return the offset behind the file, as Spark keeps it; the time is text, as some read numbers as doubles."""
        return {"changed": str(self.time), "path": self.path}


BEGIN = Changed(0, "").offset()
"""The place before all files."""


def listing(paths: Iterable[str]) -> list[Changed]:
    """Return the files of folders, and files, in the sequence's order; what is not there is left out."""
    found: dict[str, Changed] = {}
    for path in map(Path, paths):
        for file in files_in(path, [], []) if path.is_dir() else [path]:
            try:
                status = file.stat()
            except OSError:
                continue
            found[str(file)] = Changed(status.st_ctime_ns, str(file), status.st_size)
    return sorted(found.values())


def after(
    files: Sequence[Changed],
    start: dict[str, str],
    *,
    until: dict[str, str] | None = None,
    before_ns: int | None = None,
    most: int | None = None,
) -> list[Changed]:
    """Return the files between two places.

    Args:
        files: all files, in order.
        start: the place to begin behind.
        until: the place to end at, inclusive.
        before_ns: only files that changed before this moment, in nanoseconds since the epoch.
        most: at most so many.
    """
    first = _place(start)
    last = None if until is None else _place(until)
    chosen = (
        file
        for file in files
        if (file.time, file.path) > first
        and (last is None or (file.time, file.path) <= last)
        and (before_ns is None or file.time < before_ns)
    )
    return list(islice(chosen, most))


def groups(files: Sequence[Changed], *, most_bytes: int = _GROUP_BYTES) -> list[list[str]]:
    """Return the files in runs of about equal work; a run has more bytes than ``most_bytes`` only if it is one file."""
    found: list[list[str]] = []
    size = 0
    for file in files:
        if not found or size + file.size > most_bytes:
            found.append([])
            size = 0
        found[-1].append(file.path)
        size += file.size
    return found


def _place(offset: dict[str, str]) -> tuple[int, str]:
    return int(offset["changed"]), offset["path"]
