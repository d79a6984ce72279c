"""The relations of the architecture as Spark views, and read-only SQL over them.

Stored rows carry sets of groups; ``rout_<template>`` and ``matches`` fan them out to queries.  Views are made for the
relations a statement mentions, in a Spark session of their own, so that they hide nobody's tables.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import sqlalchemy as sa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from xscl.answers.match_rows import MATCH_ROW_SCHEMA, MATCH_ROWS_AT_ONCE, match_rows
from xscl.answers.sql_guard import Judged, judge
from xscl.answers.view_texts import (
    DOCS,
    EVENTS,
    HELD,
    KEPT_EVENTS,
    OUTPUTS,
    PLAIN_EVENTS,
    R_BIN,
    R_DOC,
    R_DOCTS,
    R_MEMBER,
    VERSIONS,
    Asked,
    match_counts_text,
    matches_text,
    rout_text,
)
from xscl.base.arrow_schemas import spark_schema
from xscl.base.errors import EngineError
from xscl.batches.executors import read_parquet, with_documents
from xscl.catalog.catalog import all_facts
from xscl.catalog.memberships import member_names
from xscl.catalog.tables import (
    BATCHES,
    CHANNELS,
    EVENT_IDS,
    INSTANCES,
    INTAKE_FILES,
    LATE,
    QUERIES,
    REJECTED,
    STREAMS,
    TEMPLATES,
    VARIABLES,
)
from xscl.intake.data_frames import arrow_table
from xscl.planning.planner import row_shapes
from xscl.store.event_files import EVENT_SCHEMA
from xscl.store.home import Home
from xscl.store.join_state import held_state
from xscl.templates.relations import rt_table
from xscl.templates.results import RESULT_SCHEMA
from xscl.templates.template import Template
from xscl.xpath.witness import WITNESS_SCHEMA

if TYPE_CHECKING:
    from sqlalchemy import Table

__all__ = ["RELATION_NAMES", "matches_frame", "sql_errors", "sql_session"]

RELATION_NAMES = (
    "batches",
    "channels",
    "events",
    "feeds",
    "late",
    "matches",
    "queries",
    "r_bin",
    "r_doc",
    "r_docts",
    "r_member",
    "rejected",
    "streams",
    "templates",
    "variables",
)
"""Relations of every home; ``rt_<template>`` and ``rout_<template>`` come with templates."""
_OF_MEMBERS = frozenset(["match", "ts_min", "ts_max", "received_min", "received_max", "replaces"])
"""Columns of ``matches`` for which events are read."""
_HINT = f"relations: {', '.join(RELATION_NAMES)}, rt_<template>, rout_<template>; docs/reference/sql.md"

_MEMBERSHIPS = pa.schema(
    [
        ("number", pa.int32()),
        ("channel", pa.string()),
        ("streams", pa.list_(pa.int32())),
        ("names", pa.list_(pa.string())),
        ("whole", pa.bool_()),
    ]
)
_ARROW = {
    sa.BigInteger: pa.int64(),
    sa.Integer: pa.int32(),
    sa.Boolean: pa.bool_(),
    sa.Double: pa.float64(),
    sa.String: pa.string(),
    sa.Text: pa.string(),
}


# Our own session begins with the settings of the application, not with those of the caller's session.
_SETTINGS = {
    "spark.sql.runSQLOnFiles": "false",  # relations are what a home shows; files are not
    "spark.sql.variable.substitute": "false",  # ${env:…} would be put in before anything is parsed
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
}


def sql_session(
    home: Home,
    spark: SparkSession,
    statement: str,
    *,
    frames: Mapping[str, object] = MappingProxyType({}),
    caller: SparkSession | None = None,
) -> DataFrame:
    """One statement that reads the home's relations and those that come with it.

    Args:
        home: its relations go before all others.
        spark: a session of the application.
        statement: what ``sql_guard.judge`` admits.
        frames: DataFrames of Spark and pandas and tables of pyarrow that are relations of this statement.
        caller: a session whose temporary views are relations, too.

    Raises:
        EngineError: ``XSCL_SQL``: the statement does something else than reading, or Spark cannot run it; Spark's
            message says where.  ``XSCL_BAD_OPTION``: a frame has the name of a relation, or is none.
    """
    session = _own_session(spark)
    views = _Views(home, session)
    given = _named_frames(frames, views.names)

    def views_of_caller() -> frozenset[str]:
        tables = () if caller is None else caller.catalog.listTables()
        return frozenset(table.name.lower() for table in tables if table.isTemporary)

    judged = judge(statement, views.names | given.keys(), views_of_caller)
    with sql_errors(moved_by=judged.lines_before):
        for alias in judged.listed_aliases:
            if session.catalog.functionExists(alias):
                raise EngineError("XSCL_SQL", f"{alias!r} is a function of Spark; another alias tells them apart")
        text = views.create(judged)
        for name in judged.relations - views.names:
            _bring(session, name, given[name] if name in given or caller is None else caller.table(name))
        return session.sql(text)


def _own_session(spark: SparkSession) -> SparkSession:
    session = spark.newSession()
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def matches_frame(
    home: Home, spark: SparkSession, query: str | None = None, since: int | None = None, until: int | None = None
) -> DataFrame:
    """Matches as people see them; Spark's tasks build values and documents when rows are read.

    Args:
        home: the home.
        spark: a session of the application.
        query: only of the query of this name.
        since: only those whose newest member is of this time or later, microseconds since the epoch.
        until: only those whose newest member is of this time or earlier.
    """
    session = _own_session(spark)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(MATCH_ROWS_AT_ONCE))
    with home.catalog.read() as connection:
        facts = all_facts(home.catalog.channels(connection), home.catalog.streams(connection))

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return match_rows(batches, facts)

    with sql_errors():
        built = _Views(home, session).outputs(query, since, until).mapInArrow(work, MATCH_ROW_SCHEMA)
        return built.selectExpr(
            "match",
            "query",
            "timestamp_micros(ts_max) as ts",
            "timestamp_micros(ts_min) as ts_min",
            "timestamp_micros(ts_max) as ts_max",
            "channels",
            "ids",
            "transform(times, t -> timestamp_micros(t)) as times",
            "nodes",
            "values",
            "document",
            "replaces",
        )


def _named_frames(frames: Mapping[str, object], taken: Collection[str]) -> dict[str, object]:
    """The frames by their names in lower case."""
    for name in frames:
        if name.lower() in taken:
            raise EngineError(
                "XSCL_BAD_OPTION", f"{name} is a relation of the home", hint="give the DataFrame another name"
            )
    return {name.lower(): frame for name, frame in frames.items()}


def _bring(session: SparkSession, name: str, frame: object) -> None:
    """Make a table, or a frame of any session of the application, a view of this one."""
    if not hasattr(frame, "createOrReplaceGlobalTempView"):
        table = arrow_table(frame)
        if table is None:
            raise EngineError(
                "XSCL_BAD_OPTION",
                f"{name} is {type(frame).__name__}, and no table",
                hint="a DataFrame of Spark or pandas, or a table of pyarrow",
            )
        session.createDataFrame(table).createOrReplaceTempView(name)
        return
    # Sessions see each other's views only under a name that all of them share.
    shared = f"xscl_{uuid4().hex}"
    frame.createOrReplaceGlobalTempView(shared)
    try:
        database = session.conf.get("spark.sql.globalTempDatabase", "global_temp")
        session.table(f"{database}.{shared}").createOrReplaceTempView(f"`{name}`")
    finally:
        session.catalog.dropGlobalTempView(shared)


@contextmanager
def sql_errors(*, moved_by: int = 0) -> Iterator[None]:
    """Spark's refusals in our words; ``moved_by`` lines stand before the user's text."""
    # Spark's Python side logs what it raises; we say it once.  Its own class must make the logger, if we are first.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    thread = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(others)
    try:
        yield
    except PySparkException as error:
        first = str(error).strip().split("\n\n")[0].partition(";\n")[0].partition("\nJVM stacktrace")[0]
        first = re.sub(r"\bline (\d+)", lambda found: f"line {max(1, int(found[1]) - moved_by)}", first)
        raise EngineError("XSCL_SQL", first, hint=_HINT) from None
    finally:
        logger.removeFilter(others)


class _Views:
    def __init__(self, home: Home, session: SparkSession) -> None:
        self.home = home
        self.session = session
        self.made: set[str] = set()
        self.templates = {
            name: template
            for template in home.catalog.shapes()
            for name in (f"rt_{template.id}", f"rout_{template.id}")
        }
        self.names = frozenset(RELATION_NAMES) | self.templates.keys()
        self.asked = Asked()
        self.simple: dict[str, Callable[[], DataFrame]] = {
            "xscl_events": self._all_events,
            "xscl_witness": self._held_witness,
            "xscl_results": self._results,
            "xscl_batches": lambda: self._table(BATCHES),
            "xscl_channels": lambda: self._table(CHANNELS),
            "xscl_queries": lambda: self._table(QUERIES),
            "xscl_memberships": self._memberships,
            "xscl_instances": lambda: self._table(INSTANCES),
            "batches": lambda: self._table(BATCHES, without=("result_path",)),
            "channels": lambda: self._table(CHANNELS),
            "feeds": self._feeds,
            "late": lambda: self._table(LATE, without=("number",)),
            "queries": lambda: self._table(QUERIES, without=("names", "digest", "held_from")),
            "rejected": lambda: self._table(REJECTED, without=("number",)),
            "streams": lambda: self._table(STREAMS),
            "templates": lambda: self._table(TEMPLATES),
            "variables": lambda: self._table(VARIABLES, without=("key",)),
        }
        self.streams = list(member_names(home.catalog))
        self.processed = processed = home.catalog.processed()[0]
        self.derived: dict[str, str] = {
            "events": EVENTS if self.streams else PLAIN_EVENTS,
            "r_docts": R_DOCTS.format(processed=processed),
            "r_member": R_MEMBER.format(processed=processed),
            "r_bin": R_BIN,
            "r_doc": R_DOC,
            "xscl_docs": DOCS,
            "xscl_versions": VERSIONS,
        }

    def create(self, judged: Judged) -> str:
        """Create the views that a statement reads, and those that they need; returns the text that reads them."""
        self.asked = self._asked_of(judged.columns)
        counts = None if self.asked.reads_events else judged.counts
        self.derived["matches"] = matches_text(self.asked) if counts is None else match_counts_text()
        for name in sorted(judged.relations & self.names):
            self._make(name)
        return judged.text if counts is None else counts

    def outputs(self, query: str | None, since: int | None, until: int | None) -> DataFrame:
        """Matches with all that their outputs are built from."""
        self.asked = self._asked_of(None)
        found = self._derived(matches_text(self.asked, built=True))
        if query is not None:
            found = found.where(found.qid == query)
        if since is not None:
            found = found.where(found.ts_max >= since)
        if until is not None:
            found = found.where(found.ts_max <= until)
        for needed in ("xscl_events", "xscl_queries"):
            self._make(needed)
        return self.session.sql(OUTPUTS, found=found)

    def _asked_of(self, columns: Collection[str] | None) -> Asked:
        """Find out what these columns of ``matches`` need, or all of them."""
        wanted = columns is None or "replaces" in columns
        members = (
            columns is None or bool(_OF_MEMBERS.intersection(columns)) or bool(self.streams and "docids" in columns)
        )
        newer = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.version > 1).limit(1)
        by_time = sa.or_(QUERIES.c.ts_from.is_not(None), QUERIES.c.held_from.is_not(None))
        timed = sa.select(QUERIES.c.query).where(by_time).limit(1)
        held = sa.select(QUERIES.c.digest).where(QUERIES.c.history.is_not(None)).group_by(QUERIES.c.digest)
        with self.home.catalog.read() as connection:
            return Asked(
                members=members,
                # What is replaced costs a join of all matches with themselves.
                replaces=wanted and connection.scalar(newer) is not None,
                streams=bool(self.streams),
                kept=bool(connection.scalar(sa.select(sa.func.count(CHANNELS.c.kept_from)))),
                timed=connection.scalar(timed) is not None,
                repeats=connection.scalar(held.having(sa.func.count() > 1).limit(1)) is not None,
            )

    def _make(self, name: str) -> None:
        if name in self.made:
            return
        self.made.add(name)
        if name in self.templates:
            frame = self._of_template(name, self.templates[name])
        else:
            frame = self._derived(self.derived[name]) if name in self.derived else self.simple[name]()
        frame.createOrReplaceTempView(name)

    def _derived(self, text: str) -> DataFrame:
        for needed in re.findall(r"\bxscl_\w+", text):
            self._make(needed)
        return self.session.sql(text)

    def _of_template(self, name: str, template: Template) -> DataFrame:
        if name.startswith("rout_"):
            return self._derived(rout_text(template, self.asked))
        columns = [(column.name, column.type) for column in rt_table(template).columns]
        return self._frame(columns, self.home.catalog.rt_rows(template))

    def _all_events(self) -> DataFrame:
        with self.home.catalog.read() as connection:
            statement = sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first)
            paths = [row.path for row in connection.execute(statement)]
        events = read_parquet(self.session, EVENT_SCHEMA, self.home.paths(paths))
        if self.asked.kept:
            self._make("xscl_channels")
            text = KEPT_EVENTS.format(events="{events}", processed=self.processed)
            events = self.session.sql(text, events=events)
        return with_documents(self.session, events, row_shapes(self.home.catalog.channels()))

    def _held_witness(self) -> DataFrame:
        """The witness rows of the join state: those that some live query may still join."""
        with self.home.catalog.read() as connection:
            state = held_state(self.home, connection)
        rows = read_parquet(self.session, WITNESS_SCHEMA, state.paths("witness"))
        if state.floors is None:
            return rows
        floors = self.session.createDataFrame(state.floors.table())
        return self.session.sql(HELD, rows=rows, floors=floors)

    def _memberships(self) -> DataFrame:
        """What memberships stand for in each channel that has them."""
        rows = [dict(zip(_MEMBERSHIPS.names, row, strict=True)) for row in self.streams]
        if not rows:
            return self.session.createDataFrame([], spark_schema(_MEMBERSHIPS))
        return self.session.createDataFrame(pa.Table.from_pylist(rows, schema=_MEMBERSHIPS))

    def _results(self) -> DataFrame:
        with self.home.catalog.read() as connection:
            # A batch that has found nothing may have no folder; those whose results were merged name the same one.
            found = sa.or_(BATCHES.c.rout > 0, BATCHES.c.matches > 0)
            statement = sa.select(BATCHES.c.result_path).where(found).order_by(BATCHES.c.batch)
            paths = [path for path in dict.fromkeys(connection.scalars(statement)) if path is not None]
        return read_parquet(self.session, RESULT_SCHEMA, self.home.results(paths))

    def _table(self, table: Table, *, without: Sequence[str] = ()) -> DataFrame:
        columns = [(c.name, c.type) for c in table.columns if c.name not in without]
        return self._frame(columns, self.home.catalog.rows(table))

    def _feeds(self) -> DataFrame:
        statement = (
            sa.select(
                EVENT_IDS.c.feed,
                EVENT_IDS.c.channel,
                sa.func.count(sa.distinct(EVENT_IDS.c.item)).label("items"),
                sa.func.count().label("versions"),
            )
            .where(EVENT_IDS.c.feed != "")
            .group_by(EVENT_IDS.c.feed, EVENT_IDS.c.channel)
            .order_by(EVENT_IDS.c.feed, EVENT_IDS.c.channel)
        )
        with self.home.catalog.read() as connection:
            rows = [dict(row._mapping) for row in connection.execute(statement)]
        types: list[tuple[str, object]] = [
            ("feed", sa.String()),
            ("channel", sa.String()),
            ("items", sa.BigInteger()),
            ("versions", sa.BigInteger()),
        ]
        return self._frame(types, rows)

    def _frame(self, columns: Sequence[tuple[str, object]], rows: list[dict[str, object]]) -> DataFrame:
        schema = pa.schema([(name, _ARROW[type(type_)]) for name, type_ in columns])
        if not rows:
            return self.session.createDataFrame([], spark_schema(schema))
        return self.session.createDataFrame(pa.Table.from_pylist(rows, schema=schema))
