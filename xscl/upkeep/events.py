"""Upkeep of the files of events: old events leave, and small files become large ones.

Only files of processed events are touched.  A file without an event that is kept goes as a whole; a file that
has lost half is written again; neighbours of one size become one file, in the order of documents' numbers, by tiers
as in a log-structured tree, so that an event is written a logarithmic number of times.

Events are out of sight before they are gone: readers of events, or of their matches, ask
``retained_from.keep_times``.  A file with events that row windows of live queries may count loses none of their
channel, so that the process that counts next finds them.  New files are written before a transaction names them, and
the old ones stay for a while (``retired_files``).
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import PUBLISHED, place_of
from xscl.base.failpoints import step
from xscl.base.sealed import CHECKED_PAGES, PAGE_CHECKSUMS, write_sealed
from xscl.base.types import now_micros
from xscl.catalog.counters import REMOVED_EVENTS, add_to_total, note_removed_docids
from xscl.catalog.events import add_event_files, add_row_ranges, ranges_of_files, remove_event_files, remove_ids_between
from xscl.catalog.intake_order import read_processed
from xscl.catalog.state_files import retire_files
from xscl.catalog.tables import INTAKE_FILES
from xscl.store.compaction import neighbours, tier_of
from xscl.store.event_files import new_event_file, write_event_file
from xscl.store.home import Home
from xscl.store.inventory import changed_elsewhere, removed_unless_named
from xscl.store.parquet import checked_dataset, read_columns

__all__ = ["EventFile", "EventUpkeep", "Kept", "runs_of"]

Numbers = npt.NDArray[np.int64]

FANOUT = 8
"""Files of one tier that are merged; a tier's files have at most that many times the rows of the one before."""
SMALL = 1_000
"""Events of the greatest file of the lowest tier."""
LARGE = 500_000
"""Events from which on files are not merged, so that what is read together fits into memory."""
LARGE_BYTES = 16 << 20
_IDS = 20_000
"""Ids that are removed in one transaction, so that the intake need not wait for long."""
_SPLITS = 8
"""A range of rows is not cut into more parts than that."""
_FACTS = b"xscl.registry.channels"


@dataclass(frozen=True, slots=True)
class EventFile:
    """A file of events as table ``intake_files`` has it."""

    path: str
    first: int
    last: int
    rows: int


@dataclass(frozen=True, slots=True)
class Kept:
    """Events that upkeep keeps."""

    since: Mapping[str, int]
    """Time from which on events are kept, by channel."""
    end: int = PUBLISHED
    """Place from which on all events that were taken in are kept."""
    counted: Mapping[str, int] = field(default_factory=dict)
    """An earlier one, from which on row windows of live queries count, by channel."""

    def times(self, file: EventFile) -> Mapping[str, int]:
        """Return the time from which on events of a file are kept, by channel; all are of a channel without one."""
        if file.first >= PUBLISHED:
            return self.since
        return {name: time for name, time in self.since.items() if file.last < self.counted.get(name, self.end)}


_Facts = Mapping[str, tuple[int, list[int]]]
"""Number of events of each channel, and some of their times in order, at equal distances, with both ends."""
_TIMES = 17


