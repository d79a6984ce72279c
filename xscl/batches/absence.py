"""Absence in a batch: wanted matches, less forbidden ones, as far as it is certain.

Queries about absence are made of queries that are joined as all others (``language.absence``).  Behind the joins of a
batch, matches of what is wanted become pending rows, and matches of what is forbidden kill some of them.  Rows whose
time has passed are answered: those that live become matches of the query about absence, in the results of this batch.
A row of a query that answers before it is certain stays, and a document that forbids it later takes the match back
(``absence_changes``).  Rows that are left go into one file of the state, named in the batch's transaction; answered
ones that nothing makes final go into files beside it (``answered``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.docids import place_of
from xscl.base.failpoints import step
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.base.types import LAST_TIME
from xscl.batches.absence_changes import Changes, Readers, changes_of, retraction_rows
from xscl.batches.answered import Runs
from xscl.batches.attempt import Attempt
from xscl.batches.bindings import Bindings, bindings, keys_of, kills_of, remembered, unasked_matches
from xscl.batches.edited import edited_matches
from xscl.batches.replayed import replayed_matches
from xscl.batches.settled import settled_times
from xscl.batches.too_late import count_too_late
from xscl.catalog.groups import read_parts
from xscl.catalog.queries import add_late_for, asked_groups
from xscl.catalog.retractions import add_retractions
from xscl.catalog.state_files import add_state_files, remove_state_files, retire_files
from xscl.catalog.tables import NOTHING_FORBIDDEN, OF_WINDOWS
from xscl.language.absence import LATEST, cut_offset
from xscl.spark.places import HERE, OnSpark, Place, slots_of
from xscl.store.event_files import events_of
from xscl.store.parquet import data_files
from xscl.store.results import NO_DOC, Results
from xscl.store.state_files import StateFile, facts_of_file
from xscl.templates.absence import (
    KILL_SCHEMA,
    PENDING_SCHEMA,
    Frontiers,
    Round,
    parted,
    subtracted,
)
from xscl.templates.columns import Bools
from xscl.templates.results import ResultColumns, origin_of

__all__ = ["Absences", "commit_absences", "decide_absences"]

_LEVEL = 255
"""Level of the origin of its classes, behind all levels that publish."""
_ROW_SECONDS = 2e-6
"""Processor time for a pending row."""
_TIMES = "docid", "ts", "late", "behind"
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Absences:
    """Outcome of a batch for queries about absence."""

    before: str | None
    """File of pending rows before the batch."""
    after: StateFile | None
    """File of those that are left."""
    runs_before: tuple[StateFile, ...] = ()
    """Files of answers that nothing makes final, before the batch."""
    runs: tuple[StateFile, ...] = ()
    """Files of such answers behind it."""
    counts: Counter[str] = field(default_factory=Counter)
    """Rows of its results; matches that only parts have are taken off."""
    retractions: tuple[dict[str, Any], ...] = ()
    """Rows of table ``retractions``."""
    late_for: Mapping[int, int] = field(default_factory=dict)
    """Events that came too late for the memory of queries, by their numbers."""
    too_late: int = 0
    """Number of all these events."""
    on_spark: bool = False

    @property
    def gone(self) -> list[str]:
        """Files that hold no rows any more."""
        before = [*([] if self.before is None else [self.before]), *(file.path for file in self.runs_before)]
        left = {file.path for file in (self.after, *self.runs) if file is not None}
        return [path for path in before if path not in left]

    @property
    def come(self) -> list[StateFile]:
        """Files that hold rows since the batch."""
        before = {self.before, *(file.path for file in self.runs_before)}
        return [file for file in (self.after, *self.runs) if file is not None and file.path not in before]


def decide_absences(batch: Attempt) -> Absences:
    """Take what the levels of a batch have found, decide what can be decided, and write both; nothing is named."""
    span, before = batch.span, batch.span.pending
    if not span.absences:
        return Absences(before, None, span.answered)
    out = ResultColumns(origin_of(span.batch, _LEVEL), batch.home.root / batch.results / "absence")
    folder = batch.home.root / batch.results
    files = data_files(folder) if folder.exists() else []
    results = Results(files)
    with batch.home.catalog.read() as connection:
        parts = read_parts(connection, np.unique(results.class_groups()[2]).tolist()) if files else []
    edited = edited_matches(batch, results, out)
    work, changed = _round(batch, results, parts)
    runs = Runs(batch.home.root, span.answered)
    frontiers = _frontiers(batch, {*_waits(work.pending), *runs.waits})
    if any(not frontiers[text].is_open for text in runs.waits):
        # Something settles the times of their channels now, so they are as all others.
        work, runs, changed = (
            Round(pa.concat_tables([work.pending, runs.rows()]), work.kills),
            Runs(runs.root, ()),
            True,
        )
    old = runs.of(work.kills.column("members").combine_chunks())
    work = Round(pa.concat_tables([work.pending, old]), work.kills)
    found, after, on_spark = Changes(), None, False
    if work.pending.num_rows:
        found, left, on_spark = _decided(batch, work, frontiers)
        same = not changed and not found.touched and left.num_rows == work.pending.num_rows
        stays = _stays(left, frontiers)
        after = _known(before, batch) if same else _written(batch, left.filter(pc.invert(stays)))
        if not same:
            runs = runs.after(left.filter(stays), old, _path(batch, "answered"), span.batch, partial(_may_see, batch))
    found.write(out)
    out.write()
    step("batch.decided")
    tables = () if batch.publisher is None else batch.publisher.tables
    replayed = replayed_matches(batch.home, span, files, work) if span.replayed else []
    rows = retraction_rows(batch.home, span, [*found.retracted, *edited, *replayed], tables)
    counts = Counter(match=-_unasked(batch, results, parts))
    counts.update(out.counts)
    return Absences(before, after, span.answered, runs.files, counts, tuple(rows), *count_too_late(batch), on_spark)


def _decided(batch: Attempt, work: Round, frontiers: Mapping[str, Frontiers]) -> tuple[Changes, pa.Table, bool]:
    """Return what changes, the rows that are left, and whether tasks of Spark told."""
    span, readers = batch.span, _readers(batch, work.pending)
    place: Place = HERE
    if batch.driver.prefers_spark(work.pending.num_rows * _ROW_SECONDS):
        place = OnSpark(batch.jobs.session, slots_of(batch.jobs.session()))
    step("batch.absence")
    done = place.map(partial(subtracted, frontiers, span.first, span.last), parted(work, place.slots))
    found = Changes()
    for part in done:
        found.add(changes_of(part, readers, span.first))
    left = pa.concat_tables([part.left for part in done])
    return found, left.filter(pa.array(readers.may_see(left))), place is not HERE


def _readers(batch: Attempt, rows: pa.Table) -> Readers:
    """Return the queries that may see some rows, one at least."""
    groups = np.unique(rows.column("gid").to_numpy()).tolist()
    oldest = int(rows.column("came").to_numpy().min())
    with batch.home.catalog.read() as connection:
        return Readers(connection, groups, oldest, batch.span.last)


def _may_see(batch: Attempt, rows: pa.Table) -> Bools:
    return _readers(batch, rows).may_see(rows) if rows.num_rows else np.zeros(0, dtype=np.bool_)


def _stays(rows: pa.Table, frontiers: Mapping[str, Frontiers]) -> pa.Array:
    """Tell which rows are answered, and wait for what may never come."""
    opened = pa.array([text for text, each in frontiers.items() if each.is_open], pa.string())
    answered = pc.greater_equal(rows.column("answered"), 0)
    return pc.and_(answered, pc.is_in(rows.column("waits"), opened))


def _waits(rows: pa.Table) -> list[str]:
    found: list[str] = pc.unique(rows.column("waits")).to_pylist()
    return found


def _frontiers(batch: Attempt, texts: Collection[str]) -> dict[str, Frontiers]:
    """Return where rows are answered and final, by what they wait for."""
    published = () if batch.publisher is None else batch.publisher.tables
    waits = {text: json.loads(text) for text in sorted(texts)}
    asked = {(name, each) for names, *distances in waits.values() for name in names for each in distances}
    settled = settled_times(batch.span, asked, published)
    return {
        text: Frontiers([settled[name, blocking] for name in names], [settled[name, memory] for name in names])
        for text, (names, blocking, memory) in waits.items()
    }


def commit_absences(connection: sa.Connection, absences: Absences, now: int) -> None:
    """Name the rows that are left, in the transaction of the batch; ``now`` is in microseconds since the epoch."""
    add_retractions(connection, absences.retractions)
    add_late_for(connection, absences.late_for)
    remove_state_files(connection, absences.gone)
    retire_files(connection, absences.gone, now)
    add_state_files(connection, [file.row() for file in absences.come])


# -- what was found ------------------------------------------------------------------------------------------------


def _round(batch: Attempt, results: Results, parts: Sequence[Any]) -> tuple[Round, bool]:
    """Return the rows to decide, and whether there are new ones or killed ones."""
    known = PENDING_SCHEMA.empty_table()
    if batch.span.pending is not None:
        known = pq.read_table(check_file(batch.home.root / batch.span.pending), schema=PENDING_SCHEMA)
    wanted, killed = _found(batch, results, parts)
    pending = pa.concat_tables([known, *wanted])
    kills = pa.concat_tables([KILL_SCHEMA.empty_table(), *killed])
    return Round(pending, kills), bool(wanted or killed)


def _found(batch: Attempt, results: Results, parts: Sequence[Any]) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return new pending rows, and bindings with forbidden documents, of what the levels have found.

    ``parts`` are rows of the table of parts, of all groups that have found something.
    """
    asked = [row for row in parts if row.ends not in (NOTHING_FORBIDDEN, OF_WINDOWS)]
    if not asked:
        return [], []
    meanings = results.meanings({row.part for row in asked})
    combinations = results.combinations()
    combinations = combinations.where(meanings.have(combinations))
    times = _times(batch, combinations.docs)
    # Late documents serve queries of one block, but absence is a question of order.
    late = times["docid"][times["late"]]
    combinations = combinations.where(~np.isin(combinations.docs[:, 0], late))
    wanted, killed = [], []
    for each in bindings(combinations, meanings, asked):
        part = remembered(each, times["docid"], times["behind"])
        if part.ends is None:
            killed.append(kills_of(part))
        else:
            wanted.append(_pending(part, json.loads(part.ends), times))
    return wanted, killed


