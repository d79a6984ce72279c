"""One batch: a range of the intake order, from documents to matches, committed whole.

Stage 1 walks every new document once for all queries (``mapInArrow``) and answers by columns what they can answer of
rows (``xpath/relational.py``), in one job; stage 2 joins the new witnesses with all witnesses in one statement for all
queries and resolves what it finds.  The number of Spark jobs does not depend on the number of queries or templates,
because queries are rows of what the jobs read.

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
from dataclasses import dataclass
from pathlib import Path

import pyarrow.dataset as ds
import sqlalchemy as sa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xscl.errors import EngineError
from xscl.executors import write_assembled, write_results, write_witnesses
from xscl.home import Home
from xscl.planner import Planner
from xscl.tables import BATCHES, EVENT_IDS, FLUSHES, HOME, INTAKE_FILES
from xscl.templates.results import MAX_BINDINGS, RESULT_SCHEMA, origin_of
from xscl.xpath.witness import REFUSED, WITNESS_SCHEMA

__all__ = [
    "DEFAULT_BATCH_DOCS",
    "BatchReport",
    "next_range",
    "process_batch",
]

DEFAULT_BATCH_DOCS = 10_000


@dataclass(frozen=True, slots=True)
class BatchReport:
    """What a batch did; times in seconds."""

    batch: int
    first: int
    last: int
    events: int
    witnesses: int
    pairs: int
    """Candidate pairs: pairs of documents with a matched edge."""
    rout: int
    """Stored rows of R_out, each with its set of groups."""
    matches: int
    """Stored matches, each with its set of groups."""
    links: int
    """Stored rows of links: what queries of three and more blocks found of two of them."""
    jobs: int | None
    """Spark jobs, as Spark counts them; None where it does not (Spark Connect)."""
    prepare_s: float
    stage1_s: float
    join_s: float
    commit_s: float
    witness_path: str | None
    result_path: str | None
    joined_path: str | None
    """Results of queries of three and more blocks."""


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


def process_batch(planner: Planner, session: Callable[[], SparkSession], first: int, last: int) -> BatchReport:
    """Process the events of a range and commit; ``session`` gives Spark, and is asked only if a query sees an event."""
    home = planner.home
    started = time.perf_counter()
    with home.catalog.read() as connection:
        number = (connection.scalar(sa.select(sa.func.max(BATCHES.c.batch))) or 0) + 1
        statement = sa.select(EVENT_IDS.c.channel, sa.func.count()).group_by(EVENT_IDS.c.channel)
        in_range = statement.where(EVENT_IDS.c.docid.between(first, last))
        channels: dict[str, int] = {row[0]: row[1] for row in connection.execute(in_range)}
        events = sum(channels.values())
    plan = planner.plan(first, last) if events else None
    prepared = time.perf_counter()
    if plan is None:
        report = BatchReport(
            batch=number,
            first=first,
            last=last,
            events=events,
            witnesses=0,
            pairs=0,
            rout=0,
            matches=0,
            links=0,
            jobs=0,
            prepare_s=prepared - started,
            stage1_s=0.0,
            join_s=0.0,
            commit_s=0.0,
            witness_path=None,
            result_path=None,
            joined_path=None,
        )
        return _commit(home, report)
    spark = session()
    prepared = time.perf_counter()
    tag = f"{number:08d}-{uuid.uuid4().hex[:8]}"
    witness_path, result_path, joined_path = f"witness/{tag}", f"results/{tag}", f"results/{tag}-joined"
    with _named_failure(home, number, first, last, tag):
        with _counted_jobs(spark, f"xscl-batch-{tag}") as jobs:
            fresh = home.root / witness_path
            write_witnesses(spark, plan, _event_paths(home, first, last), first, last, channels, fresh)
            walked = time.perf_counter()
            origin = origin_of(number, 0)
            write_results(spark, plan, first, fresh, _state_paths(home), home.root / result_path, origin)
            counts = _count_results(home.root / result_path)
            if counts["link"]:
                whole = home.root / joined_path
                write_assembled(spark, plan, home.root / result_path, _link_paths(home), whole, origin)
                counts += _count_results(home.root / joined_path)
            joined = time.perf_counter()
        report = BatchReport(
            batch=number,
            first=first,
            last=last,
            events=events,
            witnesses=ds.dataset(home.root / witness_path, schema=WITNESS_SCHEMA).count_rows(),
            pairs=counts["pairs"],
            rout=counts["rout"],
            matches=counts["match"],
            links=counts["link"],
            jobs=jobs.count,
            prepare_s=prepared - started,
            stage1_s=walked - prepared,
            join_s=joined - walked,
            commit_s=0.0,
            witness_path=witness_path,
            result_path=result_path,
            joined_path=joined_path if counts["link"] else None,
        )
        refused = _refused(home.root / witness_path)
        for name in (report.result_path, report.joined_path):
            refused += _refused_together(home.root / name) if name is not None else []
        return _commit(home, report, refused)


# -- files -----------------------------------------------------------------------------------------------------


def _event_paths(home: Home, first: int, last: int) -> list[str]:
    """The files that hold the events of a range."""
    with home.catalog.read() as connection:
        statement = sa.select(INTAKE_FILES.c.path).where(INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last)
        return home.paths([row.path for row in connection.execute(statement.order_by(INTAKE_FILES.c.first))])


def _state_paths(home: Home) -> list[str]:
    """The files that hold the witnesses of earlier batches."""
    with home.catalog.read() as connection:
        statement = sa.select(BATCHES.c.witness_path).where(BATCHES.c.witness_path.is_not(None))
        return home.paths([row.witness_path for row in connection.execute(statement.order_by(BATCHES.c.batch))])


def _link_paths(home: Home) -> list[str]:
    """The files that hold rows of links of earlier batches."""
    with home.catalog.read() as connection:
        statement = sa.select(BATCHES.c.result_path).where(BATCHES.c.links > 0).order_by(BATCHES.c.batch)
        return home.paths([row.result_path for row in connection.execute(statement)])


def _count_results(path: Path) -> Counter[str]:
    """Rows of each relation; for ``pairs`` the number of pairs."""
    results = ds.dataset(path, schema=RESULT_SCHEMA)
    relations = results.to_table(columns=["relation"]).column("relation").value_counts().to_pylist()
    counts = Counter({item["values"]: item["counts"] for item in relations})
    pairs = results.to_table(columns=["docs"], filter=ds.field("relation") == "pairs").column("docs").to_pylist()
    counts["pairs"] = sum(count for (count,) in pairs)
    return counts


# -- jobs ------------------------------------------------------------------------------------------------------


@contextmanager
def _named_failure(home: Home, number: int, first: int, last: int, tag: str) -> Iterator[None]:
    """Remove what a batch that fails has written; give a failure of Spark its batch."""
    try:
        yield
    except BaseException as error:
        for folder, name in (("witness", tag), ("results", tag), ("results", f"{tag}-joined")):
            shutil.rmtree(home.folder(folder) / name, ignore_errors=True)
        if not isinstance(error, (PySparkException, Py4JError)):
            raise
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        # A worker's traceback ends with what went wrong in Python.
        named = [line for line in lines if line.startswith(("xscl.", "OSError", "MemoryError"))]
        reason = named[-1] if named else lines[0]
        raise EngineError(
            "XSCL_BATCH",
            f"batch {number} (places {first} to {last}) failed in Spark: {reason}",
            hint="nothing of it is visible, and it runs again next time; -v shows the whole trace",
        ) from error


@dataclass(slots=True)
class _Jobs:
    count: int | None = None


@contextmanager
def _counted_jobs(spark: SparkSession, group: str) -> Iterator[_Jobs]:
    """Counts the Spark jobs that run inside, from Spark's own status tracker."""
    jobs = _Jobs()
    context = getattr(spark, "sparkContext", None) if type(spark) is SparkSession else None
    if context is None:
        yield jobs
        return
    context.setJobGroup(group, "xscl batch")
    try:
        yield jobs
    finally:
        jobs.count = len(context.statusTracker().getJobIdsForGroup(group))
        context.setLocalProperty("spark.jobGroup.id", None)


