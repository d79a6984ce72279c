"""Sources that steps of relations read: files and catalogue tables of a home, as DataFrames of Spark.

The name of a source begins with ``xscl_``; behind it stands a table of the catalogue, ``rt_<template>``,
``ch_<channel>``, or a name in ``_READERS``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.functions import arrow_udf

from xscl.answers.explaining.plan import PLAN_COLUMNS, plan_rows
from xscl.answers.frontiers import frontiers
from xscl.answers.sql.channel_views import ChannelView
from xscl.answers.sql.frames import read_parquet, with_documents
from xscl.answers.sql.relations import HomeRelations
from xscl.base.arrow_schemas import EVENT_SCHEMA, WITNESS_SCHEMA, column_type, spark_schema
from xscl.base.local_copies import near_file
from xscl.catalog.channels import read_channels
from xscl.catalog.groups import read_rt_rows
from xscl.catalog.memberships import member_names
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import BATCHES, EVENT_IDS, GUARDS, INTAKE_FILES, METADATA
from xscl.ingest.channel_columns import ChannelColumn, decoded
from xscl.planning.planned import row_shapes
from xscl.store.event_spans import Events, groups_with
from xscl.store.join_state import held_state
from xscl.store.parquet import read_columns
from xscl.templates.pair_spans import SPAN_SCHEMA, expanded_spans, span_parts
from xscl.templates.results import RESULT_SCHEMA, SPANS_FILE
from xscl.templates.runs.files import open_run
from xscl.templates.runs.rows import rows_of_run
from xscl.templates.statements.relations import rt_table, var_key

__all__ = ["source_frame"]

_PAIRS = 1_000_000
"""Pairs that a task makes of spans at a time."""
_ROWS = 100_000
_PREFIX = "xscl_"
_OF_EVENTS = ("docid", "id", "version", "ts", "received", "membership")
_MEMBERSHIPS = pa.schema(
    [
        ("number", pa.int32()),
        ("channel", pa.string()),
        ("streams", pa.list_(pa.int32())),
        ("names", pa.list_(pa.string())),
        ("whole", pa.bool_()),
    ]
)
_LITERALS = pa.schema(
    [
        ("guard", pa.string()),
        ("alternative", pa.int32()),
        ("literal", pa.int32()),
        ("literals", pa.int32()),
        ("key", pa.int64()),
        ("op", pa.string()),
        ("constant", pa.float64()),
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


def source_frame(relations: HomeRelations, session: SparkSession, source: str, wanted: Events) -> DataFrame:
    """Read a source.

    Args:
        relations: of the home.
        session: the session of the frame.
        source: its name.
        wanted: event times that a channel is asked for.
    """
    name = source.removeprefix(_PREFIX)
    if name in _READERS:
        return _READERS[name](relations, session)
    if name in relations.templates:
        template = relations.templates[name]
        columns = {column.name: column.type for column in rt_table(template).columns}
        return _frame(session, _schema(columns), read_rt_rows(relations.connection, template))
    view = relations.view(name)
    if view is not None:
        return _channel(relations, session, view, wanted)
    table = METADATA.tables[name]
    rows = [dict(row._mapping) for row in relations.connection.execute(sa.select(table))]
    return _frame(session, _schema({column.name: column.type for column in table.columns}), rows)


def _event_paths(relations: HomeRelations) -> list[str]:
    statement = sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first)
    return list(relations.connection.scalars(statement))


def _events(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Read all events, with the documents of rows."""
    events = read_parquet(session, EVENT_SCHEMA, relations.home.paths(_event_paths(relations)))
    return with_documents(session, events, row_shapes(read_channels(relations.connection)))


def _channel(relations: HomeRelations, session: SparkSession, view: ChannelView, wanted: Events) -> DataFrame:
    """Read the events of a channel from the files that may have some; tasks decode columns that are asked for."""
    home = relations.home
    # Copies of an event may have other times.
    asked = Events(view.channel) if view.copies else replace(wanted, channel=view.channel)
    paths = [path for path in _event_paths(relations) if groups_with(home.root / path, asked)]
    schema = pa.schema([EVENT_SCHEMA.field(name) for name in ("channel", *_OF_EVENTS, *view.stored)])
    events = read_parquet(session, schema, home.paths(paths)).where(f"channel = '{view.channel}'")
    columns = [
        arrow_udf(_decoder(column), column_type(column.type))(column.stored).alias(column.name)  # type: ignore[call-overload]
        for column in view.columns
        if column.field is not None
    ]
    return events.select(*_OF_EVENTS, *view.as_stored, *columns)


def _decoder(column: ChannelColumn) -> Callable[[pa.Array], pa.Array]:
    # Spark tells by the types of arguments that it is to give arrays.
    def decode(stored: pa.Array) -> pa.Array:
        return decoded(column, stored)

    return decode


