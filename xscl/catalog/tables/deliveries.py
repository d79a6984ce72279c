"""Deliveries of matches, and what was given up."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, NAME, count, needed

__all__ = ["DEAD_LETTERS", "DELIVERIES"]

DELIVERIES = Table(
    "deliveries",
    METADATA,
    Column("name", String, primary_key=True),
    needed("query", NAME, "name of the query whose matches are delivered"),
    needed("kind", String, "web or files"),
    needed("target", Text, "an address of the web, or a folder"),
    Column("secret", String, comment="key of the signatures; NULL of files"),
    needed("private", Boolean, "whether the target may be on a private network"),
    Column("most_bytes", BigInteger, comment="size at which a file ends; NULL of addresses"),
    needed("cursor", String, "behind all that was delivered or given up"),
    Column("file", Text, comment="file that is written; NULL: none yet"),
    count("size", "bytes of it that are delivered"),
    count("sent", "matches delivered"),
    count("failures", "attempts that failed, one after the other"),
    Column("failing", BigInteger, comment="time of the first of them, microseconds"),
    count("due", "time before which nothing is sent, microseconds"),
    Column("problem", Text, comment="reason of the last failure; NULL after a success"),
    needed("created", BigInteger, "microseconds"),
)
DEAD_LETTERS = Table(
    "dead_letters",
    METADATA,
    Column("number", Integer, primary_key=True),
    needed("delivery", String),
    needed("after", String, "cursor before its first match"),
    needed("until", String, "cursor behind its last match"),
    needed("matches", BigInteger),
    needed("problem", Text, "why it was given up"),
    needed("given_up", BigInteger, "microseconds"),
    needed("again", Boolean, "whether it is sent again"),
    sa.Index("dead_letters_delivery", "delivery"),
)
