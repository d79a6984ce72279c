"""One batch: a range of the intake order, from documents to matches, committed whole.

Stage 1 walks every new document once for all queries and answers by columns what they can answer of rows; stage 2 joins
the new witnesses with all that are held, for all queries together, and resolves what it finds.  Small batches are
matched and joined in the driver, on state that it remembers (``driver``); Spark's executors do what is large, or all of
it if the settings say so (``executors``).  The number of Spark jobs does not depend on the number of queries or
templates, because queries are rows of what the jobs read.

Files are written under names that nothing refers to until the last transaction names them, so a batch that fails leaves
no trace and a batch that runs again replaces itself.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import sqlalchemy as sa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xscl.driver import Driver, walk_here
from xscl.errors import EngineError
from xscl.executors import read_state, write_assembled, write_results, write_witnesses
from xscl.home import Home
from xscl.matches import stored_matches
from xscl.places import place_of
from xscl.planner import Plan, Planner
from xscl.published import Publisher, Publishing, acyclic_end, publishing
from xscl.state import (
    HeldState,
    Kind,
    StateChange,
    commit_state,
    discard_change,
    held_state,
    newest_times,
    next_state,
    same_state,
    unlink_state,
    write_links,
)
from xscl.tables import BATCHES, EVENT_IDS, FLUSHES, HOME, INTAKE_FILES
from xscl.templates.find import TooManyRows
from xscl.templates.results import MAX_BINDINGS, RESULT_SCHEMA, origin_of
from xscl.templates.retention import REACH_SCHEMA
from xscl.xpath.witness import REFUSED, WITNESS_SCHEMA

__all__ = ["DEFAULT_BATCH_DOCS", "BatchReport", "next_range", "process_batch"]

DEFAULT_BATCH_DOCS = 10_000


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
    result_path: str | None = None


def next_range(home: Home, batch_docs: int) -> tuple[int, int] | None:
    """The next batch's (first, last) place of the intake order; None if there is nothing to do.

    A batch has ``batch_docs`` events at most and ends at a flush.
    """
    with home.catalog.read() as connection:
        row = connection.execute(sa.select(HOME.c.processed, HOME.c.next_place)).one()
        first, last = row.processed + 1, row.next_place - 1
        if first > last:
            return None
        nth = connection.scalar(
            sa.select(EVENT_IDS.c.docid)
            .where(EVENT_IDS.c.docid.between(first, last))
            .order_by(EVENT_IDS.c.docid)
            .offset(batch_docs - 1)
            .limit(1)
        )
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


@dataclass(frozen=True, slots=True)
class _Level:
    """Documents of a batch that are joined together with all before them: its events, then what is published."""

    number: int
    first: int
    """The least of their numbers."""
    last: int
    channels: Mapping[str, int]
    paths: list[str]


@dataclass
class _Done:
    """What the levels of a batch have come to so far."""

    joined_in: str = "driver"
    counts: Counter[str] = field(default_factory=Counter)
    written: list[tuple[Kind, str]] = field(default_factory=list)
    """Witness rows and rows of links, by level."""
    refused: list[dict[str, object]] = field(default_factory=list)
    stage1_s: float = 0.0

    def paths(self, home: Home, state: HeldState, kind: Kind) -> list[str]:
        """The files of what was there before the next level."""
        own = [Path(path) for path in home.paths([path for of, path in self.written if of == kind])]
        files = [file for path in own for file in (sorted(path.glob("*.parquet")) if path.is_dir() else [path])]
        return [*state.paths(kind), *map(str, files)]


def process_batch(
    planner: Planner, driver: Driver, session: Callable[[], SparkSession], first: int, last: int
) -> BatchReport:
    """Process the events of a range and commit; ``session`` gives Spark, and is asked only where Spark is needed."""
    home = planner.home
    started = time.perf_counter()
    span = _range(home, first, last)
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
        return _commit(home, driver, replace(report, prepare_s=time.perf_counter() - started), change)
    prepared = time.perf_counter()
    tag = f"{span.batch:08d}-{uuid.uuid4().hex[:8]}"
    publisher = None if span.publishing is None else Publisher(home, span.publishing, tag)
    with _named_failure(home, driver, span, tag, publisher), _counted_jobs(session, f"xscl-batch-{tag}") as jobs:
        before = driver.slices
        done = _Done()
        published: dict[str, int] = {}
        for level in _levels(plan, span, publisher):
            found = home.root / "results" / tag / str(level.number)
            matches = _process_level(home, driver, jobs.session, plan, span, level, tag, found, done)
            if publisher is not None and matches:
                publisher.found(stored_matches(found, publisher.groups))
            if level.number:
                published |= newest_times(level.paths, level.first, level.last)
        joined = time.perf_counter()
        reach = planner.reach.table(plan.program, last)
        change = next_state(
            home,
            span.state,
            batch=span.batch,
            last=last,
            reach=reach,
            newest=newest,
            fresh=done.written,
            published=published,
        )
        try:
            slices_asked, slices_found = (now - then for now, then in zip(driver.slices, before, strict=True))
            report = replace(
                report,
                witnesses=done.counts["witness"],
                pairs=done.counts["pairs"],
                rout=done.counts["rout"],
                matches=done.counts["match"],
                published=0 if publisher is None else publisher.count,
                links=done.counts["link"],
                jobs=jobs.count(),
                joined_in=done.joined_in,
                slices_asked=max(slices_asked, 0),
                slices_found=max(slices_found, 0),
                prepare_s=prepared - started,
                stage1_s=done.stage1_s,
                join_s=joined - prepared - done.stage1_s,
                result_path=f"results/{tag}",
            )
            return _commit(home, driver, report, change, done.refused, publisher, since=joined)
        except BaseException:
            discard_change(home, change)
            raise


def _range(home: Home, first: int, last: int) -> _Range:
    with home.catalog.read() as connection:
        number = (connection.scalar(sa.select(sa.func.max(BATCHES.c.batch))) or 0) + 1
        statement = sa.select(EVENT_IDS.c.channel, sa.func.count()).group_by(EVENT_IDS.c.channel)
        in_range = statement.where(EVENT_IDS.c.docid.between(first, last))
        channels = {row[0]: row[1] for row in connection.execute(in_range)}
        files = sa.select(INTAKE_FILES.c.path).where(INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last)
        paths = home.paths(list(connection.scalars(files.order_by(INTAKE_FILES.c.first))))
        published = publishing(connection, first, last) if channels else None
        return _Range(number, first, last, channels, paths, held_state(home, connection), published)


def _levels(plan: Plan, span: _Range, publisher: Publisher | None) -> Iterator[_Level]:
    """The events of a range, then level by level what is published.

    Each level is processed, and the publisher told what was found, before the next is asked for.  What no query reads
    is published and goes no further.
    """
    yield _Level(0, span.first, span.last, span.channels, span.paths)
    if publisher is None:
        return
    number = 0
    for channels in publisher.levels:
        published = publisher.level(channels)
        if published is None or (plan.walked | plan.answered).isdisjoint(published.channels):
            continue
        number += 1
        yield _Level(number, published.first, published.last, published.channels, [str(published.path)])


def _process_level(
    home: Home,
    driver: Driver,
    session: Callable[[], SparkSession],
    plan: Plan,
    span: _Range,
    level: _Level,
    tag: str,
    target: Path,
    done: _Done,
) -> int:
    """Write what the documents of a level come to; how many matches that is."""
    started = time.perf_counter()
    fresh_path = f"witness/{tag}-{level.number}"
    fresh = _stage1(home, driver, session, plan, level, home.root / fresh_path)
    done.stage1_s += time.perf_counter() - started
    counts = _stage2(home, driver, session, plan, span, level, fresh, fresh_path, target, done)
    done.counts += counts + Counter(witness=fresh.count_rows())
    done.refused += _refused(fresh)
    if counts["refused"]:
        done.refused += _refused_together(target)
    done.written.append(("witness", fresh_path))
    links = write_links(home, f"{tag}-{level.number}", _link_batches(target)) if counts["link"] else None
    if links is not None:
        done.written.append(("link", links))
    return counts["match"]


# -- stages ----------------------------------------------------------------------------------------------------


def _stage1(
    home: Home, driver: Driver, session: Callable[[], SparkSession], plan: Plan, level: _Level, target: Path
) -> ds.Dataset:
    """Write the witness rows of a level."""
    here = None
    if driver.settings.driver_rows:
        here = walk_here(home, plan, level.paths, level.first, level.last, sum(level.channels.values()))
    if here is None:
        write_witnesses(session(), plan, level.paths, level.first, level.last, level.channels, target)
        return ds.dataset(target, schema=WITNESS_SCHEMA)
    target.mkdir(parents=True)
    pq.write_table(here, target / "part-0.parquet", row_group_size=_ROW_GROUP)
    return ds.InMemoryDataset(here)


_ROW_GROUP = 64_000


def _stage2(
    home: Home,
    driver: Driver,
    session: Callable[[], SparkSession],
    plan: Plan,
    span: _Range,
    level: _Level,
    fresh: ds.Dataset,
    fresh_path: str,
    target: Path,
    done: _Done,
) -> Counter[str]:
    """Write what the witnesses of a level come to, and how much it is; ``done`` is told where that was done."""

    def fetch(wanted: npt.NDArray[np.int64], documents: bool) -> pa.Table:
        column, most = "docid" if documents else "h", driver.settings.driver_rows
        paths = witnesses if driver.is_blind else span.state.paths("witness")
        return read_state(session(), paths, wanted, column, most)

    origin = origin_of(span.batch, level.number)
    witnesses, links = (done.paths(home, span.state, kind) for kind in ("witness", "link"))
    if done.joined_in == "driver" and fresh.count_rows() <= driver.settings.driver_rows:
        try:
            # Each level is a batch to the driver, so that it joins with the levels before it.
            out = driver.results(plan, span.state, fresh.to_table(), origin >> 16, span.first, origin, fetch)
        except TooManyRows:
            driver.forget()
        else:
            target.mkdir(parents=True)
            out.write(target)
            return out.counts
    driver.forget()
    done.joined_in = "executors"
    write_results(session(), plan, home.root / fresh_path, witnesses, target, origin)
    counts = _count_results(target)
    if counts["link"]:
        joined = target / "joined"
        write_assembled(session(), plan, target, links, joined, origin_of(span.batch, level.number, 1 << 15))
        counts += _count_results(joined)
    return counts


def _link_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of links of a batch's results."""
    results = ds.dataset(path, schema=RESULT_SCHEMA)
    yield from results.to_batches(columns=["link", "members", "nodes"], filter=ds.field("relation") == "link")


