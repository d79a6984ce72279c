"""The join state of a home: the Parquet files of witness rows and rows of links that later events may still join.

A batch adds its rows.  After it, ``next_state`` works out what is still of use (``templates.retention``), drops
files without any such row and merges small ones; ``commit_state`` names the outcome in the batch's transaction.  Rows
that are of use no more are out of sight at once, because whoever reads applies the floors of the last commit
(``HeldState``), and leave the disk when their file is dropped or rewritten.

Files that went out of use are unlinked by upkeep, when nobody reads them any more.  A file that no row of
``state_files`` names means nothing, so a process may end anywhere.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.arrow_schemas import MEMBER
from xscl.base.failpoints import step
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, seal, write_sealed
from xscl.catalog.clocks import Clocks
from xscl.catalog.tables import CHANNELS, STATE_FILES
from xscl.store.event_files import EVENT_SCHEMA
from xscl.store.home import Home
from xscl.store.retired_files import put_out_of_use
from xscl.store.tiers import tier_of
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.retention import EVER, Floors, floors
from xscl.xpath.witness import WITNESS_SCHEMA

__all__ = [
    "LINK_SCHEMA",
    "HeldState",
    "Kind",
    "StateChange",
    "StateFile",
    "commit_state",
    "discard_change",
    "facts_of_file",
    "held_state",
    "link_rows",
    "newest_times",
    "next_state",
    "same_state",
    "write_links",
    "write_rows",
]

LINK_SCHEMA = pa.schema(
    [
        ("link", pa.int64()),
        ("ts1", pa.int64()),  # event time of the left member
        ("ts2", pa.int64()),
        ("members", pa.list_(MEMBER)),
        ("nodes", pa.list_(pa.int32())),
    ]
)
"""Rows of links as they are kept."""

Kind = Literal["witness", "link"]
_SCHEMAS: Mapping[str, pa.Schema] = {"witness": WITNESS_SCHEMA, "link": LINK_SCHEMA}
Numbers = npt.NDArray[np.int64]
_TIMES: Mapping[str, tuple[str, ...]] = {"witness": ("ts",), "link": ("ts1", "ts2")}
_KEYS: Mapping[str, str] = {"witness": "var", "link": "link"}

_FANOUT = 8
"""Files of one tier that are merged; a tier's files have at most that many times the rows of the one before."""
_SMALL = 10_000
"""Rows of the greatest file of the lowest tier."""
_LARGE = 8_000_000
"""Rows from which on files are not merged."""
_SORTED = 500_000
"""Rows that are sorted together, in memory; more are copied file by file in the order of their times."""
_PARTS_OF_REACH = 4
"""Files are not merged to span more than this part of the time that rows are kept, so that whole files go."""
_ROW_GROUP = 64_000


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file of rows, as table ``state_files`` has it; ``path`` is relative to the home."""

    path: str
    kind: str
    batch: int
    rows: int
    held: int
    bytes: int
    ts_min: int | None
    ts_max: int | None
    docid_min: int | None
    docid_max: int | None

    def row(self) -> dict[str, object]:
        """Its row of ``state_files``."""
        return {name: getattr(self, name) for name in StateFile.__slots__}


@dataclass(frozen=True)
class HeldState:
    """The join state as the last commit left it."""

    root: Path
    files: tuple[StateFile, ...]
    reach: pa.Table | None
    """How long rows are kept (``REACH_SCHEMA``); None: not known yet, and all are kept."""
    reach_path: str | None
    watermarks: Mapping[str, int | None]

    def paths(self, kind: Kind, *, oldest: int | None = None) -> list[str]:
        """The files with rows to join, by their times; with ``oldest`` only those with rows of that time or later."""
        return [
            str(check_file(self.root / file.path))
            for file in sorted(self.files, key=_times)
            if file.kind == kind and file.held and (oldest is None or file.ts_max is None or file.ts_max >= oldest)
        ]

    @cached_property
    def floors(self) -> Floors | None:
        """What applies to the rows of these files; None: all are kept."""
        return None if self.reach is None else floors(self.reach, self.watermarks)

    @property
    def rows(self) -> int:
        """Rows held."""
        return sum(file.held for file in self.files)

    @property
    def size(self) -> int:
        """Bytes of the files that hold them."""
        return sum(file.bytes for file in self.files if file.held)


@dataclass(frozen=True)
class StateChange:
    """What a batch makes of the join state, for ``commit_state``."""

    after: HeldState
    processed: Mapping[str, int]
    """By channel with newer events than before, the greatest event time of processed events."""
    published: Mapping[str, int]
    """By channel, the greatest event time of what the batch published to it."""
    watermarks: Mapping[str, int | None]
    """Of channels where it has changed."""
    added: tuple[StateFile, ...]
    counted: tuple[StateFile, ...]
    """Files that stay with fewer rows held."""
    replaced: tuple[str, ...]
    written: tuple[str, ...]
    """What was written for this change, beside the files of the batch."""
    purged: int
    """Rows that are held no more; rows that never were do not count."""


def held_state(home: Home, connection: Connection) -> HeldState:
    """The join state as the last commit left it."""
    statement = sa.select(STATE_FILES).order_by(STATE_FILES.c.batch)
    names = StateFile.__slots__
    rows = [StateFile(**{name: row[name] for name in names}) for row in connection.execute(statement).mappings()]
    reach_path = next((file.path for file in rows if file.kind == "reach"), None)
    return HeldState(
        root=home.root,
        files=tuple(file for file in rows if file.kind != "reach"),
        reach=None if reach_path is None else _read_reach(home.root / reach_path),
        reach_path=reach_path,
        watermarks={row.name: row.watermark for row in connection.execute(sa.select(CHANNELS))},
    )


@lru_cache(maxsize=4)
def _read_reach(path: Path) -> pa.Table:
    return pq.read_table(check_file(path))


def newest_times(paths: Sequence[str], first: int, last: int) -> dict[str, int]:
    """The greatest event time of each channel among the events of a range, in microseconds."""
    if not paths:
        return {}
    import pyarrow.dataset as ds  # brings pandas, which 'xscl stats' does without

    wanted = (ds.field("docid") >= first) & (ds.field("docid") <= last)
    events = ds.dataset(list(paths), schema=EVENT_SCHEMA).to_table(columns=["channel", "ts"], filter=wanted)
    newest = events.group_by("channel").aggregate([("ts", "max")]).to_pydict()
    return dict(zip(newest["channel"], newest["ts_max"], strict=True))


def facts_of_file(root: Path, path: str, kind: str, batch: int) -> StateFile:
    """What the file itself says, from its footer; none of its rows are said to be held."""
    full = root / path
    meta = pq.read_metadata(full)
    times = [_column_span(meta, name) for name in _TIMES.get(kind, ())]
    spans = [span for span in times if span is not None]
    docids = _column_span(meta, "docid") if kind == "witness" else None
    return StateFile(
        path=path,
        kind=kind,
        batch=batch,
        rows=meta.num_rows,
        held=0,
        bytes=full.stat().st_size,
        ts_min=min((span[0] for span in spans), default=None),
        ts_max=max((span[1] for span in spans), default=None),
        docid_min=None if docids is None else docids[0],
        docid_max=None if docids is None else docids[1],
    )


def _column_span(meta: pq.FileMetaData, column: str) -> tuple[int, int] | None:
    """The least and the greatest value of a column; None without rows."""
    place = meta.schema.to_arrow_schema().names.index(column)  # flat columns come before nested ones
    groups = [meta.row_group(number) for number in range(meta.num_row_groups)]
    found = [group.column(place).statistics for group in groups if group.num_rows]
    return (min(s.min for s in found), max(s.max for s in found)) if found else None


def write_links(home: Home, name: str, rows: Iterable[pa.RecordBatch]) -> str | None:
    """Write rows of links (link, members, nodes) as state; the path, None if there are none."""
    kept = (part for batch in rows for part in link_rows(pa.Table.from_batches([batch])).to_batches())
    file = write_rows(home.root / f"witness/{name}-links.parquet", LINK_SCHEMA, kept)
    return None if file is None else f"witness/{file.name}"


def link_rows(rows: pa.Table) -> pa.Table:
    """Rows of links (link, members, nodes) in ``LINK_SCHEMA``."""
    members = rows.column("members").combine_chunks()
    times = [pc.struct_field(pc.list_element(members, side), "ts") for side in (0, 1)]
    columns = [rows.column("link"), *times, members, rows.column("nodes")]
    return pa.table(dict(zip(LINK_SCHEMA.names, columns, strict=True))).cast(LINK_SCHEMA)


# -- after a batch -------------------------------------------------------------------------------------------------


def next_state(
    home: Home,
    before: HeldState,
    *,
    batch: int,
    last: int,
    reach: pa.Table,
    newest: Mapping[str, int],
    fresh: Iterable[tuple[Kind, str]],
    rows: Mapping[str, pa.Table] = MappingProxyType({}),
    published: Mapping[str, int] = MappingProxyType({}),
) -> StateChange:
    """The state after a batch that ends at the place ``last``; writes files, and names none.

    Args:
        home: the home.
        before: the state that the batch has joined with.
        batch: the batch's number.
        last: the last place of the batch.
        reach: how long rows are kept (``ReachBuilder``); rows of keys it does not name are not.
        newest: the greatest event time of each channel among the events of the batch.
        fresh: (kind, path in the home) of the batch's own files, or folders of files.
        rows: the batch's other witness rows, by the path that the file of those that are kept may have, without suffix.
        published: the greatest event time of what was published to each channel.  It moves no clock, because it makes
            nothing late that is taken in; but whatever is published there later is late by it.
    """
    with home.catalog.read() as connection:
        clocks, moved, watermarks = _watermarks(home, connection, last, newest, published)
    rule = _Rule(home.root, before.floors, floors(reach, watermarks))
    written: list[str] = []
    try:
        for path, table in rows.items():
            kept = table.filter(pa.array(rule.now.keep(table.column("var").to_numpy(), table.column("ts").to_numpy())))
            step("state.write")
            made = write_rows(home.root / f"{path}.parquet", WITNESS_SCHEMA, _on_time(kept).to_batches())
            if made is not None:
                written.append(str(made.relative_to(home.root)))
                step("state.wrote")
        own_files = [
            *(("witness", path) for path in written),
            *((k, n) for k, path in fresh for n in _files(home, path)),
        ]
        own = [facts_of_file(home.root, name, kind, batch) for kind, name in own_files]
        fresh_paths = {file.path for file in own}
        known: list[StateFile] = []
        lowered: list[StateFile] = []
        for file in (*before.files, *own):
            counted, lower = rule.counted(file, fresh=file.path in fresh_paths)
            (lowered if lower and counted.held else known).append(counted)
        span = _span(rule.now, clocks.greatest)
        plan = [*([file] for file in lowered), *_merges(known, span)]
        merged: list[StateFile] = []
        for inputs in plan:
            step("state.merge")
            written.append(_merged(home, inputs, batch, rule, fresh_paths))
            facts = facts_of_file(home.root, written[-1], _kind(inputs[0]), batch)
            merged.append(replace(facts, held=facts.rows))
            step("state.merged")
        reach_file = None
        if not reach.equals(before.reach):
            written.append(_write_reach(home, batch, reach))
            step("state.reach")
            reach_file = facts_of_file(home.root, written[-1], "reach", batch)
    except BaseException:
        _unlink(home, written)
        raise
    gone = {file.path for inputs in plan for file in inputs} | {file.path for file in known if not file.held}
    files = [file for file in (*known, *merged) if file.path not in gone]
    held = {file.path: file.held for file in before.files}
    # The batch's own files are named even where they are of no use any more, so that they are unlinked in time.
    added = [*(file for file in known if file.path in fresh_paths), *merged]
    replaced = sorted(gone)
    if reach_file is not None and before.reach_path is not None:
        replaced.append(before.reach_path)
    return StateChange(
        after=HeldState(
            home.root, tuple(files), reach, before.reach_path if reach_file is None else reach_file.path, watermarks
        ),
        processed={channel: clocks.newest[channel] for channel in moved},
        published=published,
        watermarks={name: mark for name, mark in watermarks.items() if mark != before.watermarks.get(name)},
        added=tuple(added if reach_file is None else (*added, reach_file)),
        counted=tuple(file for file in files if file.held != held.get(file.path, file.held)),
        replaced=tuple(replaced),
        written=tuple(written),
        purged=sum(held.values()) - sum(file.held for file in (*known, *lowered) if file.path in held),
    )


def _files(home: Home, path: str) -> list[str]:
    """Return a file, or the Parquet files of a folder, which get the names that they keep."""
    full = home.root / path
    if not full.is_dir():
        return [path]
    return [str(seal(file).relative_to(home.root)) for file in sorted(full.rglob("*.parquet"))]


def _write_reach(home: Home, batch: int, reach: pa.Table) -> str:
    def write(path: Path) -> None:
        pq.write_table(reach, path, **PAGE_CHECKSUMS)

    return f"witness/{write_sealed(_new_file(home, batch, 'reach'), write).name}"


def _new_file(home: Home, batch: int, kind: str) -> Path:
    return home.folder("witness") / f"{batch:08d}-{uuid.uuid4().hex[:8]}-{kind}.parquet"


def same_state(state: HeldState) -> StateChange:
    """Of a range of the intake order without an event, which changes nothing."""
    return StateChange(state, {}, {}, {}, (), (), (), (), 0)


def commit_state(connection: Connection, change: StateChange, now: int) -> None:
    """Name the state after a batch, in its transaction; ``now`` is in microseconds since the epoch."""
    # Some of the batch's own files are of no use any more.
    added = [file.row() for file in change.added if file.path not in change.replaced]
    if added:
        connection.execute(STATE_FILES.insert(), added)
    counted = [{"b_path": file.path, "held": file.held} for file in change.counted]
    _each(connection, STATE_FILES.update(), counted)
    _each(connection, STATE_FILES.delete(), [{"b_path": path} for path in change.replaced])
    put_out_of_use(connection, change.replaced, now)
    for channel, greatest in change.processed.items():
        connection.execute(CHANNELS.update().where(CHANNELS.c.name == channel).values(processed=greatest))
    for channel, greatest in change.published.items():
        known = sa.func.coalesce(CHANNELS.c.published, greatest)
        later = sa.case((known > greatest, known), else_=greatest)
        connection.execute(CHANNELS.update().where(CHANNELS.c.name == channel).values(published=later))
    for channel, watermark in change.watermarks.items():
        connection.execute(CHANNELS.update().where(CHANNELS.c.name == channel).values(watermark=watermark))


def _each(connection: Connection, statement: sa.Update | sa.Delete, rows: list[dict[str, object]]) -> None:
    if rows:
        connection.execute(statement.where(STATE_FILES.c.path == sa.bindparam("b_path")), rows)


def discard_change(home: Home, change: StateChange) -> None:
    """Unlink what was written for a change that is not committed."""
    _unlink(home, change.written)


def _unlink(home: Home, paths: Iterable[str]) -> None:
    for path in paths:
        (home.root / path).unlink(missing_ok=True)


def _watermarks(
    home: Home, connection: Connection, last: int, newest: Mapping[str, int], published: Mapping[str, int]
) -> tuple[Clocks, set[str], dict[str, int | None]]:
    """The clocks of what is processed up to the place ``last``, the channels that move, each channel's watermark."""
    rows = {row.name: row for row in connection.execute(sa.select(CHANNELS))}
    channels = home.catalog.channels(connection)
    clocks = Clocks(channels.values(), {name: row.processed for name, row in rows.items()})
    moved = {name for name in newest.keys() & rows.keys() if newest[name] > clocks.newest.get(name, EVER)}
    for name in moved:
        clocks.see(channels[name], newest[name])
    watermarks: dict[str, int | None] = {}
    for name, row in rows.items():
        times = (clocks.shown(channels[name]), row.published, published.get(name))
        known = [time for time in times if time is not None]
        # Events that are not processed yet may have been judged by what a channel's lateness was before.
        settled = row.lateness is not None and last >= row.settled
        watermarks[name] = max(known) - row.lateness if settled and known else None
    return clocks, moved, watermarks


