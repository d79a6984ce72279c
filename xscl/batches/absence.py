"""Absence in a batch: wanted matches, less forbidden ones, as far as it is certain.

Queries about absence are made of queries that are joined as all others (``language.absence``).  Behind the joins of a
batch, matches of what is wanted become pending rows, and matches of what is forbidden kill some of them.  Rows whose
time has passed are decided: those that live become matches of the query about absence, in the results of this batch.
Rows that are left go into one file of the state, named in the batch's transaction.

Queries of one group that were registered at different places see different documents.  A match that all of them have
which see its members is stored under their group; any other is stored for each query that has it (``history``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa

from xscl.base.docids import place_of
from xscl.base.failpoints import step
from xscl.base.sealed import PAGE_CHECKSUMS, check_file, write_sealed
from xscl.batches.attempt import Attempt
from xscl.batches.bindings import Bindings, bindings
from xscl.batches.settled import settled_times
from xscl.catalog.groups import read_parts
from xscl.catalog.state_files import add_state_files, remove_state_files, retire_files
from xscl.catalog.tables import PARTS, QUERIES, in_parts
from xscl.language.absence import LATEST
from xscl.spark.places import HERE, OnSpark, Place, slots_of
from xscl.store.event_files import events_of
from xscl.store.parquet import data_files
from xscl.store.results import NO_DOC, Results
from xscl.store.state_files import StateFile, facts_of_file
from xscl.templates.absence import KILL_SCHEMA, PENDING_SCHEMA, Round, parted, subtracted
from xscl.templates.results import Admitted, ClassRow, ResultColumns, origin_of

__all__ = ["Absences", "commit_absences", "decide_absences"]

_LEVEL = 255
"""Level of the origin of its classes, behind all levels that publish."""
_ROW_SECONDS = 2e-6
"""Processor time for a pending row."""
_CELLS = 4_000_000
"""Decided rows times queries that are looked at together."""
_TIMES = "docid", "ts", "late"
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Absences:
    """Outcome of a batch for queries about absence."""

    before: str | None
    """File of pending rows before the batch."""
    after: StateFile | None
    """File of those that are left."""
    counts: Counter[str] = field(default_factory=Counter)
    on_spark: bool = False

    @property
    def changed(self) -> bool:
        """Whether another file holds the rows now."""
        return self.before != (None if self.after is None else self.after.path)


def decide_absences(batch: Attempt) -> Absences:
    """Take what the levels of a batch have found, decide what can be decided, and write both; nothing is named."""
    span, before = batch.span, batch.span.pending
    if not span.absences:
        return Absences(before, None)
    work, changed = _round(batch)
    if not work.pending.num_rows:
        return Absences(before, None)
    with batch.home.catalog.read() as connection:
        wanted = {row.gid: row for row in _wanted(connection, work.pending.column("gid").to_pylist())}
        oldest = int(work.pending.column("came").to_numpy().min())
        subscribers = _Subscribers(connection, wanted, oldest, span.last)
    channels = {gid: [channel for channel, _ in json.loads(row.ends)] for gid, row in wanted.items()}
    published = {} if batch.publisher is None else batch.publisher.newest
    settled = settled_times(span, {name for names in channels.values() for name in names}, published)
    place: Place = HERE
    if batch.driver.prefers_spark(work.pending.num_rows * _ROW_SECONDS):
        place = OnSpark(batch.jobs.session, slots_of(batch.jobs.session()))
    step("batch.absence")
    done = place.map(partial(subtracted, channels, settled, span.first, span.last), parted(work, place.slots))
    decided, left = (pa.concat_tables(tables) for tables in zip(*done, strict=True))
    out = ResultColumns(origin_of(span.batch, _LEVEL), batch.home.root / batch.results / "absence")
    _write_matches(out, decided, subscribers)
    out.write()
    step("batch.decided")
    kept = left.filter(pa.array(subscribers.may_see(left)))
    same = not changed and not decided.num_rows and kept.num_rows == left.num_rows
    after = _known(before, batch) if same else _written(batch, kept)
    return Absences(before, after, out.counts, place is not HERE)


def commit_absences(connection: sa.Connection, absences: Absences, now: int) -> None:
    """Name the rows that are left, in the transaction of the batch; ``now`` is in microseconds since the epoch."""
    if not absences.changed:
        return
    if absences.before is not None:
        remove_state_files(connection, [absences.before])
        retire_files(connection, [absences.before], now)
    if absences.after is not None:
        add_state_files(connection, [absences.after.row()])


# -- what was found ------------------------------------------------------------------------------------------------


def _round(batch: Attempt) -> tuple[Round, bool]:
    """Return the rows to decide, and whether there are new ones or killed ones."""
    known = PENDING_SCHEMA.empty_table()
    if batch.span.pending is not None:
        known = pq.read_table(check_file(batch.home.root / batch.span.pending), schema=PENDING_SCHEMA)
    folder = batch.home.root / batch.results
    files = data_files(folder) if folder.exists() else []
    wanted, killed = _found(batch, files) if files else ([], [])
    pending = pa.concat_tables([known, *wanted])
    kills = pa.concat_tables([KILL_SCHEMA.empty_table(), *killed])
    return Round(pending, kills), bool(wanted or killed)


def _found(batch: Attempt, files: Sequence[Any]) -> tuple[list[pa.Table], list[pa.Table]]:
    """Return new pending rows, and bindings with forbidden documents, of what the levels have found."""
    results = Results(files)
    with batch.home.catalog.read() as connection:
        asked = read_parts(connection, np.unique(results.class_groups()[2]).tolist())
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
    for part in bindings(combinations, meanings, asked):
        if part.ends is None:
            killed.append(_kills(part))
        else:
            wanted.append(_pending(part, json.loads(part.ends), times))
    return wanted, killed


def _wanted(connection: sa.Connection, groups: Collection[int]) -> Iterator[Any]:
    """Yield the rows of ``parts`` with the facts of groups about absence."""
    for some in in_parts(sorted(set(groups))):
        yield from connection.execute(sa.select(PARTS).where(PARTS.c.gid.in_(some), PARTS.c.number == 0))


def _times(batch: Attempt, docs: _Int64s) -> dict[str, npt.NDArray[Any]]:
    """Return the documents of some combinations, ascending, their times, and whether they are late."""
    tables = () if batch.publisher is None else batch.publisher.tables
    events = events_of(batch.home, np.unique(docs[docs != NO_DOC]), list(_TIMES), tables).sort_by("docid")
    found = {name: events.column(name).to_numpy() for name in _TIMES}
    return {**found, "late": found["late"] & ~np.isin(found["docid"], np.array(sorted(batch.span.replayed), np.int64))}


def _pending(part: Bindings, ends_of: Any, times: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
    docs, count = part.docs, len(part.docs)
    ts = times["ts"][np.searchsorted(times["docid"], docs)]
    newest = ts.max(axis=1)
    ends = np.stack(
        [
            np.minimum.reduce([(newest if block == LATEST else ts[:, block]) + offset for block, offset in of])
            for _, of in ends_of
        ],
        axis=1,
    )
    when = np.maximum(newest, ends.max(axis=1))
    columns = {
        "gid": part.groups,
        "key": _keys(docs, part.nodes),
        "docs": _lists(docs),
        "nodes": _lists(part.nodes[:, : docs.shape[1] + part.shown]).cast(pa.list_(pa.int32())),
        "witness": part.witness,
        "ts": when,
        "later": when - newest,
        "came": place_of(docs).max(axis=1),
        "ends": _lists(ends),
        "killed": np.full(count, -1),
    }
    return pa.table(columns, schema=PENDING_SCHEMA)


def _kills(part: Bindings) -> pa.Table:
    members, other = part.docs[:, :-1], part.docs[:, -1]
    own = np.delete(part.nodes, members.shape[1], axis=1)
    columns = {"gid": part.groups, "key": _keys(members, own), "place": place_of(other)}
    return pa.table(columns, schema=KILL_SCHEMA)


def _keys(docs: _Int64s, nodes: _Int64s) -> pa.Array:
    """Return members and nodes of bindings as bytes."""
    whole = np.ascontiguousarray(np.concatenate([docs, nodes], axis=1))
    width = whole.shape[1] * 8
    fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(width), len(docs), [None, pa.py_buffer(whole.tobytes())])
    return fixed.cast(pa.binary())


def _lists(rows: _Int64s) -> pa.Array:
    offsets = pa.array(np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1])
    return pa.ListArray.from_arrays(offsets, pa.array(rows.reshape(-1)))


# -- who sees it ---------------------------------------------------------------------------------------------------


class _Subscribers:
    """Queries of groups about absence that may see pending rows, dropped ones included."""

    def __init__(self, connection: sa.Connection, groups: Collection[int], oldest: int, last: int) -> None:
        """Read the queries that were live at the place ``oldest`` or came later; ``last`` is the batch's last place."""
        self._of: dict[int, tuple[_Int64s, _Int64s, _Int64s]] = {}
        """Place after which each sees members, where it ended, and its number, by group."""
        self._newest: dict[int, int] = {}
        """The greatest place after which one that goes on sees members."""
        columns = QUERIES.c.gid, QUERIES.c.sees_from, QUERIES.c.docid_until, QUERIES.c.query
        found: dict[int, list[tuple[int, int, int]]] = {}
        for some in in_parts(sorted(groups)):
            live = QUERIES.c.gid.in_(some), QUERIES.c.docid_until > oldest
            for gid, *rest in connection.execute(sa.select(*columns).where(*live)):
                found.setdefault(gid, []).append(tuple(rest))
        for gid, rows in found.items():
            starts, ends, numbers = (np.array(column, np.int64) for column in zip(*rows, strict=True))
            self._of[gid] = starts, ends, numbers
            if (ends > last).any():
                self._newest[gid] = int(starts[ends > last].max())

    def groups(self, rows: pa.Table) -> dict[int, tuple[int, ...]]:
        """Return the group of decided rows, or the numbers of the queries that have the match; by number of the row.

        Rows that no query has are left out.
        """
        docs = rows.column("docs").combine_chunks()
        places, starts = place_of(docs.values.to_numpy()), docs.offsets.to_numpy()
        places, starts = places[starts[0] : starts[-1]], starts[:-1] - starts[0]
        first, last = np.minimum.reduceat(places, starts), np.maximum.reduceat(places, starts)
        killed, decided = rows.column("killed").to_numpy(), rows.column("decided").to_numpy()
        of, found = rows.column("gid").to_numpy(), dict[int, tuple[int, ...]]()
        for gid in set(np.unique(of).tolist()) & self._of.keys():
            begins, ends, numbers = self._of[gid]
            mine = np.flatnonzero(of == gid)
            # Rows against queries, some at a time.
            for some in np.array_split(mine, 1 + len(mine) * len(begins) // _CELLS):
                sees = (begins < first[some, None]) & (last[some, None] < ends)
                has = sees & (killed[some, None] <= begins) & (decided[some, None] < ends)
                whole = (has == sees).all(axis=1)
                for place in np.flatnonzero(has.any(axis=1)).tolist():
                    alone = (-number for number in numbers[has[place]].tolist())
                    found[int(some[place])] = (gid,) if whole[place] else tuple(alone)
        return found

    def may_see(self, left: pa.Table) -> npt.NDArray[np.bool_]:
        """Tell for which rows a query is left that no forbidden document keeps from them."""
        groups, killed = left.column("gid").to_numpy(), left.column("killed").to_numpy()
        found = np.zeros(len(groups), dtype=np.bool_)
        for gid in np.unique(groups).tolist():
            if gid in self._newest:
                mine = groups == gid
                found[mine] = killed[mine] <= self._newest[gid]
        return found


def _write_matches(out: ResultColumns, decided: pa.Table, subscribers: _Subscribers) -> None:
    """Write decided rows that live as matches; bindings that make one match are one."""
    if not decided.num_rows:
        return
    groups_of = subscribers.groups(decided)
    found: dict[tuple[int, tuple[int, ...], tuple[int, ...]], tuple[set[int], tuple[int, ...], int]] = {}
    rows = decided.take(pa.array(list(groups_of), pa.int64())).to_pylist()
    for row, whose in zip(rows, groups_of.values(), strict=True):
        key = row["gid"], tuple(row["docs"]), tuple(row["nodes"])
        witness = tuple(row["witness"])
        known = found.get(key, (set(), witness, row["later"]))
        found[key] = known[0] | {*whose}, min(known[1], witness), known[2]
    classes: dict[tuple[object, ...], int] = {}
    docs: dict[int, list[tuple[int, ...]]] = {}
    for (gid, members, nodes), (groups, witness, later) in sorted(found.items(), key=lambda item: item[0]):
        # Whoever sees a match by the group has it, whichever binding made it.
        of = (gid,) if gid in groups else tuple(sorted(groups))
        meant = of, nodes, witness, later, len(members)
        if meant not in classes:
            by = Admitted(of, (1,) * len(of))
            classes[meant] = out.add_class([ClassRow("match", 0, nodes, witness, by, later=later or None)])
        docs.setdefault(classes[meant], []).append(members)
    for number, members_of in docs.items():
        of_class = np.array(members_of, dtype=np.int64)
        which = np.full(len(of_class), number, dtype=np.int32)
        if of_class.shape[1] == 1:
            out.add_pairs(of_class[:, 0], np.full(len(of_class), NO_DOC), which)
        else:
            out.add_combinations(of_class, which)


# -- what is left --------------------------------------------------------------------------------------------------


def _known(path: str | None, batch: Attempt) -> StateFile | None:
    return None if path is None else facts_of_file(batch.home.root, path, "pending", batch.span.batch)


def _written(batch: Attempt, kept: pa.Table) -> StateFile | None:
    if not kept.num_rows:
        return None
    path = batch.home.folder("witness") / f"{batch.tag}-pending.parquet"
    made = write_sealed(path, lambda target: pq.write_table(kept, target, **PAGE_CHECKSUMS))
    facts = facts_of_file(batch.home.root, str(made.relative_to(batch.home.root)), "pending", batch.span.batch)
    step("batch.pending")
    return StateFile(**{**facts.row(), "held": facts.rows})  # type: ignore[arg-type]
