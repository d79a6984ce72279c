"""One batch: a range of the intake order, from documents to matches, committed whole.

Stage 1 walks every new document once for all queries (``mapInArrow``) and answers by columns what they can answer of
rows (``xpath/relational.py``), in one job; stage 2 joins the new witnesses with all witnesses in one statement for all
queries and resolves what it finds.  The number of Spark jobs does not depend on the number of queries or templates,
because queries are rows of what the jobs read.

Files are written under names that nothing refers to until the last transaction names them, so a batch that fails leaves
no trace and a batch that runs again replaces itself.
"""

from __future__ import annotations

import json
import re
import shutil
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import sqlalchemy as sa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from xscl.arrow import spark_schema
from xscl.errors import EngineError
from xscl.home import Home
from xscl.ingest.rows import ROW_DOCUMENT
from xscl.intake import EVENT_SCHEMA
from xscl.planner import Plan, Planner
from xscl.state import (
    LINK_SCHEMA,
    HeldState,
    Kind,
    StateChange,
    commit_state,
    held_state,
    newest_times,
    next_state,
    unlink_state,
    write_links,
)
from xscl.tables import BATCHES, EVENT_IDS, FLUSHES, HOME, INTAKE_FILES
from xscl.templates.join import assembled, matched_edges, resolved
from xscl.templates.program import load_program
from xscl.templates.results import MAX_BINDINGS, RESULT_SCHEMA
from xscl.templates.retention import REACH_SCHEMA
from xscl.xpath.relational import ASKED_SCHEMA, WITNESSES, RowShape
from xscl.xpath.witness import REFUSED, WITNESS_SCHEMA
from xscl.xpath.worker import witness_batches

__all__ = [
    "DEFAULT_BATCH_DOCS",
    "BatchReport",
    "next_range",
    "process_batch",
    "read_parquet",
    "with_documents",
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
    state_rows: int
    """Rows of join state held after it."""
    state_bytes: int
    """Size of the files that hold them."""
    purged: int
    """Rows of earlier batches that are held no more."""
    result_path: str | None


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
    with home.catalog.read() as connection:
        state = held_state(home, connection)
    newest = newest_times(_event_paths(home, first, last), first, last) if events else {}
    if plan is None:
        if events == 0:
            change = None
        else:
            reach = REACH_SCHEMA.empty_table()
            change = next_state(home, state, batch=number, last=last, reach=reach, newest=newest, fresh=())
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
            state_rows=0 if change is None else change.after.rows,
            state_bytes=0 if change is None else change.after.size,
            purged=0 if change is None else change.purged,
            result_path=None,
        )
        return _commit(home, report, change)
    spark = session()
    prepared = time.perf_counter()
    tag = f"{number:08d}-{uuid.uuid4().hex[:8]}"
    witness_path, result_path, joined_path = f"witness/{tag}", f"results/{tag}", f"results/{tag}/joined"
    with _named_failure(home, number, first, last, tag):
        with _counted_jobs(spark, f"xscl-batch-{tag}") as jobs:
            _stage1(home, spark, plan, first, last, channels, home.root / witness_path)
            walked = time.perf_counter()
            _stage2(spark, plan, first, state, home.root / witness_path, home.root / result_path)
            counts = _count_results(home.root / result_path)
            if counts["link"]:
                _join_links(spark, plan, state, home.root / result_path, home.root / joined_path)
                counts += _count_results(home.root / joined_path)
            joined = time.perf_counter()
        refused = _refused(home.root / witness_path) + _refused_together(home.root / result_path)
        witnesses = ds.dataset(home.root / witness_path, schema=WITNESS_SCHEMA).count_rows()
        fresh: list[tuple[Kind, str]] = [("witness", witness_path)]
        links = write_links(home, tag, _link_batches(home.root / result_path))
        if links is not None:
            fresh.append(("link", links))
        reach = planner.reach.table(load_program(str(plan.program_path)), plan.program_path, last)
        change = next_state(home, state, batch=number, last=last, reach=reach, newest=newest, fresh=fresh)
        report = BatchReport(
            batch=number,
            first=first,
            last=last,
            events=events,
            witnesses=witnesses,
            pairs=counts["pairs"],
            rout=counts["rout"],
            matches=counts["match"],
            links=counts["link"],
            jobs=jobs.count,
            prepare_s=prepared - started,
            stage1_s=walked - prepared,
            join_s=joined - walked,
            commit_s=0.0,
            state_rows=change.after.rows,
            state_bytes=change.after.size,
            purged=change.purged,
            result_path=result_path,
        )
        return _commit(home, report, change, refused)


# -- stages ----------------------------------------------------------------------------------------------------


_WITH_DOCUMENTS = f"""
with shaped as (
  select *, element_at(
    from_json(:shapes, 'map<string, struct<element string, columns array<string>>>'), channel) as shape
  from {{events}}
)
select {", ".join(name for name in EVENT_SCHEMA.names if name != "content")}, shape is not null as shaped,
       coalesce(content, {ROW_DOCUMENT}) as content
from shaped
"""


