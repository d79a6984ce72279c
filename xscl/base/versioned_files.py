"""Values that other processes keep up to date, as files: a version is what it changes of the one before, or whole.

A process that has the value of an earlier version reads the changes since then, a new one reads all from the last whole
version on.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from xscl.base.failpoints import step
from xscl.base.sealed import read_whole, write_whole

__all__ = ["Version", "VersionFiles", "load_version", "write_version"]

_MOST_FILES = 100
"""Files from one whole version on, at most."""


class Version(Protocol):
    """Content of one file."""

    @property
    def previous(self) -> str | None:
        """The file of the version that this one changes; None: it is whole."""


T = TypeVar("T")
V = TypeVar("V", bound=Version)


class VersionFiles:
    """Writes the versions of one value, and removes the files that no version needs any more."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._files: list[Path] = []
        """Files from the last whole version on."""
        self._changes = 0
        """Things changed since then."""
        self._number = 0

    @property
    def last(self) -> Path | None:
        """The version written last."""
        return self._files[-1] if self._files else None

    def write(self, folder: Path, make: Callable[[str | None], Version], *, changes: int, size: int) -> Path:
        """Write the next version of a value of ``size`` entries, with ``changes`` entries since the last version.

        ``make`` returns the change of a version, or the whole value if it is given None.
        """
        path = folder / f"{self._name}-{self._number + 1:06d}.pickle"
        # When the changes are as many as the things, reading all of them costs a new process twice as much; and files
        # have a price of their own.
        whole = not self._files or self._changes + changes >= size or len(self._files) >= _MOST_FILES
        write_version(make(None if whole else str(self._files[-1])), path)
        # Only now: if the file could not be written, the next call must not take it for written.
        self._number += 1
        self._changes = 0 if whole else self._changes + changes
        if whole:
            for old in self._files:
                old.unlink(missing_ok=True)
            self._files = []
        self._files.append(path)
        return path


def write_version(version: Version, path: Path) -> None:
    """Write a version; the files of the versions before it must stay."""
    step("workers.write")
    write_whole(path, pickle.dumps(version, protocol=5))


def load_version(path: str, kept: dict[str, T], most: int, new: Callable[[], T], apply: Callable[[T, V], T]) -> T:
    """Return the value of a version; ``new`` and ``apply`` make it.

    If ``kept`` has the value of an earlier version, that is brought up to date, and is no longer the earlier one's.
    ``kept`` holds at most so many values by their files, the one used last at the end.
    """
    versions: list[V] = []
    at: str | None = path
    while at is not None and at not in kept:
        version: V = pickle.loads(read_whole(Path(at)))
        versions.append(version)
        at = version.previous
    if at is None:
        # What a whole version takes the place of is not needed while the new value is made.
        for known in [known for known in kept if _series(known) == _series(path)]:
            del kept[known]
    value = new() if at is None else kept.pop(at)
    for version in reversed(versions):
        value = apply(value, version)
    kept[path] = value
    while len(kept) > most:
        del kept[next(iter(kept))]
    return value


def _series(path: str) -> str:
    """Return the part of a path that the files of one ``VersionFiles`` share."""
    return path.rpartition("-")[0]
