"""Compaction: files in use as a value, and which of them are to be written as one.

Files of one size are a tier, as in a log-structured tree: files of a tier are merged into one of the next.  So a row is
written a logarithmic number of times.  Nothing here reads or writes a file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Generic, Protocol, TypeVar

__all__ = ["FileSet", "longest_run", "neighbours", "tier_of"]


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


def neighbours(
    files: Sequence[F],
    tier: Callable[[F], int | None],
    sizes: Callable[[F], tuple[int, ...]],
    limits: tuple[int, ...],
    fanout: int,
) -> Iterator[list[F]]:
    """Yield neighbours to be written as one, those of the lowest tier first.

    Args:
        files: the files in their order.
        tier: tier of a file; None for a file that is large enough, which parts its neighbours.
        sizes: sizes of a file, whose sums are within ``limits`` for files that become one.
        limits: the limits.
        fanout: files of one tier that are merged; files of lower tiers between them come along.

    >>> from types import SimpleNamespace as File
    >>> files = [File(path=str(n), rows=rows) for n, rows in enumerate((9, 1, 1, 4, 1, 1, 99, 1, 1))]
    >>> def tier(file):
    ...     return None if file.rows > 50 else tier_of(file.rows, 2, 4)
    >>> [[file.rows for file in run] for run in neighbours(files, tier, lambda file: (file.rows,), (100,), 2)]
    [[1, 1], [1, 1], [1, 1]]
    """
    tiers = [tier(file) for file in files]
    taken: set[str] = set()
    for level in sorted({of for of in tiers if of is not None}):
        for run in _runs(files, tiers, level, sizes, limits):
            mine = sum(of == level for _, of in run)
            if mine >= fanout and not taken.intersection(file.path for file, _ in run):
                taken.update(file.path for file, _ in run)
                yield [file for file, _ in run]


def _runs(
    files: Sequence[F],
    tiers: Sequence[int | None],
    level: int,
    sizes: Callable[[F], tuple[int, ...]],
    limits: tuple[int, ...],
) -> Iterator[list[tuple[F, int]]]:
    """Yield neighbours of a tier or of lower ones, with their tiers, in parts within the limits."""
    run: list[tuple[F, int]] = []
    sums = (0,) * len(limits)
    for file, of in zip(files, tiers, strict=True):
        own = sizes(file) if of is not None and of <= level else limits
        sums = tuple(some + more for some, more in zip(sums, own, strict=True))
        if of is None or of > level or any(some > limit for some, limit in zip(sums, limits, strict=True)):
            yield run
            run, sums = [], own if of is not None and of <= level else (0,) * len(limits)
        if of is not None and of <= level:
            run.append((file, of))
    yield run


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