@dataclass(frozen=True, slots=True)
class _RowGroup:
    """What a row group of a file has of each key, late rows not counted: rows, least and greatest event times."""

    keys: Numbers
    rows: Numbers
    least: tuple[Numbers, ...]
    greatest: tuple[Numbers, ...]


@lru_cache(maxsize=1024)
def _row_groups(path: Path, kind: Kind) -> tuple[_RowGroup, ...]:
    with pq.ParquetFile(check_file(path)) as source:
        return tuple(_row_group(_columns(source, kind, number)) for number in range(source.num_row_groups))


def _columns(source: pq.ParquetFile, kind: Kind, number: int) -> tuple[Numbers, ...]:
    """Key and event times of the rows of a row group, without late ones."""
    names = [_KEYS[kind], *_TIMES[kind]]
    if kind == "link":
        table = source.read_row_group(number, columns=names)
    else:
        table = _on_time(source.read_row_group(number, columns=[*names, "late"]))
    return tuple(table.column(name).to_numpy() for name in names)


def _on_time(rows: pa.Table) -> pa.Table:
    return rows.filter(pc.invert(rows.column("late")))


def _row_group(columns: tuple[Numbers, ...]) -> _RowGroup:
    keys, *times = columns
    order = np.argsort(keys, kind="stable")
    distinct, starts, counts = np.unique(keys[order], return_index=True, return_counts=True)
    if not len(distinct):
        return _RowGroup(distinct, counts, tuple(times), tuple(times))
    least = tuple(np.minimum.reduceat(ts[order], starts) for ts in times)
    return _RowGroup(distinct, counts, least, tuple(np.maximum.reduceat(ts[order], starts) for ts in times))


