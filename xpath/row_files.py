"""Specs of row channels, as files for other processes."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from xscl.base.sealed import read_whole, write_whole
from xscl.xpath.row_witness import RowMatcher

__all__ = ["RowFiles", "load_matchers"]


class RowFiles:
    """Writes what is asked, whole, when it is asked for and has changed."""

    def __init__(self) -> None:
        self._path: Path | None = None
        self._number = 0

    def changed(self) -> None:
        """Note that the written file is out of date."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None

    def written(self, folder: Path, matchers: Mapping[str, RowMatcher]) -> Path:
        """Return the file of these matchers, by channel."""
        if self._path is None:
            path = folder / f"rows-{self._number + 1:06d}.pickle"
            write_whole(path, pickle.dumps(dict(matchers), protocol=5))
            self._number += 1
            self._path = path
        return self._path


@lru_cache(maxsize=2)
def load_matchers(path: str) -> dict[str, RowMatcher]:
    """Load the matchers, by channel, from a file of this process's engine."""
    found: dict[str, RowMatcher] = pickle.loads(read_whole(Path(path)))
    return found
