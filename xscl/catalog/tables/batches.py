"""Batches, and the matches that they took back."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Double, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, count, index_some, needed

__all__ = ["BATCHES", "HAS_CHANGES", "RETRACTIONS"]

BATCHES = Table(
    "batches",
    METADATA,
    Column("batch", BigInteger, primary_key=True, autoincrement=False),
    needed("first", BigInteger),
    needed("last", BigInteger),
    needed("events", BigInteger),
    needed("witnesses", BigInteger),
    needed("pairs", BigInteger),
    needed("rout", BigInteger),
    needed("matches", BigInteger),
    count("retracted", "matches that were taken back, each with its set of queries"),
    count("published", "documents that queries published"),
    count("links", "rows of links of longer queries"),
    Column("jobs", Integer, comment="Spark jobs as Spark counts them; NULL where it does not"),
    needed("joined_in", String, "driver or spark", "driver"),
    needed("prepare_s", Double),
    needed("stage1_s", Double),
    needed("join_s", Double),
    needed("commit_s", Double),
    count("state_rows", "rows of join state held after it"),
    count("state_bytes", "size of the files that hold them"),
    count("purged", "rows that no partner can come for since"),
    count("filled", "queries answered from what was held"),
    count("replayed", "late events that were taken again"),
    count("late_for", "events that came too late for queries with a memory, and in time for others"),
    Column("result_path", String),
    needed("committed", BigInteger, "microseconds since the epoch"),
)
HAS_CHANGES = sa.or_(BATCHES.c.matches > 0, BATCHES.c.retracted > 0)
"""Condition that matches came or went in a batch."""
RETRACTIONS = Table(
    "retractions",
    METADATA,
    Column("number", Integer, primary_key=True),
    needed("batch", BigInteger, "the batch that took the match back"),
    needed("gid", Integer, "the group that had it, or one query of a group: less than 0"),
    needed("docs", Text, "its documents: a JSON list"),
    needed("nodes", Text, "its nodes: numbers between commas"),
    needed("members", Text, "digests of its members, as in ids of matches"),
    needed("first", BigInteger, "least place of a member"),
    needed("last", BigInteger, "greatest place of a member"),
    count("later", "time from its newest member to it, microseconds"),
    needed("place", BigInteger, "a query that was dropped before this place keeps it"),
    Column("exchange", BigInteger, comment="a query has it only if it sees members from there on; NULL: every one"),
    needed("because", String, "late, edited, removed, replayed or limit"),
    Column("channel", String, comment="channel of the event that did it"),
    Column("id", String, comment="id of that event"),
    sa.Index("retractions_batch", "batch"),
    sa.Index("retractions_group", "gid"),
)

index_some("batches_results", BATCHES.c.result_path, BATCHES.c.result_path.is_not(None))
