"""Read-only SQL over a home's relations, on Spark.

Each relation that a statement mentions becomes a view, made from its steps (``relations``), in a Spark session of
its own, so that it hides nobody's tables.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import MappingProxyType
from uuid import uuid4

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import DataFrame, SparkSession

from xscl.answers.sql.channel_views import channel_steps
from xscl.answers.sql.comments import column_comment
from xscl.answers.sql.guard import Judged, judge
from xscl.answers.sql.match_rows import MATCH_ROW_SCHEMA, MATCH_ROWS_AT_ONCE, match_rows
from xscl.answers.sql.match_steps import output_steps
from xscl.answers.sql.relation_steps import RELATION_NAMES
from xscl.answers.sql.relations import HomeRelations, home_relations
from xscl.answers.sql.sources import source_frame
from xscl.answers.sql.steps import Step, quoted, with_statement
from xscl.base.errors import EngineError, XsclError
from xscl.catalog.channels import all_facts, read_channels, read_streams
from xscl.catalog.suggestions import no_channel
from xscl.intake.data_frames import arrow_table
from xscl.spark.connect_session import own_session
from xscl.spark.session import spark_has_gone
from xscl.store.event_spans import EVERYTHING, Events
from xscl.store.home import Home

__all__ = ["channel_frame", "matches_frame", "sql_errors", "sql_session"]

_HINT = f"relations: {', '.join(RELATION_NAMES)}, ch_<channel>, rt_<template>, rout_<template>; docs/reference/sql.md"

_ENDED = (
    "a statement that gathers less at once takes less memory, SPARK_DRIVER_MEMORY gives Java more; "
    "the next one starts Spark again"
)

# Our own session begins with the settings of the application, not with those of the caller's session.
_SETTINGS = {
    "spark.sql.runSQLOnFiles": "false",  # relations are what a home shows; files are not
    "spark.sql.variable.substitute": "false",  # ${env:…} would be put in before anything is parsed
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.session.timeZone": "UTC",
}


def sql_session(
    home: Home,
    spark: SparkSession,
    statement: str,
    *,
    frames: Mapping[str, object] = MappingProxyType({}),
    caller: SparkSession | None = None,
) -> DataFrame:
    """Run one statement that reads the home's relations and those that come with it.

    Args:
        home: its relations go before all others.
        spark: a session of the application.
        statement: what ``guard.judge`` admits.
        frames: DataFrames of Spark and pandas and tables of pyarrow that are relations of this statement.
        caller: a session whose temporary views are relations, too.

    Raises:
        EngineError: ``XSCL_SQL``: the statement does something else than reading, or Spark cannot run it; Spark's
            message says where.  ``XSCL_BAD_OPTION``: a frame has the name of a relation, or is none.
    """
    with named_end_of_java():
        session = _own_session(spark)

    def views_of_caller() -> frozenset[str]:
        tables = () if caller is None else caller.catalog.listTables()
        return frozenset(table.name.lower() for table in tables if table.isTemporary)

    with home_relations(home) as relations:
        given = _named_frames(frames, relations.names)
        judged = judge(statement, relations.names | given.keys(), views_of_caller)
        return _answer(relations, session, judged, given, caller)


def _answer(
    relations: HomeRelations,
    session: SparkSession,
    judged: Judged,
    given: Mapping[str, object],
    caller: SparkSession | None,
) -> DataFrame:
    with sql_errors(moved_by=judged.lines_before):
        for alias in judged.listed_aliases:
            if session.catalog.functionExists(alias):
                raise EngineError("XSCL_SQL", f"{alias!r} is a function of Spark; another alias tells them apart")
        text, steps = relations.steps(judged)
        if judged.lists_relations:
            # Names alone are shown.
            for name in steps:
                session.range(0).createOrReplaceTempView(quoted(name))
            steps = {}
        _make_sources(relations, session, steps, judged.times)
        for name, several in steps.items():
            frame = session.sql(with_statement(several))
            if judged.kind == "describe":
                frame = _commented(frame, name, relations)
            frame.createOrReplaceTempView(quoted(name))
        for name in judged.relations - relations.names:
            _bring(session, name, given[name] if name in given or caller is None else caller.table(name))
        return session.sql(text)


def _commented(frame: DataFrame, name: str, relations: HomeRelations) -> DataFrame:
    """Give the columns of a relation their comments, which Spark shows."""
    view = relations.view(name)
    for column in frame.columns:
        if comment := column_comment(name, column, view):
            frame = frame.withMetadata(column, {"comment": comment})
    return frame


def _make_sources(
    relations: HomeRelations,
    session: SparkSession,
    steps: Mapping[str, Sequence[Step]],
    times: Mapping[str, Events] = MappingProxyType({}),
) -> None:
    """Make the sources that steps read views of a session.

    Args:
        relations: of the home.
        session: the session.
        steps: by relation.
        times: event times that relations are asked for.
    """
    sources = {source: times.get(name, EVERYTHING) for name in steps for each in steps[name] for source in each.sources}
    for source, wanted in sources.items():
        source_frame(relations, session, source, wanted).createOrReplaceTempView(quoted(source))


def _own_session(spark: SparkSession) -> SparkSession:
    session = own_session(spark)
    for name, value in _SETTINGS.items():
        session.conf.set(name, value)
    return session


def matches_frame(
    home: Home, spark: SparkSession, query: str | None = None, since: int | None = None, until: int | None = None
) -> DataFrame:
    """Give matches as people see them; Spark's tasks build values and documents when rows are read.

    Args:
        home: the home.
        spark: a session of the application.
        query: only of the query of this name.
        since: only those whose newest member is of this time or later, microseconds since the epoch.
        until: only those whose newest member is of this time or earlier.
    """
    session = _own_session(spark)
    session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(MATCH_ROWS_AT_ONCE))
    with home_relations(home) as relations, sql_errors():
        connection = relations.connection
        facts = all_facts(read_channels(connection), read_streams(connection))

        def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return match_rows(batches, facts)

        steps = output_steps(relations.needs())
        _make_sources(relations, session, {"outputs": steps})
        found = session.sql(with_statement(steps), args={"query": query, "since": since, "until": until})
        built = found.mapInArrow(work, MATCH_ROW_SCHEMA)
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


def channel_frame(
    home: Home, spark: SparkSession, channel: str, since: int | None = None, until: int | None = None
) -> DataFrame:
    """Give the events of a channel as rows; tasks decode the columns that are read.

    Args:
        home: the home.
        spark: a session of the application.
        channel: its name.
        since: only those of this event time or later, microseconds since the epoch.
        until: only those of this event time or earlier.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``.
    """
    session = _own_session(spark)
    wanted = Events(
        since=EVERYTHING.since if since is None else since, until=EVERYTHING.until if until is None else until
    )
    with home_relations(home) as relations:
        if channel not in relations.views:
            raise no_channel(relations.connection, channel, "list them with 'xscl channel list'")
        name = next(name for name, own in relations.channels.listed.items() if own == channel)
        steps = channel_steps(name, relations.views[channel], wanted)
        with sql_errors():
            _make_sources(relations, session, {name: steps}, {name: wanted})
            return session.sql(with_statement(steps))


def _named_frames(frames: Mapping[str, object], taken: Collection[str]) -> dict[str, object]:
    """Give the frames by their names in lower case."""
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
        session.createDataFrame(table).createOrReplaceTempView(f"`{name}`")
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
def named_end_of_java() -> Iterator[None]:
    """Name the failure of a statement during which Java has ended.

    Raises:
        EngineError: ``XSCL_SPARK_GONE``.
    """
    # What py4j then logs is said below.
    logger, thread = logging.getLogger(), threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread or record.msg != "Exception while sending command."

    logger.addFilter(others)
    try:
        yield
    except XsclError:
        raise
    except Exception as error:
        if not spark_has_gone(error):
            raise
        raise EngineError("XSCL_SPARK_GONE", "Java, in which Spark runs, has ended", hint=_ENDED) from error
    finally:
        logger.removeFilter(others)


@contextmanager
def sql_errors(*, moved_by: int = 0) -> Iterator[None]:
    """Raise Spark's refusals in our words; ``moved_by`` lines stand before the user's text."""
    # Spark's Python side logs what it raises; we say it once.  Its own class must make the logger, if we are first.
    logger = PySparkLogger.getLogger("SQLQueryContextLogger")
    thread = threading.get_ident()

    def others(record: logging.LogRecord) -> bool:
        return record.thread != thread

    logger.addFilter(others)
    try:
        with named_end_of_java():
            yield
    except PySparkException as error:
        first = str(error).strip().split("\n\n")[0].partition(";\n")[0].partition("\nJVM stacktrace")[0]
        first = re.sub(r"\bline (\d+)", lambda found: f"line {max(1, int(found[1]) - moved_by)}", first)
        raise EngineError("XSCL_SQL", first, hint=_HINT) from None
    finally:
        logger.removeFilter(others)
