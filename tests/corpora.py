"""Where real corpora lie that are too large for the repository.

The environment variable ``XSCL_TEST_DATA`` names the folder; without it, it is ``../shared/data`` beside the
repository.  Tests that need what is not there are skipped.
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["DATA", "RAW", "lacks"]

DATA = Path(os.environ.get("XSCL_TEST_DATA") or Path(__file__).resolve().parents[2] / "shared" / "data")
RAW = DATA / "raw"
"""Feeds as they were fetched."""


def lacks(path: Path) -> str:
    """Why a test is skipped."""
    return f"no real corpora: {path} is not there; XSCL_TEST_DATA may name another folder than ../shared/data"
