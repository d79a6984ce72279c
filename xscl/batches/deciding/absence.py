"""Absence in a batch: wanted matches, less forbidden ones, as far as it is certain.

Queries about absence are made of queries that are joined as all others (``language.absence``).  Matches of what is
wanted become pending rows, and matches of what is forbidden kill some of them.  Rows whose time has passed are
answered: those that live become matches of the query about absence, in the results of this batch.  A row of a query
that answers before it is certain stays, and a document that forbids it later takes the match back
(``absence_changes``).  Rows that are left go into one file of the state, named in the batch's transaction; answered
ones that nothing makes final go into files beside it (``answered``).

Queries that publish are decided behind the level of the channels that they read, so that later levels have what they
publish.  All others are decided behind all levels.
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
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.failpoints import step
from xscl.base.number_order import each_once
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.batches.answered import Runs
from xscl.batches.attempt import Attempt
from xscl.batches.bindings import Parts
from xscl.batches.deciding.absence_changes import Changes, Readers, changes_of
from xscl.batches.deciding.absence_found import found_rows, taken_again, unasked
from xscl.batches.deciding.corrected import Anew, anew, told_anew
from xscl.batches.deciding.edited import edited_matches
from xscl.batches.deciding.replayed import replayed_matches
from xscl.batches.deciding.too_late import count_too_late
from xscl.batches.settled import settled_times
from xscl.batches.taking_back import Retraction, retraction_rows
from xscl.catalog.queries import add_late_for
from xscl.catalog.retractions import add_retractions
from xscl.catalog.state_files import replace_state_files
from xscl.spark.places import HERE, OnSpark, Place, slots_of
from xscl.store.parquet import data_files
from xscl.store.results import Results, stored_matches
from xscl.store.state_files import StateFile, facts_of_file, facts_of_held_file
from xscl.templates.absence import KILL_SCHEMA, PENDING_SCHEMA, Frontiers, Round, decided_places, parted, subtracted
from xscl.templates.columns import Bools
from xscl.templates.origins import ABSENCE_LEVEL, CHANGES_LEVEL, origin_of
from xscl.templates.results import ResultColumns

__all__ = ["Absences", "commit_absences"]

_ROW_SECONDS = 2e-6
"""Processor time for a pending row."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """Groups that are decided together."""

    some: frozenset[int] | None
    """These; None: all but those that were decided before."""
    done: frozenset[int]

    def have(self, groups: pa.Array) -> pa.Array:
        """Tell which groups are among them."""
        named = pa.array(sorted(self.done if self.some is None else self.some), pa.int64())
        found = pc.is_in(groups, named)
        return pc.invert(found) if self.some is None else found

    def of(self, rows: pa.Table) -> pa.Table:
        """Return the rows of these groups."""
        return rows if self.some is None and not self.done else rows.filter(self.have(rows.column("gid")))


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Rows that were decided together, and what is left of them."""

    chosen: _Chosen
    members: pa.Array
    """Members whose answered rows were read."""
    left: pa.Table
    stays: pa.Table
    """Rows that are answered, and wait for what may never come."""


