"""What two homes hold, so that they can be compared: events, ids, late events, refusals, channels and feeds."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.catalog.tables import (
    CHANNELS,
    EVENT_IDS,
    FEEDS,
    FLUSHES,
    HOME,
    INTAKE_FILES,
    LATE,
    QUERIES,
    REJECTED,
    ROW_RANGES,
)
from xscl.store.home import Home

_WHOLE = (EVENT_IDS, LATE, REJECTED, CHANNELS, FEEDS, FLUSHES, HOME)
_RANGE = ("channel", "prefix", "docid", "last_docid", "first", "last")


def content(home: Home) -> dict[str, list[Any]]:
    """All that was taken into a home; files may be cut differently."""
    with home.catalog.read() as connection:
        files = [row.path for row in connection.execute(sa.select(INTAKE_FILES).order_by(INTAKE_FILES.c.first))]
        rows = {table.name: sorted(str(tuple(row)) for row in connection.execute(sa.select(table))) for table in _WHOLE}
        queries = connection.execute(sa.select(QUERIES.c.qid, QUERIES.c.docid_from).order_by(QUERIES.c.docid_from))
        rows["queries"] = list(map(tuple, queries))
        ranges = connection.execute(sa.select(*(ROW_RANGES.c[name] for name in _RANGE)).order_by(ROW_RANGES.c.docid))
        rows["ranges"] = list(map(tuple, ranges))
    tables = [pq.read_table(home.root / path) for path in files]
    rows["events"] = pa.concat_tables(tables).to_pylist() if tables else []
    return rows
