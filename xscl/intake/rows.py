"""Taking in tables of rows, a column at a time: what ``intake`` does for events, for many rows at once.

Columns are checked and turned into cells by Arrow (``ingest.columns``), times and lateness by numpy; one file and one
transaction take a chunk.  Rows of which something is doubtful go through the functions of single events, one by one, so
that each is taken or refused as it would be alone, with its place.

Ids that are a prefix and growing numbers (a file's lines, a table's keys) are kept as one range for each file
(``row_ranges``); a row whose number a range has is compared with what its file holds.  Other ids are kept one by one.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import DocumentError, SourceError, XsclError
from xscl.base.failpoints import step
from xscl.base.types import Event, Scalar, is_name
from xscl.catalog.catalog import ChannelInfo
from xscl.catalog.clocks import shown_before
from xscl.catalog.id_ranges import StoredRows, rows_by_id, stored_rows
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.source_offsets import put_positions
from xscl.catalog.tables import EVENT_IDS, ROW_RANGES, in_parts
from xscl.ingest.columns import column_cells, column_type, column_value, text_type
from xscl.ingest.records import Rejected, RowTable
from xscl.ingest.row_times import event_times
from xscl.ingest.rows import cells_digest, is_column
from xscl.intake.checks import CheckedEvent, check_channel_name, check_event, event_content
from xscl.intake.events import take_events
from xscl.intake.report import IntakeReport
from xscl.intake.row_columns import check_columns
from xscl.intake.transaction import Chunk, Terms, open_chunk
from xscl.store.event_files import EVENT_SCHEMA

__all__ = ["CHUNK_ROWS", "take_rows"]

CHUNK_ROWS = 200_000
"""Rows of one transaction and file."""
_LONG_ROW = 20_000
"""Characters; longer rows are looked at one by one, because documents have limits."""
_NUMBER = r"^(?:0|-?[1-9][0-9]{0,17})$"

Mask = npt.NDArray[np.bool_]
Places = npt.NDArray[np.int64]


def take_rows(terms: Terms, table: RowTable, report: IntakeReport) -> None:
    """Take the rows of a table; everything that can be taken is."""
    numbers = np.arange(1, len(table.rows) + 1, dtype=np.int64) if table.numbers is None else table.numbers
    if not table.named:
        table = replace(table, source=f"row-{uuid.uuid4().hex}")
    starts = range(0, max(len(table.rows), 1), CHUNK_ROWS)
    for start in starts:
        part = replace(
            table,
            rows=table.rows.slice(start, CHUNK_ROWS),
            numbers=numbers[start : start + CHUNK_ROWS],
            problems=table.problems if start == 0 else (),
            position=table.position if start == starts[-1] else None,
        )
        with open_chunk(terms, report) as chunk:
            chunk.rejected.extend(part.problems)
            if len(part.rows):
                _Work(chunk, part).take()
            if part.position is not None:
                put_positions(chunk.connection, [part.position], chunk.now)
        step("intake.rows")


@dataclass(slots=True)
class _Ids:
    """The ids of rows: a prefix and growing numbers, or texts."""

    prefix: str
    numbers: Places | None
    texts: pa.StringArray


class _Work:
    """One chunk of rows within its transaction."""

    def __init__(self, chunk: Chunk, part: RowTable) -> None:
        self.chunk = chunk
        self.part = part
        self.singly = part.channel in chunk.streams
        """Whether rows are taken one by one, like any event: streams tell whose an id is."""
        self.digests: dict[int, str] = {}
        """Of the rows whose ids are kept one by one."""
        self.count = len(part.rows)
        assert part.numbers is not None
        self.places: Places = part.numbers
        """Of the rows in their source."""

    def take(self) -> None:
        """Take what can be taken."""
        part = self.part
        try:
            channel = self._channel()
            check_columns(part.rows.schema, part.options)
            rows = self._selected(part.rows)
            schema = self._schema(channel, rows)
            times, bad_times = event_times(part.rows, part.options)
            ids, bad_ids = self._ids(part.rows)
            cells, doubtful = self._cells(rows, schema)
        except XsclError as error:
            self._refuse_all(error)
            return
        except pa.ArrowException as error:  # as a dictionary of long texts that many rows name
            self._refuse_all(SourceError("XSCL_SOURCE_UNREADABLE", f"the rows cannot be held: {error}"))
            return
        channel = replace(channel, schema=schema)
        kept = ~(bad_times | bad_ids)
        for place in np.flatnonzero(bad_ids):
            self._refuse(place, "XSCL_BAD_EVENT_ID", "an event's id is a text of at least one character without NUL")
        for place in np.flatnonzero(bad_times & ~bad_ids):
            shown = part.rows.column(part.options.ts)[place].as_py() if self._one_time_column() else "it"
            self._refuse(place, "XSCL_BAD_EVENT_TIME", f"{shown!r} is no time as is expected", ids)
        if self.singly:
            self._take_singly(rows, schema, ids, times, np.flatnonzero(kept))
            return
        cells = self._settle(rows, channel, cells, doubtful & kept, ids, kept)
        seen, reused = self._known(channel, ids, cells, kept)
        self.chunk.report.duplicates += int(np.count_nonzero(seen & kept))
        for place in np.flatnonzero(reused & kept):
            self._refuse(
                place,
                "XSCL_EVENT_ID_REUSED",
                f"the id {ids.texts[place].as_py()!r} is taken by other content in channel {channel.name}",
                ids,
            )
        kept &= ~(seen | reused)
        which = np.flatnonzero(kept)
        if len(which):
            self._write(channel, which, ids, cells, times)

    def _one_time_column(self) -> bool:
        return self.part.options.ts is not None and self.part.options.ts in self.part.rows.column_names

    # -- what is asked of the table as a whole -----------------------------------------------------------------

    def _channel(self) -> ChannelInfo:
        check_channel_name(self.part.channel)
        name = resolve_stream(self.chunk.streams, self.part.channel)[0]
        return self.chunk.channel_of(Event(name, row={}, source=self.part.source))

    def _selected(self, rows: pa.Table) -> pa.Table:
        wanted = self.part.options.columns
        return rows if wanted is None else rows.select(list(wanted))

    def _schema(self, channel: ChannelInfo, rows: pa.Table) -> dict[str, str | None]:
        """The channel's columns, with the types that this table fixes."""
        names = rows.column_names
        if len(set(names)) < len(names):
            raise DocumentError("XSCL_ROW_SCHEMA", "a column is there twice")
        declared = channel.schema if channel.schema is not None else self.part.schema
        if declared is None:
            if not names:
                raise DocumentError("XSCL_ROW_SCHEMA", "a row has at least one column")
            for name in names:
                if not is_column(name):
                    raise DocumentError(
                        "XSCL_ROW_SCHEMA",
                        f"column {name!r} is not a name (letters, digits, _ . -, a letter or _ first)",
                    )
        schema: dict[str, str | None] = dict.fromkeys(names) if declared is None else dict(declared)
        for name in names:
            if name not in schema:
                raise DocumentError("XSCL_ROW_SCHEMA", f"column {name!r} is unknown; expected {', '.join(schema)}")
            if schema[name] is None:
                schema[name] = self._type(name, rows.column(name))
        return schema

    def _type(self, name: str, column: pa.ChunkedArray) -> str | None:
        if self.part.texts:
            return text_type(_array(column))
        if column.null_count == len(column):
            return None
        try:
            return column_type(column.type)
        except SourceError as error:
            raise SourceError(error.condition, f"column {name!r}: {error.message}", hint=error.hint) from None

    def _cells(self, rows: pa.Table, schema: Mapping[str, str | None]) -> tuple[list[pa.StringArray], Mask]:
        """The cells, a column each in the schema's order, and which rows have to be looked at alone."""
        doubtful = np.zeros(self.count, dtype=np.bool_)
        sizes = np.full(self.count, sum(map(len, schema)), dtype=np.int64)
        cells = []
        names = set(rows.column_names)
        for name, expected in schema.items():
            if name not in names or expected is None:
                cells.append(pa.nulls(self.count, pa.string()))
                continue
            try:
                found = column_cells(_array(rows.column(name)), expected, texts=self.part.texts)
            except SourceError as error:
                raise SourceError(error.condition, f"column {name!r}: {error.message}", hint=error.hint) from None
            if found.doubtful is not None:
                doubtful |= found.doubtful
            cells.append(found.texts)
            sizes += pc.binary_length(found.texts).fill_null(0).to_numpy(zero_copy_only=False)
        doubtful |= sizes > _LONG_ROW
        if len(schema) > self.chunk.terms.limits.max_names:
            doubtful[:] = True
        return cells, doubtful

    def _refuse_all(self, error: XsclError) -> None:
        if self.part.position is not None:
            # Whoever goes on behind them would never see these rows again.
            raise error
        first, last = self.places[0], self.places[-1]
        where = f"{self.part.source}:{first}" if self.count == 1 else f"{self.part.source}:{first}-{last}"
        message = error.message if self.count == 1 else f"{error.message} (all {self.count:,} rows)"
        hint = f"; {error.hint}" if error.hint else ""
        channel = self.part.channel if is_name(self.part.channel) else None
        self.chunk.rejected.append(Rejected(where, error.condition, message + hint, channel))
        self.chunk.report.rejected += self.count - 1

    # -- rows one by one ---------------------------------------------------------------------------------------

    def _take_singly(
        self, rows: pa.Table, schema: Mapping[str, str | None], ids: _Ids, times: pa.Int64Array, which: Places
    ) -> None:
        """Take some rows as events of their own."""
        part, limits = self.part, self.chunk.terms.limits
        checked: list[CheckedEvent | Rejected] = []
        for place, row in zip(which.tolist(), _values(rows, which), strict=True):
            given = {name: column_value(value, schema[name] or "", texts=part.texts) for name, value in row.items()}
            id_, where = ids.texts[place].as_py(), f"{part.source}:{self.places[place]}"
            found = check_event(Event(part.channel, id_, row=given, source=where), limits)
            ts = times[place].as_py()
            checked.append(found if isinstance(found, Rejected) else replace(found, ts=ts))
        take_events(self.chunk, checked)

    def _settle(
        self,
        rows: pa.Table,
        channel: ChannelInfo,
        cells: list[pa.StringArray],
        doubtful: Mask,
        ids: _Ids,
        kept: Mask,
    ) -> list[pa.StringArray]:
        """The cells with those of doubtful rows in their places; rows that do not fit are kept no more."""
        which = np.flatnonzero(doubtful)
        if not len(which):
            return cells
        assert channel.schema is not None
        settled: dict[int, list[str | None]] = {}
        for place, row in zip(which.tolist(), _values(rows, which), strict=True):
            given: dict[str, Scalar] = {
                name: column_value(value, channel.schema[name] or "", texts=self.part.texts)
                for name, value in row.items()
            }
            event = Event(channel.name, row=given)
            checked = CheckedEvent(event, "", None, None, "")
            try:
                found = event_content(channel, checked, self.chunk.terms.limits)[1]
                assert found is not None
                settled[place] = found
            except XsclError as error:
                kept[place] = False
                self._refuse(place, error.condition, error.message, ids)
        if not settled:
            return cells
        at = np.zeros(self.count, dtype=np.bool_)
        at[list(settled)] = True
        ordered = [settled[place] for place in np.flatnonzero(at).tolist()]
        return [
            pc.replace_with_mask(column, pa.array(at), pa.array([row[i] for row in ordered], pa.string()))
            for i, column in enumerate(cells)
        ]

    def _refuse(self, place: int | np.int64, condition: str, message: str, ids: _Ids | None = None) -> None:
        where = f"{self.part.source}:{self.places[place]}"
        id_ = None if ids is None else ids.texts[int(place)].as_py()
        self.chunk.rejected.append(Rejected(where, condition, message, self.part.channel, id_))

    # -- ids ---------------------------------------------------------------------------------------------------

    def _ids(self, rows: pa.Table) -> tuple[_Ids, Mask]:
        """The rows' ids, and the places of those that are none."""
        none = np.zeros(self.count, dtype=np.bool_)
        name = self.part.options.id
        if name is None:
            prefix = f"{self.part.source}:"
            texts = pc.binary_join_element_wise(prefix, pa.array(self.places).cast(pa.string()), "")
            return _Ids(prefix, self.places, texts), none
        values = _array(rows.column(name))
        texts = values.cast(pa.string())
        bad = _mask(pc.or_(texts.is_null(), pc.equal(pc.binary_length(texts).fill_null(0), 0)))
        bad |= _mask(pc.match_substring(texts, "\0").fill_null(False))
        texts = texts.fill_null("")
        if not bad.any() and pc.all(pc.match_substring_regex(texts, _NUMBER)).as_py():
            numbers = texts.cast(pa.int64()).to_numpy()
            if self.count == 1 or bool(np.all(numbers[1:] > numbers[:-1])):
                return _Ids("", numbers, texts), bad
        return _Ids("", None, texts), bad

    def _known(self, channel: ChannelInfo, ids: _Ids, cells: list[pa.StringArray], kept: Mask) -> tuple[Mask, Mask]:
        """Which rows are there already, and which have an id of other content."""
        seen, reused = np.zeros(self.count, dtype=np.bool_), np.zeros(self.count, dtype=np.bool_)
        home, connection = self.chunk.terms.home, self.chunk.connection
        assert channel.schema is not None
        if ids.numbers is not None:
            first, last = int(ids.numbers[0]), int(ids.numbers[-1])
            for stored in stored_rows(connection, home.root, channel.name, ids.prefix, first, last):
                _compare(ids.numbers, cells, stored, seen, reused)
            known = _single_ids(connection, channel.name, ids.texts)
            if known:
                places = np.flatnonzero(kept & _mask(pc.is_in(ids.texts, pa.array(list(known), pa.string()))))
            else:
                places = np.zeros(0, dtype=np.int64)
        else:
            known = _single_ids(connection, channel.name, ids.texts)
            for _, row in rows_by_id(connection, home.root, {channel.name: ids.texts.to_pylist()}):
                known[row.id] = cells_digest(channel.schema, row.cells)
            places = np.flatnonzero(kept)
        columns = [column.to_pylist() for column in cells] if len(places) else []
        for place in places.tolist():
            id_ = ids.texts[place].as_py()
            digest = cells_digest(channel.schema, [column[place] for column in columns])
            before = known.get(id_)
            if before is None:
                known[id_] = self.digests[place] = digest
            else:
                (seen if before == digest else reused)[place] = True
        return seen, reused

    # -- what is taken -----------------------------------------------------------------------------------------

    def _write(
        self, channel: ChannelInfo, which: Places, ids: _Ids, cells: list[pa.StringArray], times: pa.Int64Array
    ) -> None:
        chunk = self.chunk
        count = len(which)
        whole = count == self.count
        chunk.put_channel(channel)
        first, receipt = chunk.places(count)
        docids = np.arange(first, first + count, dtype=np.int64)
        received = np.arange(receipt, receipt + count, dtype=np.int64)
        given = times if whole else times.take(pa.array(which))
        dated = ~_mask(given.is_null())
        ts = np.where(dated, given.fill_null(0).to_numpy(zero_copy_only=False), received)
        shown, late = shown_before(channel, chunk.clocks, ts)
        texts = ids.texts if whole else ids.texts.take(pa.array(which))
        taken = cells if whole else [column.take(pa.array(which)) for column in cells]
        columns: dict[str, pa.Array] = {
            "docid": pa.array(docids),
            "channel": pa.repeat(channel.name, count),
            "id": texts,
            "version": pa.repeat(pa.scalar(1, pa.int32()), count),
            "item": pa.array(docids),
            "ts": pa.array(ts),
            "received": pa.array(received),
            "late": pa.array(late),
            "declared": given,
            "time_source": pc.if_else(pa.array(dated), "given", "received"),
            "cells": _lists(taken, count),
            "membership": pa.repeat(pa.scalar(0, pa.int32()), count),
        }
        path = chunk.write_file(_event_table(columns, count))
        if ids.numbers is not None:
            numbers = ids.numbers[which]
            chunk.connection.execute(
                ROW_RANGES.insert().values(
                    docid=first,
                    last_docid=first + count - 1,
                    path=path,
                    channel=channel.name,
                    prefix=ids.prefix,
                    first=int(numbers[0]),
                    last=int(numbers[-1]),
                )
            )
        else:
            self._write_ids(channel, which, texts, docids, ts, received)
        chunk.see(channel, int(ts.max()))
        chunk.report.taken += count
        for place in np.flatnonzero(late).tolist():
            id_, docid = texts[place].as_py(), int(docids[place])
            chunk.note_late(channel, id_, docid, int(ts[place]), int(received[place]), int(shown[place]))

    def _write_ids(
        self, channel: ChannelInfo, which: Places, texts: pa.StringArray, docids: Places, ts: Places, received: Places
    ) -> None:
        rows = zip(texts.to_pylist(), which.tolist(), docids.tolist(), ts.tolist(), received.tolist(), strict=True)
        self.chunk.ids.extend(
            {
                "channel": channel.name,
                "id": id_,
                "base": id_,
                "feed": "",
                "version": 1,
                "docid": docid,
                "item": docid,
                "digest": self.digests[place],
                "ts": time,
                "received": receipt,
                "membership": 0,
            }
            for id_, place, docid, time, receipt in rows
        )


