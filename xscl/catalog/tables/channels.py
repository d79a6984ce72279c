"""Channels, their streams, and the sets of streams that events belong to."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, count, needed

__all__ = ["CHANNELS", "MEMBERSHIPS", "STREAMS"]

CHANNELS = Table(
    "channels",
    METADATA,
    Column("name", String, primary_key=True),
    needed("kind", String, "xml or rows"),
    needed("feed", Boolean, "whether ids have versions"),
    Column("element", String, comment="root element of a row's document"),
    Column("schema", Text, comment="columns of a row channel as a JSON object of types"),
    Column("lateness", BigInteger, comment="microseconds; NULL: nothing is late"),
    needed("auto", Boolean, "whether each feed has a lateness of its own", sa.false()),
    needed("clock", String),
    count("settled", "place up to which events may have been judged by another lateness, clock or idle time"),
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
STREAMS = Table(
    "streams",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("name", String, nullable=False, unique=True, comment="no channel has this name"),
    needed("channel", String),
    Column("source", String, comment="streams of one source and channel share equal events; NULL: with none"),
)
MEMBERSHIPS = Table(
    "memberships",
    METADATA,
    Column("number", Integer, primary_key=True, comment="0 is none: an event of the channel alone"),
    needed("streams", Text, "numbers of streams, a sorted JSON list"),
    needed("whole", Boolean, "false: the channel itself has had this event before"),
    sa.UniqueConstraint("streams", "whole"),
)
