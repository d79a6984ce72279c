"""Files of runs: opened in less than a millisecond, memory-mapped, shared by processes through the page cache.

A file's name never changes its meaning, so an open run stays open as long as it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from xscl.templates.columns import Int64s
from xscl.templates.runs.mapped_columns import numbers, open_columns, save_columns
from xscl.templates.runs.run import Key, Run, RunShapes

__all__ = ["KeyFacts", "RunFacts", "open_run", "read_run", "run_columns", "run_facts", "run_told", "save_run"]

_OPEN = 4_096
"""Runs that a process keeps open."""
_NUMBERS = (
    "docs",
    "items",
    "times",
    "memberships",
    "hashes",
    "slice_codes",
    "slice_starts",
    "numbers",
    "ts",
    "doc",
    "shape",
    "by_document",
    "document_codes",
)
"""Columns of a run that are arrays of numpy."""


@dataclass(frozen=True)
class KeyFacts:
    """Rows of each key of a run."""

    variables: Int64s
    rows: Int64s
    least: Int64s
    """Least event times."""
    greatest: Int64s


@dataclass(frozen=True)
class RunFacts:
    """Figures of a run, read without its rows."""

    rows: int
    times: tuple[int, int] | None
    """Least and greatest event time; None without rows."""
    docs: tuple[int, int] | None
    """Least and greatest document."""
    keys: KeyFacts


def save_run(run: Run, path: Path) -> None:
    """Write a run."""
    save_columns(path, run_columns(run), run_told(run))


def run_columns(run: Run) -> dict[str, Any]:
    """Return the columns of a run as its file has them."""
    texts = {"places": run.places, "texts": run.texts}
    shapes = {f"shape_{name}": column for name, column in run.shapes._asdict().items()}
    return {**{name: getattr(run, name) for name in _NUMBERS}, **texts, **shapes}


def open_run(path: str) -> Run:
    """Open a run; whoever calls has made sure that the file is as it was written."""
    return _opened(path)[0]


def run_facts(path: str) -> RunFacts:
    """Read the figures of a run."""
    return _opened(path)[1]


@lru_cache(maxsize=_OPEN)
def _opened(path: str) -> tuple[Run, RunFacts]:
    return read_run(*open_columns(Path(path)))


def read_run(columns: Mapping[str, pa.Array], told: Mapping[str, Any]) -> tuple[Run, RunFacts]:
    """Make a run and its figures of the columns of a file, and of what the file says beside them."""
    arrays = {name: numbers(columns[name]) for name in _NUMBERS}
    keys: tuple[Key, ...] = tuple((var, fn) for var, fn in told["keys"])
    variables, starts, nodes = (numbers(columns[f"shape_{name}"]) for name in ("variables", "starts", "nodes"))
    shapes = RunShapes(variables, starts, nodes, columns["shape_chains"])
    run = Run(keys=keys, places=columns["places"], texts=columns["texts"], shapes=shapes, **arrays)
    variables = np.array([var for var, _ in keys], dtype=np.int64)
    per_key = (np.array(told[name], dtype=np.int64) for name in ("rows", "least", "greatest"))
    span = (int(run.docs[0]), int(run.docs[-1])) if len(run.docs) else None
    return run, RunFacts(run.size, _times(told["least"], told["greatest"]), span, KeyFacts(variables, *per_key))


def _times(least: Sequence[int], greatest: Sequence[int]) -> tuple[int, int] | None:
    return (min(least), max(greatest)) if least else None


def run_told(run: Run) -> dict[str, object]:
    """Return what the file says of a run beside its columns."""
    key = run.slice_keys(np.arange(len(run.slice_codes)))
    rows = np.bincount(key, weights=np.diff(run.slice_starts), minlength=len(run.keys)).astype(np.int64)
    least = np.full(len(run.keys), np.iinfo(np.int64).max)
    greatest = np.full(len(run.keys), np.iinfo(np.int64).min)
    np.minimum.at(least, key, run.ts[run.slice_starts[:-1]])
    np.maximum.at(greatest, key, run.ts[run.slice_starts[1:] - 1])
    figures = {"rows": rows, "least": least, "greatest": greatest}
    return {"keys": [list(key) for key in run.keys], **{name: column.tolist() for name, column in figures.items()}}
