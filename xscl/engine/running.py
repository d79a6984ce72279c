"""Batches of a home, now or in a thread of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from xscl.base.durations import parse_pause
from xscl.base.errors import CatalogError, EngineError
from xscl.base.failpoints import step
from xscl.base.progress import told
from xscl.base.settings import DEFAULT_BATCH_DOCS
from xscl.base.system_errors import named_file_faults
from xscl.batches.batch import process_batch
from xscl.batches.failing_queries import FailingQueriesError, suspend_failing
from xscl.batches.kernels import kernels_of
from xscl.batches.ranges import BatchRange, next_batch
from xscl.batches.report import BatchReport
from xscl.batches.run_handle import Pauses, RunHandle, Work
from xscl.catalog.home_channels import HOME_CHANNELS
from xscl.catalog.intake_order import read_last_places
from xscl.engine.opened import OpenedHome
from xscl.store.home import Home
from xscl.store.orphans import tidy

__all__ = ["Running"]


class Running(OpenedHome):
    """Calls that process batches."""

    def run_once(
        self,
        *,
        batch_docs: int = DEFAULT_BATCH_DOCS,
        stop: Callable[[], bool] = lambda: False,
        then: Callable[[BatchReport], None] = lambda report: None,
    ) -> list[BatchReport]:
        """Process everything taken in so far; one report a batch.

        Events that come meanwhile may be part of the last batch; the others wait for the next call, so that this one
        returns however fast they come.  Whatever its batches bring themselves is part of this call.

        Args:
            batch_docs: documents in a batch at most.
            stop: is asked before each batch; once it says so, none begins.
            then: is called with the report of each batch once that is committed.

        Closing the engine in another thread ends this call behind the batch that is running.

        Raises:
            CatalogError: ``XSCL_HOME_IN_USE``: another process runs batches on this home.
            EngineError: a batch failed; nothing of it is visible, and it runs again next time.  ``XSCL_OWN_CALL``:
                ``then`` calls this.
        """
        if batch_docs < 1:
            raise EngineError("XSCL_BAD_OPTION", f"a batch has at least one document, not {batch_docs}")
        reports, beats, last = [], True, None

        def ends() -> bool:
            return self._is_closed or stop()

        with (
            self._telling_suspensions(),
            self._running_batches() as home,
            self._run_lock.held(),
            named_file_faults(home.root),
            self._upkeep.beside() as look_after,
        ):
            self._tidy_once()
            while not ends() and (span := next_batch(home, self._planner, batch_docs, beats=beats)) is not None:
                last = span.taken_in if last is None else last
                if span.first > last and not _follows(span, beats=beats):
                    break
                # Heartbeats alone call for no others, however long they take: this call is to return.
                beats = not span.only_beats
                step("run.ranged")
                told("events", span.first - 1, span.taken_in)
                look_after()
                reports.append(self._processed(home, span, batch_docs))
                then(reports[-1])
        return reports

    def _processed(self, home: Home, span: BatchRange, batch_docs: int) -> BatchReport:
        """Process a batch; where it fails by a query, suspend the query and process the batch without it."""
        again: BatchRange | None = span
        while again is not None:
            try:
                report = process_batch(home, self._driver, lambda: self.spark, again)
            except FailingQueriesError as error:
                again = self._without_failing(home, error, again.first, batch_docs)
            else:
                report = replace(report, suspended=(*self._untold, *report.suspended))
                self._untold.clear()
                return report
        raise EngineError("XSCL_HOME_IN_USE", "another process has processed the batch meanwhile")

    @contextmanager
    def _telling_suspensions(self) -> Iterator[None]:
        """Note suspensions that no report tells of on the error that keeps the batch from running again."""
        try:
            yield
        except BaseException as error:
            for suspension in self._untold:
                error.add_note(str(suspension))
            raise

    def _without_failing(
        self, home: Home, error: FailingQueriesError, first: int, batch_docs: int
    ) -> BatchRange | None:
        """Suspend the queries by which a batch failed, and read the batch again."""
        found = suspend_failing(home, error, first)
        if not found:
            raise error.__cause__ or error from None
        self._untold += found
        # Plans go forward, and this one has the queries in its range.
        self._planner.close()
        return next_batch(home, self._planner, batch_docs, beats=False)

    def _tidy_once(self) -> None:
        if not self._is_tidy:
            step("run.begin")
            tidy(self._home)
            step("run.tidied")
            self._is_tidy = True

    def warm(self) -> None:
        """Plan for the live queries, which the first batch would do else.

        Raises:
            CatalogError: ``XSCL_HOME_IN_USE``: another process runs batches on this home.
        """
        with self._running_batches() as home, self._run_lock.held(), named_file_faults(home.root):
            self._tidy_once()
            processed, last = home.catalog.ask(read_last_places)
            plan = self._planner.plan(processed + 1, max(processed + 1, last))
            if plan is not None:
                kernels_of(plan, self._driver.finder).automaton()

    def start(
        self,
        *,
        every: str = "30 seconds",
        batch_docs: int = DEFAULT_BATCH_DOCS,
        name: str = "xscl-run",
        then: Callable[[BatchReport], None] = lambda report: None,
        failed: Callable[[BaseException], None] = lambda error: None,
        warns: Callable[[str], None] = lambda text: None,
        apart_s: float = 0.0,
    ) -> RunHandle:
        """Process what comes in until stopped; a handle in the manner of pyspark's StreamingQuery.

        An engine has one loop at a time.  Closing the engine ends it.

        Args:
            every: time between two looks, 1 ms at least.
            batch_docs: documents in a batch at most.
            name: of the handle and its thread.
            then: is called in that thread with the report of each batch once that is committed.
            failed: is called in that thread with the error that ends it.
            warns: is called in that thread with a message when a failure may pass, and when it has passed.
            apart_s: seconds between the beginnings of two batches at least; so under load a batch is worth its cost.

        Raises:
            CatalogError: ``XSCL_HOME_IN_USE``: another process runs batches on this home, or a loop of this engine.
            EngineError: ``XSCL_BAD_OPTION``: ``every`` is no duration, or too short.
        """
        self._refuse_closed()
        try:
            pause = parse_pause(every)
        except ValueError as error:
            raise EngineError("XSCL_BAD_OPTION", f"every: {error}") from None

        def run(stop: Callable[[], bool], note: Callable[[BatchReport], None]) -> None:
            reports = self.run_once(batch_docs=batch_docs, stop=stop, then=note)
            if reports and not reports[-1].events:
                # Registrations are planned for as they come, and not when the next event waits for it.
                self.warm()

        with self._start_lock:
            self._refuse_closed()
            before = self._handle
            if before is not None and before.isActive and before.exception() is None:
                raise CatalogError(
                    "XSCL_HOME_IN_USE",
                    f"the loop {before.name} of this engine runs batches on {self._home.root} already",
                    hint="stop it first: its handle, which start() gave, has stop()",
                )
            work, pauses = Work(self.warm, run, then, failed, warns), Pauses(pause, apart_s)
            self._handle = RunHandle(work, pauses, self._run_lock, name)
            return self._handle

    def alone(self) -> AbstractContextManager[None]:
        """Keep others from running batches on this home, from entering the context until leaving it.

        Raises:
            CatalogError: on entering, ``XSCL_HOME_IN_USE``: another process does.
        """
        return self._run_lock.held()


def _follows(span: BatchRange, *, beats: bool) -> bool:
    """Return whether a batch has only what batches before it brought: replays of what was published too late, rows
    about batches, or, where ``beats``, heartbeats by the wall clock.
    """
    told = bool(span.channels) and span.channels.keys() <= HOME_CHANNELS.keys()
    return bool(span.replayed) or told or (beats and span.only_beats)
