"""The folders of a home, by which a folder is known for one."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CATALOG_FILE", "HOME_FOLDERS", "default_home", "is_home"]

HOME_FOLDERS = ("events", "witness", "results", "programs")
CATALOG_FILE = "catalog.db"
"""Name of the catalogue in a home, unless another database has it."""


def is_home(folder: Path) -> bool:
    """Tell whether a folder is a home, also one that has lost a part."""
    # Names that no folder can have fail elsewhere in pathlib.
    there = sum(os.path.isdir(folder / name) for name in HOME_FOLDERS)  # noqa: PTH112
    return there == len(HOME_FOLDERS) or (there > 0 and (folder / CATALOG_FILE).is_file())


def default_home() -> Path:
    """Return the folder that ``XSCL_HOME`` names, or ``./xscl-home``."""
    return Path(os.environ.get("XSCL_HOME") or "xscl-home")
