"""What there is to say about batches and a home, for listings and messages."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl import ast
from xscl.catalog import Catalog
from xscl.home import Home
from xscl.parser import parse_query
from xscl.places import published_docid
from xscl.row_ranges import channel_counts, event_count
from xscl.state import held_state
from xscl.streams import resolve_stream
from xscl.tables import BATCHES, CHANNELS, LATE, REJECTED

__all__ = ["batch_columns", "batch_rows", "skipped_notes", "state_notes"]


def batch_columns() -> list[str]:
    """Columns of ``batch_rows``."""
    hidden = ("slices_asked", "slices_found", "result_path", "committed")
    shown = [column.name for column in BATCHES.columns if column.name not in hidden]
    shown.insert(shown.index("joined_in") + 1, "slices_hit")
    return shown


def batch_rows(catalog: Catalog) -> list[dict[str, object]]:
    """One row a committed batch.

    ``slices_hit`` is the part of the values asked of the driver's cache that needed nothing from the files; None if
    none was asked for.
    """
    rows = sorted(catalog.rows(BATCHES), key=lambda row: int(str(row["batch"])))
    for row in rows:
        asked, found = int(str(row["slices_asked"])), int(str(row["slices_found"]))
        row["slices_hit"] = found / asked if asked else None
    return [{name: round(v, 3) if isinstance(v := row[name], float) else v for name in batch_columns()} for row in rows]


def state_notes(home: Home) -> Iterator[str]:
    """What a home holds, in a few lines."""
    catalog = home.catalog
    with catalog.read() as connection:
        events = event_count(connection)
        state = held_state(home, connection)
        sums = (
            sa.func.coalesce(sa.func.sum(BATCHES.c[name]), 0) for name in ("purged", "slices_asked", "slices_found")
        )
        purged, asked, found = connection.execute(sa.select(*sums)).one()
        late, rejected = _count(connection, LATE), _count(connection, REJECTED)
        unlimited = connection.scalar(sa.select(sa.func.count()).where(CHANNELS.c.lateness.is_(None))) or 0
    processed, last = catalog.processed()
    yield (
        f"events {events}, join state {state.rows} rows in {state.size:,} bytes (files: {len(state.files)}), "
        f"purged {purged} rows, late {late}, rejected {rejected}"
    )
    if asked:
        yield f"slices: {found / asked:.1%} of {asked:,} values asked for needed nothing from the files"
    if last > processed:
        yield f"{last - processed} places of the intake order are not processed yet: xscl run --once"
    if unlimited:
        yield (
            f"channels without a limit on lateness: {unlimited}; nothing of theirs is late, and what may join with "
            "them is never purged"
        )


def skipped_notes(catalog: Catalog, first: int) -> Iterator[str]:
    """Which queries that see what came after them did not see events that were processed from ``first`` on."""
    with catalog.read() as connection:
        streams = catalog.streams(connection)
        for info in catalog.queries(connection, limit=1000):
            if info.docid_from <= first or info.sees_from < info.docid_from:
                continue
            channels = {block.channel for block in ast.blocks(parse_query(info.text).source)}
            # Published documents up to a place are numbered below the first one of the next place.
            published = published_docid(first, 0), published_docid(info.docid_from + 1, 0) - 1
            older = [channel_counts(connection, *span) for span in ((first, info.docid_from), published)]
            of_channels = {resolve_stream(streams, name)[0] for name in channels}
            count = sum(counts.get(channel, 0) for counts in older for channel in of_channels)
            if count:
                yield (
                    f"note: {count} events are older than query {info.name} and were skipped for it; STARTING ALL "
                    "would include them"
                )


def _count(connection: Connection, table: sa.Table) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0
