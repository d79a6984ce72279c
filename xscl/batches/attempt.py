"""An attempt at a batch: what it has found and written so far, until a transaction names it or it is discarded.

Files are written under names that begin with the attempt's tag, and nothing refers to them before the commit.  So an
attempt that fails leaves no trace, and a batch that runs again replaces itself.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa
from py4j.protocol import Py4JError

from xscl.base.errors import EngineError, XsclError
from xscl.base.system_errors import file_fault, spark_reason, worker_fault
from xscl.batches.level import BatchWork
from xscl.batches.memory.driver import Driver
from xscl.batches.publishing.publisher import Publisher
from xscl.batches.quotas import BindingCount
from xscl.batches.ranges import BatchRange
from xscl.batches.walking import Level
from xscl.catalog.batches import newest_batch
from xscl.catalog.intake_order import read_processed
from xscl.spark.job_counter import Jobs
from xscl.spark.session import spark_has_gone
from xscl.store.home import Home
from xscl.store.inventory import remove
from xscl.store.join_state import HeldState, Merged, StateChange, discard_change, next_state
from xscl.store.parquet import data_files
from xscl.store.results import Results, stored_matches
from xscl.store.state_files import Kind
from xscl.store.state_merges import StateMerges
from xscl.store.watermarks import EventTimes, channel_clocks, event_times, next_watermarks
from xscl.templates.runs.run import Run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Attempt", "Found", "begun", "whole"]


@dataclass(frozen=True, slots=True)
class Found:
    """Findings of a walk of held events."""

    work: BatchWork
    lacking: tuple[tuple[Kind, str], ...]
    """Files of rows that the join state lacks."""
    results: tuple[Path, ...]
    """Files with matches."""


@dataclass
class Attempt:
    """An attempt at a batch; a source of witnesses ends in ``process`` or in ``take``."""

    home: Home
    driver: Driver
    jobs: Jobs
    span: BatchRange
    tag: str
    times: EventTimes
    work: BatchWork | None
    """Levels of the batch; None without a query."""
    publisher: Publisher | None
    merges: StateMerges | None
    """Merges of the join state that go on beside the batch; None: it takes no events."""
    planned: float
    """Value of ``time.perf_counter`` when its source begins."""
    joined: float
    """Value of ``time.perf_counter`` when all levels are joined."""
    walks: list[BatchWork] = field(default_factory=list)
    """Walks of held events."""
    changes: list[StateChange] = field(default_factory=list)
    """Changes of the join state, one upon another."""

    @property
    def state(self) -> HeldState:
        """The join state with all changes so far."""
        return self.changes[-1].after if self.changes else self.span.state

    @property
    def works(self) -> list[BatchWork]:
        """Levels and walks that have matched and joined documents."""
        return self.walks if self.work is None else [*self.walks, self.work]

    @property
    def made(self) -> Sequence[pa.Table]:
        """Documents that the batch has made."""
        return () if self.publisher is None else self.publisher.tables

    def found(self) -> Results:
        """Return the matches that the batch's levels have found so far, written to files or held in memory."""
        folder = self.home.root / self.results
        apart = () if self.work is None else self.work.apart
        return Results(data_files(folder) if folder.exists() else [], apart=apart)

    def process(self, level: Level) -> None:
        """Match the documents of a level, and join them with all that was there before."""
        assert self.work is not None
        if self.work.process(level):
            self._tell(self.work.result_files(level))

    def take(self, found: Found) -> None:
        """Make what a walk has found part of the batch, and the rows that the join state lacks part of the state."""
        assert self.work is not None
        self.walks.append(found.work)
        self._change(found.lacking)
        self.work.state = self.state
        self._tell(found.results)

    def settle(self) -> None:
        """Make the rows of the batch's levels part of the join state, and move clocks and watermarks."""
        self.joined = time.perf_counter()
        published = {} if self.publisher is None else self.publisher.newest
        if self.times.newest or published or self.span.beats:
            files, rows = ([], {}) if self.work is None else (self.work.new.files, self.work.new.waiting)
            self._change(files, rows, published, () if self.merges is None else self.merges.merged())
        elif self.merges is not None:
            self.merges.discard()

    def _tell(self, files: Sequence[Path]) -> None:
        if self.publisher is not None and self.publisher.groups:
            self.publisher.found(stored_matches(files, self.publisher.groups))

    def _change(
        self,
        fresh: Sequence[tuple[Kind, str]],
        rows: Mapping[str, Run] = MappingProxyType({}),
        published: Mapping[str, int] = MappingProxyType({}),
        merged: Sequence[Merged] = (),
    ) -> None:
        # Settings of channels may have changed since the batch began.
        with self.home.catalog.read() as connection:
            clocks = channel_clocks(connection)
        watermarks = next_watermarks(clocks, self.span.last, self.times.newest, published, self.span.beaten)
        self.changes.append(
            next_state(
                self.home,
                self.state,
                batch=self.span.batch,
                reach=self.span.reach,
                watermarks=watermarks,
                fresh=fresh,
                rows=rows,
                merged=merged,
            )
        )

    def discard(self) -> None:
        """Remove all that was written, unless a transaction has named it."""
        self.driver.forget()
        if self.merges is not None:
            self.merges.wait()
        if self._may_be_committed():
            return
        remove(self.home.root / self.results)
        for path in self.home.folder("witness").glob(f"{self.tag}-*"):
            remove(path)
        for path in self.home.folder("events").glob(f"{self.tag}-home*"):
            remove(path)
        for change in self.changes:
            discard_change(self.home, change)
        if self.merges is not None:
            self.merges.discard()
        if self.publisher is not None:
            self.publisher.discard()

    def _may_be_committed(self) -> bool:
        """Tell whether the home may have this batch, or another process's: whoever tidies removes what no row names."""
        try:
            with self.home.catalog.read() as connection:
                processed, newest = read_processed(connection), newest_batch(connection)
        except (sa.exc.SQLAlchemyError, XsclError):
            return True
        return newest >= self.span.batch or processed >= max(self.span.first, self.span.last)

    @property
    def results(self) -> str:
        """Folder of its results, in the home."""
        return f"results/{self.tag}"