def _count_results(path: Path) -> Counter[str]:
    """Rows of each relation, with every combination of documents counted; for ``pairs`` the number of pairs."""
    results = ds.dataset(path, schema=RESULT_SCHEMA)
    counts: Counter[str] = Counter()
    sizes: Counter[tuple[str, int, int]] = Counter()
    columns = ["relation", "origin", "class", "docs"]
    wanted = ds.field("relation") != "docs"
    for row in results.to_table(columns=columns, filter=wanted).to_pylist():
        if row["relation"] == "pairs":
            counts["pairs"] += row["docs"][0]
        elif row["relation"] in ("link", "refused"):
            counts[row["relation"]] += 1
        else:
            sizes[row["relation"], row["origin"], row["class"]] += 1
    docs = results.to_table(columns=["origin", "class"], filter=ds.field("relation") == "docs")
    for row in docs.group_by(["origin", "class"]).aggregate([([], "count_all")]).to_pylist():
        for relation in ("rout", "match"):
            counts[relation] += row["count_all"] * sizes[relation, row["origin"], row["class"]]
    return counts


# -- jobs ------------------------------------------------------------------------------------------------------


@contextmanager
def _named_failure(home: Home, driver: Driver, span: _Range, tag: str, publisher: Publisher | None) -> Iterator[None]:
    """Remove what a batch that fails has written; give a failure of Spark its batch."""
    try:
        yield
    except BaseException as error:
        driver.forget()
        shutil.rmtree(home.folder("results") / tag, ignore_errors=True)
        for path in home.folder("witness").glob(f"{tag}-*"):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)
        if publisher is not None:
            publisher.discard()
        if not isinstance(error, (PySparkException, Py4JError)):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # A worker's traceback ends with what went wrong in Python.
        named = [line for line in lines if line.startswith(("xscl.", "OSError", "MemoryError"))]
        reason = named[-1] if named else lines[0]
        raise EngineError(
            "XSCL_BATCH",
            f"batch {span.batch} (places {span.first} to {span.last}) failed in Spark: {reason}",
            hint="nothing of it is visible, and it runs again next time; -v shows the whole trace",
        ) from error


