"""Programs as files, in versions, for processes that load them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xscl.base.versioned_files import VersionFiles, load_version
from xscl.templates.plans import GroupChange
from xscl.templates.program import Program

__all__ = ["ProgramFiles", "load_program"]

_MOST_KEPT = 2
"""Programs in one process: the second one of another engine, in tests."""


@dataclass(frozen=True, slots=True)
class _Version:
    previous: str | None
    program: Program | None
    """The whole, if there is none before."""
    changes: tuple[GroupChange, ...] = ()
    """Since the version before."""


class ProgramFiles:
    """Writes a program as it changes for processes that load it."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._changes: list[GroupChange] = []
        """Since the last version."""
        self._count = 0
        """Groups in them."""
        self._files = VersionFiles("program")

    def change(self, change: GroupChange) -> None:
        """Change the program."""
        self._program.change(change)
        self._count += len(change)
        if self._files.last is not None and self._count < len(self._program.groups):
            self._changes.append(change)
        else:
            self._changes.clear()  # the whole will be written

    def written(self, folder: Path) -> Path:
        """Return the file of the program as it is now."""
        if self._files.last is not None and not self._count:
            return self._files.last

        def make(previous: str | None) -> _Version:
            return _Version(previous, None if previous else self._program, tuple(self._changes) if previous else ())

        path = self._files.write(folder, make, changes=self._count, size=len(self._program.groups))
        self._changes, self._count = [], 0
        return path


_programs: dict[str, Program] = {}
"""The programs of this process by the file of their version."""


def load_program(path: str) -> Program:
    """Return the program of a version; that of an earlier one is brought up to date, and is no longer the earlier
    one's.
    """

    def changed(program: Program, version: _Version) -> Program:
        if version.program is not None:
            return version.program
        # Numbers are given out in the order of changes, so they are those of the program that was written.
        for change in version.changes:
            program.change(change)
        return program

    return load_version(path, _programs, _MOST_KEPT, Program, changed)
