"""Sources that steps of relations read: files and catalogue tables of a home, as DataFrames of Spark.

The name of a source begins with ``xscl_``; behind it stands a table of the catalogue, ``rt_<template>``, or a name in
``_READERS``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql import DataFrame, SparkSession

from xscl.answers.frames import read_parquet, with_documents
from xscl.base.arrow_schemas import EVENT_SCHEMA, WITNESS_SCHEMA, spark_schema
from xscl.base.sealed import check_file
from xscl.catalog.channels import read_channels
from xscl.catalog.groups import read_rt_rows
from xscl.catalog.memberships import member_names
from xscl.catalog.tables import BATCHES, EVENT_IDS, INTAKE_FILES, METADATA
from xscl.planning.planner import row_shapes
from xscl.store.home import Home
from xscl.store.join_state import held_state
from xscl.templates.relations import rt_table
from xscl.templates.results import RESULT_SCHEMA
from xscl.templates.run_files import open_run
from xscl.templates.run_rows import rows_of_run
from xscl.templates.template import Template

__all__ = ["source_frame"]

_PREFIX = "xscl_"
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


def source_frame(home: Home, session: SparkSession, source: str, templates: Mapping[str, Template]) -> DataFrame:
    """Read a source.

    Args:
        home: the home.
        session: the session of the frame.
        source: its name.
        templates: by ``rt_<template>``.
    """
    name = source.removeprefix(_PREFIX)
    if name in _READERS:
        return _READERS[name](home, session)
    if name in templates:
        columns = {column.name: column.type for column in rt_table(templates[name]).columns}
        return _frame(session, _schema(columns), home.catalog.ask(read_rt_rows, templates[name]))
    table = METADATA.tables[name]
    return _frame(session, _schema({column.name: column.type for column in table.columns}), home.catalog.rows(table))


def _events(home: Home, session: SparkSession) -> DataFrame:
    """Read all events, with the documents of rows."""
    with home.catalog.read() as connection:
        statement = sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first)
        paths = [row.path for row in connection.execute(statement)]
    events = read_parquet(session, EVENT_SCHEMA, home.paths(paths))
    return with_documents(session, events, row_shapes(home.catalog.ask(read_channels)))


def _results(home: Home, session: SparkSession) -> DataFrame:
    """Read the stored results of all batches (``RESULT_SCHEMA``)."""
    with home.catalog.read() as connection:
        # A batch that has found nothing may have no folder; those whose results were merged name the same one.
        found = sa.or_(BATCHES.c.rout > 0, BATCHES.c.matches > 0)
        statement = sa.select(BATCHES.c.result_path).where(found).order_by(BATCHES.c.batch)
        paths = [path for path in dict.fromkeys(connection.scalars(statement)) if path is not None]
    return read_parquet(session, RESULT_SCHEMA, home.results(paths))


def _witness(home: Home, session: SparkSession) -> DataFrame:
    """Read the runs of the join state, also rows that are out of every query's reach."""
    with home.catalog.read() as connection:
        paths = held_state(home, connection).paths("witness")

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from rows_of_run(open_run(str(check_file(Path(paths[at]))))).to_batches()

    count = max(1, len(paths))
    return session.range(0, len(paths), 1, count).mapInArrow(rows, spark_schema(WITNESS_SCHEMA))


def _floors(home: Home, session: SparkSession) -> DataFrame:
    """Give the least time of the rows that some query still reaches, by variable."""
    with home.catalog.read() as connection:
        state = held_state(home, connection)
    assert state.floors is not None
    return session.createDataFrame(state.floors.table())


def _memberships(home: Home, session: SparkSession) -> DataFrame:
    """Give the streams that memberships stand for in each channel that has them."""
    rows = [dict(zip(_MEMBERSHIPS.names, row, strict=True)) for row in member_names(home.catalog)]
    return _frame(session, _MEMBERSHIPS, rows)


def _feeds(home: Home, session: SparkSession) -> DataFrame:
    """Count items and versions by feed and channel, in the catalogue."""
    by = EVENT_IDS.c.feed, EVENT_IDS.c.channel
    counts = sa.func.count(sa.distinct(EVENT_IDS.c.item)).label("items"), sa.func.count().label("versions")
    statement = sa.select(*by, *counts).where(EVENT_IDS.c.feed != "").group_by(*by).order_by(*by)
    with home.catalog.read() as connection:
        rows = [dict(row._mapping) for row in connection.execute(statement)]
    number = sa.BigInteger()
    schema = _schema({"feed": sa.String(), "channel": sa.String(), "items": number, "versions": number})
    return _frame(session, schema, rows)


_READERS = {
    "events": _events,
    "feeds": _feeds,
    "floors": _floors,
    "memberships": _memberships,
    "results": _results,
    "witness": _witness,
}


def _schema(columns: Mapping[str, object]) -> pa.Schema:
    return pa.schema([(name, _ARROW[type(type_)]) for name, type_ in columns.items()])


def _frame(session: SparkSession, schema: pa.Schema, rows: Sequence[dict[str, object]]) -> DataFrame:
    if not rows:
        return session.createDataFrame([], spark_schema(schema))
    return session.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))
