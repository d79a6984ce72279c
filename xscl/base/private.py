"""Folders and files that nobody but the user can read: those of homes, and all that the command line writes.

A leaf module.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["keep_files_private", "private_children", "private_folder"]


def keep_files_private() -> None:
    """Let this process, and those that it starts, make files of mode 0600 and folders of mode 0700."""
    os.umask(0o077)


@contextmanager
def private_children() -> Iterator[None]:
    """Let the processes that are started meanwhile make private files; this one is afterwards as it was."""
    before = os.umask(0o077)
    try:
        yield
    finally:
        os.umask(before)


def private_folder(path: Path) -> None:
    """Make a folder of mode 0700, or give a folder that is there that mode; parents are made as usual."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
