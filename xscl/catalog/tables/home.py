"""The home itself: its place in the intake order, its quotas, and who may ask it."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, String, Table

from xscl.catalog.tables.columns import METADATA, count, needed

__all__ = ["FLUSHES", "HEARTBEATS", "HOME", "QUOTAS", "SCHEMA_VERSION", "TOKENS", "TOTALS"]

SCHEMA_VERSION = 1
"""Number of the tables, the files that they name, and the rows that are made of texts; other homes are refused."""
HOME = Table(
    "home",
    METADATA,
    Column("one", Integer, primary_key=True),
    needed("schema_version", Integer, "number of tables and files, SCHEMA_VERSION"),
    needed("next_place", BigInteger, "next place in the intake order"),
    needed("received", BigInteger, "time of the last intake, microseconds"),
    needed("processed", BigInteger, "last place of the last committed batch"),
    count("beats_from", "place from which on there are heartbeats only, up to the last committed batch"),
    needed("swept", Integer, "how often queries, groups and what they need went, or went to others", "0"),
    count("repeated", "place up to which batches run again after a repair, so that nothing is suspended there"),
)
FLUSHES = Table("flushes", METADATA, Column("place", BigInteger, primary_key=True, comment="a batch ends here"))
HEARTBEATS = Table(
    "heartbeats",
    METADATA,
    Column("place", BigInteger, primary_key=True, autoincrement=False),
    needed("channel", String),
    needed("ts", BigInteger, "events of the channel up to this time are in"),
)
QUOTAS = Table(
    "quotas",
    METADATA,
    Column("quota", String, primary_key=True, comment="queries, bindings or pairs"),
    needed("most", BigInteger),
)
TOKENS = Table(
    "tokens",
    METADATA,
    Column("name", String, primary_key=True, comment="whose it is"),
    Column("digest", String, nullable=False, unique=True, comment="SHA-256 of the token, in hexadecimal digits"),
    needed("scopes", String, "read, write, admin; by spaces"),
    Column("queries", BigInteger, comment="live queries of its name at most; NULL: any number"),
    Column("cost", BigInteger, comment="cost of all of them at most; NULL: any"),
    needed("created", BigInteger, "microseconds"),
)
TOTALS = Table(
    "totals",
    METADATA,
    Column("name", String, primary_key=True),
    needed("count", BigInteger, "what is to be known of rows that were removed"),
)
