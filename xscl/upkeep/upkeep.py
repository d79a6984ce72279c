"""Upkeep of a home beside batches, so that its size levels off over years.

The process that runs batches does a few things in a thread beside one of them; the rest waits for a later batch.  Only
files that earlier commits have named are touched, and what replaces them is named by transactions of upkeep's own.
Upkeep changes no answer.  A process may end anywhere: files that no row names mean nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol

from xscl.base.failpoints import step
from xscl.base.types import now_micros
from xscl.catalog.retained_from import keep_times
from xscl.store.home import Home
from xscl.store.retired_files import unlink_old
from xscl.upkeep.catalog_rows import sweep_queries, trim_catalog
from xscl.upkeep.events import EventUpkeep
from xscl.upkeep.results import ResultUpkeep

__all__ = ["EVERY", "Upkeep"]

EVERY = 8
"""Batches between two looks at what there is to do: as many as files of one tier are left alone."""
_CPU_S = 0.25
"""Processor time of upkeep's thread after which the rest waits for the next look."""
_TRIMS = 16
"""Looks between two at the rows of listings."""


class _Knows(Protocol):
    def variables(self) -> tuple[Collection[int], int]:
        """Return the variables of live queries, and the number of the last query among them."""


class Upkeep:
    """Looks after a home.

    Args:
        home: the home.
        planner: knows what live queries ask.
    """

    def __init__(self, home: Home, planner: _Knows) -> None:
        self._home = home
        self._planner = planner
        self._events = EventUpkeep(home)
        self._results = ResultUpkeep(home)
        self._batches = 0
        self._looks = 0

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Do some of what there is to do beside each ``EVERY``th batch; the first batch of a process is one of them."""
        if self._batches % EVERY:
            yield
        else:
            with self.working(_CPU_S):
                yield
        self._batches += 1

    @contextmanager
    def working(self, cpu_s: float) -> Iterator[None]:
        """Do what there is to do with events, until that has taken some processor time, and with results likewise.

        That goes on beside what the caller does; rows of the catalogue are looked at behind it.
        """
        step("upkeep.begin")
        with self._home.catalog.read() as connection:
            kept = keep_times(connection)
        # What goes now went out of use before; nobody reads it.
        unlink_old(self._home, now_micros())
        with ThreadPoolExecutor(1, "xscl-upkeep") as pool:
            looked_at = pool.submit(self._look_at_files, kept, cpu_s)
            yield
        oldest = looked_at.result()
        if self._looks % _TRIMS == 0:
            self._look_at_rows(kept, oldest)
        self._looks += 1

    def _look_at_files(self, kept: Mapping[str, int], cpu_s: float) -> int | None:
        """Replace files of events and of results, and return the least place of an event that is kept."""
        _some(self._events.work(kept), cpu_s)
        oldest = self._events.oldest_kept(kept)
        _some(self._results.work(kept, oldest), cpu_s)
        return oldest

    def _look_at_rows(self, kept: Mapping[str, int], oldest: int | None) -> None:
        with self._home.catalog.begin() as connection:
            trim_catalog(connection, kept, oldest)
        step("upkeep.trimmed")
        if sweep_queries(self._home, self._planner.variables):
            step("upkeep.swept")


def _some(jobs: Iterator[object], cpu_s: float) -> None:
    """Do one thing at least, and others until this thread has used some processor time."""
    end = time.thread_time() + cpu_s
    for _ in jobs:
        if time.thread_time() >= end:
            return
