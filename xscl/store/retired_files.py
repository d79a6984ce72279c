"""Files and folders that went out of use: they stay for a while, because someone may be reading them."""

from __future__ import annotations

import shutil

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
    if paths:
        # A row goes after its file, so that no file is forgotten.
        with home.catalog.begin() as connection:
            forget_retired(connection, paths)
    return len(paths)
