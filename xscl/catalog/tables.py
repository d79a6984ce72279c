"""The tables of the catalogue, declared once (SQLAlchemy Core).

``rt_<template>`` tables, one for each template, come beside these: ``groups.stored_rt``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa
from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    ColumnElement,
    Connection,
    Double,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    cast,
    func,
    literal,
    select,
)
from sqlalchemy.types import TypeEngine

__all__ = [
    "BATCHES",
    "CHANNELS",
    "DEAD_LETTERS",
    "DELIVERIES",
    "EVENT_IDS",
    "FEEDS",
    "FEED_CLOCKS",
    "FLUSHES",
    "GROUPS",
    "GUARDS",
    "HAS_CHANGES",
    "HAS_OTHER_BASE",
    "HEARTBEATS",
    "HOME",
    "HOSTS",
    "INSTANCES",
    "INTAKE_FILES",
    "IS_DROPPED",
    "IS_LISTED",
    "IS_OF_ABSENCE",
    "IS_PUBLISHING",
    "IS_OF_STEPS",
    "IS_OF_WINDOWS",
    "IS_RETRACTING",
    "IS_SUSPENDED",
    "IS_WAITING",
    "LATE",
    "MEMBERSHIPS",
    "METADATA",
    "NEVER",
    "NOTHING_FORBIDDEN",
    "OF_STEPS",
    "OF_WINDOWS",
    "OLD_FILES",
    "PARTS",
    "QUERIES",
    "QUOTAS",
    "REJECTED",
    "REMOVALS",
    "RETRACTIONS",
    "ROW_RANGES",
    "SCHEMA_VERSION",
    "SOURCES",
    "STATE_FILES",
    "STREAMS",
    "TEMPLATES",
    "TOKENS",
    "TOTALS",
    "VARIABLES",
    "among",
    "in_parts",
    "raw_rows",
]

METADATA = MetaData()
SCHEMA_VERSION = 1
"""Number of the tables, the files that they name, and the rows that are made of texts; other homes are refused."""
NEVER = 1 << 62
"""``docid_until`` of a live query: later than any event."""
_PART = 400
"""Values that a statement names; it may have each twice, and SQLite had a limit of 999."""

T = TypeVar("T")
_Type = type[TypeEngine[Any]] | TypeEngine[Any]


def in_parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    """Values in parts that a statement may name one by one (``IN``)."""
    return (values[start : start + _PART] for start in range(0, len(values), _PART))


def among(connection: Connection, column: ColumnElement[int], numbers: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition that a column has one of some numbers, however many, which stand in one value."""
    listed = json.dumps(list(numbers))
    if connection.dialect.name == "sqlite":
        return column.in_(select(func.json_each(listed).table_valued("value").c.value))
    texts = (
        func.json_array_elements_text(cast(literal(listed, Text()), JSON))
        .table_valued("value")
        .render_derived()
        .c.value
    )
    return column.in_(select(cast(texts, BigInteger)))


def raw_rows(connection: Connection, rows: sa.Select[Any]) -> Sequence[tuple[Any, ...]]:
    """Return rows as the database has them, in half the time: many, of columns that need no reading."""
    result = connection.execute(rows)
    found: Sequence[tuple[Any, ...]] = [] if result.cursor is None else result.cursor.fetchall()
    result.close()
    return found


def _needed(name: str, type_: _Type, comment: str | None = None, default: Any = None) -> Column[Any]:
    """Return a column that has a value in every row."""
    return Column(name, type_, nullable=False, server_default=default, comment=comment)


def _count(name: str, comment: str | None = None) -> Column[int]:
    """Return a column of numbers that begin at 0."""
    return _needed(name, BigInteger, comment, "0")


