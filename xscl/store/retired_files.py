"""Files and folders that went out of use: they stay for a while, because someone may be reading them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.failpoints import step
from xscl.catalog.tables import OLD_FILES
from xscl.store.home import Home

__all__ = ["GRACE", "put_out_of_use", "unlink_old"]

GRACE = 600_000_000
"""Microseconds after which nobody is expected to read what went out of use."""
_AT_ONCE = 1_000


def put_out_of_use(connection: Connection, paths: Iterable[str], now: int) -> None:
    """Note files or folders that the transaction no longer names; ``now`` is in microseconds since the epoch."""
    rows = [{"path": path, "replaced": now} for path in paths]
    if rows:
        connection.execute(OLD_FILES.insert(), rows)


def unlink_old(home: Home, now: int) -> int:
    """Remove what went out of use long ago; how many files and folders that were."""
    with home.catalog.read() as connection:
        statement = sa.select(OLD_FILES.c.path).where(OLD_FILES.c.replaced < now - GRACE).limit(_AT_ONCE)
        paths = list(connection.scalars(statement))
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
            connection.execute(OLD_FILES.delete().where(OLD_FILES.c.path == sa.bindparam("b_path")), _paths(paths))
    return len(paths)


def _remove_empty(home: Home, folder: Path) -> None:
    """Remove a folder of files with its last one."""
    if folder.parent.parent == home.root and folder.is_dir() and not any(folder.rglob("*.parquet")):
        shutil.rmtree(folder, ignore_errors=True)


def _paths(paths: Iterable[str]) -> list[dict[str, str]]:
    return [{"b_path": path} for path in paths]