class _Jobs:
    """Gives Spark to a batch and counts its jobs, by Spark's own status tracker."""

    def __init__(self, session: Callable[[], SparkSession], group: str) -> None:
        self._get = session
        self._group = group
        self._spark: SparkSession | None = None

    def session(self) -> SparkSession:
        """The session; what runs there from now on is counted."""
        if self._spark is None:
            self._spark = self._get()
            if self._counts:
                self._spark.sparkContext.setJobGroup(self._group, "xscl batch")
        return self._spark

    @property
    def _counts(self) -> bool:
        # Spark Connect has no context.
        return type(self._spark) is SparkSession and hasattr(self._spark, "sparkContext")

    def count(self) -> int | None:
        """Jobs so far; None where Spark does not tell."""
        if self._spark is None:
            return 0
        if not self._counts:
            return None
        return len(self._spark.sparkContext.statusTracker().getJobIdsForGroup(self._group))

    def close(self) -> None:
        """What runs from now on is not counted."""
        if self._spark is not None and self._counts:
            self._spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


@contextmanager
def _counted_jobs(session: Callable[[], SparkSession], group: str) -> Iterator[_Jobs]:
    jobs = _Jobs(session, group)
    try:
        yield jobs
    finally:
        jobs.close()


# -- commit ----------------------------------------------------------------------------------------------------


