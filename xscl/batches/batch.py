"""A batch: a range of the intake order becomes committed matches.

Its witnesses come from one of three sources: its events, held events for queries that see them (``back_fill``), or late
events that are taken again (``late_replay``).  Stage 1 walks each document once for all queries; stage 2 joins new
witnesses with all that are held, for all queries together.  Documents that queries publish follow level by level.  Then
the join state changes, and one transaction names all files of the batch.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from sqlalchemy.engine import Connection

from xscl.base.errors import EngineError
from xscl.base.failpoints import step
from xscl.base.sealed import seal_folder
from xscl.base.types import now_micros
from xscl.batches.attempt import Attempt, begun, whole
from xscl.batches.backfill import back_fill
from xscl.batches.deciding.absence import Absences, commit_absences
from xscl.batches.deciding.steps import Steps, commit_steps
from xscl.batches.deciding.windows import Windows, commit_windows
from xscl.batches.home_told import tell_batch
from xscl.batches.late_replay import replay
from xscl.batches.memory.driver import Driver
from xscl.batches.old_arrivals import old_arrivals
from xscl.batches.publishing.publisher import Publisher
from xscl.batches.quotas import Usage, suspend_queries
from xscl.batches.ranges import BatchRange
from xscl.batches.refusals import named, rejection_row
from xscl.batches.report import BatchReport, report_of
from xscl.batches.walking import Level
from xscl.catalog.batches import add_batch
from xscl.catalog.intake_order import read_processed, set_processed, trim_superseded
from xscl.catalog.late import note_rejected
from xscl.catalog.queries import end_dropped, mark_filled
from xscl.planning.planned import Plan
from xscl.store.event_retention import move_held
from xscl.store.home import Home
from xscl.store.join_state import commit_state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["process_batch"]


def process_batch(home: Home, driver: Driver, session: Callable[[], SparkSession], span: BatchRange) -> BatchReport:
    """Process a range: its witnesses, level by level, then the change of state, then the commit.

    Args:
        home: the home, whose lock the caller holds.
        driver: remembers what was solved, and what work costs.
        session: gives Spark, and is asked only where Spark is needed.
        span: the range.
    """
    batch = begun(home, driver, session, span)
    windows, steps, absences = Windows(batch), Steps(batch), Absences(batch)
    with whole(batch):
        windows.begin()
        steps.begin()
        absences.begin()
        if span.plan is not None:
            step("batch.planned")
            if span.waiting:
                back_fill(batch)
            elif span.replayed:
                replay(batch, span.plan)
            elif span.channels:
                batch.process(Level(0, span.first, span.last, span.channels, span.paths))
            for level in _levels(span.plan, batch.publisher, (windows.decide, steps.decide, absences.decide)):
                batch.process(level)
        windows.end()
        steps.end()
        absences.end()
        batch.settle()
        return _commit(batch, absences, windows, steps)


def _levels(plan: Plan, publisher: Publisher | None, deciders: Sequence[Callable[[int], None]]) -> Iterator[Level]:
    """Yield the documents that are published for the events of a batch, level by level.

    The caller processes each level, and tells the publisher its matches, before it asks for the next.  Documents that
    no query reads are published, and no level has them.

    Args:
        plan: what the batch runs.
        publisher: has the channels to publish, by levels; None: no query publishes.
        deciders: called before documents are published, with the number of levels of the publisher that are behind:
            0 when only the events were processed.
    """
    number = 0
    for place, channels in enumerate(() if publisher is None else publisher.levels):
        assert publisher is not None
        for decide in deciders:
            decide(place)
        published = publisher.level(channels)
        if published is None or (plan.walked | plan.answered).isdisjoint(published.channels):
            continue
        number += 1
        yield Level(number, published.first, published.last, published.channels, [str(published.path)])


def _commit(batch: Attempt, absences: Absences, windows: Windows, steps: Steps) -> BatchReport:
    """Make the batch visible: one transaction names its files and moves the home's place on."""
    home, span = batch.home, batch.span
    if (home.root / batch.results).exists():
        seal_folder(home.root / batch.results)
    old = list(old_arrivals(span, batch.times))
    step("batch.before")
    with home.catalog.begin() as connection:
        step("batch.begin")
        _require_next(connection, span)
        now = now_micros()
        for change in batch.changes:
            commit_state(connection, change, now)
        commit_absences(connection, absences, now)
        commit_windows(connection, windows, now)
        commit_steps(connection, steps, now)
        step("batch.state")
        if batch.times.received is not None and batch.changes[-1].watermarks is not None:
            shown = batch.changes[-1].watermarks.shown
            move_held(connection, batch.times.received, shown, span.reaches, steps.oldest)
        rejected = [*named(connection, [each for work in batch.works for each in work.refused], span.waiting)]
        rejected += old
        if batch.publisher is not None:
            batch.publisher.commit(connection, now)
            rejected += batch.publisher.rejected
        note_rejected(connection, map(rejection_row, rejected), now)
        mark_filled(connection, span.waiting)
        if span.waiting or span.replayed:
            end_dropped(connection, span.first, span.batch)
        set_processed(connection, span.last, span.other)
        if span.beats:
            trim_superseded(connection)
        suspended = suspend_queries(connection, _usage(batch, absences, windows, steps), span.batch, span.last)
        report = report_of(batch, tuple(rejected), tuple(suspended), absences, steps, windows.counts + steps.counts)
        if span.channels or span.waiting or span.replayed or span.beats or absences.has_changes:
            values = {name: getattr(report, name) for name in report.__slots__}
            add_batch(connection, {**values, "committed": now})
        tell_batch(connection, batch, report, now)
        step("batch.commit")
    step("batch.committed")
    batch.driver.committed(batch.state)
    step("batch.done")
    return replace(report, commit_s=time.perf_counter() - batch.joined)


def _require_next(connection: Connection, span: BatchRange) -> None:
    """Refuse a range that does not follow what is committed, and keep other processes from committing another."""
    if read_processed(connection, lock=True) != span.first - 1:
        raise EngineError(
            "XSCL_HOME_IN_USE",
            f"another process has processed places {span.first} to {span.last} meanwhile",
            hint="one process works on a home at a time; nothing was done twice",
        )


def _usage(batch: Attempt, absences: Absences, windows: Windows, steps: Steps) -> Usage:
    """Gather what quotas count: also matches that only parts of queries have."""
    bindings = [(work.bindings, work.plan.groups) for work in batch.works]
    combinations = absences.counts["match"] + absences.unasked + windows.counts["match"] + steps.counts["match"]
    combinations += sum(work.counts[name] for work in batch.works for name in ("match", "apart", "refused"))
    return Usage(bindings, combinations, batch.found, batch.span.waiting)
