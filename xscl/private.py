"""Folders and files that nobody but the user can read: those of homes, and all that the command line writes.

A leaf module.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["keep_files_private", "private_folder"]


def keep_files_private() -> None:
    """Let this process, and those that it starts, make files of mode 0600 and folders of mode 0700."""
    os.umask(0o077)


def private_folder(path: Path) -> None:
    """Make a folder of mode 0700, or give a folder that is there that mode; parents are made as usual."""
    path.mkdir(parents=True, exist_ok=True)
    path.chmod(0o700)
