"""Compaction: files in use as a value, and which of them are to be written as one.

Files of one size are a tier, as in a log-structured tree: files of a tier are merged into one of the next.  So a row is
written a logarithmic number of times.  Nothing here reads or writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Generic, Protocol, TypeVar

__all__ = ["FileSet", "longest_run", "tier_of"]


class _File(Protocol):
    @property
    def path(self) -> str:
        """Path in the home."""


F = TypeVar("F", bound=_File)


@dataclass(frozen=True, slots=True)
class FileSet(Generic[F]):
    """Files in use after a change, and how they differ from the files that the catalogue names."""

    kept: tuple[F, ...]
    """Files that the catalogue names, and goes on to name."""
    added: tuple[F, ...] = ()
    """Files that it is going to name."""
    retired: tuple[str, ...] = ()
    """Paths of files that went out of use, named or not."""

    @property
    def files(self) -> tuple[F, ...]:
        """All files in use."""
        return (*self.kept, *self.added)

    def put(self, files: Iterable[F]) -> FileSet[F]:
        """Return the set with more files added."""
        return FileSet(self.kept, (*self.added, *files), self.retired)

    def retire(self, paths: Collection[str]) -> FileSet[F]:
        """Return the set without some files."""
        kept, added = (tuple(file for file in files if file.path not in paths) for files in (self.kept, self.added))
        return FileSet(kept, added, (*self.retired, *sorted(paths)))


def tier_of(size: int, small: int, fanout: int) -> int:
    """Return the tier of a file: 0 up to the size ``small``, each further one up to ``fanout`` times the one before.

    >>> [tier_of(size, 1_000, 8) for size in (0, 1_000, 1_001, 8_001, 64_001)]
    [0, 0, 1, 2, 3]
    """
    return 0 if size <= small else 1 + int(log(size / small, fanout))


def longest_run(files: Sequence[F], times: Callable[[F], tuple[int, int]], span: int | None) -> list[F]:
    """Return the most neighbours whose times span no more than that, the oldest first.

    >>> from types import SimpleNamespace as File
    >>> files = [File(path=str(n), time=n) for n in (1, 5, 6, 7, 20)]
    >>> [file.time for file in longest_run(files, lambda file: (file.time, file.time), 3)]
    [5, 6, 7]
    """
    best: list[F] = []
    for start in range(len(files)):
        first, last = times(files[start])
        run = [files[start]]
        for file in files[start + 1 :]:
            last = max(last, times(file)[1])
            if span is not None and last - first > span:
                break
            run.append(file)
        best = max(best, run, key=len)
    return best