def _refused(witnesses: ds.Dataset) -> list[dict[str, object]]:
    """Documents that stage 1 could not match, as rows of ``rejected``."""
    rows = witnesses.to_table(columns=["place", "ts", "strval"], filter=ds.field("var") == REFUSED)
    found = []
    for row in rows.to_pylist():
        channel, _, id_ = row["place"].partition("\0")
        reason = {"condition": "XSCL_DOCUMENT_LIMIT", "message": row["strval"], "source": "stage 1"}
        found.append({"channel": channel, "id": id_, "ts": row["ts"], **reason})
    return found


def _refused_together(path: Path) -> list[dict[str, object]]:
    """Documents that stage 2 could not join, as rows of ``rejected``: each newest one with those it met."""
    columns = ["docs", "members"]
    rows = ds.dataset(path, schema=RESULT_SCHEMA).to_table(columns=columns, filter=ds.field("relation") == "refused")
    found = {}
    for row in rows.to_pylist():
        *others, newest = sorted(row["members"], key=lambda member: place_of(member["docid"]))
        channel, _, id_ = newest["place"].partition("\0")
        met = ", ".join("{0}:{2}".format(*other["place"].partition("\0")) for other in others)
        message = f"a query has more than {MAX_BINDINGS:,} bindings in this document{met and ' with ' + met}"
        reason = {"condition": "XSCL_DOCUMENT_LIMIT", "message": message, "source": "stage 2"}
        found[tuple(row["docs"])] = {"channel": channel, "id": id_, "ts": newest["ts"], **reason}
    return list(found.values())


def _commit(
    home: Home,
    driver: Driver,
    report: BatchReport,
    change: StateChange,
    refused: Iterable[Mapping[str, object]] = (),
    publisher: Publisher | None = None,
    since: float | None = None,
) -> BatchReport:
    """Make the batch visible: one transaction names its files and moves the home's place on."""
    started = time.perf_counter() if since is None else since
    after = change.after
    report = replace(report, state_rows=after.rows, state_bytes=after.size, purged=change.purged)
    with home.catalog.begin() as connection:
        if connection.scalar(sa.select(HOME.c.processed).with_for_update()) != report.first - 1:
            raise EngineError(
                "XSCL_HOME_IN_USE",
                f"another process has processed places {report.first} to {report.last} meanwhile",
                hint="one process works on a home at a time; nothing was done twice",
            )
        now = time.time_ns() // 1000
        unused = commit_state(connection, change, now)
        home.catalog.reject(connection, refused, now)
        if publisher is not None:
            publisher.commit(connection)
            home.catalog.reject(connection, publisher.rejected, now)
        connection.execute(HOME.update().values(processed=report.last))
        if report.events:
            # The row cannot have the time of its own writing; that of all before it is nearly the whole.
            report = replace(report, commit_s=time.perf_counter() - started)
            values = {name: getattr(report, name) for name in report.__slots__}
            connection.execute(BATCHES.insert().values(**values, committed=now))
    unlink_state(unused)
    driver.committed(after, report.last)
    return replace(report, commit_s=time.perf_counter() - started)
