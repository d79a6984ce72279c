"""Tables of rows into the home, a column at a time: one file and one transaction take a chunk."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import repeat

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.errors import SourceError, XsclError
from xscl.base.failpoints import step
from xscl.base.types import Event, is_name
from xscl.catalog.clocks import shown_before
from xscl.catalog.events import add_row_ranges
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.records import ChannelInfo
from xscl.catalog.removals import has_removals, removed_ids
from xscl.catalog.source_offsets import put_positions
from xscl.ingest.records import Rejected, RowTable
from xscl.intake.checks import check_channel_name, taken_id
from xscl.intake.events import take_events
from xscl.intake.placed_rows import PlacedRows, event_times_of, placed_rows
from xscl.intake.report import IntakeReport
from xscl.intake.row_batch import RowBatch, read_batch, refused_row, settle, single_events
from xscl.intake.row_columns import Places
from xscl.intake.row_ids import known_rows
from xscl.intake.transaction import Chunk, Terms, open_chunk

__all__ = [
    "CHUNK_ROWS",
    "place_rows",
    "refuse_all",
    "row_channel",
    "row_chunks",
    "take_rows",
    "take_table",
    "without_known",
]

_FEW = 500
"""Rows that are taken one by one sooner than all ids of removed ones are read."""
CHUNK_ROWS = 200_000
"""Rows of one transaction and file."""


def take_rows(terms: Terms, table: RowTable, report: IntakeReport, take: Callable[[Chunk, RowTable], None]) -> None:
    """Take the rows of a table by a function that takes a part in its transaction; everything that can be taken is."""
    for part in row_chunks(table):
        with open_chunk(terms, report) as chunk:
            chunk.rejected.extend(part.problems)
            if len(part.rows):
                take(chunk, part)
            if part.position is not None:
                put_positions(chunk.connection, [part.position], chunk.now)
        step("intake.rows")


def row_chunks(table: RowTable) -> Iterator[RowTable]:
    """Yield the rows of a table in parts of one file each, with a number for each row; an empty table is a part."""
    numbers = np.arange(1, len(table.rows) + 1, dtype=np.int64) if table.numbers is None else table.numbers
    if not table.named:
        table = replace(table, source=f"row-{uuid.uuid4().hex}")
    starts = range(0, max(len(table.rows), 1), CHUNK_ROWS)
    for start in starts:
        yield replace(
            table,
            rows=table.rows.slice(start, CHUNK_ROWS),
            numbers=numbers[start : start + CHUNK_ROWS],
            problems=table.problems if start == 0 else (),
            position=table.position if start == starts[-1] else None,
        )


def take_table(chunk: Chunk, table: RowTable) -> None:
    """Take the rows of a table that can be taken, in one transaction."""
    limits = chunk.terms.limits
    try:
        batch, refusals = read_batch(table, row_channel(chunk, table), limits)
    except XsclError as error:
        refuse_all(chunk, table, error, len(table.rows))
        return
    except pa.ArrowException as error:  # as a dictionary of long texts that many rows name
        refuse_all(
            chunk, table, SourceError("XSCL_SOURCE_UNREADABLE", f"the rows cannot be held: {error}"), len(table.rows)
        )
        return
    chunk.rejected += refusals
    if table.channel in chunk.streams or _come_back(chunk, table.channel, batch):
        # Rows of a stream are taken like any event, because streams tell whose an id is.
        take_events(chunk, single_events(table, batch, limits))
        return
    batch, refusals = settle(table, batch, limits)
    chunk.rejected += refusals
    batch, _, digests = without_known(chunk, table, batch)
    if len(batch.kept):
        placed = place_rows(chunk, batch, digests)
        path = chunk.write_file(placed_rows(batch, placed))
        if placed.ids is not None:
            add_row_ranges(chunk.connection, [{**placed.ids, "path": path}])


def _come_back(chunk: Chunk, channel: str, batch: RowBatch) -> bool:
    """Whether rows may be newer versions of removed ones, which is decided row by row."""
    if not has_removals(chunk.connection, channel):
        return False
    if len(batch.kept) <= _FEW:
        return True
    removed = pa.array(sorted(removed_ids(chunk.connection, channel)), pa.string())
    return bool(pc.any(pc.is_in(batch.ids.texts, removed)).as_py())


def without_known(
    chunk: Chunk, table: RowTable, batch: RowBatch, digests: Sequence[str] | None = None
) -> tuple[RowBatch, Places, list[str]]:
    """Leave out the rows whose ids the channel has, and refuse those of other content.

    Args:
        chunk: their transaction.
        table: their table, which says how ids were made; its rows are not read.
        batch: the rows.
        digests: of the rows, where that is known already and their ids are kept one by one.

    Returns:
        The rows that are kept, their places among the given ones, and their digests if ids are kept one by one.
    """
    root = chunk.terms.home.root
    known = known_rows(chunk.connection, root, batch.channel, batch.ids, batch.cells, batch.kept, digests)
    chunk.report.duplicates += int(np.count_nonzero(known.same & batch.kept))
    for place in np.flatnonzero(known.other & batch.kept):
        id_ = batch.ids.texts[place].as_py()
        message = taken_id(id_, batch.channel.name, is_place=table.named and table.options.id is None)
        chunk.rejected.append(refused_row(table, place, "XSCL_EVENT_ID_REUSED", message, batch.ids))
    batch = replace(batch, kept=batch.kept & ~(known.same | known.other))
    which = np.flatnonzero(batch.kept)
    singly = which.tolist() if batch.ids.numbers is None else []
    return batch.only_kept(), which, [known.digests[place] for place in singly]


def row_channel(chunk: Chunk, table: RowTable) -> ChannelInfo:
    """Return the channel of the rows of a table.

    Raises:
        XsclError: it takes none of them.
    """
    check_channel_name(table.channel)
    name = resolve_stream(chunk.streams, table.channel)[0]
    return chunk.channel_of(Event(name, row={}, source=table.source))


def refuse_all(chunk: Chunk, table: RowTable, error: XsclError, count: int) -> None:
    """Refuse all rows of a table, so many, for one reason.

    Raises:
        XsclError: ``error``, where the input's position is kept.
    """
    if table.position is not None:
        # Whoever goes on behind them would never see these rows again.
        raise error
    assert table.numbers is not None
    first, last = table.numbers[0], table.numbers[-1]
    where = f"{table.source}:{first}" if count == 1 else f"{table.source}:{first}-{last}"
    message = error.message if count == 1 else f"{error.message} (all {count:,} rows)"
    hint = f"; {error.hint}" if error.hint else ""
    channel = table.channel if is_name(table.channel) else None
    chunk.rejected.append(Rejected(where, error.condition, message + hint, channel))
    chunk.report.rejected += count - 1


def place_rows(chunk: Chunk, batch: RowBatch, digests: Sequence[str]) -> PlacedRows:
    """Give rows their places, note their ids, and note those that are late.

    Args:
        chunk: their transaction.
        batch: rows that are all kept.
        digests: of the rows, if their ids are kept one by one.
    """
    channel, count = batch.channel, len(batch.kept)
    chunk.put_channel(channel)
    first, receipt = chunk.places(count)
    ts = event_times_of(batch, receipt)
    shown, late = shown_before(channel, chunk.clocks, ts)
    numbers = batch.ids.numbers
    ids: dict[str, object] | None = None
    if numbers is None:
        _note_ids(chunk, batch, digests, first, receipt, ts)
    else:
        ids = {"docid": first, "last_docid": first + count - 1, "first": int(numbers[0]), "last": int(numbers[-1])}
        ids |= {"channel": channel.name, "prefix": batch.ids.prefix}
    chunk.see(channel, int(ts.max()))
    chunk.report.taken += count
    which = np.flatnonzero(late)
    for place in which.tolist():
        id_, docid = batch.ids.texts[place].as_py(), first + place
        chunk.note_late(channel.name, id_, docid, int(ts[place]), receipt + place, int(shown[place]))
    behind = np.maximum(shown - ts, 0)
    return PlacedRows(channel.name, first, receipt, which, behind if behind.any() else None, ids)


def _note_ids(chunk: Chunk, batch: RowBatch, digests: Sequence[str], first: int, receipt: int, ts: Places) -> None:
    """Note the ids of rows to be kept one by one."""
    ids, places = batch.ids.texts.to_pylist(), range(first, first + len(ts))
    which = (repeat(batch.channel.name), ids, ids, repeat(""), repeat(1), places, places)
    when = (ts.tolist(), range(receipt, receipt + len(ts)))
    chunk.ids += zip(*which, digests, *when, repeat(0), strict=False)
