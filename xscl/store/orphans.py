"""Files that no row names: what processes left that ended while they wrote, removed before the first batch.

Nothing that is named, or that somebody is about to name, is touched.  Files of ``witness/`` and ``results/`` are
written under the home's lock, which whoever tidies up holds.  Events are taken in by any process, but written within
its transaction, and only one transaction writes at a time: a file that was there before this one began, and has no row,
will never have one.  A folder of ``programs/`` is locked while its process lives.

Where the catalogue and the folder do not belong together, nothing is removed: if a file is missing that a row names, or
one is there with a number that was never given out.
"""

from __future__ import annotations

import re
from pathlib import Path

import sqlalchemy as sa

from xscl.base.failpoints import step
from xscl.base.temporary import remove_left
from xscl.catalog.tables import HOME, INTAKE_FILES, STATE_FILES
from xscl.store.home import Home
from xscl.store.inventory import FOLDERS, named_paths, remove

__all__ = ["tidy", "unnamed_files"]

_NEEDED = (INTAKE_FILES.c.path, STATE_FILES.c.path)
"""Columns whose files are there as long as they are named."""


def tidy(home: Home) -> None:
    """Remove what no row names; the caller holds the home's lock."""
    for path in unnamed_files(home):
        step("files.orphan")
        remove(path)
    remove_left(home.folder("programs"), "*")


def unnamed_files(home: Home) -> list[Path]:
    """Return files and folders of the home that no row names; none if folder and catalogue do not belong together."""
    there = {f"{folder}/{path.name}" for folder in FOLDERS for path in home.folder(folder).iterdir()}
    if not there:
        return []
    with home.catalog.begin() as connection:
        named = {_top(path) for path in named_paths(connection)}
        needed = {_top(path) for column in _NEEDED for path in connection.scalars(sa.select(column))}
        given_out = connection.scalars(sa.select(HOME.c.next_place)).one()
    left = sorted(there - named)
    if needed - there or any(_first_place(path) > given_out for path in left):
        return []
    return [home.root / path for path in left]


def _top(path: str) -> str:
    """Return the entry of the home's folder: of a folder of files, the folder."""
    return "/".join(Path(path).parts[:2])


def _first_place(path: str) -> int:
    """Return the first place of a file of events that were taken in; 0 of other files."""
    found = re.match(r"events/(\d{12})-", path)
    return int(found[1]) if found else 0
