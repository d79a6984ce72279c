"""Temporary folders that do not outlive their process for long, however it ends.

A folder is locked while its process lives.  Whoever makes one removes those of its kind that nobody holds.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from xscl.base.locks import try_lock

__all__ = ["hold_folder", "let_folder_go", "remove_left", "scratch_folder", "temporary_folder"]

_LOCK = ".lock"
_YOUNG_S = 600.0
"""Seconds in which a folder without a lock may be one that is being made."""
_held: dict[Path, BinaryIO] = {}
"""Locked files of the folders that this process holds."""
_scratch: set[Path] = set()
"""Folders that go with this process at the latest."""


def scratch_folder(kind: str) -> Path:
    """Make a folder ``kind-…`` among the temporary ones, until the process ends; nobody else can write to it."""
    parent = Path(tempfile.gettempdir())
    remove_left(parent, f"{kind}-*")
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-", dir=parent))
    hold_folder(folder)
    _scratch.add(folder)
    return folder


@atexit.register
def _let_scratch_go() -> None:
    for folder in tuple(_scratch):
        let_folder_go(folder)


@contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Make a folder ``kind-…`` among the temporary ones, for as long as the context lasts."""
    folder = scratch_folder(kind)
    try:
        yield folder
    finally:
        let_folder_go(folder)


def hold_folder(folder: Path) -> None:
    """Keep a folder from ``remove_left`` for as long as this process lives, or until it is let go."""
    lock = try_lock(folder / _LOCK)
    if lock is not None:
        _held[folder] = lock


def let_folder_go(folder: Path) -> None:
    """Remove a folder that was held, if it is there."""
    _scratch.discard(folder)
    lock = _held.pop(folder, None)
    shutil.rmtree(folder, ignore_errors=True)
    if lock is not None:
        lock.close()


def remove_left(parent: Path, pattern: str) -> None:
    """Remove the folders of this user, with names of a pattern, whose processes have ended."""
    mine = os.getuid() if hasattr(os, "getuid") else None
    for folder in parent.glob(pattern):
        try:
            state = folder.lstat()
            if mine is not None and state.st_uid != mine or not folder.is_dir() or folder.is_symlink():
                continue
            if (folder / _LOCK).exists():
                lock = try_lock(folder / _LOCK)
                if lock is None:
                    continue
                lock.close()
            elif time.time() - state.st_mtime < _YOUNG_S:
                continue
        except OSError:
            continue  # somebody else removes it
        shutil.rmtree(folder, ignore_errors=True)