# -- commit ----------------------------------------------------------------------------------------------------


def _refused(path: Path) -> list[dict[str, object]]:
    """Documents that stage 1 could not match, as rows of ``rejected``."""
    rows = ds.dataset(path, schema=WITNESS_SCHEMA).to_table(
        columns=["place", "ts", "strval"], filter=ds.field("var") == REFUSED
    )
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


def _commit(home: Home, report: BatchReport, refused: Iterable[Mapping[str, object]] = ()) -> BatchReport:
    """Make the batch visible: one transaction names its files and moves the home's place on."""
    started = time.perf_counter()
    values = {name: getattr(report, name) for name in report.__slots__}
    with home.catalog.begin() as connection:
        if connection.scalar(sa.select(HOME.c.processed).with_for_update()) != report.first - 1:
            raise EngineError(
                "XSCL_HOME_IN_USE",
                f"another process has processed places {report.first} to {report.last} meanwhile",
                hint="one process works on a home at a time; nothing was done twice",
            )
        if report.events:
            connection.execute(BATCHES.insert().values(**{**values, "committed": time.time_ns() // 1000}))
        home.catalog.reject(connection, refused, time.time_ns() // 1000)
        connection.execute(HOME.update().values(processed=report.last))
    return BatchReport(**{**values, "commit_s": time.perf_counter() - started})
