"""Documents of a channel as people see them: the latest ones, or one by its id."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import place_of
from xscl.base.errors import CatalogError
from xscl.base.system_errors import named_file_faults
from xscl.catalog.channels import read_channels, read_streams
from xscl.catalog.event_places import latest_events
from xscl.catalog.id_ranges import rows_by_id
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import ChannelInfo
from xscl.catalog.retained_from import Sight, keep_times, sight_of
from xscl.catalog.tables import EVENT_IDS
from xscl.ingest.rows import TEXT_TYPES
from xscl.store.event_files import event_document, events_of
from xscl.store.home import Home

__all__ = ["HeldDocument", "held_document", "latest_documents"]


@dataclass(frozen=True, slots=True)
class HeldDocument:
    """A document that the home holds."""

    channel: str
    id: str
    ts: int
    """Event time, microseconds."""
    document: str
    row: str | None
    """The columns of a row as an object of JSON; None of XML."""


def latest_documents(home: Home, channel: str, limit: int) -> list[HeldDocument]:
    """Return the documents of a channel, or of the channel of a stream, that came last, the last one first."""
    with home.catalog.read() as connection:
        name = resolve_stream(read_streams(connection), channel)[0]
        docids = latest_events(connection, name, limit)
        told = _told(connection)
    found = dict(_documents(home, docids, told))
    return [found[docid] for docid in docids if docid in found]


def held_document(home: Home, channel: str, id_: str) -> HeldDocument:
    """Return a document by its channel and id.

    Raises:
        CatalogError: ``XSCL_ITEM_NOT_FOUND``.
    """
    with home.catalog.read() as connection:
        named = sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel, EVENT_IDS.c.id == id_)
        docids = list(connection.scalars(named))
        if not docids:
            docids = [row.docid for _, row in rows_by_id(connection, home.root, {channel: [id_]})]
        told = _told(connection)
    found = _documents(home, docids, told)
    if not found:
        raise CatalogError("XSCL_ITEM_NOT_FOUND", f"channel {channel!r} holds no event {id_!r}")
    return found[0][1]


@dataclass(frozen=True, slots=True)
class _Told:
    """Channels, and which of their events are in sight, as one transaction sees them."""

    channels: Mapping[str, ChannelInfo]
    sight: Mapping[str, Sight]


def _told(connection: Connection) -> _Told:
    sight = {name: sight_of(connection, name) for name in keep_times(connection)}
    return _Told(read_channels(connection), sight)


def _documents(home: Home, docids: list[int], told: _Told) -> list[tuple[int, HeldDocument]]:
    """Return documents by their numbers; ``told`` is of the transaction that found these."""
    channels, sight = told.channels, told.sight
    with named_file_faults(home.root):
        rows = events_of(home, docids, ["docid", "channel", "id", "ts", "content", "cells"]).to_pylist()
    found = []
    for row in rows:
        if row["channel"] in sight and not sight[row["channel"]].has(place_of(row["docid"]), row["ts"]):
            continue
        channel = channels[row["channel"]]
        text = event_document(row["content"], row["cells"], channel)
        columns = None if row["content"] is not None else _row(row["cells"], channel)
        found.append((row["docid"], HeldDocument(row["channel"], row["id"], row["ts"], text, columns)))
    return found


def _row(cells: list[str | None], channel: ChannelInfo) -> str:
    """Write the columns of a row as JSON; numbers, with all their digits, and truth values as such."""
    # A row is as long as the schema was when it came.
    columns = zip((channel.schema or {}).items(), cells, strict=False)
    members = (f"{json.dumps(name)}: {_json_of(cell, kind or 'string')}" for (name, kind), cell in columns)
    return f"{{{', '.join(members)}}}"


def _json_of(cell: str | None, kind: str) -> str:
    return json.dumps(cell, ensure_ascii=False) if cell is None or kind in TEXT_TYPES else cell
