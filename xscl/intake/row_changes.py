"""Tables of rows that are changes: a column says of each row whether it comes or goes (``--op COLUMN``).

The words are those of Debezium, Flink, Delta tables and logs of databases.  A row that comes under an id that is there
is a newer version of it, unless it is the same row.  Images of rows before their change say nothing new.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import groupby
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.errors import SourceError, XsclError
from xscl.base.shown import shortened
from xscl.ingest.records import Rejected, RowTable
from xscl.ingest.row_times import as_array
from xscl.intake.checks import CheckedEvent
from xscl.intake.events import take_events
from xscl.intake.removals import Items, items_of
from xscl.intake.row_batch import read_batch, refused_row, single_events
from xscl.intake.row_columns import Mask, as_mask, check_columns
from xscl.intake.row_ids import read_ids
from xscl.intake.rows import refuse_all, row_channel
from xscl.intake.transaction import Chunk

__all__ = ["take_changes"]

_COMES = ("c", "create", "i", "insert", "r", "read", "u", "update", "upsert", "update_postimage", "+i", "+u")
_GOES = ("d", "delete", "-d")
_WAS = ("-u", "update_preimage")
_Change = tuple[int, CheckedEvent | Rejected | str]
"""Number of a row, with the event that comes, or the id of the one that goes."""


def take_changes(chunk: Chunk, table: RowTable) -> None:
    """Take the rows of a table as changes, in their order."""
    assert table.options.op is not None
    try:
        check_columns(table.rows.schema, table.options)
    except SourceError as error:
        refuse_all(chunk, table, error, len(table.rows))
        return
    column = as_array(table.rows.column(table.options.op)).cast(pa.string())
    words = pc.utf8_lower(pc.utf8_trim_whitespace(column)).fill_null("")
    comes, goes, was = (as_mask(pc.is_in(words, pa.array(known))) for known in (_COMES, _GOES, _WAS))
    for place in np.flatnonzero(~(comes | goes | was)):
        word = shortened(words[place].as_py())
        told = f"{word!r} is no change of a row; known: {', '.join((*_COMES, *_GOES, *_WAS))}"
        chunk.rejected.append(refused_row(table, place, "XSCL_BAD_EVENT", told))
    changes = sorted([*_coming(chunk, _rows(table, comes)), *_going(chunk, _rows(table, goes))], key=itemgetter(0))
    gone = {change for _, change in changes if isinstance(change, str)}
    items: Items | None = None
    for is_going, run in groupby(changes, key=lambda change: isinstance(change[1], str)):
        some = list(run)
        if is_going:
            ids = tuple(str(id_) for _, id_ in some)
            if items is None or table.channel in chunk.streams:
                # Ids within a stream are told apart by the catalogue; the others are read once, however often they go.
                items = items_of(chunk, table.channel, gone if table.channel not in chunk.streams else set(ids))
            items.remove([(id_, f"{table.source}:{some[0][0]}") for id_ in ids], table.channel)
        else:
            take_events(chunk, [item for _, item in some if not isinstance(item, str)])


def _rows(table: RowTable, which: Mask) -> RowTable:
    assert table.numbers is not None
    return replace(table, rows=table.rows.filter(pa.array(which)), numbers=table.numbers[which], problems=())


def _coming(chunk: Chunk, table: RowTable) -> Iterator[_Change]:
    """Yield the rows that come, as events."""
    assert table.numbers is not None
    if not len(table.rows):
        return
    limits = chunk.terms.limits
    try:
        batch, refusals = read_batch(table, row_channel(chunk, table), limits)
    except XsclError as error:
        refuse_all(chunk, table, error, len(table.rows))
        return
    chunk.rejected += refusals
    numbers = table.numbers[np.flatnonzero(batch.kept)].tolist()
    for number, item in zip(numbers, single_events(table, batch, limits), strict=True):
        yield number, item if isinstance(item, Rejected) else item._replace(renews=True)


def _going(chunk: Chunk, table: RowTable) -> Iterator[_Change]:
    """Yield the ids of the rows that go."""
    assert table.numbers is not None
    ids, nameless = read_ids(table)
    for place in np.flatnonzero(nameless).tolist():
        chunk.rejected.append(refused_row(table, place, "XSCL_BAD_EVENT_ID", "a row that goes is told by its id"))
    for place in np.flatnonzero(~nameless).tolist():
        yield int(table.numbers[place]), str(ids.texts[place].as_py())
