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
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
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
from xscl.matches import StoredMatch, stored_matches
from xscl.places import place_of
from xscl.planner import Plan, Planner
from xscl.published import Publisher, acyclic_end, publishing
from xscl.tables import BATCHES, EVENT_IDS, FLUSHES, HOME, INTAKE_FILES
from xscl.templates.join import assembled, matched_edges, resolved
from xscl.templates.program import load_program
from xscl.templates.results import MAX_BINDINGS, RESULT_SCHEMA
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
    published: int
    """Documents that queries published."""
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
            .where(EVENT_IDS.c.docid.between(first, last))
            .order_by(EVENT_IDS.c.docid)
            .offset(batch_docs - 1)
            .limit(1)
        )
        flush = connection.scalar(sa.select(sa.func.min(FLUSHES.c.place)).where(FLUSHES.c.place >= first))
        return first, acyclic_end(connection, first, min(place for place in (last, nth, flush) if place is not None))


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
        published = publishing(connection, first, last)
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
            published=0,
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
    publisher = Publisher(home, published, tag) if published is not None else None
    with _named_failure(home, number, first, last, tag, publisher):
        with _counted_jobs(spark, f"xscl-batch-{tag}") as jobs:
            paths = _event_paths(home, first, last)
            _stage1(spark, plan, paths, channels, home.root / witness_path / "0", f"docid between {first} and {last}")
            walked = time.perf_counter()
            counts = _join(home, spark, plan, tag, 0)
            if published is not None and publisher is not None:
                counts += _publish(home, spark, plan, publisher, published.levels, tag)
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
            published=publisher.count if publisher is not None else 0,
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
        return _commit(home, report, refused, publisher)


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


def _event_paths(home: Home, first: int, last: int) -> list[str]:
    """The files that hold the events of a range."""
    with home.catalog.read() as connection:
        statement = sa.select(INTAKE_FILES.c.path).where(INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last)
        return home.paths([row.path for row in connection.execute(statement.order_by(INTAKE_FILES.c.first))])


def read_parquet(spark: SparkSession, schema: pa.Schema, paths: list[str]) -> DataFrame:
    """Parquet files of a known shape, also in folders of folders; no path at all is the empty relation."""
    if not paths:
        return spark.createDataFrame([], spark_schema(schema))
    # Spark takes a path for a pattern; a home may be called anything.
    literal = [re.sub(r"([\\*?\[\]{}])", r"\\\1", path) for path in paths]
    return spark.read.schema(spark_schema(schema)).option("recursiveFileLookup", True).parquet(*literal)


_WALKED = ("docid", "channel", "id", "item", "ts", "late", "content")


def _publish(
    home: Home, spark: SparkSession, plan: Plan, publisher: Publisher, levels: Sequence[Collection[str]], tag: str
) -> Counter[str]:
    """Publish what the events of a batch have come to, level by level; counts of what was joined with it."""
    counts: Counter[str] = Counter()
    level = 0
    publisher.found(_matches(home, tag, level, publisher.groups))
    for channels in levels:
        path = publisher.level(channels)
        if path is None or (plan.walked | plan.answered).isdisjoint(channels):
            continue
        level += 1
        _stage1(spark, plan, [str(path)], channels, home.root / "witness" / tag / str(level))
        counts += _join(home, spark, plan, tag, level)
        publisher.found(_matches(home, tag, level, publisher.groups))
    return counts


def _matches(home: Home, tag: str, level: int, groups: Collection[int]) -> Iterator[StoredMatch]:
    for name in (tag, f"{tag}-joined"):
        path = home.root / "results" / name / str(level)
        if path.exists():
            yield from stored_matches(path, groups)


def _stage1(
    spark: SparkSession, plan: Plan, paths: list[str], channels: Collection[str], target: Path, where: str = "true"
) -> None:
    """Write the witness rows of the events in some files, all of them of ``channels``, in one job."""
    events = read_parquet(spark, EVENT_SCHEMA, paths).where(where)
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


