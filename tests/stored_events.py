"""Events that a home has in files."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.catalog.tables import INTAKE_FILES
from xscl.store.home import Home


def stored_events(home: Home) -> list[dict[str, object]]:
    """Everything ingested, in intake order."""
    paths = home.paths([str(row["path"]) for row in home.catalog.rows(INTAKE_FILES)])
    tables = [pq.read_table(path, schema=EVENT_SCHEMA) for path in paths]
    return sorted(pa.concat_tables(tables).to_pylist(), key=lambda row: row["docid"]) if tables else []