class EventUpkeep:
    """Looks after the files of events of a home; what it learns of files it remembers."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._facts: dict[str, _Facts] = {}
        self._sizes: dict[str, int] = {}
        self._patient: set[str] = set()
        """Files that were written anew with events that are gone, which wait until all of theirs are."""

    def files(self) -> list[EventFile]:
        """Return the files of processed events, in the order of documents' numbers."""
        with self._home.catalog.read() as connection:
            processed = read_processed(connection)
            done = sa.select(INTAKE_FILES).where(_is_done(processed)).order_by(INTAKE_FILES.c.first)
            rows = connection.execute(done).all()
        found = [EventFile(row.path, row.first, row.last, row.rows) for row in rows]
        there = {file.path for file in found}
        self._facts = {path: facts for path, facts in self._facts.items() if path in there}
        self._sizes = {path: size for path, size in self._sizes.items() if path in there}
        self._patient &= there
        return found

    def work(self, kept: Kept) -> Iterator[int]:
        """Replace files until none is left to replace; yield after each how many events are gone."""
        files = self.files()
        if kept.since:
            for file in files:
                gone = self._lost_events(file, kept)
                if gone == file.rows or (gone * 2 >= file.rows and file.path not in self._patient):
                    yield self._replace([file], kept)
        for inputs in self._merges(self.files()):
            yield self._replace(inputs, kept)

    def oldest_kept(self, kept: Kept) -> int:
        """Return a place before which no event is kept: that of a file with an event that is, or behind all processed.

        Events of a file that batches have not finished are kept, also the ones that they have processed.
        """
        with self._home.catalog.read() as connection:
            processed = read_processed(connection)
            unfinished = sa.select(sa.func.min(INTAKE_FILES.c.first)).where(~_is_done(processed))
            first: int | None = connection.scalar(unfinished)
        # Batches go on meanwhile, but a file that they finish has been looked at by one of the two.
        firsts = [file.first for file in self.files() if not kept.since or self._lost_events(file, kept) < file.rows]
        return min([processed + 1, *map(place_of, firsts), *([] if first is None else [first])])

    # -- what files hold ---------------------------------------------------------------------------------------

    def _lost_events(self, file: EventFile, kept: Kept) -> float:
        """Estimate how many events of a file are gone; the number is exact if none or all are."""
        gone, since = 0.0, kept.times(file)
        for channel, (rows, times) in self._facts_of(file).items():
            before = bisect_left(times, since[channel]) if channel in since else 0
            gone += rows if before == len(times) else min(rows - 1, rows * before / len(times))
        return gone

    def _facts_of(self, file: EventFile) -> _Facts:
        known = self._facts.get(file.path)
        if known is None:
            known = self._facts[file.path] = _read_facts(self._home, file.path)
        return known

    def _bytes(self, file: EventFile) -> int:
        if file.path not in self._sizes:
            self._sizes[file.path] = (self._home.root / file.path).stat().st_size
        return self._sizes[file.path]

    # -- merging -----------------------------------------------------------------------------------------------

    def _merges(self, files: Sequence[EventFile]) -> Iterator[list[EventFile]]:
        """Yield neighbours to be written as one; events that were taken in and published ones are no neighbours."""
        place = bisect_left(files, PUBLISHED, key=lambda file: file.first)
        for part in (files[:place], files[place:]):
            yield from neighbours(
                part, self._tier, lambda file: (file.rows, self._bytes(file)), (LARGE, LARGE_BYTES), FANOUT
            )

    def _tier(self, file: EventFile) -> int | None:
        """Return the tier of a file by its rows; None: it is large enough."""
        if file.rows >= LARGE or self._bytes(file) >= LARGE_BYTES:
            return None
        by_rows = tier_of(file.rows, SMALL, FANOUT)
        size = self._bytes(file) * LARGE // LARGE_BYTES
        return max(by_rows, tier_of(size, SMALL, FANOUT))

    # -- writing anew ------------------------------------------------------------------------------------------

    def _replace(self, inputs: Sequence[EventFile], kept: Kept) -> int:
        """Write the events of some files that are kept into one; how many were not."""
        home = self._home
        with home.catalog.read() as connection:
            ranges = list(ranges_of_files(connection, [file.path for file in inputs]))
        paths = home.paths([file.path for file in inputs])
        told = _read(paths, ["docid", "channel", "ts", "id"]).sort_by("docid")
        docids = told.column("docid").to_numpy()
        # Of neighbours, the last one has the newest events.
        stays = _kept_mask(told, kept.times(inputs[-1]))
        count = int(stays.sum())
        spans = [span for row in ranges for span in _remaining_ranges(row, told, docids, stays)]
        removed = docids[~stays]
        path: str | None = None
        with removed_unless_named(home, INTAKE_FILES.c.path) as written:
            if stays.any():
                path = f"events/{self._write(paths, docids[stays] if len(removed) else None, inputs).name}"
                written.append(path)
            step("upkeep.events")
            self._forget_ids(removed)
            with home.catalog.begin() as connection:
                _take_out(connection, inputs)
                if path is not None:
                    ends = {"first": int(docids[stays][0]), "last": int(docids[stays][-1])}
                    add_event_files(connection, [{"path": path, "rows": int(stays.sum()), **ends}])
                    add_row_ranges(connection, [{**span, "path": path} for span in spans])
                # Only from now on nobody begins to read them, however long it took to write the new one.
                retire_files(connection, [file.path for file in inputs], now_micros())
                add_to_total(connection, REMOVED_EVENTS, len(removed))
            step("upkeep.swapped")
        if path is not None and int(stays.sum()) > count:
            self._patient.add(path)
        return len(removed)

    def _write(self, paths: Sequence[str], only: Numbers | None, inputs: Sequence[EventFile]) -> Path:
        """Write events with these numbers, or all, as one file, with what is to be known of it in its footer."""
        target = new_event_file(self._home.folder("events"), inputs[0].first)
        if len(inputs) == 1 and self._tier(inputs[0]) is None:
            source = checked_dataset(paths, EVENT_SCHEMA)
            return write_sealed(target, lambda path: _write_parts(path, source, only))
        table = _read(paths, EVENT_SCHEMA.names)
        if only is not None:
            table = table.filter(pc.is_in(table.column("docid"), pa.array(only)))
        if (np.diff(table.column("docid").to_numpy()) < 0).any():
            table = table.sort_by("docid")
        facts = json.dumps(_facts_of_rows(table), ensure_ascii=False).encode()
        return write_event_file(target, table.replace_schema_metadata({_FACTS: facts}), merged=True)

    def _forget_ids(self, docids: Numbers) -> None:
        """Remove the ids of events that go, some in each transaction: they are out of sight already."""
        for start in range(0, len(docids), _IDS):
            part = docids[start : start + _IDS]
            with self._home.catalog.begin() as connection:
                note_removed_docids(connection, part)
                for first, last in runs_of(part):
                    remove_ids_between(connection, first, last)
            step("upkeep.ids")


