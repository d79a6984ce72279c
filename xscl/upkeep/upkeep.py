"""Upkeep of a home beside batches, so that its size levels off over years.

The process that runs batches does a few things in a thread beside them; the rest waits for a later batch.  No batch
waits for that thread, but a call that runs batches ends with it.  Only files that earlier commits have named are
touched, and what replaces them is named by transactions of upkeep's own.  Upkeep changes no answer.  A process may end
anywhere: files that no row names mean nothing.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

from sqlalchemy.engine import Connection

from xscl.base.failpoints import step
from xscl.base.types import now_micros
from xscl.catalog.event_places import places_before
from xscl.catalog.intake_order import read_processed
from xscl.catalog.retained_from import keep_times
from xscl.store.home import Home
from xscl.store.retired_files import unlink_old
from xscl.upkeep.catalog_rows import sweep_queries, trim_catalog
from xscl.upkeep.events import EventUpkeep, Kept
from xscl.upkeep.results import ResultUpkeep

__all__ = ["EVERY", "Upkeep"]

EVERY = 8
"""Batches between two looks at what there is to do: as many as files of one tier are left alone."""
_CPU_S = 0.25
"""Processor time of upkeep's thread after which the rest waits for the next look."""
_TRIMS = 16
"""Looks between two at the rows of listings."""


class _LiveQueries(Protocol):
    """A planner, as far as upkeep asks one."""

    def variables(self) -> tuple[Collection[int], int]:
        """Return the variables of live queries, and the number of the last query among them."""

    def counted(self) -> Mapping[str, int] | None:
        """Return how many of its newest events row windows count at most, by channel; None before the first plan."""


@dataclass(frozen=True, slots=True)
class _Look:
    """A look at files that goes on in a thread."""

    kept: Kept
    oldest: Future[int]
    """A place before which no event is kept."""


class Upkeep:
    """Looks after a home.

    Args:
        home: the home.
        planner: knows what live queries ask.
    """

    def __init__(self, home: Home, planner: _LiveQueries) -> None:
        self._home = home
        self._planner = planner
        self._events = EventUpkeep(home)
        self._results = ResultUpkeep(home)
        self._batches = EVERY
        """Batches since the last look began; at first as many as call for one."""
        self._looks = 0
        self._looking = threading.Lock()
        """Held while files are looked at: a call that was stopped, as by Ctrl-C, may have left a thread that does."""

    @contextmanager
    def beside(self) -> Iterator[Callable[[], None]]:
        """Look after the home beside batches; call what this gives before each of them.

        A look begins beside the first batch of a process and beside each ``EVERY``th from then on, or later where the
        one before goes on.
        """
        look: _Look | None = None
        with ThreadPoolExecutor(1, "xscl-upkeep") as pool:

            def look_after() -> None:
                nonlocal look
                if look is not None and look.oldest.done():
                    self._finish(look)
                    look = None
                # Before the first plan nobody knows what row windows count.
                if look is None and self._batches >= EVERY and self._planner.counted() is not None:
                    look, self._batches = self._begin(pool, _CPU_S), 0
                self._batches += 1

            yield look_after
            if look is not None:
                self._finish(look)

    def work(self, cpu_s: float) -> None:
        """Look after the home once: after events for ``cpu_s`` seconds of processor time, after results as long."""
        with ThreadPoolExecutor(1, "xscl-upkeep") as pool:
            self._finish(self._begin(pool, cpu_s))

    def _begin(self, pool: ThreadPoolExecutor, cpu_s: float) -> _Look:
        """Begin to look at files, in a thread of the pool."""
        step("upkeep.begin")
        with self._home.catalog.read() as connection:
            kept = self._kept(connection)
        # What goes now went out of use before; nobody reads it.
        unlink_old(self._home, now_micros())
        return _Look(kept, pool.submit(self._look_at_files, kept, cpu_s))

    def _kept(self, connection: Connection) -> Kept:
        """Return what is kept: nothing of what batches process from now on goes with this look."""
        end, counts = read_processed(connection) + 1, self._planner.counted() or {}
        newest = {name: places_before(connection, name, end, count) for name, count in counts.items()}
        counted = {name: int(places[0]) for name, places in newest.items() if len(places)}
        return Kept(keep_times(connection), end, counted)

    def _finish(self, look: _Look) -> None:
        """Wait until the files were looked at; after one look of ``_TRIMS``, look at rows of the catalogue, too."""
        oldest = look.oldest.result()
        if self._looks % _TRIMS == 0:
            self._look_at_rows(look.kept.since, oldest)
        self._looks += 1

    def _look_at_files(self, kept: Kept, cpu_s: float) -> int:
        """Replace files of events and of results, and return a place before which no event is kept."""
        with self._looking:
            _do_some(self._events.work(kept), cpu_s)
            oldest = self._events.oldest_kept(kept)
            _do_some(self._results.work(kept.since, oldest), cpu_s)
            return oldest

    def _look_at_rows(self, kept: Mapping[str, int], oldest: int) -> None:
        with self._home.catalog.begin() as connection:
            trim_catalog(connection, kept, oldest)
        step("upkeep.trimmed")
        if sweep_queries(self._home, self._planner.variables):
            step("upkeep.swept")


def _do_some(jobs: Iterator[object], cpu_s: float) -> None:
    """Do one thing at least, and others until this thread has used some processor time."""
    end = time.thread_time() + cpu_s
    for _ in jobs:
        if time.thread_time() >= end:
            return