def _join(home: Home, spark: SparkSession, plan: Plan, tag: str, level: int) -> Counter[str]:
    """Join the witness rows of a level of a batch with all before them; counts of what was written."""
    own = [f"witness/{tag}/{before}" for before in range(level)]
    fresh = home.root / "witness" / tag / str(level)
    target = home.root / "results" / tag / str(level)
    _stage2(home, spark, plan, own, fresh, target)
    counts = _count_results(target)
    if counts["link"]:
        own = [f"results/{tag}/{before}" for before in range(level)]
        joined = home.root / "results" / f"{tag}-joined" / str(level)
        _join_links(home, spark, plan, own, target, joined)
        counts += _count_results(joined)
    return counts


def _stage2(home: Home, spark: SparkSession, plan: Plan, own: Sequence[str], fresh_path: Path, target: Path) -> None:
    with home.catalog.read() as connection:
        statement = sa.select(BATCHES.c.witness_path).where(BATCHES.c.witness_path.is_not(None))
        paths = [row.witness_path for row in connection.execute(statement.order_by(BATCHES.c.batch))]
    fresh, earlier = (
        read_parquet(spark, WITNESS_SCHEMA, paths) for paths in ([str(fresh_path)], home.paths([*paths, *own]))
    )
    program = str(plan.program_path)
    matched = matched_edges(spark, fresh=fresh, earlier=earlier, program_path=program)
    resolved(matched, program).write.parquet(str(target))


def _join_links(
    home: Home, spark: SparkSession, plan: Plan, own: Sequence[str], fresh_path: Path, target: Path
) -> None:
    with home.catalog.read() as connection:
        statement = sa.select(BATCHES.c.result_path).where(BATCHES.c.links > 0).order_by(BATCHES.c.batch)
        paths = [row.result_path for row in connection.execute(statement)]
    fresh, kept = (
        read_parquet(spark, RESULT_SCHEMA, paths).where("relation = 'link'")
        for paths in ([str(fresh_path)], home.paths([*paths, *own]))
    )
    program = str(plan.program_path)
    rounds = load_program(program).rounds
    assembled(spark, fresh=fresh, earlier=kept, program_path=program, rounds=rounds).write.parquet(str(target))


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
def _named_failure(
    home: Home, number: int, first: int, last: int, tag: str, publisher: Publisher | None
) -> Iterator[None]:
    """Remove what a batch that fails has written; give a failure of Spark its batch."""
    try:
        yield
    except BaseException as error:
        for folder, name in (("witness", tag), ("results", tag), ("results", f"{tag}-joined")):
            shutil.rmtree(home.folder(folder) / name, ignore_errors=True)
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
        *others, newest = sorted(row["members"], key=lambda member: place_of(member["docid"]))
        channel, _, id_ = newest["place"].partition("\0")
        met = ", ".join("{0}:{2}".format(*other["place"].partition("\0")) for other in others)
        message = f"a query has more than {MAX_BINDINGS:,} bindings in this document{met and ' with ' + met}"
        reason = {"condition": "XSCL_DOCUMENT_LIMIT", "message": message, "source": "stage 2"}
        found[tuple(row["docs"])] = {"channel": channel, "id": id_, "ts": newest["ts"], **reason}
    return list(found.values())


def _commit(
    home: Home,
    report: BatchReport,
    refused: Iterable[Mapping[str, object]] = (),
    publisher: Publisher | None = None,
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
        if report.events:
            connection.execute(BATCHES.insert().values(**{**values, "committed": time.time_ns() // 1000}))
        home.catalog.reject(connection, refused, time.time_ns() // 1000)
        if publisher is not None:
            publisher.commit(connection)
            home.catalog.reject(connection, publisher.rejected, time.time_ns() // 1000)
        connection.execute(HOME.update().values(processed=report.last))
    return BatchReport(**{**values, "commit_s": time.perf_counter() - started})