def _is_done(processed: int) -> sa.ColumnElement[bool]:
    """Return the condition on files whose events all are processed, the last place that is being given."""
    return (INTAKE_FILES.c.last <= processed) | (INTAKE_FILES.c.first >= PUBLISHED)


def _read(paths: Iterable[str], columns: Sequence[str]) -> pa.Table:
    return pa.concat_tables(read_columns(path, EVENT_SCHEMA, columns) for path in paths)


def runs_of(docids: Numbers) -> Iterator[tuple[int, int]]:
    """Yield (first, last) of the numbers that follow each other, ``docids`` growing.

    >>> list(runs_of(np.array([1, 2, 3, 7, 9, 10])))
    [(1, 3), (7, 7), (9, 10)]
    """
    if len(docids):
        ends = np.flatnonzero(np.diff(docids) != 1)
        starts = np.concatenate([[0], ends + 1])
        yield from zip(docids[starts].tolist(), docids[np.concatenate([ends, [len(docids) - 1]])].tolist(), strict=True)


def _kept_mask(told: pa.Table, kept: Mapping[str, int]) -> npt.NDArray[np.bool_]:
    """Tell which events are kept."""
    ts = told.column("ts").to_numpy()
    stays = np.ones(len(ts), np.bool_)
    channels = told.column("channel").combine_chunks().dictionary_encode()
    codes = channels.indices.to_numpy(zero_copy_only=False)
    for code, channel in enumerate(channels.dictionary.to_pylist()):
        if channel in kept:
            stays &= (codes != code) | (ts >= kept[channel])
    return stays


def _take_out(connection: Connection, inputs: Sequence[EventFile]) -> None:
    """Remove the rows of files, as they are known here."""
    rows = remove_event_files(connection, [file.path for file in inputs])
    for file in inputs:
        if rows.get(file.path) != file.rows:
            raise changed_elsewhere(file.path)


def _remaining_ranges(
    row: sa.Row[tuple[object, ...]], told: pa.Table, docids: Numbers, stays: npt.NDArray[np.bool_]
) -> list[dict[str, object]]:
    """Return the parts of a range that remain; events between kept ones stay where the parts would be many."""
    begin, end = np.searchsorted(docids, row.docid), np.searchsorted(docids, row.last_docid, side="right")
    found = np.flatnonzero(stays[begin:end]) + begin
    if not len(found):
        return []
    parts = list(runs_of(docids[found]))
    if len(parts) > _SPLITS:
        stays[found[0] : found[-1] + 1] = True
        parts = [(int(docids[found[0]]), int(docids[found[-1]]))]
    ids = told.column("id")
    made = []
    for first, last in parts:
        numbers = [int(ids[int(np.searchsorted(docids, docid))].as_py()[len(row.prefix) :]) for docid in (first, last)]
        ends = {"docid": first, "last_docid": last, "first": numbers[0], "last": numbers[1]}
        made.append({"channel": row.channel, "prefix": row.prefix, **ends})
    return made


def _facts_of_rows(table: pa.Table) -> dict[str, tuple[int, list[int]]]:
    facts = {}
    for channel in pc.unique(table.column("channel")).to_pylist():
        mine = table.column("ts").filter(pc.equal(table.column("channel"), channel))
        times = np.sort(mine.to_numpy())
        facts[channel] = len(times), times[np.linspace(0, len(times) - 1, _TIMES).astype(np.int64)].tolist()
    return facts


def _read_facts(home: Home, path: str) -> _Facts:
    with pq.ParquetFile(home.paths([path])[0], **CHECKED_PAGES) as source:
        written = (source.schema_arrow.metadata or {}).get(_FACTS)
        if written is not None:
            return {channel: (rows, times) for channel, (rows, times) in json.loads(written).items()}
        return _facts_of_rows(source.read(columns=["channel", "ts"]))


def _write_parts(target: Path, source: ds.Dataset, only: Numbers | None) -> None:
    """Write a file that is too large for memory, some row groups at a time; its events are in order already."""
    wanted = None if only is None else pa.array(only)
    with pq.ParquetWriter(target, EVENT_SCHEMA, compression="zstd", **PAGE_CHECKSUMS) as writer:
        for batch in source.to_batches(batch_size=10_000):
            part = batch if wanted is None else batch.filter(pc.is_in(batch.column("docid"), wanted))
            if part.num_rows:
                writer.write_batch(part.cast(EVENT_SCHEMA) if part.schema != EVENT_SCHEMA else part)