@dataclass
class Absences:
    """Queries about absence in one batch; nothing counts before ``commit_absences``."""

    batch: Attempt
    counts: Counter[str] = field(default_factory=Counter)
    """Rows of its results; matches that only parts have are taken off."""
    unasked: int = 0
    """Number of these."""
    retractions: tuple[dict[str, Any], ...] = ()
    """Rows of table ``retractions``."""
    late_for: Mapping[int, int] = field(default_factory=dict)
    """Events that came too late for the memory of queries, by their numbers."""
    too_late: int = 0
    """Number of all these events."""
    on_spark: bool = False
    after: StateFile | None = None
    """File of pending rows that are left."""
    runs: tuple[StateFile, ...] = ()
    """Files of answers that nothing makes final, behind the batch."""
    _levels: Mapping[int, int] = field(default_factory=dict)
    """Level behind which groups are decided that publish."""
    _done: frozenset[int] = frozenset()
    _outcomes: list[_Outcome] = field(default_factory=list)
    _retracted: list[Retraction] = field(default_factory=list)
    _changed: bool = False
    """Whether rows came or went, or have changed."""
    _pending: pa.Table = field(default_factory=PENDING_SCHEMA.empty_table)
    """Rows before the batch."""
    _runs: Runs = field(init=False)

    def begin(self) -> None:
        """Read what the batch begins with."""
        batch, span = self.batch, self.batch.span
        self.runs, self._runs = span.answered, Runs(batch.home.root, span.answered)
        if not span.has_parts:
            return
        batch.driver.absences.read(batch.home.catalog, span.queries)
        if batch.publisher is not None:
            self._levels = batch.publisher.decided
        if span.pending is not None:
            self._pending = pq.read_table(check_file(batch.home.root / span.pending), schema=PENDING_SCHEMA)
        opened = self._frontiers(self._runs.waits)
        if not all(each.is_open for each in opened.values()):
            # Something settles the times of their channels now, so they are as all others.
            self._pending = pa.concat_tables([self._pending, self._runs.rows()])
            self._runs, self._changed = Runs(batch.home.root, ()), True

    def decide(self, level: int) -> None:
        """Decide the groups that publish and read no channel above ``level`` of publishing; 0 has the events."""
        mine = {gid for gid, behind in self._levels.items() if behind <= level} - self._done
        if mine:
            self._decide(_Chosen(frozenset(mine), self._done))
            self._done |= mine

    def end(self) -> None:
        """Decide what is left, and write the rows that are kept."""
        batch = self.batch
        if not batch.span.has_parts:
            return
        if self._has_work():
            self._decide(_Chosen(None, self._done))
            self._keep()
        rows = retraction_rows(batch.home, batch.span, self._retracted, self.batch.made)
        self.retractions = tuple(rows)
        files = self._files()
        self.unasked = unasked(batch, Results(files))
        self.counts.update(match=-self.unasked)
        self.late_for, self.too_late = count_too_late(batch)

    def _has_work(self) -> bool:
        """Tell whether something may be decided, or is kept; homes with windows and steps alone have nothing."""
        span = self.batch.span
        kept = self._outcomes or span.pending is not None or span.answered
        return bool(kept or span.replayed or self.batch.driver.absences.asks)

    @property
    def gone(self) -> list[str]:
        """Files that hold no rows any more."""
        span = self.batch.span
        before = [*([] if span.pending is None else [span.pending]), *(file.path for file in span.answered)]
        left = {file.path for file in (self.after, *self.runs) if file is not None}
        return [path for path in before if path not in left]

    @property
    def come(self) -> list[StateFile]:
        """Files that hold rows since the batch."""
        span = self.batch.span
        before = {span.pending, *(file.path for file in span.answered)}
        return [file for file in (self.after, *self.runs) if file is not None and file.path not in before]

    @property
    def retracted(self) -> int:
        """Number of matches that are taken back, each with its set of queries."""
        return len(self._retracted)

    @property
    def has_changes(self) -> bool:
        """Whether answers come or go."""
        return bool(self.retractions) or any(self.counts.values())

    # -- decisions -------------------------------------------------------------------------------------------------

    def _decide(self, chosen: _Chosen) -> None:
        """Take what the levels have found for some groups, decide what can be decided, and write it."""
        batch = self.batch
        files = self._files()
        results, parts = Results(files), self._parts(files)
        if chosen.some is not None or chosen.done:
            parts = parts.where(chosen.have(pa.array(parts.gid)).to_numpy(zero_copy_only=False))
        number = len(self._outcomes)
        out = self._out(ABSENCE_LEVEL, f"absence-{number}", number)
        holding = self._out(CHANGES_LEVEL, f"changing-{number}", number)
        edited, passed = edited_matches(batch, results, holding, partial(_among, chosen=chosen))
        wanted, killed = found_rows(batch, results, parts)
        if batch.span.replayed:
            wanted += taken_again(batch, partial(_among, chosen=chosen))
        kills = pa.concat_tables([KILL_SCHEMA.empty_table(), *killed])
        new = Round(pa.concat_tables([PENDING_SCHEMA.empty_table(), *wanted]), kills)
        # Queries whose answers changes correct publish nothing, so they are decided behind all levels.
        again = anew(batch, files, new) if chosen.some is None else None
        members = kills.column("members") if again is None else [*kills.column("members").chunks, again.members]
        members = pc.unique(pa.chunked_array(members, pa.binary()))
        old = chosen.of(self._runs.of(members))
        work = Round(pa.concat_tables([chosen.of(self._pending), new.pending, old]), kills)
        self._changed |= bool(wanted or killed or again)
        found, work, left, stays = self._weighed(work, again)
        found.write(out)
        for columns in (out, holding):
            columns.write()
            self.counts.update(columns.counts)
        step("batch.decided")
        replayed = replayed_matches(batch.home, batch.span, files, work) if batch.span.replayed else []
        self._outcomes.append(_Outcome(chosen, members, left, stays))
        retracted = [*found.retracted, *edited, *replayed]
        self._retracted += retracted
        if chosen.some is not None and batch.publisher is not None:
            publisher = batch.publisher
            publisher.told([*found.told(batch.span.batch), *passed])
            publisher.found(stored_matches(self._files(f"changing-{number}"), publisher.groups))
            publisher.take_back(retracted)

    def _weighed(self, work: Round, again: Anew | None) -> tuple[Changes, Round, pa.Table, pa.Table]:
        """Decide what can be decided: what changes, the rest of the work, rows that are left, and those that stay."""
        found, none = Changes(), PENDING_SCHEMA.empty_table()
        if not work.pending.num_rows and again is None:
            return found, work, none, none
        left = none
        asked = [work.pending] if again is None else [work.pending, again.rows]
        frontiers = self._frontiers(_waits(pa.concat_tables(asked)))
        if again is not None:
            found, left = self._corrected(again.answered_as(work.pending), frontiers)
            work = Round(again.without(work.pending), again.without(work.kills))
        if work.pending.num_rows:
            more, rows = self._decided(work, frontiers)
            self._changed |= more.touched or rows.num_rows != work.pending.num_rows
            found.add(more)
            left = pa.concat_tables([left, rows])
        waiting = _stays(left, frontiers)
        return found, work, left.filter(pc.invert(waiting)), left.filter(waiting)

    def _out(self, level: int, name: str, number: int) -> ResultColumns:
        """Return what takes results of a level of their own."""
        folder = self.batch.home.root / self.batch.results / name
        return ResultColumns(origin_of(self.batch.span.batch, level, number), folder)

    def _decided(self, work: Round, frontiers: Mapping[str, Frontiers]) -> tuple[Changes, pa.Table]:
        """Return what changes, and the rows that are left."""
        batch, span, readers = self.batch, self.batch.span, self._readers(work.pending)
        place: Place = HERE
        if batch.driver.prefers_spark(work.pending.num_rows * _ROW_SECONDS):
            place = OnSpark(batch.jobs.session, slots_of(batch.jobs.session()))
            self.on_spark = True
        step("batch.absence")
        done = place.map(partial(subtracted, frontiers, span.first, span.last), parted(work, place.slots))
        found = Changes()
        for part in done:
            found.add(changes_of(part, readers, span.first))
        left = pa.concat_tables([part.left for part in done])
        return found, left.filter(pa.array(readers.may_see(left)))

    def _corrected(self, again: Anew, frontiers: Mapping[str, Frontiers]) -> tuple[Changes, pa.Table]:
        """Return what newer versions and removals change, and the rows that are left."""
        if not again.rows.num_rows:
            return Changes(), again.rows
        span, readers = self.batch.span, self._readers(again.rows)
        found, left = told_anew(again, *decided_places(frontiers, span.first, again.rows), readers, span)
        return found, left.filter(pa.array(readers.may_see(left)))

    def _readers(self, rows: pa.Table) -> Readers:
        """Return the queries that may see some rows, one at least."""
        oldest = int(rows.column("came").to_numpy().min())
        return Readers(self.batch.driver.absences.readers(oldest), self.batch.span.last)

    def _frontiers(self, texts: Collection[str]) -> dict[str, Frontiers]:
        """Return where rows are answered and final, by what they wait for."""
        waits = {text: json.loads(text) for text in sorted(texts)}
        asked = {(name, each) for names, *distances in waits.values() for name in names for each in distances}
        settled = settled_times(self.batch.span, asked, self.batch.made)
        return {
            text: Frontiers([settled[name, blocking] for name in names], [settled[name, memory] for name in names])
            for text, (names, blocking, memory) in waits.items()
        }

    # -- files -----------------------------------------------------------------------------------------------------

    def _files(self, name: str = ".") -> list[Path]:
        """Return the results of the batch so far, or those in a folder of them."""
        folder = self.batch.home.root / self.batch.results / name
        return data_files(folder) if folder.exists() else []

    def _parts(self, files: Sequence[Path]) -> Parts:
        """Return the parts of groups about absence that have found something."""
        return self.batch.driver.absences.parts_of(each_once(Results(files).class_groups()[2]))

    def _keep(self) -> None:
        """Write the rows that are left, if these are others than before."""
        batch, span = self.batch, self.batch.span
        left = pa.concat_tables([each.left for each in self._outcomes])
        if not self._changed:
            self.runs = self._runs.files
            if span.pending is not None:
                self.after = facts_of_file(batch.home.root, span.pending, "pending", span.batch)
            return
        self.after = self._written(left)
        read = self._runs.of(pa.concat_arrays([each.members for each in self._outcomes]))
        decided = np.zeros(read.num_rows, dtype=np.bool_)
        for each in self._outcomes:
            mine = pc.and_(each.chosen.have(read.column("gid")), pc.is_in(read.column("members"), each.members))
            decided |= mine.to_numpy()
        rows = pa.concat_tables([*(each.stays for each in self._outcomes), read.filter(pa.array(~decided))])
        path = self._path("answered")
        self.runs = self._runs.after(rows, read, path, span.batch, self._may_see).files

    def _may_see(self, rows: pa.Table) -> Bools:
        return self._readers(rows).may_see(rows) if rows.num_rows else np.zeros(0, dtype=np.bool_)

    def _path(self, kind: str) -> Path:
        return self.batch.home.folder("witness") / f"{self.batch.tag}-{kind}.parquet"

    def _written(self, kept: pa.Table) -> StateFile | None:
        if not kept.num_rows:
            return None
        made = write_sealed(self._path("pending"), lambda target: pq.write_table(kept, target, **PAGE_CHECKSUMS))
        step("batch.pending")
        return facts_of_held_file(self.batch.home.root, made, "pending", self.batch.span.batch)


def commit_absences(connection: sa.Connection, absences: Absences, now: int) -> None:
    """Name the rows that are left, in the transaction of the batch; ``now`` is in microseconds since the epoch."""
    add_retractions(connection, absences.retractions)
    add_late_for(connection, absences.late_for)
    replace_state_files(connection, absences.gone, [file.row() for file in absences.come], now)


def _among(gid: int, chosen: _Chosen) -> bool:
    return gid not in chosen.done if chosen.some is None else gid in chosen.some


def _stays(rows: pa.Table, frontiers: Mapping[str, Frontiers]) -> pa.Array:
    """Tell which rows are answered, and wait for what may never come."""
    opened = pa.array([text for text, each in frontiers.items() if each.is_open], pa.string())
    answered = pc.greater_equal(rows.column("answered"), 0)
    return pc.and_(answered, pc.is_in(rows.column("waits"), opened))


def _waits(rows: pa.Table) -> list[str]:
    found: list[str] = pc.unique(rows.column("waits")).to_pylist()
    return found
