"""Files and folders that went out of use: they stay for a while, because someone may be reading them."""

from __future__ import annotations

import shutil
from pathlib import Path

from xscl.base.failpoints import step
from xscl.catalog.state_files import forget_retired, retired_before
from xscl.store.home import Home

__all__ = ["GRACE", "unlink_old"]

GRACE = 600_000_000
"""Microseconds after which nobody is expected to read what went out of use."""
_AT_ONCE = 1_000


def unlink_old(home: Home, now: int) -> int:
    """Remove what went out of use long ago; how many files and folders that were."""
    paths = home.catalog.ask(retired_before, now - GRACE, _AT_ONCE)
    for path in paths:
        step("files.unlink")
        full = home.root / path
        if full.is_dir():
            shutil.rmtree(full, ignore_errors=True)
        else:
            full.unlink(missing_ok=True)
            _remove_empty(home, full.parent)
    if paths:
        # A row goes after its file, so that no file is forgotten.
        with home.catalog.begin() as connection:
            forget_retired(connection, paths)
    return len(paths)


def _remove_empty(home: Home, folder: Path) -> None:
    """Remove a folder of files with its last one."""
    if folder.parent.parent == home.root and folder.is_dir() and not any(folder.rglob("*.parquet")):
        shutil.rmtree(folder, ignore_errors=True)
