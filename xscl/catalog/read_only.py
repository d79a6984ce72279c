"""Reading a SQLite database that this process may not write: a home on a read-only mount, or another user's."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xscl.base.temporary import let_folder_go, scratch_folder

__all__ = ["Reader", "is_read_only", "reader_of"]

_BUSY_S = 60.0


def is_read_only(database: Path) -> bool:
    """Tell whether a database is there that this process may not write: SQLite also writes beside its file."""
    return database.is_file() and not (os.access(database, os.W_OK) and os.access(database.parent, os.W_OK))


@dataclass(frozen=True, slots=True)
class Reader:
    """Way to read a database that this process may not write."""

    connect: Callable[[], sqlite3.Connection]
    """Makes a connection."""
    copy: Path | None = None
    """Folder of a copy that is read in place of the database; whoever ends the reading lets it go."""


def reader_of(database: Path) -> Reader:
    """Return a way to read a database that writes nothing beside it.

    The log of a writer that lives is read with it.  Where a writer has ended without putting its log into the database,
    reading needs a file that cannot be written here: then a copy is read.
    """
    log = database.with_name(f"{database.name}-wal")
    if _answers(database, "mode=ro"):
        return Reader(lambda: _connected(database, "mode=ro"))
    if not log.is_file() or not log.stat().st_size:
        # Nobody writes: there would be a log.
        return Reader(lambda: _connected(database, "mode=ro&immutable=1"))
    folder = scratch_folder("xscl-catalog")
    try:
        for file in (database, log):
            shutil.copyfile(file, folder / file.name)
    except BaseException:
        let_folder_go(folder)
        raise
    return Reader(lambda: _connected(folder / database.name, "mode=rw"), folder)


def _connected(database: Path, how: str) -> sqlite3.Connection:
    uri = f"{database.absolute().as_uri()}?{how}"
    connection = sqlite3.connect(uri, uri=True, timeout=_BUSY_S, check_same_thread=False)
    connection.execute("pragma query_only = on")
    return connection


def _answers(database: Path, how: str) -> bool:
    try:
        connection = _connected(database, how)
    except sqlite3.OperationalError:
        return False
    try:
        connection.execute("select count(*) from sqlite_master").fetchone()
    except sqlite3.OperationalError:
        return False
    finally:
        connection.close()
    return True
