"""Rows that a batch adds to the join state: runs of witness rows, and files of rows of links.

A run that is made in this process stays in memory, and goes to a file only if someone reads one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from xscl.base.failpoints import step
from xscl.base.local_copies import near_file
from xscl.store.inventory import remove
from xscl.store.state_files import Kind, write_run
from xscl.templates.runs.files import open_run
from xscl.templates.runs.merging import merged_run
from xscl.templates.runs.rows import rows_of_run
from xscl.templates.runs.run import Run

__all__ = ["NewRows"]

_MANY_ROWS = 1_000_000
"""Rows of a run that stays in memory while later parts are to meet it."""


@dataclass
class NewRows:
    """Rows of a batch's levels so far."""

    root: Path
    """Folder of the home."""
    written: list[tuple[Kind, str]] = field(default_factory=list)
    """Kinds and paths of runs and of files of links, in the order of the levels."""
    waiting: dict[str, Run] = field(default_factory=dict)
    """Runs of ``written`` that are in memory and in no file, by path."""
    earlier: list[Run] = field(default_factory=list)
    """Runs of earlier levels and parts, as the next one meets them: small ones are merged."""

    @property
    def files(self) -> list[tuple[Kind, str]]:
        """Files of ``written`` that are there."""
        return [(kind, path) for kind, path in self.written if path not in self.waiting]

    @property
    def waiting_size(self) -> int:
        """Rows of the runs that are in memory."""
        return sum(run.size for run in self.waiting.values())

    def rows(self, path: str) -> pa.Table:
        """Return the witness rows of a run of ``written``, those that join with others."""
        return rows_of_run(self.waiting[path] if path in self.waiting else open_run(str(self.root / path)))

    def add(self, path: str, new: Run) -> None:
        """Add a run that was made in this process; later levels meet it merged with runs that are not much larger."""
        self.waiting[path] = new
        self.written.append(("witness", path))
        earlier = self.earlier
        earlier.append(new)
        while len(earlier) > 1 and earlier[-2].size < 2 * earlier[-1].size <= 2 * _MANY_ROWS:
            last = earlier.pop()
            earlier[-1] = merged_run([earlier[-1], last], [None, None])

    def add_files(self, paths: Sequence[str]) -> None:
        """Add runs that tasks have written."""
        for path in paths:
            self.written.append(("witness", path))
            self.earlier.append(open_run(str(near_file(self.root / path))))

    def add_links(self, paths: Sequence[str]) -> None:
        """Add files of rows of links."""
        self.written += [("link", path) for path in paths]

    def write_waiting(self) -> None:
        """Put runs that wait in memory into files, which have their digests in their names."""
        names = {
            path: str(write_run(self.root / path, run).relative_to(self.root)) for path, run in self.waiting.items()
        }
        self.written = [(kind, names.get(path, path)) for kind, path in self.written]
        self.waiting.clear()
        step("batch.waiting")

    def drop(self) -> None:
        """Remove the rows so far: nothing is to be joined with them any more."""
        for _, path in self.written:
            if self.waiting.pop(path, None) is None:
                remove(self.root / path)
        self.written.clear()
        self.earlier.clear()
