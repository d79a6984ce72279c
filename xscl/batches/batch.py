"""One batch: a range of the intake order, from documents to matches, committed whole.

Stage 1 walks every new document once for all queries and answers by columns what they can answer of rows; stage 2 joins
the new witnesses with all that are held, for all queries together, and resolves what it finds.  That is done level by
level (``levels``): first the events, then what queries publish.

Files are written under names that nothing refers to until the last transaction names them, so a batch that fails leaves
no trace and a batch that runs again replaces itself.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from types import MappingProxyType

import sqlalchemy as sa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xscl.base.errors import EngineError
from xscl.base.failpoints import step
from xscl.base.notebook import facts_html
from xscl.base.sealed import seal_folder
from xscl.base.system_errors import file_fault, spark_reason, worker_fault
from xscl.batches.backfill import answered, back_fill, mark_filled, next_stop, waiting_queries
from xscl.batches.driver_join import Driver
from xscl.batches.late_replay import Replay, end_dropped, next_replay, replay, replay_at
from xscl.batches.level import BatchWork, levels
from xscl.batches.publisher import Publisher, Publishing, acyclic_end, publishing
from xscl.batches.refusals import Rejection, Unnamed, named, rejection_row
from xscl.catalog.catalog import QueryInfo
from xscl.catalog.event_counts import channel_counts, nth_event
from xscl.catalog.retained_from import held_times
from xscl.catalog.tables import BATCHES, FLUSHES, HOME, INTAKE_FILES
from xscl.planning.planner import Planner
from xscl.spark.job_counter import counted_jobs
from xscl.spark.session import session_has_ended
from xscl.store.event_files import Level
from xscl.store.event_retention import Reaches, move_held
from xscl.store.home import Home
from xscl.store.inventory import may_be_named
from xscl.store.join_state import (
    HeldState,
    StateChange,
    commit_state,
    discard_change,
    held_state,
    newest_times,
    next_state,
    same_state,
)
from xscl.store.parquet import data_files
from xscl.store.results import stored_matches
from xscl.templates.retention import REACH_SCHEMA

__all__ = ["BatchReport", "next_range", "process_batch"]


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch did; times in seconds."""

    batch: int
    first: int
    last: int
    events: int
    witnesses: int = 0
    pairs: int = 0
    """Candidate pairs: pairs of documents with a matched edge."""
    rout: int = 0
    """Rows of R_out, each with its set of groups."""
    matches: int = 0
    """Matches, each with its set of groups."""
    published: int = 0
    """Documents that queries published."""
    links: int = 0
    """Rows of links: what queries of three and more blocks found of two of them."""
    jobs: int | None = 0
    """Spark jobs, as Spark counts them; None where it does not (Spark Connect)."""
    joined_in: str = "driver"
    """``driver`` or ``executors``."""
    slices_asked: int = 0
    """Values whose slices were asked of the driver's cache."""
    slices_found: int = 0
    """Those that needed nothing from the files."""
    prepare_s: float = 0.0
    stage1_s: float = 0.0
    join_s: float = 0.0
    commit_s: float = 0.0
    state_rows: int = 0
    """Rows of join state held after it."""
    state_bytes: int = 0
    """Size of the files that hold them."""
    purged: int = 0
    """Rows of earlier batches that are held no more."""
    filled: int = 0
    """Queries answered from what was held."""
    replayed: int = 0
    """Late events that were taken again."""
    result_path: str | None = None
    rejected: tuple[Rejection, ...] = ()
    """What queries did not get: documents that exceed a limit, which relation ``rejected`` has too."""

    def _repr_html_(self) -> str:
        return facts_html(f"batch {self.batch}", {f.name: getattr(self, f.name) for f in fields(self)})


