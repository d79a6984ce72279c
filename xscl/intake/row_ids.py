"""Ids of rows: read from a table, and compared with those that are there.

Ids that are a prefix and growing numbers (a file's lines, a table's keys) are kept as one range for each file
(``id_ranges``); a row whose number a range has is compared with the row that the file holds.  Other ids are kept one by
one, each with a digest of its row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlalchemy.engine import Connection

from xscl.catalog.events import find_digests, has_event_ids
from xscl.catalog.id_ranges import StoredRows, rows_by_id, stored_rows
from xscl.catalog.records import ChannelInfo
from xscl.ingest.records import RowTable
from xscl.ingest.row_times import as_array
from xscl.ingest.rows import cells_digest
from xscl.intake.row_columns import Mask, Places, as_mask, cell_lists
from xscl.intake.row_digests import row_digests

__all__ = ["KnownRows", "RowIds", "known_rows", "read_ids"]

_NUMBER = r"^(?:0|-?[1-9][0-9]{0,17})$"


@dataclass(frozen=True, slots=True)
class RowIds:
    """Ids of rows: texts, and their numbers where they are a prefix and growing numbers."""

    prefix: str
    numbers: Places | None
    texts: pa.StringArray

    def only(self, which: Places) -> RowIds:
        """Take the ids of some rows."""
        return RowIds(
            self.prefix, None if self.numbers is None else self.numbers[which], self.texts.take(pa.array(which))
        )


@dataclass(frozen=True, slots=True)
class KnownRows:
    """Rows whose ids are taken, by rows of the same content or of other content."""

    same: Mask
    other: Mask
    digests: dict[int, str] = field(default_factory=dict)
    """Digests of new rows by place, where ids are kept one by one."""


def read_ids(table: RowTable) -> tuple[RowIds, Mask]:
    """Read the ids of rows, and a mask of the rows that have none."""
    assert table.numbers is not None
    name, count = table.options.id, len(table.rows)
    if name is None:
        prefix = f"{table.source}:"
        texts = pc.binary_join_element_wise(prefix, pa.array(table.numbers).cast(pa.string()), "")
        return RowIds(prefix, table.numbers, texts), np.zeros(count, dtype=np.bool_)
    texts = as_array(table.rows.column(name)).cast(pa.string())
    bad = as_mask(pc.or_(texts.is_null(), pc.equal(pc.binary_length(texts).fill_null(0), 0)))
    bad |= as_mask(pc.match_substring(texts, "\0").fill_null(False))
    texts = texts.fill_null("")
    if not bad.any() and pc.all(pc.match_substring_regex(texts, _NUMBER)).as_py():
        numbers = texts.cast(pa.int64()).to_numpy()
        if count == 1 or bool(np.all(numbers[1:] > numbers[:-1])):
            return RowIds("", numbers, texts), bad
    return RowIds("", None, texts), bad


def known_rows(
    connection: Connection,
    root: Path,
    channel: ChannelInfo,
    ids: RowIds,
    cells: Sequence[pa.StringArray],
    kept: Mask,
    digests_of_rows: Sequence[str] | None = None,
) -> KnownRows:
    """Find the rows whose ids the channel has; a row whose id comes twice in the table counts as known the second time.

    Args:
        connection: of the catalogue.
        root: folder of the home.
        channel: with the columns of ``cells``.
        ids: ids of the rows.
        cells: a column each.
        kept: rows that are looked at; of others nothing is said.
        digests_of_rows: where that is known already.
    """
    known = KnownRows(np.zeros(len(kept), dtype=np.bool_), np.zeros(len(kept), dtype=np.bool_))
    assert channel.schema is not None
    digests: dict[str, str] = {}
    if has_event_ids(connection, channel.name):
        digests = find_digests(connection, channel.name, ids.texts.filter(pa.array(kept)).to_pylist())
    places: Places = np.zeros(0, dtype=np.int64)
    if ids.numbers is not None:
        first, last = int(ids.numbers[0]), int(ids.numbers[-1])
        for stored in stored_rows(connection, root, channel.name, ids.prefix, first, last):
            _compare(ids.numbers, cells, stored, known)
        if digests:
            places = np.flatnonzero(kept & as_mask(pc.is_in(ids.texts, pa.array(list(digests), pa.string()))))
    else:
        for _, row in rows_by_id(connection, root, {channel.name: ids.texts.to_pylist()}):
            digests[row.id] = cells_digest(channel.schema, row.cells)
        places = np.flatnonzero(kept)
    at = pa.array(places)
    if digests_of_rows is None:
        mine = row_digests(channel.schema, [column.take(at) for column in cells], len(places))
    else:
        mine = [digests_of_rows[place] for place in places]
    for place, id_, digest in zip(places.tolist(), ids.texts.take(at).to_pylist(), mine, strict=True):
        before = digests.get(id_)
        if before is None:
            digests[id_] = known.digests[place] = digest
        else:
            (known.same if before == digest else known.other)[place] = True
    return known


def _compare(numbers: Places, cells: Sequence[pa.StringArray], stored: StoredRows, known: KnownRows) -> None:
    """Mark the rows whose numbers are stored, by whether they have the same cells."""
    at = np.searchsorted(stored.numbers, numbers)
    at[at == len(stored.numbers)] = 0
    common = np.flatnonzero(stored.numbers[at] == numbers)
    if not len(common):
        return
    mine = pc.list_flatten(cell_lists([column.take(pa.array(common)) for column in cells], len(common)))
    theirs = pc.list_flatten(stored.cells.take(pa.array(at[common])))
    equal = pc.equal(mine, theirs).fill_null(False)
    equal = pc.or_(equal, pc.and_(mine.is_null(), theirs.is_null()))
    same = as_mask(equal).reshape(len(common), len(cells)).all(axis=1)
    known.same[common[same]] = True
    known.other[common[~same]] = True
