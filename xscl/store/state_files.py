"""Files of join state: runs of witness rows (``templates.runs.files``), and rows of links.

A file has its digest in its name.  Table ``state_files`` says what a file holds; its footer says most of that too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Literal

import pyarrow.parquet as pq

from xscl.base.sealed import write_sealed
from xscl.templates.many_blocks.runs import LinkRun
from xscl.templates.runs.files import run_facts, save_run
from xscl.templates.runs.run import Run

__all__ = ["Kind", "StateFile", "facts_of_file", "facts_of_held_file", "open_links", "times_of", "write_run"]

Kind = Literal["witness", "link"]
_OPEN = 4_096
"""Runs that a process keeps open."""


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of rows, as table ``state_files`` has it; ``path`` is relative to the home."""

    path: str
    kind: str
    batch: int
    rows: int
    held: int
    bytes: int
    ts_min: int | None
    ts_max: int | None
    docid_min: int | None
    docid_max: int | None

    @property
    def rows_kind(self) -> Kind:
        """Kind of its rows."""
        return "link" if self.kind == "link" else "witness"

    def row(self) -> dict[str, object]:
        """Return its row of ``state_files``."""
        return {name: getattr(self, name) for name in StateFile.__slots__}


def times_of(file: StateFile) -> tuple[int, int]:
    """Return the least and the greatest event time of a file's rows."""
    return file.ts_min or 0, file.ts_max or 0


def facts_of_held_file(root: Path, path: Path, kind: str, batch: int) -> StateFile:
    """Read what a new file under the home's folder ``root`` says of itself; all its rows count as held."""
    facts = facts_of_file(root, str(path.relative_to(root)), kind, batch)
    return replace(facts, held=facts.rows)


def facts_of_file(root: Path, path: str, kind: str, batch: int) -> StateFile:
    """Read what a file says of itself; none of its rows count as held yet."""
    full = root / path
    if kind == "witness":
        facts = run_facts(str(full))
        rows, times, docids = facts.rows, facts.times, facts.docs
    elif kind == "link":
        links = open_links(str(full))
        rows, times, docids = len(links), links.times, None
    else:
        rows, times, docids = pq.read_metadata(full).num_rows, None, None
    return StateFile(
        path=path,
        kind=kind,
        batch=batch,
        rows=rows,
        held=0,
        bytes=full.stat().st_size,
        ts_min=None if times is None else times[0],
        ts_max=None if times is None else times[1],
        docid_min=None if docids is None else docids[0],
        docid_max=None if docids is None else docids[1],
    )


@lru_cache(maxsize=_OPEN)
def open_links(path: str) -> LinkRun:
    """Open a run of rows of links; whoever calls has made sure that the file is as it was written."""
    return LinkRun.open(Path(path))


def write_run(path: Path, run: Run | LinkRun) -> Path:
    """Write a run; returns the file's name, which is ``path`` with a digest."""
    return write_sealed(path, run.save if isinstance(run, LinkRun) else lambda target: save_run(run, target))