def next_range(home: Home, batch_docs: int) -> tuple[int, int] | None:
    """The next batch's (first, last) place of the intake order; None if there is nothing to do.

    A batch has ``batch_docs`` events at most and ends at a flush, and before a query that is to be answered from what
    is held, or a replay of late events; those are batches of their own (``backfill``, ``replay``).
    """
    with home.catalog.read() as connection:
        row = connection.execute(sa.select(HOME.c.processed, HOME.c.next_place)).one()
        first, last = row.processed + 1, row.next_place - 1
        if first > last:
            return None
        again = next_replay(connection, first, last)
        if again == first:
            return first, first
        last = last if again is None else again - 1
        is_filling, last = next_stop(connection, first, last)
        if is_filling:
            return first, last
        nth = nth_event(connection, first, last, batch_docs)
        flush = connection.scalar(sa.select(sa.func.min(FLUSHES.c.place)).where(FLUSHES.c.place >= first))
        return first, acyclic_end(connection, first, min(place for place in (last, nth, flush) if place is not None))


@dataclass(frozen=True, slots=True)
class _Range:
    """The range of the intake order that is a batch, and what was there before it."""

    batch: int
    first: int
    last: int
    channels: Mapping[str, int]
    """Events of each channel."""
    paths: list[str]
    """The files that hold them."""
    state: HeldState
    publishing: Publishing | None
    waiting: tuple[QueryInfo, ...]
    """If any, it is a batch that answers these from what is held."""
    held_from: Mapping[str, int]
    """By channel the time from which on events are held, where some are not."""
    replay: Replay | None
    """If there is one, it is the whole batch."""


def process_batch(
    home: Home, planner: Planner, driver: Driver, session: Callable[[], SparkSession], first: int, last: int
) -> BatchReport:
    """Process the events of a range and commit; ``session`` gives Spark, and is asked only where Spark is needed."""
    started = time.perf_counter()
    span = _range(home, first, last)
    if span.waiting or span.replay:
        return _held_batch(home, planner, driver, session, span)
    events = sum(span.channels.values())
    plan = planner.plan(first, last) if events else None
    newest = newest_times(span.paths, first, last) if events else {}
    report = BatchReport(span.batch, first, last, events)
    if plan is None:
        # Without a query nothing is of use any more; without an event nothing has changed, whoever is registered.
        reach = REACH_SCHEMA.empty_table()
        change = same_state(span.state)
        if events:
            change = next_state(home, span.state, batch=span.batch, last=last, reach=reach, newest=newest, fresh=())
        return _commit(home, driver, replace(report, prepare_s=time.perf_counter() - started), [change])
    step("batch.planned")
    prepared = time.perf_counter()
    tag = _tag(span)
    publisher = None if span.publishing is None else Publisher(home, span.publishing, tag)
    before = driver.slices
    with counted_jobs(session, f"xscl-batch-{tag}") as jobs:
        work = BatchWork(home, driver, jobs.session, plan, span.batch, first, span.state, tag)
        with _named_failure(work, span, publisher) as changes:
            _process(work, Level(0, first, last, span.channels, span.paths), publisher)
            published = _publish(work, publisher)
            joined = time.perf_counter()
            changes.append(
                next_state(
                    home,
                    span.state,
                    batch=span.batch,
                    last=last,
                    reach=planner.reach.table(plan.program, last),
                    newest=newest,
                    fresh=work.files,
                    rows=work.waiting,
                    published=published,
                )
            )
            slices_asked, slices_found = (now - then for now, then in zip(driver.slices, before, strict=True))
            report = replace(
                _counted(report, work.counts, publisher, tag),
                jobs=jobs.count(),
                joined_in=work.joined_in,
                slices_asked=max(slices_asked, 0),
                slices_found=max(slices_found, 0),
                prepare_s=prepared - started,
                stage1_s=work.stage1_s,
                join_s=joined - prepared - work.stage1_s,
            )
            reaches = planner.reach.channels
            return _commit(home, driver, report, changes, work.refused, publisher, since=joined, reaches=reaches)


