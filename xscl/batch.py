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
from dataclasses import dataclass, replace
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
from xscl.planner import Plan, Planner
from xscl.state import (
    HeldState,
    Kind,
    StateChange,
    commit_state,
    discard_change,
    held_state,
    newest_times,
    next_state,
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
            .where(EVENT_IDS.c.docid >= first)
            .order_by(EVENT_IDS.c.docid)
            .offset(batch_docs - 1)
            .limit(1)
        )
        flush = connection.scalar(sa.select(sa.func.min(FLUSHES.c.place)).where(FLUSHES.c.place >= first))
    return first, min(place for place in (last, nth, flush) if place is not None)


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
        change = StateChange.nothing(span.state)
        if events:
            # No query sees them, and those that come later see only what comes after them.
            reach = REACH_SCHEMA.empty_table()
            change = next_state(home, span.state, batch=span.batch, last=last, reach=reach, newest=newest, fresh=())
        return _commit(home, driver, replace(report, prepare_s=time.perf_counter() - started), change)
    prepared = time.perf_counter()
    tag = f"{span.batch:08d}-{uuid.uuid4().hex[:8]}"
    fresh_path, result_path = f"witness/{tag}", f"results/{tag}"
    with _named_failure(home, driver, span, tag), _counted_jobs(session, f"xscl-batch-{tag}") as jobs:
        fresh = _stage1(home, driver, jobs.session, plan, span, home.root / fresh_path)
        walked = time.perf_counter()
        asked, found = driver.slices
        joined_in, counts = _stage2(home, driver, jobs.session, plan, span, fresh, fresh_path, home.root / result_path)
        joined = time.perf_counter()
        refused = _refused(fresh) + _refused_together(home.root / result_path)
        written: list[tuple[Kind, str]] = [("witness", fresh_path)]
        links = write_links(home, tag, _link_batches(home.root / result_path)) if counts["link"] else None
        if links is not None:
            written.append(("link", links))
        reach = planner.reach.table(plan.program, last)
        change = next_state(home, span.state, batch=span.batch, last=last, reach=reach, newest=newest, fresh=written)
        try:
            now_asked, now_found = driver.slices
            report = replace(
                report,
                witnesses=fresh.count_rows(),
                pairs=counts["pairs"],
                rout=counts["rout"],
                matches=counts["match"],
                links=counts["link"],
                jobs=jobs.count(),
                joined_in=joined_in,
                slices_asked=max(now_asked - asked, 0),
                slices_found=max(now_found - found, 0),
                prepare_s=prepared - started,
                stage1_s=walked - prepared,
                join_s=joined - walked,
                result_path=result_path,
            )
            return _commit(home, driver, report, change, refused, since=joined)
        except BaseException:
            if not _visible(home, tag):
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
        return _Range(number, first, last, channels, paths, held_state(home, connection))


# -- stages ----------------------------------------------------------------------------------------------------


def _stage1(
    home: Home, driver: Driver, session: Callable[[], SparkSession], plan: Plan, span: _Range, target: Path
) -> ds.Dataset:
    """Write the witness rows of a range."""
    here = None
    if driver.settings.driver_rows:
        here = walk_here(home, plan, span.paths, span.first, span.last, sum(span.channels.values()))
    if here is None:
        write_witnesses(session(), plan, span.paths, span.first, span.last, span.channels, target)
        return ds.dataset(target, schema=WITNESS_SCHEMA)
    target.mkdir()
    pq.write_table(here, target / "part-0.parquet", row_group_size=_ROW_GROUP)
    return ds.InMemoryDataset(here)


_ROW_GROUP = 64_000


