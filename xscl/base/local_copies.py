"""Copies of a home's sealed files on this machine's disk, for homes on storage that is far away.

A mount of an object store, or of a file server, is slow where it is read here and there, as a file is that is mapped
into memory.  A sealed file never changes, so a copy of it is as good.  Each process makes the copies that it needs, at
first use, in a folder that the machine's processes share.  Nothing depends on them: they may be removed at any time.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
import uuid
from pathlib import Path

import xxhash

from xscl.base.errors import EngineError
from xscl.base.private import private_folder
from xscl.base.sealed import check_file, missing_file

__all__ = ["FOLDER", "near_file"]

FOLDER = "XSCL_LOCAL_COPIES"
"""Environment variable: the folder for copies; without it files are used where they lie."""
_UNFINISHED_S = 3600.0
"""Age at which an unfinished copy is one that a process has left when it ended."""


def near_file(path: Path) -> Path:
    """Return a sealed file that is as it was written: its copy on this machine, if copies are wanted.

    Raises:
        EngineError: ``XSCL_FILE_MISSING``; ``XSCL_FILE_DAMAGED``; ``XSCL_CANNOT_WRITE``: the folder takes no copy.
    """
    folder = os.environ.get(FOLDER)
    if not folder:
        return check_file(path)
    copy = Path(folder) / xxhash.xxh3_64_hexdigest(bytes(path.parent.resolve())) / path.name
    try:
        return check_file(copy)
    except EngineError:  # it is not there, or somebody has changed it
        _make(path, copy)
    try:
        return check_file(copy)
    except EngineError:
        copy.unlink(missing_ok=True)
        return check_file(path)  # names the home's file if that one is damaged


def _make(path: Path, copy: Path) -> None:
    """Copy a file, and remove the copies of files that have gone."""
    unfinished = copy.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        private_folder(copy.parent)
        _forget_old(path.parent, copy.parent)
        shutil.copyfile(path, unfinished)
        unfinished.replace(copy)
    except OSError as error:
        if not path.exists():
            raise missing_file(path) from None
        raise EngineError(
            "XSCL_CANNOT_WRITE",
            f"no copy of {path} can be made in {copy.parent} ({error.strerror})",
            hint=f"make room there, name another folder by {FOLDER}, or leave that unset",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            unfinished.unlink(missing_ok=True)


def _forget_old(home: Path, copies: Path) -> None:
    """Remove copies of files that a folder of a home no longer has, and unfinished ones that were left."""
    there = {file.name for file in home.iterdir()}
    for copy in copies.iterdir():
        with contextlib.suppress(OSError):
            is_left = copy.name.startswith(".") and time.time() - copy.stat().st_mtime > _UNFINISHED_S
            if is_left or not (copy.name.startswith(".") or copy.name in there):
                copy.unlink()