HOME = Table(
    "home",
    METADATA,
    Column("one", Integer, primary_key=True),
    _needed("schema_version", Integer, "number of tables and files, SCHEMA_VERSION"),
    _needed("next_place", BigInteger, "next place in the intake order"),
    _needed("received", BigInteger, "time of the last intake, microseconds"),
    _needed("processed", BigInteger, "last place of the last committed batch"),
    _count("beats_from", "place from which on there are heartbeats only, up to the last committed batch"),
    _needed("swept", Integer, "how often queries, groups and what they need went, or went to others", "0"),
    _count("repeated", "place up to which batches run again after a repair, so that nothing is suspended there"),
)
QUOTAS = Table(
    "quotas",
    METADATA,
    Column("quota", String, primary_key=True, comment="queries, bindings or pairs"),
    _needed("most", BigInteger),
)
CHANNELS = Table(
    "channels",
    METADATA,
    Column("name", String, primary_key=True),
    _needed("kind", String, "xml or rows"),
    _needed("feed", Boolean, "whether ids have versions"),
    Column("element", String, comment="root element of a row's document"),
    Column("schema", Text, comment="columns of a row channel as a JSON object of types"),
    Column("lateness", BigInteger, comment="microseconds; NULL: nothing is late"),
    _needed("auto", Boolean, "whether each feed has a lateness of its own", sa.false()),
    _needed("clock", String),
    _count("settled", "place up to which events may have been judged by another lateness, clock or idle time"),
    Column("former", Text, comment="lateness of before: JSON lists of two places, from and until, and microseconds"),
    Column("newest", BigInteger, comment="greatest event time of what was taken in; NULL: nothing was"),
    Column("processed", BigInteger, comment="that of processed events; NULL: none, or not known"),
    Column("published", BigInteger, comment="greatest event time of what queries published to it; NULL: not known"),
    Column("watermark", BigInteger, comment="no event of a later batch is older; NULL: any age, or not known"),
    Column("retention", BigInteger, comment="how long events are held, microseconds; NULL: for ever"),
    Column("idle", BigInteger, comment="its clock is at most so far behind the newest one; NULL: its own counts"),
    Column("heartbeat", BigInteger, comment="events up to this time are in, says the last heartbeat; NULL: none came"),
    Column("beaten", BigInteger, comment="the same of processed heartbeats; NULL: none, or not known"),
    Column("wall", BigInteger, comment="how far heartbeats that runs make are behind now; NULL: they make none"),
    Column("held_from", BigInteger, comment="older events are held no more; NULL: all are"),
    Column("kept_from", BigInteger, comment="older events may be gone, and no match has one; NULL: none is"),
)
TEMPLATES = Table(
    "templates",
    METADATA,
    Column("template", String, primary_key=True),
    _needed("certificate", Text),
    _needed("blocks", Text),
    _needed("parents", Text),
    _needed("joins", Text),
)
INSTANCES = Table(
    "instances",
    METADATA,
    Column("iid", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    _needed("template", String),
)
GROUPS = Table(
    "groups",
    METADATA,
    Column("gid", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    _needed("iid", Integer),
    _needed("template", String),
    _needed("text", Text, "a text of a query of the group, from which it is compiled"),
    _needed("namespaces", Text),
    _needed("channels", Text, "and the streams it names: a JSON list, sorted, each once", "[]"),
    sa.Index("groups_channels", "channels"),
    sa.Index("groups_instance", "iid"),
)
_NAME = String().with_variant(String(collation="C"), "postgresql")  # names are ordered by code points everywhere
_REMEMBERS = sa.text("memory IS NOT NULL")
PARTS = Table(
    "parts",
    METADATA,
    Column("gid", Integer, primary_key=True, autoincrement=False, comment="a group of queries about absence"),
    Column("number", Integer, primary_key=True, autoincrement=False, comment="0: what is wanted; others: forbidden"),
    _needed("part", Integer, "the group that finds it"),
    Column("ends", Text, comment="JSON, of what is wanted: channels, and when the time of what is forbidden ends"),
    Column("shown", Integer, comment="of what is wanted: how many of its nodes make a match"),
    Column("blocking", BigInteger, comment="of what is wanted: clocks are so far beyond answers; NULL: the lateness"),
    Column("memory", BigInteger, comment="how far behind clocks events may come, and correct; NULL: the lateness"),
    _needed("retracts", Boolean, "of what is wanted: newer versions and removals take matches back", sa.false()),
    sa.Index("parts_part", "part"),
    sa.Index("parts_memory", "memory", sqlite_where=_REMEMBERS),
)
QUERIES = Table(
    "queries",
    METADATA,
    Column("query", Integer, primary_key=True),
    _needed("qid", _NAME, "the query's name"),
    _needed("text", Text),
    Column("written", Text, comment="the text with the queries that it has in parentheses; NULL: it has none"),
    _needed("namespaces", Text),
    _needed("gid", Integer),
    _needed("template", String),
    _needed("digest", String, "of name and text, for match ids"),
    _needed("names", Text, "the query's names of meta-variables and result nodes"),
    _needed("docid_from", BigInteger, "its place in the intake order"),
    _needed("docid_until", BigInteger, "where it was dropped"),
    _needed("received", BigInteger),
    Column("publish", String, comment="the channel its output goes to"),
    _needed("starting", String, "NOW, ALL or a time (ISO 8601)", "NOW"),
    _count("sees_from", "it sees members that come after this place"),
    Column("ts_from", BigInteger, comment="it sees members of this event time or later; NULL: of any"),
    Column("history", Integer, comment="stands for its group in matches of members from before it; NULL: it has none"),
    Column("filled", BigInteger, comment="the batch that found those; NULL: none has"),
    Column("held_from", Text, comment="JSON: by channel, the least event time of events from before it; NULL: any"),
    Column("ended", BigInteger, comment="it has no matches of later batches; NULL: places tell"),
    _needed("owner", _NAME, "who registered it; '': nobody said", ""),
    Column("level", String, comment="level of consistency of a query about absence; NULL: it is about none"),
    _count("late_for", "events of its channels that came too late for its memory, and in time for others"),
    Column("suspended", Text, comment="the quota that ended it, in words; NULL: none did"),
    Column("released", BigInteger, comment="where its suspension ended, by resuming or dropping it; NULL: it has not"),
    # Live names are unique, because all of them have the same end.
    sa.Index("queries_name", "qid", "docid_until", unique=True),
    sa.Index("queries_group", "gid", "qid"),
    sa.Index("queries_template", "template", "qid"),
    sa.Index("queries_owner", "owner", "qid"),
)
# Conditions on queries for which there are indexes.  Values are written out: with parameters SQLite would use none.
IS_DROPPED = QUERIES.c.docid_until < sa.literal_column(str(NEVER))
IS_WAITING = sa.and_(QUERIES.c.starting != sa.literal_column("'NOW'"), QUERIES.c.filled.is_(None))
"""Condition that a query waits for its answers from held events."""
IS_PUBLISHING = QUERIES.c.publish.is_not(None)
IS_SUSPENDED = sa.and_(QUERIES.c.suspended.is_not(None), QUERIES.c.released.is_(None))
NOTHING_FORBIDDEN = "[]"
"""``parts.ends`` of queries whose matches only newer versions of items take back."""
OF_WINDOWS = '"windows"'
"""``parts.ends`` of queries whose windows are over what a part finds."""
OF_STEPS = '"steps"'
"""``parts.ends`` of queries whose steps are over what parts find."""
IS_OF_WINDOWS = PARTS.c.ends == sa.literal_column(f"'{OF_WINDOWS}'")
IS_OF_STEPS = PARTS.c.ends == sa.literal_column(f"'{OF_STEPS}'")
IS_RETRACTING = PARTS.c.retracts == sa.true()
"""Condition that newer versions and removals take back what a part finds."""
IS_OF_ABSENCE = sa.or_(
    PARTS.c.ends.is_(None), PARTS.c.ends.not_in([sa.literal_column(f"'{each}'") for each in (OF_WINDOWS, OF_STEPS)])
)
"""Condition that what a part finds is wanted or forbidden, and no windows or steps are over it."""
IS_LISTED = sa.or_(QUERIES.c.docid_until == NEVER, IS_SUSPENDED)
"""Live, or suspended: its name is taken."""
VARIABLES = Table(
    "variables",
    METADATA,
    Column("key", BigInteger, primary_key=True, autoincrement=False),
    Column("var", String, nullable=False, index=True),
    _needed("channel", String),
    _needed("definition", Text),
    Column("example", String, comment="a name some query gives it"),
)
GUARDS = Table(
    "guards",
    METADATA,
    Column("guard", String, primary_key=True, comment="16 hex digits, as rt_ tables name it"),
    _needed("text", Text, "the topmost node of a block, with the conditions of the guard"),
    _needed("alternatives", Text, "JSON: alternatives of literals, each a variable, an operator and a constant"),
)
INTAKE_FILES = Table(
    "intake_files",
    METADATA,
    Column("path", String, primary_key=True),
    _needed("first", BigInteger),
    _needed("last", BigInteger),
    _needed("rows", BigInteger),
    # A range of places is looked up from whichever end fewer files lie behind.
    sa.Index("intake_files_first", "first"),
    sa.Index("intake_files_last", "last"),
)
EVENT_IDS = Table(
    "event_ids",
    METADATA,
    Column("channel", String, primary_key=True),
    Column("id", String, primary_key=True),
    _needed("base", String, "the id without feed and version"),
    _needed("feed", String, "the feed of a feed item, else ''"),
    _needed("version", Integer),
    _needed("docid", BigInteger),
    _needed("item", BigInteger),
    _needed("digest", String),
    Column("ts", BigInteger, comment="event time; NULL: taken in before this was kept"),
    Column("received", BigInteger, comment="when this version was first seen; NULL: taken in before this was kept"),
    _needed("membership", Integer, "the streams it belongs to", "0"),
    Column("published", BigInteger, comment="last place of the batch that published it; NULL: it was taken in"),
    sa.Index("event_ids_base", "channel", "base"),
    sa.Index("event_ids_docid", "docid"),
)
HAS_OTHER_BASE = EVENT_IDS.c.base != EVENT_IDS.c.id
"""Condition on rows that ``event_ids_base`` has: most ids have neither feed nor version, and are their own base."""
STREAMS = Table(
    "streams",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True, comment="no channel has this name"),
    _needed("channel", String),
    Column("source", String, comment="streams of one source and channel share equal events; NULL: with none"),
)
MEMBERSHIPS = Table(
    "memberships",
    METADATA,
    Column("number", Integer, primary_key=True, comment="0 is none: an event of the channel alone"),
    _needed("streams", Text, "numbers of streams, a sorted JSON list"),
    _needed("whole", Boolean, "false: the channel itself has had this event before"),
    sa.UniqueConstraint("streams", "whole"),
)
ROW_RANGES = Table(
    "row_ranges",
    METADATA,
    Column("docid", BigInteger, primary_key=True, autoincrement=False, comment="of the first row"),
    _needed("last_docid", BigInteger, "of the last row; none between is missing"),
    Column("path", String, nullable=False, index=True, comment="the file of events that holds the rows"),
    _needed("channel", String),
    _needed("prefix", Text, "ids are the prefix and a number"),
    _needed("first", BigInteger, "least number"),
    _needed("last", BigInteger),
    sa.Index("row_ranges_channel", "channel", "prefix", "last"),
)
SOURCES = Table(
    "sources",
    METADATA,
    Column("source", Text, primary_key=True, comment="an input that grows: a file, a table"),
    _needed("position", Text, "how far it was taken in, as JSON"),
    _needed("taken", BigInteger, "microseconds since the epoch"),
)
FEEDS = Table(
    "feeds",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("identity", Text, unique=True, comment="what tells its items from those of others; NULL: never read"),
    Column("url", Text, unique=True, comment="where it is fetched; NULL: only read from files"),
    _needed("channel", String, "or one of its streams"),
    Column("title", Text),
    Column("home", Text, comment="address of its web page"),
    Column("folder", Text, comment="where OPML has it, parts divided by /"),
    Column("outline", Text, comment="other attributes that OPML gave, as JSON"),
    Column("status", String, comment="active, paused, stopped; NULL: not subscribed"),
    _needed("added", BigInteger, "microseconds since the epoch, as all times here"),
    Column("interval", BigInteger, comment="wanted time between polls, microseconds; NULL: the default"),
    Column("next_fetch", BigInteger, comment="not before this"),
    Column("fetched", BigInteger, comment="the last attempt"),
    Column("succeeded", BigInteger, comment="the last answer that was taken"),
    Column("http_status", Integer, comment="of the last attempt; NULL: no answer"),
    Column("problem", Text, comment="of the last attempt; NULL: none"),
    _needed("failures", Integer, "in a row", "0"),
    Column("etag", Text),
    Column("modified", Text, comment="Last-Modified as it was sent"),
    _needed("allow_private", Boolean, "its host may be on a private net", sa.false()),
    Column("moved_to", Text, comment="a lasting redirect that was seen once"),
    Column("hints", Text, comment="what the feed says of polling, as JSON"),
    _count("requests"),
    _count("bytes", "received, as sent"),
    _count("polls", "documents of it that were read"),
    _count("items"),
    _count("versions", "newer versions among the items"),
    _count("rejected"),
    _needed("policy", String, "what identifies items: guid, link, digest", "guid"),
    Column("reason", Text, comment="why, where it is not the default"),
    Column("memory", Text, comment="what identification remembers of earlier polls, as JSON"),
)
FEED_CLOCKS = Table(
    "feed_clocks",
    METADATA,
    Column("channel", String, primary_key=True),
    Column("feed", Text, primary_key=True, comment="identity of the feed"),
    _needed("lateness", BigInteger, "microseconds"),
    Column("newest", BigInteger, comment="greatest event time of its items that were taken in; NULL: none was"),
)
HOSTS = Table(
    "hosts",
    METADATA,
    Column("host", String, primary_key=True, comment="with its port, if that is not the usual one"),
    _needed("next_request", BigInteger, "not before this, microseconds since the epoch"),
    _needed("failures", Integer, "refusals in a row", "0"),
)
FLUSHES = Table("flushes", METADATA, Column("place", BigInteger, primary_key=True, comment="a batch ends here"))
HEARTBEATS = Table(
    "heartbeats",
    METADATA,
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    _needed("channel", String),
    _needed("ts", BigInteger, "events of the channel up to this time are in"),
)
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
    Column("query", String, comment="the query that lacks it; NULL: nobody has it"),
)
LATE = Table(
    "late",
    METADATA,
    Column("number", Integer, primary_key=True),
    *(Column(name, type_) for name, type_ in _REFUSED),
    Column("docid", BigInteger, comment="NULL: a published document that repair has forgotten"),
    Column("replayed", BigInteger, comment="the place at which it was taken as if it had been in time; NULL: never"),
    sa.Index("late_docid", "docid"),
    sa.Index("late_id", "id"),
)
REMOVALS = Table(
    "removals",
    METADATA,
    Column("docid", BigInteger, primary_key=True, autoincrement=False, comment="number of the event that was removed"),
    _needed("place", BigInteger, "place of the removal in the intake order"),
    _needed("channel", String),
    _needed("id", String, "id of the event"),
    Column("stated", BigInteger, comment="time of the removal as its feed states it; NULL: it states none"),
    sa.Index("removals_place", "place"),
    sa.Index("removals_channel", "channel"),
)
BATCHES = Table(
    "batches",
    METADATA,
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    _needed("first", BigInteger),
    _needed("last", BigInteger),
    _needed("events", BigInteger),
    _needed("witnesses", BigInteger),
    _needed("pairs", BigInteger),
    _needed("rout", BigInteger),
    _needed("matches", BigInteger),
    _count("retracted", "matches that were taken back, each with its set of queries"),
    _count("published", "documents that queries published"),
    _count("links", "rows of links of longer queries"),
    Column("jobs", Integer, comment="Spark jobs as Spark counts them; NULL where it does not"),
    _needed("joined_in", String, "driver or spark", "driver"),
    _needed("prepare_s", Double),
    _needed("stage1_s", Double),
    _needed("join_s", Double),
    _needed("commit_s", Double),
    _count("state_rows", "rows of join state held after it"),
    _count("state_bytes", "size of the files that hold them"),
    _count("purged", "rows that no partner can come for since"),
    _count("filled", "queries answered from what was held"),
    _count("replayed", "late events that were taken again"),
    _count("late_for", "events that came too late for queries with a memory, and in time for others"),
    Column("result_path", String),
    _needed("committed", BigInteger, "microseconds since the epoch"),
)
RETRACTIONS = Table(
    "retractions",
    METADATA,
    Column("number", Integer, primary_key=True),
    _needed("batch", BigInteger, "the batch that took the match back"),
    _needed("gid", Integer, "the group that had it, or one query of a group: less than 0"),
    _needed("docs", Text, "its documents: a JSON list"),
    _needed("nodes", Text, "its nodes: numbers between commas"),
    _needed("members", Text, "digests of its members, as in ids of matches"),
    _needed("first", BigInteger, "least place of a member"),
    _needed("last", BigInteger, "greatest place of a member"),
    _count("later", "time from its newest member to it, microseconds"),
    _needed("place", BigInteger, "a query that was dropped before this place keeps it"),
    Column("exchange", BigInteger, comment="a query has it only if it sees members from there on; NULL: every one"),
    _needed("because", String, "late, edited, removed, replayed or limit"),
    Column("channel", String, comment="channel of the event that did it"),
    Column("id", String, comment="id of that event"),
    sa.Index("retractions_batch", "batch"),
    sa.Index("retractions_group", "gid"),
)
HAS_CHANGES = sa.or_(BATCHES.c.matches > 0, BATCHES.c.retracted > 0)
"""Condition that matches came or went in a batch."""
STATE_FILES = Table(
    "state_files",
    METADATA,
    Column("path", String, primary_key=True),
    _needed("kind", String, "witness, link, pending, answered, windows, steps, or reach: how long rows are kept"),
    _needed("batch", BigInteger, "the batch whose commit named it first"),
    _needed("rows", BigInteger),
    _needed("held", BigInteger, "rows that a partner may still come for"),
    _needed("bytes", BigInteger),
    Column("ts_min", BigInteger, comment="least event time; NULL without rows"),
    Column("ts_max", BigInteger),
    Column("docid_min", BigInteger, comment="least number of a document; NULL without rows"),
    Column("docid_max", BigInteger),
)
OLD_FILES = Table(
    "old_files",
    METADATA,
    Column("path", String, primary_key=True, comment="a file, or a folder, that went out of use"),
    _needed("replaced", BigInteger, "when, microseconds since the epoch"),
    sa.Index("old_files_replaced", "replaced"),
)
DELIVERIES = Table(
    "deliveries",
    METADATA,
    Column("name", String, primary_key=True),
    _needed("query", _NAME, "name of the query whose matches are delivered"),
    _needed("kind", String, "web or files"),
    _needed("target", Text, "an address of the web, or a folder"),
    Column("secret", String, comment="key of the signatures; NULL of files"),
    _needed("private", Boolean, "whether the target may be on a private network"),
    Column("most_bytes", BigInteger, comment="size at which a file ends; NULL of addresses"),
    _needed("cursor", String, "behind all that was delivered or given up"),
    Column("file", Text, comment="file that is written; NULL: none yet"),
    _count("size", "bytes of it that are delivered"),
    _count("sent", "matches delivered"),
    _count("failures", "attempts that failed, one after the other"),
    Column("failing", BigInteger, comment="time of the first of them, microseconds"),
    _count("due", "time before which nothing is sent, microseconds"),
    Column("problem", Text, comment="reason of the last failure; NULL after a success"),
    _needed("created", BigInteger, "microseconds"),
)
DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    Column("number", Integer, primary_key=True),
    _needed("delivery", String),
    _needed("after", String, "cursor before its first match"),
    _needed("until", String, "cursor behind its last match"),
    _needed("matches", BigInteger),
    _needed("problem", Text, "why it was given up"),
    _needed("given_up", BigInteger, "microseconds"),
    _needed("again", Boolean, "whether it is sent again"),
    sa.Index("dead_letters_delivery", "delivery"),
)
TOKENS = Table(
    "tokens",
    METADATA,
    Column("name", String, primary_key=True, comment="whose it is"),
    Column("digest", String, nullable=False, unique=True, comment="SHA-256 of the token, in hexadecimal digits"),
    _needed("scopes", String, "read, write, admin; by spaces"),
    Column("queries", BigInteger, comment="live queries of its name at most; NULL: any number"),
    Column("cost", BigInteger, comment="cost of all of them at most; NULL: any"),
    _needed("created", BigInteger, "microseconds"),
)
TOTALS = Table(
    "totals",
    METADATA,
    Column("name", String, primary_key=True),
    _needed("count", BigInteger, "what is to be known of rows that were removed"),
)