@dataclass(frozen=True, slots=True)
class _Rule:
    """What is kept: rows that were kept before and are kept now, so that what went out of sight stays so."""

    root: Path
    before: Floors | None
    now: Floors

    def counted(self, file: StateFile, *, fresh: bool) -> tuple[StateFile, bool]:
        """The file with its rows held, and whether floors that are lower than before would bring some back."""
        path, kind = self.root / file.path, _kind(file)
        before = None if fresh else self.before
        held, lower = 0, False
        for number, group in enumerate(_row_groups(path, kind)):
            some, every = (_keep(self.now, kind, group.keys, *times) for times in (group.greatest, group.least))
            if before is not None:
                every &= _keep(before, kind, group.keys, *group.least)
            if (every == some).all():
                held += int(group.rows[every].sum())
                continue
            # Some keys' rows are kept in part: only these are looked at one by one.
            with pq.ParquetFile(check_file(path)) as source:
                columns = _columns(source, kind, number)
            now = _keep(self.now, kind, *columns)
            earlier = now if before is None else now & _keep(before, kind, *columns)
            held += int(earlier.sum())
            lower |= bool((earlier != now).any())
        return replace(file, held=held), lower

    def rows(self, file: StateFile, *, fresh: bool) -> Iterator[pa.RecordBatch]:
        """The rows of a file that are kept, some at a time."""
        kind = _kind(file)
        with pq.ParquetFile(check_file(self.root / file.path)) as source:
            for batch in source.iter_batches(_ROW_GROUP, columns=_SCHEMAS[kind].names):
                columns = [batch.column(name).to_numpy() for name in (_KEYS[kind], *_TIMES[kind])]
                kept = _keep(self.now, kind, *columns)
                if self.before is not None and not fresh:
                    kept &= _keep(self.before, kind, *columns)
                if kind == "witness":
                    kept &= ~batch.column("late").to_numpy(zero_copy_only=False)
                if kept.any():
                    yield batch.filter(pa.array(kept))


