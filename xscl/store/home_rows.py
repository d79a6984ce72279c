"""Rows about the home itself, as events of its own channels.

They are written in the transaction that makes them true, at places behind everything that it has ingested, and only
where a live query reads them (docs/reference/channels.md, Channels of the home itself).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
from sqlalchemy.engine import Connection

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.types import Scalar
from xscl.base.xml_characters import NO_CHARACTER
from xscl.catalog.channels import note_newest
from xscl.catalog.events import add_event_files, add_event_ids
from xscl.catalog.home_channels import HOME_CHANNELS, is_told
from xscl.catalog.intake_order import take_places
from xscl.ingest.rows import cells_digest, row_cells
from xscl.store.event_files import write_event_file

__all__ = ["tell_home"]

_MOST_CHARACTERS = 2_000
"""Characters of a text that a row has; strangers choose some of them."""


def tell_home(
    connection: Connection, channel: str, rows: Sequence[Mapping[str, Scalar]], now: int, path: Path
) -> list[Path]:
    """Append rows to a channel of the home itself, in a transaction; return the files that were written.

    Args:
        connection: of the transaction.
        channel: one of ``HOME_CHANNELS``.
        rows: values by column; a column that is left out is NULL.
        now: microseconds since the epoch.
        path: name of the file, to which a digest is added.
    """
    if not rows or not is_told(connection, channel):
        return []
    columns = HOME_CHANNELS[channel]
    first, received = take_places(connection, len(rows), now)
    events, ids = [], []
    for number, row in enumerate(rows):
        docid, ts = first + number, received + number
        cells = row_cells({name: _sound(row.get(name)) for name in columns}, element=channel)
        # No other home gives the same id, so what comes from an archive never stands in the way.
        id_ = f"{docid}-{uuid.uuid4().hex[:12]}"
        known = {"docid": docid, "channel": channel, "id": id_, "version": 1, "item": docid, "ts": ts, "received": ts}
        events.append({**known, "late": False, "behind": 0, "time_source": "received", "cells": cells, "membership": 0})
        ids.append((channel, id_, id_, "", 1, docid, docid, cells_digest(columns, cells), ts, ts, 0))
    written = write_event_file(path, pa.Table.from_pylist(events, schema=EVENT_SCHEMA))
    named = {"path": f"events/{written.name}", "first": first, "last": first + len(rows) - 1, "rows": len(rows)}
    add_event_files(connection, [named])
    add_event_ids(connection, ids)
    note_newest(connection, channel, received + len(rows) - 1)
    return [written]


def _sound(value: Scalar) -> Scalar:
    """Return a value that a document can hold."""
    return NO_CHARACTER.sub("\ufffd", value)[:_MOST_CHARACTERS] if isinstance(value, str) else value