def _stage2(
    home: Home,
    driver: Driver,
    session: Callable[[], SparkSession],
    plan: Plan,
    span: _Range,
    fresh: ds.Dataset,
    fresh_path: str,
    target: Path,
) -> tuple[str, Counter[str]]:
    """Write what the witnesses of a range come to; where that was done, and how much it is."""

    def fetch(wanted: npt.NDArray[np.int64], documents: bool) -> pa.Table:
        column, most = "docid" if documents else "h", driver.settings.driver_rows
        return read_state(session(), span.state.paths("witness"), wanted, column, most)

    if fresh.count_rows() <= driver.settings.driver_rows:
        try:
            out = driver.results(
                plan, span.state, fresh.to_table(), span.batch, span.first, origin_of(span.batch, 0), fetch
            )
        except TooManyRows:
            driver.forget()
        else:
            target.mkdir()
            out.write(target)
            return "driver", out.counts
    driver.forget()
    origin = origin_of(span.batch, 0)
    write_results(session(), plan, span.first, home.root / fresh_path, span.state.paths("witness"), target, origin)
    counts = _count_results(target)
    if counts["link"]:
        joined = target / "joined"
        origin = origin_of(span.batch, 0, 1 << 15)
        write_assembled(session(), plan, target, span.state.paths("link"), joined, origin)
        counts += _count_results(joined)
    return "executors", counts


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
    wanted = ds.field("relation").isin(["rout", "match", "link", "pairs"])
    for row in results.to_table(columns=columns, filter=wanted).to_pylist():
        if row["relation"] == "pairs":
            counts["pairs"] += row["docs"][0]
        elif row["relation"] == "link":
            counts["link"] += 1
        else:
            sizes[row["relation"], row["origin"], row["class"]] += 1
    docs = results.to_table(columns=["origin", "class"], filter=ds.field("relation") == "docs")
    for row in docs.group_by(["origin", "class"]).aggregate([([], "count_all")]).to_pylist():
        for relation in ("rout", "match"):
            counts[relation] += row["count_all"] * sizes[relation, row["origin"], row["class"]]
    return counts


# -- jobs ------------------------------------------------------------------------------------------------------


@contextmanager
def _named_failure(home: Home, driver: Driver, span: _Range, tag: str) -> Iterator[None]:
    """Remove what a batch that fails has written; give a failure of Spark its batch."""
    try:
        yield
    except BaseException as error:
        driver.forget()
        if not _visible(home, tag):
            for folder in ("witness", "results"):
                shutil.rmtree(home.folder(folder) / tag, ignore_errors=True)
            (home.folder("witness") / f"{tag}-links.parquet").unlink(missing_ok=True)
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


def _visible(home: Home, tag: str) -> bool:
    """Whether the catalogue names the files of a batch: what goes wrong after its transaction takes nothing back."""
    with home.catalog.read() as connection:
        named = sa.select(sa.func.count()).where(BATCHES.c.result_path == f"results/{tag}")
        return bool(connection.scalar(named))


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
        *others, newest = sorted(row["members"], key=lambda member: member["docid"])
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
    since: float | None = None,
) -> BatchReport:
    """Make the batch visible: one transaction names its files and moves the home's place on."""
    started = time.perf_counter() if since is None else since
    after = change.after
    report = replace(report, state_rows=after.rows, state_bytes=after.size, purged=change.purged)
    values = {name: getattr(report, name) for name in report.__slots__}
    with home.catalog.begin() as connection:
        if connection.scalar(sa.select(HOME.c.processed).with_for_update()) != report.first - 1:
            raise EngineError(
                "XSCL_HOME_IN_USE",
                f"another process has processed places {report.first} to {report.last} meanwhile",
                hint="one process works on a home at a time; nothing was done twice",
            )
        now = time.time_ns() // 1000
        unused = commit_state(connection, change, now)
        if report.events:
            connection.execute(BATCHES.insert().values(**{**values, "committed": now}))
        home.catalog.reject(connection, refused, now)
        connection.execute(HOME.update().values(processed=report.last))
    unlink_state(unused)
    driver.committed(after, report.first, report.last)
    return replace(report, commit_s=time.perf_counter() - started)