def _kind(file: StateFile) -> Kind:
    return "link" if file.kind == "link" else "witness"


def _keep(rule: Floors, kind: Kind, keys: Numbers, *times: Numbers) -> npt.NDArray[np.bool_]:
    return rule.keep(keys, *times) if kind == "witness" else rule.keep_links(keys, *times)


# -- compaction ----------------------------------------------------------------------------------------------------


def _merges(files: Sequence[StateFile], span: int | None) -> Iterator[list[StateFile]]:
    """Files to be written as one: neighbours in time of one tier, and those of which most rows are held no more.

    Merged files span at most ``span`` microseconds, if told.
    """
    tiers: dict[tuple[str, int], list[StateFile]] = {}
    for file in files:
        if file.held * 2 < file.rows and file.rows > _SMALL and file.held:
            yield [file]
        elif 0 < file.held < _LARGE:
            tiers.setdefault((file.kind, tier_of(file.held, _SMALL, _FANOUT)), []).append(file)
    for found in tiers.values():
        if len(found) >= _FANOUT:
            run = _longest_run(sorted(found, key=_times), span)
            if len(run) > 1:
                yield run


def _times(file: StateFile) -> tuple[int, int]:
    return file.ts_min or 0, file.ts_max or 0


def _longest_run(files: Sequence[StateFile], span: int | None) -> list[StateFile]:
    """The most neighbours that span no more than that, the oldest first."""
    best: list[StateFile] = []
    for start in range(len(files)):
        first, last = _times(files[start])
        run = [files[start]]
        for file in files[start + 1 :]:
            last = max(last, _times(file)[1])
            if span is not None and last - first > span:
                break
            run.append(file)
        best = max(best, run, key=len)
    return best