def _results(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Read the stored results of all batches (``RESULT_SCHEMA``)."""
    # A batch that has found nothing may have no folder; those whose results were merged name the same one.
    found = sa.or_(BATCHES.c.rout > 0, BATCHES.c.matches > 0)
    statement = sa.select(BATCHES.c.result_path).where(found).order_by(BATCHES.c.batch)
    paths = [path for path in dict.fromkeys(relations.connection.scalars(statement)) if path is not None]
    files = relations.home.results(paths)
    written = [file for file in files if Path(file).name != SPANS_FILE]
    frame = read_parquet(session, RESULT_SCHEMA, written)
    if len(written) == len(files):
        return frame
    told = [file for file in files if Path(file).name == SPANS_FILE]
    return frame.unionByName(_told_pairs(session, told), allowMissingColumns=True)


def _told_pairs(session: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Give the pairs that files of spans tell of, some at a time."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                for part in span_parts(read_columns(paths[at], SPAN_SCHEMA, SPAN_SCHEMA.names), _PAIRS):
                    pairs = expanded_spans(part)
                    pairs = pairs.add_column(0, "relation", pa.repeat("docs", pairs.num_rows))
                    yield from pairs.to_batches(max_chunksize=_ROWS)

    columns = "relation string, origin bigint, class int, d1 bigint, d2 bigint"
    return session.range(0, len(paths), 1, len(paths)).mapInArrow(rows, columns)


def _witness(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Read the runs of the join state, also rows that are out of every query's reach."""
    paths = [str(path) for path in held_state(relations.home, relations.connection).paths("witness")]

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for at in batch.column(0).to_pylist():
                yield from rows_of_run(open_run(str(near_file(Path(paths[at]))))).to_batches()

    count = max(1, len(paths))
    return session.range(0, len(paths), 1, count).mapInArrow(rows, spark_schema(WITNESS_SCHEMA))


def _floors(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Give the least time of the rows that some query still reaches, by variable."""
    state = held_state(relations.home, relations.connection)
    assert state.floors is not None
    return session.createDataFrame(state.floors.table())


def _memberships(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Give the streams that memberships stand for in each channel that has them."""
    rows = [dict(zip(_MEMBERSHIPS.names, row, strict=True)) for row in member_names(relations.connection)]
    return _frame(session, _MEMBERSHIPS, rows)


def _guard_literals(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Give the literals of guards: which alternative each belongs to, and how many that has."""
    rows = [
        (guard, number, place, len(literals), var_key(variable), op, constant)
        for guard, alternatives in relations.connection.execute(sa.select(GUARDS.c.guard, GUARDS.c.alternatives))
        for number, literals in enumerate(read_stored(GUARDS.c.alternatives, alternatives))
        for place, (variable, op, constant) in enumerate(literals)
    ]
    return _frame(session, _LITERALS, [dict(zip(_LITERALS.names, row, strict=True)) for row in rows])


def _feeds(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Count items and versions by feed and channel, in the catalogue."""
    by = EVENT_IDS.c.feed, EVENT_IDS.c.channel
    counts = sa.func.count(sa.distinct(EVENT_IDS.c.item)).label("items"), sa.func.count().label("versions")
    statement = sa.select(*by, *counts).where(EVENT_IDS.c.feed != "").group_by(*by).order_by(*by)
    rows = [dict(row._mapping) for row in relations.connection.execute(statement)]
    number = sa.BigInteger()
    schema = _schema({"feed": sa.String(), "channel": sa.String(), "items": number, "versions": number})
    return _frame(session, schema, rows)


def _frontiers(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Give how far the times of channels are settled."""
    number = sa.BigInteger()
    names = {"channel": sa.String(), "clock": number, "watermark": number, "source": sa.String(), "waiting": number}
    return _frame(session, _schema(names), [asdict(each) for each in frontiers(relations.home, relations.connection)])


def _plan(relations: HomeRelations, session: SparkSession) -> DataFrame:
    """Give what runs for live queries."""
    counts = {"operators": sa.BigInteger(), "queries": sa.BigInteger()}
    schema = _schema({name: counts.get(name, sa.String()) for name in PLAN_COLUMNS})
    return _frame(session, schema, plan_rows(relations.connection))


_READERS = {
    "events": _events,
    "feeds": _feeds,
    "floors": _floors,
    "frontiers": _frontiers,
    "guard_literals": _guard_literals,
    "memberships": _memberships,
    "plan": _plan,
    "results": _results,
    "witness": _witness,
}


def _schema(columns: Mapping[str, object]) -> pa.Schema:
    return pa.schema([(name, _ARROW[type(type_)]) for name, type_ in columns.items()])


def _frame(session: SparkSession, schema: pa.Schema, rows: Sequence[dict[str, object]]) -> DataFrame:
    return session.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema), spark_schema(schema))
