"""Python's collector of cycles, put off while thousands of objects without cycles are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

__all__ = ["begin_task", "collecting_later", "spare_collector"]

_tasks = count(1)
_LOOKED_AT = 64
"""Tasks of a process from one that leaves everything to the collector to the next one."""


@contextmanager
def collecting_later() -> Iterator[None]:
    """Put the collector off: looking for cycles among what is being made takes a quarter of the time, or more."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def spare_collector() -> None:
    """Keep the collector from all that there is: millions of objects that stay, and hardly one of them garbage."""
    gc.freeze()


def begin_task() -> None:
    """Keep the collector from what earlier tasks of Spark have left in this process.

    A worker collects garbage after each task, so what is there at the start of a task is in use.  To look at all of it
    after each small task would take longer than the task.
    """
    if next(_tasks) % _LOOKED_AT:
        gc.freeze()
    else:
        gc.unfreeze()