def _compare(numbers: Places, cells: list[pa.StringArray], stored: StoredRows, seen: Mask, reused: Mask) -> None:
    """Mark the rows whose numbers are stored: whether with the same cells."""
    at = np.searchsorted(stored.numbers, numbers)
    at[at == len(stored.numbers)] = 0
    common = np.flatnonzero(stored.numbers[at] == numbers)
    if not len(common):
        return
    mine = _lists([column.take(pa.array(common)) for column in cells], len(common)).flatten()
    theirs = stored.cells.take(pa.array(at[common])).flatten()
    equal = pc.equal(mine, theirs).fill_null(False)
    equal = pc.or_(equal, pc.and_(mine.is_null(), theirs.is_null()))
    same = _mask(equal).reshape(len(common), len(cells)).all(axis=1)
    seen[common[same]] = True
    reused[common[~same]] = True


def _single_ids(connection: Connection, channel: str, texts: pa.StringArray) -> dict[str, str]:
    """Digests of those ids that are kept one by one."""
    if connection.execute(sa.select(EVENT_IDS.c.docid).where(EVENT_IDS.c.channel == channel).limit(1)).first() is None:
        return {}
    known: dict[str, str] = {}
    for part in in_parts(texts.to_pylist()):
        mine = EVENT_IDS.c.channel == channel, EVENT_IDS.c.id.in_(part)
        known.update((row.id, row.digest) for row in connection.execute(sa.select(EVENT_IDS).where(*mine)))
    return known


