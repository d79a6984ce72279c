"""The join state of a home: the files of witness rows and rows of links that later events may still join.

A batch adds its rows.  After it, ``next_state`` counts the rows that are still of use (``templates.retention``), puts
files that were merged meanwhile (``state_merges``) in place of others and retires files without such a row;
``commit_state`` names the outcome in the batch's transaction.  Rows that are no longer of use are out of sight at
once, because whoever reads applies the floors of the last commit (``HeldState``).  They leave the disk when their file
is retired or written again.

Upkeep unlinks retired files when nobody reads them any longer.  A file that no row of ``state_files`` names means
nothing, so a process may end anywhere.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.failpoints import step
from xscl.base.local_copies import near_file
from xscl.base.number_order import each_once
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.catalog.channels import read_watermarks
from xscl.catalog.prepared import prepared
from xscl.catalog.state_files import count_held, replace_state_files
from xscl.catalog.tables import STATE_FILES
from xscl.store.compaction import FileSet
from xscl.store.home import Home
from xscl.store.kept_rows import KeptRows
from xscl.store.state_files import Kind, StateFile, facts_of_file, open_links, times_of, write_run
from xscl.store.watermarks import Watermarks, commit_watermarks
from xscl.templates.columns import Int64s
from xscl.templates.many_blocks.runs import LinkRun
from xscl.templates.retention import Floors, floors
from xscl.templates.runs.files import open_run
from xscl.templates.runs.merging import part_of
from xscl.templates.runs.rows import documents_rows, rows_of_run, with_more_rows
from xscl.templates.runs.run import Run

__all__ = [
    "HeldState",
    "Merged",
    "StateChange",
    "commit_state",
    "discard_change",
    "files_by_kind",
    "held_state",
    "next_state",
    "state_among",
]


@dataclass(frozen=True)
class HeldState:
    """The join state as the last commit left it."""

    root: Path
    files: tuple[StateFile, ...]
    reach: pa.Table | None
    """Table ``REACH_SCHEMA``: how long rows are kept; None: not known yet, and all are kept."""
    reach_path: str | None
    watermarks: Mapping[str, int | None]

    def paths(self, kind: Kind) -> list[Path]:
        """Return the files with rows to join, by their times."""
        files = sorted(self.files, key=times_of)
        return [self.root / file.path for file in files if file.kind == kind and file.held]

    def runs(self) -> list[Run]:
        """Open the runs with rows to join."""
        return [open_run(str(near_file(path))) for path in self.paths("witness")]

    def links(self) -> list[LinkRun]:
        """Open the runs of rows of links."""
        return [open_links(str(near_file(path))) for path in self.paths("link")]

    @cached_property
    def floors(self) -> Floors | None:
        """Floors that apply to the rows of these files; None: all are kept."""
        return None if self.reach is None else floors(self.reach, self.watermarks)

    @property
    def rows(self) -> int:
        """Rows held."""
        return sum(file.held for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the files that hold them."""
        return sum(file.bytes for file in self.files if file.held)


@dataclass(frozen=True, slots=True)
class Merged:
    """A file that has the kept rows of others."""

    inputs: frozenset[str]
    """Paths of the others."""
    file: StateFile


@dataclass(frozen=True)
class StateChange:
    """Change of the join state by a batch, for ``commit_state``."""

    before: HeldState
    after: HeldState
    files: FileSet[StateFile]
    """Files of ``after``, the one with reaches included."""
    watermarks: Watermarks | None = None
    """Clocks and watermarks after the batch; None: as they were."""
    written: tuple[str, ...] = ()
    """Files that were written for this change, beside the files of the batch."""
    purged: int = 0
    """Rows that are no longer held; rows that never were do not count."""


def files_by_kind(connection: Connection) -> dict[str, list[StateFile]]:
    """Return the files of state by kind, the oldest one first."""
    found: dict[str, list[StateFile]] = {}
    for row in connection.execute(*_files()).mappings():
        found.setdefault(row["kind"], []).append(_state_file(row))
    return found


def held_state(home: Home, connection: Connection) -> HeldState:
    """Read the join state as the last commit left it."""
    return state_among(home, files_by_kind(connection), read_watermarks(connection))


