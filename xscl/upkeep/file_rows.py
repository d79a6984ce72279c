"""Rows of the catalogue that repeat what files hold: ids and times of events, sizes and spans of join state.

A deep look compares them with the files, so that a flipped bit in the catalogue is told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.tables import EVENT_IDS, INTAKE_FILES, ROW_RANGES
from xscl.upkeep.state_checks import wrong_state_rows

__all__ = ["wrong_file_rows"]

_TIMES = ("ts", "received")
_SAME = ("channel", "version", "item", *_TIMES)
"""Columns of an event's id that its file has too."""


def wrong_file_rows(connection: Connection, root: Path) -> Iterator[str]:
    """Iterate over the rows that differ from sound files, as sentences; unreadable files are passed over."""
    yield from wrong_state_rows(connection, root)
    for row in connection.execute(sa.select(INTAKE_FILES).order_by(INTAKE_FILES.c.first)).all():
        try:
            events = pq.read_table(root / row.path, columns=["docid", "id", *_SAME])
        except (OSError, pa.ArrowException, ValueError):
            continue
        if (wrong_events := _wrong_events(connection, row, events)) is not None:
            yield f"{row.path} {wrong_events}"


def _wrong_events(connection: Connection, file: sa.Row[Any], events: pa.Table) -> str | None:
    """Compare the events of a file with their ids: each is a row of ``event_ids`` or in a range."""
    docids = events.column("docid").to_pylist()
    if docids and not file.first <= min(docids) <= max(docids) <= file.last:
        return f"has events {min(docids)} to {max(docids)}, and the catalogue says {file.first} to {file.last}"
    ids: dict[int, list[sa.Row[Any]]] = defaultdict(list)
    for row in connection.execute(sa.select(EVENT_IDS).where(EVENT_IDS.c.docid.between(file.first, file.last))):
        ids[row.docid].append(row)
    ranges = connection.execute(sa.select(ROW_RANGES).where(ROW_RANGES.c.path == file.path)).all()
    ends = {
        docid: (row.channel, f"{row.prefix}{number}")
        for row in ranges
        for docid, number in ((row.docid, row.first), (row.last_docid, row.last))
    }
    wrong = 0
    for event in events.to_pylist():
        docid = event["docid"]
        if any(row.docid <= docid <= row.last_docid for row in ranges):
            wrong += docid in ends and ends[docid] != (event["channel"], event["id"])
        else:
            wrong += not any(_agree(event, row) for row in ids[docid])
    return f"has {wrong:,} events with another id or time than the catalogue's" if wrong else None


def _agree(event: dict[str, Any], row: sa.Row[Any]) -> bool:
    # The catalogue does not say the times of published documents.
    same = all(row._mapping[name] in (event[name], *((None,) if name in _TIMES else ())) for name in _SAME)
    # The copy that a stream brought has the id of its event in the file, and one of its own in the catalogue.
    return same and event["id"] in (row.id, row.base)