def _lists(columns: list[pa.StringArray], count: int) -> pa.ListArray:
    """The rows' lists of cells."""
    width = len(columns)
    row_wise = np.arange(count * width, dtype=np.int64).reshape(width, count).T.ravel()
    values = pa.concat_arrays(columns).take(pa.array(row_wise))
    return pa.ListArray.from_arrays(pa.array(np.arange(0, count * width + 1, width, dtype=np.int32)), values)


def _event_table(columns: Mapping[str, pa.Array], count: int) -> pa.Table:
    """Events in the shape of ``EVENT_SCHEMA``; columns that are not given are NULL."""
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in EVENT_SCHEMA]
    return pa.Table.from_arrays(arrays, schema=EVENT_SCHEMA)


def _array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece, without a dictionary."""
    array = column.combine_chunks()
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


def _mask(found: pa.BooleanArray) -> Mask:
    return np.asarray(found.to_numpy(zero_copy_only=False), dtype=np.bool_)


def _values(rows: pa.Table, which: Places) -> list[dict[str, object]]:
    """Rows as Python has them; a time that Python has not is its number."""
    taken = rows.take(pa.array(which))
    found: list[dict[str, object]]
    try:
        found = taken.to_pylist()
    except (ValueError, OverflowError):
        plain = [
            column.cast(pa.int64()).cast(pa.string()) if pa.types.is_temporal(column.type) else column
            for column in taken.columns
        ]
        found = pa.Table.from_arrays(plain, names=taken.column_names).to_pylist()
    return found