def _span(floors_now: Floors, newest: int | None) -> int | None:
    """How long a merged file's times may be apart: a part of how long rows are kept; None where some are for ever."""
    ends = np.concatenate([floors_now.least, floors_now.left, floors_now.right])
    if newest is None or not len(ends) or (least := int(ends.min())) < -UNBOUNDED // 2:
        return None
    return max(0, newest - least) // _PARTS_OF_REACH


def _merged(home: Home, inputs: Sequence[StateFile], batch: int, rule: _Rule, fresh: Collection[str]) -> str:
    """Write the kept rows of some files into one, sorted by time, or file by file where they are many; its path."""
    kind = _kind(inputs[0])
    rows = (rows for file in sorted(inputs, key=_times) for rows in rule.rows(file, fresh=file.path in fresh))
    schema = _SCHEMAS[kind]
    if sum(file.held for file in inputs) <= _SORTED:
        table = pa.Table.from_batches(rows, schema)
        rows = iter(table.sort_by(_TIMES[kind][0]).to_batches())
    file = write_rows(_new_file(home, batch, kind), schema, rows)
    assert file is not None
    return f"witness/{file.name}"


def write_rows(path: Path, schema: pa.Schema, rows: Iterable[pa.RecordBatch]) -> Path | None:
    """Write a file, whose name is ``path`` with a digest; None if there is no row at all."""
    batches = iter(rows)
    first = next(batches, None)
    if first is None:
        return None

    def write(target: Path) -> None:
        with pq.ParquetWriter(target, schema, compression="zstd", **PAGE_CHECKSUMS) as writer:
            for batch in itertools.chain([first], batches):
                writer.write_batch(batch, row_group_size=_ROW_GROUP)

    return write_sealed(path, write)