def _unasked(batch: Attempt, results: Results, parts: Sequence[Any]) -> int:
    """Count the matches that only parts of groups have, and that no query asks for."""
    hidden = {row.part for row in parts}
    with batch.home.catalog.read() as connection:
        unasked = hidden - asked_groups(connection, hidden)
    if not unasked:
        return 0
    meanings, found = results.meanings(unasked), results.combinations()
    return unasked_matches(found.where(meanings.have(found)), meanings, unasked)


def _times(batch: Attempt, docs: _Int64s) -> dict[str, npt.NDArray[Any]]:
    """Return the documents of some combinations, ascending, their times, and whether they are late."""
    tables = () if batch.publisher is None else batch.publisher.tables
    events = events_of(batch.home, np.unique(docs[docs != NO_DOC]), list(_TIMES), tables).sort_by("docid")
    found = {name: events.column(name).to_numpy() for name in _TIMES}
    again = np.isin(found["docid"], np.array(sorted(batch.span.replayed), np.int64))
    # Late events have partners by a replay alone, which takes them as if in time.
    return {**found, "late": found["late"] & ~again, "behind": np.where(found["late"], 0, found["behind"])}


def _pending(part: Bindings, ends_of: Any, times: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    docs, count = part.docs, len(part.docs)
    ts = times["ts"][np.searchsorted(times["docid"], docs)]
    newest = ts.max(axis=1)
    ends = np.stack(
        [
            np.minimum.reduce(
                [(newest if block == LATEST else ts[:, block]) + cut_offset(offset) for block, offset in of]
            )
            for _, of in ends_of
        ],
        axis=1,
    )
    ends = np.minimum(ends, LAST_TIME)  # nothing comes behind it
    when = np.maximum(newest, ends.max(axis=1))
    columns = {
        "gid": part.groups,
        "members": keys_of(docs, docs[:, :0]),
        "key": keys_of(docs, part.nodes),
        "docs": _lists(docs),
        "nodes": _lists(part.nodes[:, : docs.shape[1] + part.shown]).cast(pa.list_(pa.int32())),
        "witness": part.witness,
        "ts": when,
        "later": when - newest,
        "came": place_of(docs).max(axis=1),
        "waits": pa.repeat(json.dumps([[channel for channel, _ in ends_of], part.blocking, part.memory]), count),
        "ends": _lists(ends),
        "killed": np.full(count, -1),
        "answered": np.full(count, -1),
    }
    return pa.table(columns, schema=PENDING_SCHEMA)


def _lists(rows: _Int64s) -> pa.Array:
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1])
    return pa.ListArray.from_arrays(offsets, pa.array(rows.reshape(-1)))


# -- what is left --------------------------------------------------------------------------------------------------


def _known(path: str | None, batch: Attempt) -> StateFile | None:
    return None if path is None else facts_of_file(batch.home.root, path, "pending", batch.span.batch)


def _path(batch: Attempt, kind: str) -> Path:
    return batch.home.folder("witness") / f"{batch.tag}-{kind}.parquet"


def _written(batch: Attempt, kept: pa.Table) -> StateFile | None:
    if not kept.num_rows:
        return None
    made = write_sealed(_path(batch, "pending"), lambda target: pq.write_table(kept, target, **PAGE_CHECKSUMS))
    facts = facts_of_file(batch.home.root, str(made.relative_to(batch.home.root)), "pending", batch.span.batch)
    step("batch.pending")
    return StateFile(**{**facts.row(), "held": facts.rows})  # type: ignore[arg-type]