def begun(home: Home, driver: Driver, session: Callable[[], SparkSession], span: BatchRange) -> Attempt:
    """Begin an attempt at a batch."""
    tag = f"{span.batch:08d}-{uuid.uuid4().hex[:8]}"
    times = event_times(span.paths, span.first, span.last, span.taken) if span.channels else EventTimes()
    jobs = Jobs(session, f"xscl-batch-{tag}")
    work = None
    if span.plan is not None:
        work = BatchWork(home, driver, jobs.session, span.plan, span.batch, span.state, tag)
        work.bindings, work.taken = BindingCount(span.sight_cuts), span.taken
    publisher = None if span.publishing is None else Publisher(home, span, tag)
    merges = StateMerges(home, span.state, span.batch) if span.channels else None
    now = time.perf_counter()
    return Attempt(home, driver, jobs, span, tag, times, work, publisher, merges, now, now)


@contextmanager
def whole(batch: Attempt) -> Iterator[None]:
    """Discard an attempt that fails, and name its batch where Spark failed.

    Raises:
        EngineError: ``XSCL_SPARK_GONE``; ``XSCL_BATCH``; a worker or a file failed.
    """
    try:
        yield
    except BaseException as error:
        batch.discard()
        fault = _named(error, batch.home, batch.span)
        if fault is None:
            raise
        raise fault from error
    finally:
        batch.jobs.close()


def _named(error: BaseException, home: Home, span: BatchRange) -> XsclError | None:
    """Return what to tell of a failure of Spark; None for other failures."""
    from pyspark.errors import PySparkException  # few batches need Spark

    in_spark = isinstance(error, (PySparkException, Py4JError))
    if (in_spark or isinstance(error, OSError)) and spark_has_gone(error):
        return EngineError(
            "XSCL_SPARK_GONE",
            f"{span.name} failed: Java, in which Spark runs, has ended, or its server does not answer",
            hint="nothing of the batch is visible; the next run starts Spark anew. Was there too little memory?",
        )
    if not in_spark:
        return None
    return (
        file_fault(error, home.root)
        or worker_fault(str(error))
        or EngineError(
            "XSCL_BATCH",
            f"{span.name} failed in Spark: {spark_reason(str(error))}",
            hint="nothing of it is visible, and it runs again next time; -v shows the whole trace",
        )
    )