def state_among(
    home: Home, files: Mapping[str, Sequence[StateFile]], watermarks: Mapping[str, int | None]
) -> HeldState:
    """Return the join state as the last commit left it, whose files are among some, by kind."""
    rows = [file for of in files.values() for file in of]
    reach_path = next((file.path for file in rows if file.kind == "reach"), None)
    return HeldState(
        root=home.root,
        files=tuple(file for file in rows if file.kind in ("witness", "link")),
        reach=None if reach_path is None else _read_reach(home.root / reach_path),
        reach_path=reach_path,
        watermarks=watermarks,
    )


def _state_file(row: sa.RowMapping) -> StateFile:
    return StateFile(**{name: row[name] for name in StateFile.__slots__})


@prepared
def _files() -> sa.Select[Any]:
    return sa.select(STATE_FILES).order_by(STATE_FILES.c.batch)


@lru_cache(maxsize=4)
def _read_reach(path: Path) -> pa.Table:
    return pq.read_table(check_file(path))


def next_state(
    home: Home,
    before: HeldState,
    *,
    batch: int,
    reach: pa.Table,
    watermarks: Watermarks,
    fresh: Iterable[tuple[Kind, str]] = (),
    rows: Mapping[str, Run] = MappingProxyType({}),
    merged: Sequence[Merged] = (),
) -> StateChange:
    """Make the state after a batch; writes files, and names none.

    Args:
        home: the home.
        before: the state that the batch has joined with.
        batch: the batch's number.
        reach: how long rows are kept (``ReachBuilder``); rows of keys it does not name are not.
        watermarks: clocks and watermarks after the batch.
        fresh: (kind, path in the home) of the batch's own files.
        rows: the batch's other new rows, by the path that the file of those that are kept may have.
        merged: files in place of some of ``before``.
    """
    kept = KeptRows(home.root, before.floors, floors(reach, watermarks.watermarks))
    replaced = frozenset().union(*(each.inputs for each in merged))
    with _writing(home, batch, kept) as writer:
        own = [*writer.in_memory(rows), *(facts_of_file(home.root, path, kind, batch) for kind, path in fresh)]
        there = [file for file in before.files if file.path not in replaced]
        instead = [each.file for each in merged]
        gone, made = writer.completed([*there, *instead], own)
        own += made
        there, instead, own = ([file for file in some if file.path not in gone] for some in (there, instead, own))
        counted = _count(kept, there, instead, own)
        new = {file.path for file in own}
        again = [writer.again(file, fresh=file.path in new) for file in counted.lowered]
        files = counted.files.retire(counted.gone).put(again).retire(gone | replaced)
        after = HeldState(home.root, files.files, reach, before.reach_path, watermarks.watermarks)
        if not reach.equals(before.reach):
            written = writer.reach(reach)
            files = files.put([written])
            files = files if before.reach_path is None else files.retire([before.reach_path])
            after = replace(after, reach_path=written.path)
    purged = before.rows - counted.earlier - writer.moved
    return StateChange(before, after, files, watermarks, tuple(writer.written), purged)


@dataclass(frozen=True, slots=True)
class _Counted:
    """Files with their rows held."""

    files: FileSet[StateFile]
    lowered: list[StateFile]
    """Files to be written again, because floors that are lower than before would bring rows back that are out of sight.
    """
    earlier: int
    """Rows held of earlier batches."""

    @property
    def gone(self) -> set[str]:
        """Files without a held row, and those written again; new ones too, so that they are unlinked in time."""
        return {file.path for file in self.files.files if not file.held} | {file.path for file in self.lowered}


def _count(
    kept: KeptRows, there: Sequence[StateFile], instead: Sequence[StateFile], own: Sequence[StateFile]
) -> _Counted:
    """Count the rows held of files that are named, of those that were merged, and of the batch's own."""
    named, merged = ([kept.counted(file, fresh=False) for file in files] for files in (there, instead))
    added = [*merged, *(kept.counted(file, fresh=True) for file in own)]
    return _Counted(
        FileSet(tuple(file for file, _ in named), tuple(file for file, _ in added)),
        [file for file, lower in (*named, *added) if lower and file.held],
        sum(file.held for file, _ in (*named, *merged)),
    )