def _held_batch(
    home: Home, planner: Planner, driver: Driver, session: Callable[[], SparkSession], span: _Range
) -> BatchReport:
    """Answer queries from what is held, or take late events again; publish what is published for that, and commit."""
    first, last = span.first, span.last
    started = time.perf_counter()
    report = BatchReport(
        span.batch, first, last, 0, filled=len(span.waiting), replayed=len(span.replay.docids) if span.replay else 0
    )
    # Queries that were registered at the last place are part of it.
    plan = planner.plan(first, last + 1 if span.waiting else last)
    if plan is None:
        return _commit(home, driver, report, [same_state(span.state)])
    reach = planner.reach.table(plan.program, last)
    queries = answered(span.waiting, span.batch, span.held_from)
    prepared = time.perf_counter()
    tag = _tag(span)
    publisher = None if span.publishing is None else Publisher(home, span.publishing, tag, queries)
    with counted_jobs(session, f"xscl-batch-{tag}") as jobs:
        work = BatchWork(home, driver, jobs.session, plan, span.batch, first, span.state, tag)
        with _named_failure(work, span, publisher) as changes:
            if span.replay:
                filled = replay(home, driver.settings, jobs.session, span.replay, plan, span.batch, tag)
            else:
                filled = back_fill(home, driver.settings, jobs.session, queries, span.state, reach, span.batch, tag)
            if filled is None:
                return _commit(home, driver, report, [same_state(span.state)])
            changes.append(
                next_state(home, span.state, batch=span.batch, last=last, reach=reach, newest={}, fresh=filled.lacking)
            )
            work.state = changes[0].after
            driver.extend(*filled.tables(home), first)
            if publisher is not None:
                for path in filled.results:
                    publisher.found(stored_matches(data_files(path), publisher.groups))
            published = _publish(work, publisher)
            joined = time.perf_counter()
            if published:
                changes.append(
                    next_state(
                        home,
                        work.state,
                        batch=span.batch,
                        last=last,
                        reach=reach,
                        newest={},
                        fresh=work.files,
                        rows=work.waiting,
                        published=published,
                    )
                )
            stage1_s = filled.work.stage1_s + work.stage1_s
            report = replace(
                _counted(report, filled.work.counts + work.counts, publisher, tag),
                jobs=jobs.count(),
                joined_in=max(filled.work.joined_in, work.joined_in),
                prepare_s=prepared - started,
                stage1_s=stage1_s,
                join_s=joined - prepared - stage1_s,
            )
            refused = [*filled.work.refused, *work.refused]
            return _commit(home, driver, report, changes, refused, publisher, queries, since=joined)


def _process(work: BatchWork, level: Level, publisher: Publisher | None) -> None:
    """Process a level, and tell what it came to."""
    matches = work.process(level)
    if publisher is not None and matches:
        publisher.found(stored_matches(data_files(work.results(level)), publisher.groups))


def _publish(work: BatchWork, publisher: Publisher | None) -> dict[str, int]:
    """Process what is published, level by level; the greatest event time of what came to each channel."""
    for level in levels(work.plan, publisher):
        _process(work, level, publisher)
    return {} if publisher is None else publisher.newest


def _counted(report: BatchReport, counts: Counter[str], publisher: Publisher | None, tag: str) -> BatchReport:
    """A report with what was found."""
    return replace(
        report,
        witnesses=counts["witness"],
        pairs=counts["pairs"],
        rout=counts["rout"],
        matches=counts["match"],
        published=0 if publisher is None else publisher.count,
        links=counts["link"],
        result_path=f"results/{tag}",
    )


def _tag(span: _Range) -> str:
    """Begins the names of the files of an attempt at a batch."""
    return f"{span.batch:08d}-{uuid.uuid4().hex[:8]}"


def _range(home: Home, first: int, last: int) -> _Range:
    with home.catalog.read() as connection:
        number = (connection.scalar(sa.select(sa.func.max(BATCHES.c.batch))) or 0) + 1
        channels = channel_counts(connection, first, last)
        waiting = waiting_queries(connection, first, last)
        files = sa.select(INTAKE_FILES.c.path).where(INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last)
        paths = home.paths(list(connection.scalars(files.order_by(INTAKE_FILES.c.first))))
        published = publishing(connection, first, last) if channels else None
        if waiting:
            published = publishing(connection, first, last + 1)
        again = replay_at(connection, first)
        if again is not None:
            published = publishing(connection, first, last)
        state, held_from = held_state(home, connection), held_times(connection)
        return _Range(number, first, last, channels, paths, state, published, waiting, held_from, again)


