"""Events that were taken in: their files, their ids, and their removals."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, index_some, needed

__all__ = ["EVENT_IDS", "HAS_OTHER_BASE", "INTAKE_FILES", "REMOVALS", "ROW_RANGES"]

INTAKE_FILES = Table(
    "intake_files",
    METADATA,
    Column("path", String, primary_key=True),
    needed("first", BigInteger),
    needed("last", BigInteger),
    needed("rows", BigInteger),
    # A range of places is looked up from whichever end fewer files lie behind.
    sa.Index("intake_files_first", "first"),
    sa.Index("intake_files_last", "last"),
)
EVENT_IDS = Table(
    "event_ids",
    METADATA,
    Column("channel", String, primary_key=True),
    Column("id", String, primary_key=True),
    needed("base", String, "the id without feed and version"),
    needed("feed", String, "the feed of a feed item, else ''"),
    needed("version", Integer),
    needed("docid", BigInteger),
    needed("item", BigInteger),
    needed("digest", String),
    Column("ts", BigInteger, comment="event time; NULL: a batch published it"),
    Column("received", BigInteger, comment="when this version was first seen; NULL: a batch published it"),
    needed("membership", Integer, "the streams it belongs to", "0"),
    Column("published", BigInteger, comment="last place of the batch that published it; NULL: it was taken in"),
    sa.Index("event_ids_base", "channel", "base"),
    sa.Index("event_ids_docid", "docid"),
)
HAS_OTHER_BASE = EVENT_IDS.c.base != EVENT_IDS.c.id
"""Condition on rows that ``event_ids_base`` has: most ids have neither feed nor version, and are their own base."""
ROW_RANGES = Table(
    "row_ranges",
    METADATA,
    Column("docid", BigInteger, primary_key=True, autoincrement=False, comment="of the first row"),
    needed("last_docid", BigInteger, "of the last row; none between is missing"),
    Column("path", String, nullable=False, index=True, comment="the file of events that holds the rows"),
    needed("channel", String),
    needed("prefix", Text, "ids are the prefix and a number"),
    needed("first", BigInteger, "least number"),
    needed("last", BigInteger),
    sa.Index("row_ranges_channel", "channel", "prefix", "last"),
)
REMOVALS = Table(
    "removals",
    METADATA,
    Column("docid", BigInteger, primary_key=True, autoincrement=False, comment="number of the event that was removed"),
    needed("place", BigInteger, "place of the removal in the intake order"),
    needed("channel", String),
    needed("id", String, "id of the event"),
    Column("stated", BigInteger, comment="time of the removal as its feed states it; NULL: it states none"),
    sa.Index("removals_place", "place"),
    sa.Index("removals_channel", "channel"),
)

index_some("event_ids_base", EVENT_IDS.c.base, HAS_OTHER_BASE)
index_some("event_ids_published", EVENT_IDS.c.published, EVENT_IDS.c.published.is_not(None))
