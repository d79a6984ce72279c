"""Files of the join state, and files that went out of use."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy import BigInteger, Column, String, Table

from xscl.catalog.tables.columns import METADATA, needed

__all__ = ["OLD_FILES", "STATE_FILES"]

STATE_FILES = Table(
    "state_files",
    METADATA,
    Column("path", String, primary_key=True),
    needed("kind", String, "witness, link, pending, answered, windows, steps, or reach: how long rows are kept"),
    needed("batch", BigInteger, "the batch whose commit named it first"),
    needed("rows", BigInteger),
    needed("held", BigInteger, "rows that a partner may still come for"),
    needed("bytes", BigInteger),
    Column("ts_min", BigInteger, comment="least event time; NULL without rows"),
    Column("ts_max", BigInteger),
    Column("docid_min", BigInteger, comment="least number of a document; NULL without rows"),
    Column("docid_max", BigInteger),
)
OLD_FILES = Table(
    "old_files",
    METADATA,
    Column("path", String, primary_key=True, comment="a file, or a folder, that went out of use"),
    needed("replaced", BigInteger, "when, microseconds since the epoch"),
    sa.Index("old_files_replaced", "replaced"),
)