@sa.event.listens_for(METADATA, "before_create")
def _declare_partial_indexes(_: MetaData, connection: sa.Connection, **__: object) -> None:
    """Declare the indexes of some rows for the database that is being made: each other dialect takes long to load."""
    for name, column, rows in (
        ("queries_dropped", QUERIES.c.docid_until, IS_DROPPED),
        ("queries_waiting", QUERIES.c.docid_from, IS_WAITING),
        ("queries_publish", QUERIES.c.publish, IS_PUBLISHING),
        ("queries_suspended", QUERIES.c.qid, IS_SUSPENDED),
        ("parts_retracting", PARTS.c.gid, IS_RETRACTING),
        ("parts_absence", PARTS.c.part, IS_OF_ABSENCE),
        ("parts_of_windows", PARTS.c.gid, IS_OF_WINDOWS),
        ("parts_of_steps", PARTS.c.gid, IS_OF_STEPS),
        ("queries_history", QUERIES.c.history, QUERIES.c.history.is_not(None)),
        ("event_ids_base", EVENT_IDS.c.base, HAS_OTHER_BASE),
        ("event_ids_published", EVENT_IDS.c.published, EVENT_IDS.c.published.is_not(None)),
        ("late_replayed", LATE.c.replayed, LATE.c.replayed.is_not(None)),
        ("batches_results", BATCHES.c.result_path, BATCHES.c.result_path.is_not(None)),
    ):
        declared = next((index for index in column.table.indexes if index.name == name), None)
        index = sa.Index(name, column) if declared is None else declared
        index.dialect_kwargs[f"{connection.dialect.name}_where"] = rows
