"""Late and rejected events."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, Integer, String, Table, Text

from xscl.catalog.tables.columns import METADATA, index_some

__all__ = ["LATE", "REJECTED"]

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

index_some("late_replayed", LATE.c.replayed, LATE.c.replayed.is_not(None))