def with_documents(spark: SparkSession, events: DataFrame, shapes: Mapping[str, RowShape]) -> DataFrame:
    """Events with the document of each row of these channels as its content; ``shaped`` says which events those are."""
    told = {name: {"element": shape.element, "columns": shape.columns} for name, shape in shapes.items()}
    return spark.sql(_WITH_DOCUMENTS, args={"shapes": json.dumps(told)}, events=events)


def _events_frame(spark: SparkSession, paths: list[str], first: int, last: int) -> DataFrame:
    """The events of a range of the intake order, in the shape of ``EVENT_SCHEMA``."""
    return read_parquet(spark, EVENT_SCHEMA, paths).where(f"docid between {first} and {last}")


def _event_paths(home: Home, first: int, last: int) -> list[str]:
    """The files that hold the events of a range."""
    with home.catalog.read() as connection:
        statement = sa.select(INTAKE_FILES.c.path).where(INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last)
        return home.paths([row.path for row in connection.execute(statement.order_by(INTAKE_FILES.c.first))])


def read_parquet(spark: SparkSession, schema: pa.Schema, paths: list[str]) -> DataFrame:
    """Parquet files of a known shape; no path at all is the empty relation."""
    if not paths:
        return spark.createDataFrame([], spark_schema(schema))
    # Spark takes a path for a pattern; a home may be called anything.
    literal = [re.sub(r"([\\*?\[\]{}])", r"\\\1", path) for path in paths]
    return spark.read.schema(spark_schema(schema)).option("recursiveFileLookup", True).parquet(*literal)


_WALKED = ("docid", "channel", "id", "item", "ts", "late", "content")


def _stage1(
    home: Home, spark: SparkSession, plan: Plan, first: int, last: int, channels: Collection[str], target: Path
) -> None:
    """Write the witness rows of a range, whose events are of ``channels``, in one job."""
    paths = _event_paths(home, first, last)
    events = _events_frame(spark, paths, first, last)
    answered = plan.answered.intersection(channels)
    # Rows of earlier versions are documents, and walked for all that is asked of them.
    old = bool(answered) and any("cells" not in pq.read_schema(path).names for path in paths)
    frames = []
    if old or not plan.walked.isdisjoint(channels):
        shapes = {name: plan.shapes[name] for name in plan.walked.intersection(channels) if name in plan.shapes}
        frames.append(_walked(spark, plan, with_documents(spark, events, shapes), old))
    if answered or not frames:
        asked = read_parquet(spark, ASKED_SCHEMA, [str(plan.asked_path)])
        frames.append(spark.sql(WITNESSES, events=events, asked=asked))
    reduce(DataFrame.unionByName, frames).write.parquet(str(target))


def _walked(spark: SparkSession, plan: Plan, events: DataFrame, old: bool) -> DataFrame:
    """The witness rows of documents; of ``old`` rows also those that columns answer."""
    specs, answered = str(plan.specs_path), str(plan.answered_path)

    def walk(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            documents = batch.select(_WALKED)
            yield from witness_batches(specs, iter([documents]))
            if old:
                yield from witness_batches(answered, iter([documents.filter(pc.invert(batch.column("row")))]))

    needed = events.where("cells is null or shaped").select(*_WALKED, (events.cells.isNotNull()).alias("row"))
    return needed.mapInArrow(walk, spark_schema(WITNESS_SCHEMA))


def _stage2(spark: SparkSession, plan: Plan, first: int, state: HeldState, fresh_path: Path, target: Path) -> None:
    fresh = read_parquet(spark, WITNESS_SCHEMA, [str(fresh_path)])
    witness = read_parquet(spark, WITNESS_SCHEMA, [*state.paths("witness"), str(fresh_path)])
    program = str(plan.program_path)
    matched = matched_edges(spark, fresh=fresh, witness=witness, program_path=program, first=first)
    resolved(matched, program).write.parquet(str(target))


def _join_links(spark: SparkSession, plan: Plan, state: HeldState, fresh_path: Path, target: Path) -> None:
    fresh = read_parquet(spark, RESULT_SCHEMA, [str(fresh_path)]).where("relation = 'link'")
    kept = read_parquet(spark, LINK_SCHEMA, state.paths("link"))
    program = str(plan.program_path)
    rounds = load_program(program).rounds
    assembled(spark, fresh=fresh, earlier=kept, program_path=program, rounds=rounds).write.parquet(str(target))


def _link_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The rows of links of a batch's results."""
    results = ds.dataset(path, schema=RESULT_SCHEMA)
    yield from results.to_batches(columns=["link", "members", "nodes"], filter=ds.field("relation") == "link")


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
        for folder, name in (("witness", tag), ("results", tag)):
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


def _commit(
    home: Home, report: BatchReport, change: StateChange | None, refused: Iterable[Mapping[str, object]] = ()
) -> BatchReport:
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
        now = time.time_ns() // 1000
        unused = [] if change is None else commit_state(connection, change, now)
        if report.events:
            connection.execute(BATCHES.insert().values(**{**values, "committed": now}))
        home.catalog.reject(connection, refused, now)
        connection.execute(HOME.update().values(processed=report.last))
    unlink_state(unused)
    return BatchReport(**{**values, "commit_s": time.perf_counter() - started})
