"""The processor time that Spark costs before its tasks begin, as measured when a session was started last.

This cost decides whether work that this process could do itself goes to tasks (``batches.memory.driver``).  Processor
time is the same on a busy machine and on an idle one; the time on the wall is not.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from xscl.spark.class_archive import cache_folder

__all__ = ["cores", "note_start", "start_seconds"]

_UNKNOWN_S = 5.0
"""Cost where no start was measured."""
_FIRST_WORK = 1.5
"""The first job makes Java compile half as much again as its start did."""
_RUNNING_S = 0.5
"""A job of a session that is there."""
_SANE_S = (0.5, 60.0)
"""Between these a measured start is believed."""
_FILE = "start-seconds"


def start_seconds() -> float:
    """Return the processor seconds that pass before tasks begin: few where this process has a session."""
    if _has_session():
        return _RUNNING_S
    folder = cache_folder()
    measured = _UNKNOWN_S
    if folder is not None:
        with suppress(OSError, ValueError):
            found = float((folder / _FILE).read_text(encoding="ascii"))
            measured = found if _SANE_S[0] <= found <= _SANE_S[1] else _UNKNOWN_S
    return _FIRST_WORK * measured


def note_start(process: int) -> None:
    """Remember the processor time of a Java that has just started a session; nothing where it cannot be told."""
    folder = cache_folder()
    if folder is None:
        return
    with suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
        target = folder / f".{_FILE}-{os.getpid()}"
        target.write_text(f"{seconds:.2f}\n", encoding="ascii")
        target.replace(folder / _FILE)


def cores() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2


def _has_session() -> bool:
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import SparkSession

    with suppress(Exception):  # Java has ended
        return SparkSession.getActiveSession() is not None
    return False