@contextmanager
def _named_failure(work: BatchWork, span: _Range, publisher: Publisher | None) -> Iterator[list[StateChange]]:
    """Remove what a batch that fails has written; give a failure of Spark its batch.

    The list is for what it makes of the join state.
    """
    changes: list[StateChange] = []
    try:
        yield changes
    except BaseException as error:
        work.driver.forget()
        # What goes wrong after its transaction takes nothing back.
        if not may_be_named(work.home, BATCHES.c.result_path, f"results/{work.tag}"):
            work.discard()
            for change in changes:
                discard_change(work.home, change)
            if publisher is not None:
                publisher.discard()
        if isinstance(error, (PySparkException, Py4JError, OSError)) and session_has_ended():
            raise EngineError(
                "XSCL_SPARK_GONE",
                f"batch {span.batch} (places {span.first} to {span.last}) failed: Java, in which Spark runs, has ended",
                hint="nothing of the batch is visible; the next run starts Java anew. Was there too little memory?",
            ) from error
        if not isinstance(error, (PySparkException, Py4JError)):
            raise
        if (fault := file_fault(error, work.home.root)) is not None:
            raise fault from error
        if (fault := worker_fault(str(error))) is not None:
            raise fault from error
        raise EngineError(
            "XSCL_BATCH",
            f"batch {span.batch} (places {span.first} to {span.last}) failed in Spark: {spark_reason(str(error))}",
            hint="nothing of it is visible, and it runs again next time; -v shows the whole trace",
        ) from error


# -- commit ----------------------------------------------------------------------------------------------------


def _commit(
    home: Home,
    driver: Driver,
    report: BatchReport,
    changes: Sequence[StateChange],
    refused: Iterable[Unnamed] = (),
    publisher: Publisher | None = None,
    filled: Sequence[QueryInfo] = (),
    since: float | None = None,
    reaches: Reaches = MappingProxyType({}),
) -> BatchReport:
    """Make the batch visible: one transaction names its files and moves the home's place on."""
    started = time.perf_counter() if since is None else since
    after = changes[-1].after
    purged = sum(change.purged for change in changes)
    if report.result_path is not None:
        seal_folder(home.root / report.result_path)
    report = replace(report, state_rows=after.rows, state_bytes=after.size, purged=purged)
    step("batch.before")
    with home.catalog.begin() as connection:
        step("batch.begin")
        if connection.scalar(sa.select(HOME.c.processed).with_for_update()) != report.first - 1:
            raise EngineError(
                "XSCL_HOME_IN_USE",
                f"another process has processed places {report.first} to {report.last} meanwhile",
                hint="one process works on a home at a time; nothing was done twice",
            )
        now = time.time_ns() // 1000
        for change in changes:
            commit_state(connection, change, now)
        step("batch.state")
        if report.events:
            move_held(home, connection, report.first, report.last, reaches)
        rejected = [*named(connection, refused, filled)]
        if publisher is not None:
            publisher.commit(connection, now)
            rejected += publisher.rejected
        home.catalog.reject(connection, map(rejection_row, rejected), now)
        report = replace(report, rejected=tuple(rejected))
        mark_filled(connection, filled)
        if report.replayed or filled:
            end_dropped(connection, report.first, report.batch)
        connection.execute(HOME.update().values(processed=report.last))
        if report.events or report.filled or report.replayed:
            # The row cannot have the time of its own writing; that of all before it is nearly the whole.
            report = replace(report, commit_s=time.perf_counter() - started)
            values = {name: getattr(report, name) for name in report.__slots__ if name in BATCHES.c}
            connection.execute(BATCHES.insert().values(**values, committed=now))
        step("batch.commit")
    step("batch.committed")
    driver.committed(after, report.first, report.last)
    step("batch.done")
    return replace(report, commit_s=time.perf_counter() - started)
