"""The files that a home's catalogue names, one by one, and what it says of them."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import EngineError, XsclError
from xscl.base.sealed import LIST
from xscl.catalog.tables import BATCHES, INTAKE_FILES, OLD_FILES, ROW_RANGES, STATE_FILES
from xscl.store.home import Home
from xscl.store.parquet import data_files

__all__ = [
    "FOLDERS",
    "PATHS",
    "NamedFile",
    "changed_elsewhere",
    "files_of",
    "is_inside",
    "may_be_named",
    "named_files",
    "named_paths",
    "remove",
    "removed_unless_named",
]

FOLDERS = ("witness", "results", "events")
"""Folders of named files, those first whose files go out of use soonest."""
PATHS = (INTAKE_FILES.c.path, ROW_RANGES.c.path, STATE_FILES.c.path, OLD_FILES.c.path, BATCHES.c.result_path)
"""Columns that name files and folders of the home, also those that went out of use."""
_INSIDE = re.compile(r"(?:events|witness|results)(?:/[A-Za-z0-9_-][A-Za-z0-9._-]*)+")


@dataclass(frozen=True, slots=True)
class NamedFile:
    """A file, or a folder of files, as the catalogue names it."""

    path: str
    """Path in the home."""
    kind: str
    """``events``, ``results``, or of join state ``witness``, ``link``, ``reach``."""
    rows: int
    """Rows by the catalogue; of results, the matches in it."""
    first: int | None = None
    """First event's docid; None for other kinds."""
    last: int | None = None
    batch: int | None = None
    """Batch that made it, the first one if several share it; None for events."""
    last_batch: int | None = None
    """Last one of those batches; None for other kinds than results."""
    bytes: int | None = None
    """Its size; None: not said."""


def named_files(connection: Connection) -> Iterator[NamedFile]:
    """Iterate over the files that a catalogue names and uses; files that went out of use are left out."""
    for row in connection.execute(sa.select(STATE_FILES).order_by(STATE_FILES.c.path)):
        yield NamedFile(row.path, row.kind, row.rows, batch=row.batch, bytes=row.bytes)
    first = sa.func.min(BATCHES.c.batch)
    results = (
        sa.select(BATCHES.c.result_path, first, sa.func.max(BATCHES.c.batch), sa.func.sum(BATCHES.c.matches))
        .where(BATCHES.c.result_path.is_not(None))
        .group_by(BATCHES.c.result_path)
        .order_by(first)
    )
    for path, batch, last_batch, matches in connection.execute(results):
        yield NamedFile(path, "results", int(matches), batch=batch, last_batch=last_batch)
    for row in connection.execute(sa.select(INTAKE_FILES).order_by(INTAKE_FILES.c.first, INTAKE_FILES.c.path)):
        yield NamedFile(row.path, "events", row.rows, row.first, row.last)


def named_paths(connection: Connection) -> Iterator[str]:
    """Yield all paths in the home that a catalogue names, in use or not; some more than once."""
    for column in PATHS:
        yield from connection.scalars(sa.select(column).where(column.is_not(None)).distinct())


def files_of(root: Path, path: str) -> list[str]:
    """Return the file of this path in a home, or a folder's list and its Parquet files; nothing if it is not there."""
    full = root / path
    if not full.is_dir():
        return [path] if full.is_file() else []
    listed = [full / LIST] if (full / LIST).is_file() else []
    return [str(file.relative_to(root)) for file in (*listed, *data_files(full))]


def may_be_named(home: Home, column: sa.Column[str], path: str) -> bool:
    """Return whether this column may have a path that was written for a transaction that seems to have failed.

    The answer is yes where the catalogue does not answer: who asks is dealing with an error already, and ``tidy``
    removes files that no row names.
    """
    try:
        with home.catalog.read() as connection:
            return connection.execute(sa.select(column).where(column == path).limit(1)).first() is not None
    except (sa.exc.SQLAlchemyError, XsclError):
        return True


@contextmanager
def removed_unless_named(home: Home, column: sa.Column[str]) -> Iterator[list[str]]:
    """Collect paths that are written for a transaction; if that fails, files and folders that it does not name go."""
    written: list[str] = []
    try:
        yield written
    except BaseException:
        for path in written:
            if not may_be_named(home, column, path):
                remove(home.root / path)
        raise


def remove(path: Path) -> None:
    """Remove a file or a folder, if it is there."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def changed_elsewhere(path: str) -> EngineError:
    """Return the error that a file is no longer as this process knows it."""
    return EngineError(
        "XSCL_HOME_IN_USE",
        f"{path} was changed by another process",
        hint="one process works on a home at a time; nothing was lost",
    )


def is_inside(path: str) -> bool:
    """Whether a path can be that of a file or folder of a home, as xscl names them: nothing leads out of it.

    >>> is_inside("events/000000000001-ab.parquet"), is_inside("events/../../etc/passwd"), is_inside("/etc/passwd")
    (True, False, False)
    """
    return len(path) <= 240 and _INSIDE.fullmatch(path) is not None
