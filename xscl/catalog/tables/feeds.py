"""Inputs: feeds with their hosts and clocks, and other inputs that grow."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Boolean, Column, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, count, needed

__all__ = ["FEEDS", "FEED_CLOCKS", "HOSTS", "SOURCES"]

FEEDS = Table(
    "feeds",
    METADATA,
    Column("number", Integer, primary_key=True),
    Column("identity", Text, unique=True, comment="what tells its items from those of others; NULL: never read"),
    Column("url", Text, unique=True, comment="where it is fetched; NULL: only read from files"),
    needed("channel", String, "or one of its streams"),
    Column("title", Text),
    Column("home", Text, comment="address of its web page"),
    Column("folder", Text, comment="where OPML has it, parts divided by /"),
    Column("outline", Text, comment="other attributes that OPML gave, as JSON"),
    Column("status", String, comment="active, paused, stopped; NULL: not subscribed"),
    needed("added", BigInteger, "microseconds since the epoch, as all times here"),
    Column("interval", BigInteger, comment="wanted time between polls, microseconds; NULL: the default"),
    Column("next_fetch", BigInteger, comment="not before this"),
    Column("fetched", BigInteger, comment="the last attempt"),
    Column("succeeded", BigInteger, comment="the last answer that was taken"),
    Column("http_status", Integer, comment="of the last attempt; NULL: no answer"),
    Column("problem", Text, comment="of the last attempt; NULL: none"),
    needed("failures", Integer, "in a row", "0"),
    Column("etag", Text),
    Column("modified", Text, comment="Last-Modified as it was sent"),
    needed("allow_private", Boolean, "its host may be on a private net", sa.false()),
    Column("moved_to", Text, comment="a lasting redirect that was seen once"),
    Column("hints", Text, comment="what the feed says of polling, as JSON"),
    count("requests"),
    count("bytes", "received, as sent"),
    count("polls", "documents that were read by it"),
    count("items"),
    count("versions", "newer versions among the items"),
    count("rejected"),
    needed("policy", String, "what identifies items: guid, link, digest", "guid"),
    Column("reason", Text, comment="why, where it is not the default"),
    Column("memory", Text, comment="what identification remembers of earlier polls, as JSON"),
)
FEED_CLOCKS = Table(
    "feed_clocks",
    METADATA,
    Column("channel", String, primary_key=True),
    Column("feed", Text, primary_key=True, comment="identity of the feed"),
    needed("lateness", BigInteger, "microseconds"),
    Column("newest", BigInteger, comment="greatest event time of its items that were taken in; NULL: none was"),
)
HOSTS = Table(
    "hosts",
    METADATA,
    Column("host", String, primary_key=True, comment="with its port, if that is not the usual one"),
    needed("next_request", BigInteger, "not before this, microseconds since the epoch"),
    needed("failures", Integer, "refusals in a row", "0"),
)
SOURCES = Table(
    "sources",
    METADATA,
    Column("source", Text, primary_key=True, comment="an input that grows: a file, a table"),
    needed("position", Text, "how far it was taken in, as JSON"),
    needed("taken", BigInteger, "microseconds since the epoch"),
)
