"""The tables of the catalogue, declared once (SQLAlchemy Core).

``rt_<template>`` tables, one for each template, come beside these: ``catalog.stored_rt``.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Double, Integer, MetaData, String, Table, Text

__all__ = [
    "BATCHES",
    "CHANNELS",
    "CLOCKS",
    "DERIVED_VERSION",
    "EVENT_IDS",
    "FILES_VERSION",
    "FLUSHES",
    "GROUPS",
    "HOME",
    "INSTANCES",
    "INTAKE_FILES",
    "LATE",
    "METADATA",
    "NEVER",
    "QUERIES",
    "REJECTED",
    "SCHEMA_VERSION",
    "STATE_FILES",
    "TEMPLATES",
    "VARIABLES",
]

METADATA = MetaData()
SCHEMA_VERSION = 6
"""The number of the last revision in ``xscl/migrations/versions``; a catalogue with a smaller one is migrated."""
DERIVED_VERSION = 1
"""Of what is made from the texts of queries (instances, groups, templates, variables, ``rt_`` tables).

Raise it when the same text compiles to something else; it is then made again (``xscl.rebuild``).
"""
FILES_VERSION = 3
"""Of the Parquet files that the catalogue names: how many upgrades there are (``xscl.file_upgrades``)."""
NEVER = 1 << 62
"""``docid_until`` of a live query: later than any event."""

HOME = Table(
    "home",
    METADATA,
    Column("one", Integer, primary_key=True),
    Column("schema_version", Integer, nullable=False, comment="the number of the last migration"),
    Column("next_place", BigInteger, nullable=False, comment="next place in the intake order"),
    Column("received", BigInteger, nullable=False, comment="time of the last intake, microseconds"),
    Column("processed", BigInteger, nullable=False, comment="last place of the last committed batch"),
    Column("derived_version", Integer, nullable=False, server_default="0", comment="of what is made from texts"),
    Column("files_version", Integer, nullable=False, server_default="0", comment="number of upgrades its files had"),
)
CHANNELS = Table(
    "channels",
    METADATA,
    Column("name", String, primary_key=True),
    Column("kind", String, nullable=False, comment="xml or rows"),
    Column("feed", Boolean, nullable=False, comment="whether ids have versions"),
    Column("element", String, comment="root element of a row's document"),
    Column("schema", Text, comment="columns of a row channel as a JSON object of types"),
    Column("lateness", BigInteger, comment="microseconds; NULL: nothing is late"),
    Column("clock", String, nullable=False),
    Column(
        "settled",
        BigInteger,
        nullable=False,
        server_default="0",
        comment="place up to which events may have been judged by another lateness or clock",
    ),
    Column("published", BigInteger, comment="greatest event time of what queries published to it; NULL: not known"),
    Column("watermark", BigInteger, comment="no event of a later batch is older; NULL: any age, or not known"),
)
CLOCKS = Table(
    "clocks",
    METADATA,
    Column("name", String, primary_key=True),
    Column("greatest", BigInteger, nullable=False, comment="greatest event time seen"),
    Column("processed", BigInteger, comment="greatest event time of processed events; NULL: not known"),
)
TEMPLATES = Table(
    "templates",
    METADATA,
    Column("template", String, primary_key=True),
    Column("certificate", Text, nullable=False),
    Column("blocks", Text, nullable=False),
    Column("parents", Text, nullable=False),
    Column("joins", Text, nullable=False),
)
INSTANCES = Table(
    "instances",
    METADATA,
    Column("iid", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    Column("template", String, nullable=False),
)
GROUPS = Table(
    "groups",
    METADATA,
    Column("gid", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    Column("iid", Integer, nullable=False),
    Column("template", String, nullable=False),
    Column("text", Text, nullable=False, comment="a text of a query of the group, from which it is compiled"),
    Column("namespaces", Text, nullable=False),
    Column("channels", Text, nullable=False, server_default="[]", comment="a JSON list, sorted, each once"),
    sa.Index("groups_channels", "channels"),
)
_NAME = String().with_variant(String(collation="C"), "postgresql")  # names are ordered by code points everywhere
QUERIES = Table(
    "queries",
    METADATA,
    Column("query", Integer, primary_key=True),
    Column("qid", _NAME, nullable=False, comment="the query's name"),
    Column("text", Text, nullable=False),
    Column("namespaces", Text, nullable=False),
    Column("gid", Integer, nullable=False),
    Column("template", String, nullable=False),
    Column("digest", String, nullable=False, comment="of name and text, for match ids"),
    Column("names", Text, nullable=False, comment="the query's names of meta-variables and result nodes"),
    Column("docid_from", BigInteger, nullable=False, comment="its place in the intake order"),
    Column("docid_until", BigInteger, nullable=False, comment="where it was dropped"),
    Column("received", BigInteger, nullable=False),
    Column("publish", String, comment="the channel its output goes to"),
    Column("starting", String, nullable=False, server_default="NOW", comment="NOW, ALL or a time (ISO 8601)"),
    # Live names are unique, because all of them have the same end.
    sa.Index("queries_name", "qid", "docid_until", unique=True),
    sa.Index("queries_group", "gid", "qid"),
    sa.Index("queries_template", "template", "qid"),
)
_DROPPED = QUERIES.c.docid_until < sa.literal_column(str(NEVER))
sa.Index("queries_dropped", QUERIES.c.docid_until, sqlite_where=_DROPPED, postgresql_where=_DROPPED)
_PUBLISHED = QUERIES.c.publish.is_not(None)
sa.Index("queries_publish", QUERIES.c.publish, sqlite_where=_PUBLISHED, postgresql_where=_PUBLISHED)
VARIABLES = Table(
    "variables",
    METADATA,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("var", String, nullable=False, index=True),
    Column("channel", String, nullable=False),
    Column("definition", Text, nullable=False),
    Column("example", String, comment="a name some query gives it"),
)
INTAKE_FILES = Table(
    "intake_files",
    METADATA,
    Column("path", String, primary_key=True),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("rows", BigInteger, nullable=False),
)
EVENT_IDS = Table(
    "event_ids",
    METADATA,
    Column("channel", String, primary_key=True),
    Column("id", String, primary_key=True),
    Column("base", String, nullable=False, comment="the id without feed and version"),
    Column("feed", String, nullable=False, comment="the feed of a feed item, else ''"),
    Column("version", Integer, nullable=False),
    Column("docid", BigInteger, nullable=False),
    Column("item", BigInteger, nullable=False),
    Column("digest", String, nullable=False),
    sa.Index("event_ids_base", "channel", "base"),
    sa.Index("event_ids_docid", "docid"),
)
FLUSHES = Table("flushes", METADATA, Column("place", BigInteger, primary_key=True, comment="a batch ends here"))
_REFUSED = (
    ("channel", String),
    ("id", String),
    ("ts", BigInteger),
    ("received", BigInteger),
    ("condition", String),
    ("message", Text),
)
REJECTED = Table(
    "rejected",
    METADATA,
    Column("number", Integer, primary_key=True),
    *(Column(name, type_) for name, type_ in _REFUSED),
    Column("source", String),
)
LATE = Table(
    "late",
    METADATA,
    Column("number", Integer, primary_key=True),
    *(Column(name, type_) for name, type_ in _REFUSED),
)
BATCHES = Table(
    "batches",
    METADATA,
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    Column("first", BigInteger, nullable=False),
    Column("last", BigInteger, nullable=False),
    Column("events", BigInteger, nullable=False),
    Column("witnesses", BigInteger, nullable=False),
    Column("pairs", BigInteger, nullable=False),
    Column("rout", BigInteger, nullable=False),
    Column("matches", BigInteger, nullable=False),
    Column("published", BigInteger, nullable=False, server_default="0", comment="documents that queries published"),
    Column("links", BigInteger, nullable=False, server_default="0", comment="rows of links of longer queries"),
    Column("jobs", Integer, comment="Spark jobs as Spark counts them; NULL where it does not"),
    Column("joined_in", String, nullable=False, server_default="executors", comment="driver or executors"),
    Column(
        "slices_asked", BigInteger, nullable=False, server_default="0", comment="values asked of the driver's cache"
    ),
    Column("slices_found", BigInteger, nullable=False, server_default="0", comment="those it had, or knew nobody has"),
    Column("prepare_s", Double, nullable=False),
    Column("stage1_s", Double, nullable=False),
    Column("join_s", Double, nullable=False),
    Column("commit_s", Double, nullable=False),
    Column("state_rows", BigInteger, nullable=False, server_default="0", comment="rows of join state held after it"),
    Column("state_bytes", BigInteger, nullable=False, server_default="0", comment="size of the files that hold them"),
    Column("purged", BigInteger, nullable=False, server_default="0", comment="rows that no partner can come for since"),
    Column("result_path", String),
    Column("committed", BigInteger, nullable=False, comment="microseconds since the epoch"),
)
STATE_FILES = Table(
    "state_files",
    METADATA,
    Column("path", String, primary_key=True),
    Column("kind", String, nullable=False, comment="witness, link, or reach: how long rows are kept"),
    Column("batch", BigInteger, nullable=False, comment="the batch whose commit named it first"),
    Column("rows", BigInteger, nullable=False),
    Column("held", BigInteger, nullable=False, comment="rows that a partner may still come for"),
    Column("bytes", BigInteger, nullable=False),
    Column("ts_min", BigInteger, comment="least event time; NULL without rows"),
    Column("ts_max", BigInteger),
    Column("docid_min", BigInteger, comment="least number of a document; NULL without rows"),
    Column("docid_max", BigInteger),
    Column("replaced", BigInteger, comment="when it went out of use, microseconds since the epoch; NULL: in use"),
)