# -- one writer ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Writer:
    """Writes the files of a change of state."""

    home: Home
    batch: int
    kept: KeptRows
    written: list[str] = field(default_factory=list)
    moved: int = 0
    """Kept rows of files that were written again with more rows of their documents."""
    _shared: dict[str, list[Int64s]] = field(default_factory=dict)
    """Documents that the batch's own files share with the state."""

    def in_memory(self, rows: Mapping[str, Run]) -> Iterator[StateFile]:
        """Write the batch's new rows that are kept."""
        for path, run in rows.items():
            kept = self.kept.rows_kept(run)
            step("state.write")
            if kept.any():
                run = run if kept.all() else part_of(run, kept)
                yield self._facts(write_run(self.home.root / path, run), "witness")
                step("state.wrote")

    def completed(self, named: Sequence[StateFile], own: Sequence[StateFile]) -> tuple[frozenset[str], list[StateFile]]:
        """Bring rows of documents that the state has already together with these: all rows of one are in one run.

        Returns the files that are replaced, and the files instead of them.
        """
        gone: set[str] = set()
        made = []
        more = [file for file in own if file.kind == "witness"]
        for file in named:
            own_docs = [each for each in more if file.kind == "witness" and _may_share(file, each)]
            run = open_run(str(near_file(self.home.root / file.path))) if own_docs else None
            if run is None:
                continue
            tables = []
            for each in own_docs:
                other = open_run(str(self.home.root / each.path))
                shared = other.docs[run.places_of(other.docs)[1]]
                if len(shared):
                    tables.append(rows_of_run(other, documents_rows(other, shared) & self.kept.rows_kept(other)))
                    self._shared.setdefault(each.path, []).append(shared)
            if tables:
                step("state.complete")
                kept = self.kept.mask(file, fresh=False)
                whole = with_more_rows(run, kept, pa.concat_tables(tables))
                gone.add(file.path)
                self.moved += int(kept.sum())
                if whole.size:
                    made.append(self._facts(write_run(self._new("witness"), whole), "witness"))
        for path, parts in self._shared.items():
            other = open_run(str(self.home.root / path))
            rest = part_of(other, ~documents_rows(other, each_once(np.concatenate(parts))))
            gone.add(path)
            if rest.size:
                made.append(self._facts(write_run(self._new("witness"), rest), "witness"))
        return frozenset(gone), made

    def again(self, file: StateFile, *, fresh: bool) -> StateFile:
        """Write the kept rows of a file anew."""
        step("state.again")
        run = self.kept.merged([file], fresh=fresh)
        facts = self._facts(write_run(self._new(file.rows_kind), run), file.rows_kind)
        return replace(facts, held=facts.rows)

    def reach(self, reach: pa.Table) -> StateFile:
        """Write how long rows are kept."""
        made = write_sealed(self._new("reach"), lambda path: pq.write_table(reach, path, **PAGE_CHECKSUMS))
        facts = self._facts(made, "reach")
        step("state.reach")
        return facts

    def _new(self, kind: str) -> Path:
        suffix = "parquet" if kind == "reach" else "run"
        return self.home.folder("witness") / f"{self.batch:08d}-{uuid.uuid4().hex[:8]}-{kind}.{suffix}"

    def _facts(self, file: Path, kind: str) -> StateFile:
        self.written.append(str(file.relative_to(self.home.root)))
        return facts_of_file(self.home.root, self.written[-1], kind, self.batch)


def _may_share(one: StateFile, other: StateFile) -> bool:
    """Tell whether the documents of two runs are among the same numbers."""
    if one.docid_min is None or one.docid_max is None or other.docid_min is None or other.docid_max is None:
        return False
    return one.docid_min <= other.docid_max and other.docid_min <= one.docid_max


@contextmanager
def _writing(home: Home, batch: int, kept: KeptRows) -> Iterator[_Writer]:
    """Give a writer; a change that fails leaves none of its files."""
    writer = _Writer(home, batch, kept)
    try:
        yield writer
    except BaseException:
        _unlink(home, writer.written)
        raise


def discard_change(home: Home, change: StateChange) -> None:
    """Unlink the files of a change that is not committed."""
    _unlink(home, change.written)


def _unlink(home: Home, paths: Iterable[str]) -> None:
    for path in paths:
        (home.root / path).unlink(missing_ok=True)


# -- commit --------------------------------------------------------------------------------------------------------


def commit_state(connection: Connection, change: StateChange, now: int) -> None:
    """Name the state after a batch, in its transaction; ``now`` is in microseconds since the epoch."""
    held = {file.path: file.held for file in change.before.files}
    replace_state_files(connection, change.files.retired, [file.row() for file in change.files.added], now)
    count_held(connection, {file.path: file.held for file in change.files.kept if file.held != held[file.path]})
    if change.watermarks is not None:
        commit_watermarks(connection, change.watermarks, change.before.watermarks)
