"""Rows of join state that are kept: counted by what files tell of themselves, or looked at one by one.

A row is kept after a batch if it was kept before and the floors of now keep it (``templates.retention``).  So a row
that went out of sight stays so, also where floors fall.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xscl.base.local_copies import near_file
from xscl.store.state_files import StateFile, open_links
from xscl.templates.columns import Bools
from xscl.templates.many_blocks.runs import LinkRun, merged_links
from xscl.templates.many_blocks.runs import counted as links_counted
from xscl.templates.many_blocks.runs import kept as links_kept
from xscl.templates.retention import Floors
from xscl.templates.runs.files import open_run, run_facts
from xscl.templates.runs.merging import merged_run
from xscl.templates.runs.rows import rows_above
from xscl.templates.runs.run import Run

__all__ = ["KeptRows"]


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Floors that tell kept rows from others."""

    root: Path
    before: Floors | None
    """Floors of the last commit; None: all rows were kept."""
    now: Floors

    def counted(self, file: StateFile, *, fresh: bool) -> tuple[StateFile, bool]:
        """Return the file with its rows held, and whether lower floors would bring back rows that are out of sight.

        Floors of the last commit do not apply to a ``fresh`` file.
        """
        path = str(near_file(self.root / file.path))
        before = None if fresh else self.before
        if file.kind == "witness":
            keys = run_facts(path).keys
            some, every = (self.now.keep(keys.variables, times) for times in (keys.greatest, keys.least))
            if before is not None:
                every &= before.keep(keys.variables, keys.least)
            if (every == some).all():
                return replace(file, held=int(keys.rows[every].sum())), False
            # Some keys' rows are kept in part: they are looked at one by one.
            now, earlier = self._masks(open_run(path), before)
            return replace(file, held=int(earlier.sum())), bool((earlier != now).any())
        held, lower = links_counted(open_links(path), self.now, before)
        return replace(file, held=held), lower

    def mask(self, file: StateFile, *, fresh: bool) -> Bools:
        """Tell which rows of a file are kept."""
        path = str(near_file(self.root / file.path))
        before = None if fresh else self.before
        if file.kind == "witness":
            return self._masks(open_run(path), before)[1]
        return links_kept(open_links(path), self.now, before)

    def merged(self, files: Sequence[StateFile], *, fresh: bool = False) -> Run | LinkRun:
        """Make one run of the kept rows of several files of one kind, which say how many they hold."""
        masks = [None if file.held == file.rows else self.mask(file, fresh=fresh) for file in files]
        paths = [str(near_file(self.root / file.path)) for file in files]
        if files[0].kind == "witness":
            return merged_run([open_run(path) for path in paths], masks)
        return merged_links([open_links(path) for path in paths], masks)

    def rows_kept(self, run: Run) -> Bools:
        """Tell which rows of a new run are kept."""
        return rows_above(run, self.now)

    def _masks(self, run: Run, before: Floors | None) -> tuple[Bools, Bools]:
        """Tell which rows the floors of now keep; and which of these were kept before."""
        now = rows_above(run, self.now)
        return now, now if before is None else now & rows_above(run, before)
