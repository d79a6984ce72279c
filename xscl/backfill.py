"""Answers from what is held, for queries that see what was there before them (language.md, section 6).

Such a query waits until everything before its registration is processed.  Then the events held of the channels that it
reads are walked for it and for those registered with it, and joined among themselves, some thousand at a time, by a
plan of their own: the work is that of these queries and events, whatever else is registered.  What is found is kept
under **history groups**, numbers below 0, because the group itself may have other queries, which do not see it.

The witness rows, and rows of links, that the join state lacks become part of it.  So what later events make with held
ones is found by ordinary batches.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog import QueryInfo, query_info
from xscl.driver import Driver
from xscl.event_files import Level
from xscl.home import Home
from xscl.levels import BatchWork
from xscl.places import published_docid
from xscl.planner import Plan, Planner
from xscl.row_ranges import channel_counts, nth_event
from xscl.settings import Settings
from xscl.state import LINK_SCHEMA, HeldState, Kind, write_rows
from xscl.steps import step
from xscl.subscribers import Chosen, group_texts
from xscl.tables import CHANNELS, INTAKE_FILES, LATE, NEVER, QUERIES
from xscl.templates.slices import SliceCache
from xscl.xpath.witness import WITNESS_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Filled", "HeldWalk", "answered", "back_fill", "held_times", "mark_filled", "next_stop", "waiting_queries"]

_MOST_QUERIES = 10_000
"""That are answered together."""
_PART = 10_000
"""Events that are walked together,"""
_PARTS = 1 << 14
"""or so many that there are no more parts than this,"""
_FEW_PARTS = 100
"""or than this from where executors join."""
_MANY_ROWS = 2_000_000
"""Witness rows that wait in memory; more are written to files."""
_DROPPED = QUERIES.c.docid_until < sa.literal_column(str(NEVER))
_WAITING = (QUERIES.c.starting != sa.literal_column("'NOW'"), QUERIES.c.filled.is_(None))

Int64s = npt.NDArray[np.int64]


# -- which queries, at which places ------------------------------------------------------------------------------


def next_stop(connection: Connection, first: int, last: int) -> tuple[bool, int]:
    """How far a batch may go that begins at the place ``first``, ``last`` at most; and whether it is a back-fill.

    A batch of events ends before a query that waits for its answers from what is held.  A batch that begins with one
    goes on while nothing comes but registrations, so that all queries of it see the same events.
    """
    waiting = sa.select(QUERIES.c.docid_from).where(*_WAITING, QUERIES.c.docid_from.between(first, last))
    places = list(connection.scalars(waiting.order_by(QUERIES.c.docid_from).limit(_MOST_QUERIES + 1)))
    if not places:
        return False, last
    if places[0] > first:
        return False, places[0] - 1
    event = nth_event(connection, first, last, 1)
    dropped = sa.select(sa.func.min(QUERIES.c.docid_until)).where(_DROPPED, QUERIES.c.docid_until >= first)
    ends = [place - 1 for place in (event, connection.scalar(dropped)) if place is not None]
    ends += [places[-1] - 1] if len(places) > _MOST_QUERIES else []
    return True, min([last, *ends])


def waiting_queries(connection: Connection, first: int, last: int) -> tuple[QueryInfo, ...]:
    """The queries registered at some places that wait for their answers from what is held."""
    found = sa.select(QUERIES).where(*_WAITING, QUERIES.c.docid_from.between(first, last))
    return tuple(query_info(row) for row in connection.execute(found.order_by(QUERIES.c.query)))


def answered(
    queries: Sequence[QueryInfo], batch: int, held_from: Mapping[str, int] = MappingProxyType({})
) -> tuple[QueryInfo, ...]:
    """Queries as they are when a batch has answered them: those of one group have one history group.

    ``held_from`` are the times from which on channels hold events before the batch.  The join state may have older
    ones, for others; these are to see them in no later match.
    """
    numbers: dict[int, int] = {}
    for info in queries:
        numbers.setdefault(info.gid, -info.query)
    return tuple(replace(info, history=numbers[info.gid], filled=batch, held_from=held_from) for info in queries)


def mark_filled(connection: Connection, queries: Sequence[QueryInfo]) -> None:
    """Note in the catalogue that queries are answered."""
    if queries:
        values = [
            {
                "b_query": info.query,
                "history": info.history,
                "filled": info.filled,
                "held_from": json.dumps(dict(info.held_from), sort_keys=True) if info.held_from else None,
            }
            for info in queries
        ]
        connection.execute(QUERIES.update().where(QUERIES.c.query == sa.bindparam("b_query")), values)


# -- which events ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class HeldEvents:
    """The events before a place that are held."""

    place: int
    since: Mapping[str, int]
    """By channel the least event time of those that are held; all are of channels without one."""
    on_time: frozenset[int]
    """Late ones that were taken again before the place, and count as in time."""
    count: int
    """How many there are, about."""
    until: int | None = None
    """The greatest event time of those that are wanted."""

    def levels(self, home: Home, channels: frozenset[str], cut: Callable[[], _Cut]) -> Iterator[Level]:
        """Those of some channels, one part after another; ``cut`` is asked before each."""
        for first, last in ((1, self.place - 1), (published_docid(0, 0), published_docid(self.place, 0) - 1)):
            while first <= last:
                part, events = cut()
                with home.catalog.read() as connection:
                    end = nth_event(connection, first, last, events) or last
                    counts = channel_counts(connection, first, end)
                    inside = INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= end
                    files = sa.select(INTAKE_FILES.c.path).where(*inside).order_by(INTAKE_FILES.c.first)
                    paths = home.paths(list(connection.scalars(files)))
                mine = {name: count for name, count in counts.items() if name in channels}
                if mine:
                    yield Level(0, first, end, mine, paths, part, self.since, self.on_time, until=self.until)
                first = end + 1


class _Cut(NamedTuple):
    """The next part of held events: its number, from 1, and how many events it may have."""

    part: int
    events: int


def held_times(connection: Connection) -> dict[str, int]:
    """The time from which on events are held as of the last commit, of each channel that holds some no more."""
    statement = sa.select(CHANNELS.c.name, CHANNELS.c.held_from).where(CHANNELS.c.held_from.is_not(None))
    return {row.name: row.held_from for row in connection.execute(statement)}


def held_events(connection: Connection, place: int, least: int | None = None) -> HeldEvents:
    """The events before a place that are held as of the last commit; with ``least`` those of that time or later."""
    since = held_times(connection)
    if least is not None:
        since = {name: max(since.get(name, least), least) for name in connection.scalars(sa.select(CHANNELS.c.name))}
    again = connection.scalars(sa.select(LATE.c.docid).where(LATE.c.replayed < place, LATE.c.docid.is_not(None)))
    count = connection.scalar(sa.select(sa.func.sum(INTAKE_FILES.c.rows)))
    return HeldEvents(place, since, frozenset(again), int(count or 0))


# -- the walk ----------------------------------------------------------------------------------------------------


class HeldWalk:
    """Held events walked, and joined among themselves, for some groups; writes files under the tag of a batch."""

    def __init__(
        self,
        home: Home,
        settings: Settings,
        session: Callable[[], SparkSession],
        plan: Plan,
        events: HeldEvents,
        batch: int,
        tag: str,
    ) -> None:
        """``session`` is asked only where Spark is needed."""
        self._events = events
        self._driver = Driver(home, settings)
        self._settings = settings
        nothing = HeldState(home.root, (), None, None, {})
        self.work = BatchWork(home, self._driver, session, plan, batch, events.place, nothing, tag)
        """What it came to so far."""
        self._joins = any(edge.key.kind != "ONE" for edge in plan.program.edges.values())
        self._parts = 0

    def parts(self) -> Iterator[Level]:
        """Walk part after part; ``rows`` and ``links`` have those of the last one."""
        work = self.work
        for level in self._events.levels(work.home, work.plan.walked | work.plan.answered, self._cut):
            before = len(work.written)
            work.process(level)
            self._own = work.written[before:]
            yield level
            if not self._joins:
                work.drop()  # nothing meets anything
            elif sum(table.num_rows for table in work.waiting.values()) > _MANY_ROWS:
                work.write_waiting()
            self._driver.merge()
            if self._driver.is_full:
                # More than one process should remember; executors read it from the files.
                self._driver.forget()
                work.joined_in = "executors"

    def also(self, level: Level) -> Level:
        """Walk one more part; returns it with its number."""
        before = len(self.work.written)
        numbered = replace(level, part=self._cut().part)
        self.work.process(numbered)
        self._own = self.work.written[before:]
        return numbered

    def rows(self) -> Iterator[pa.Table]:
        """The witness rows of the last part."""
        for kind, path in self._own:
            if kind == "witness":
                yield from self.work.tables(path, WITNESS_SCHEMA)

    def links(self) -> Iterator[pa.Table]:
        """The rows of links that the last part has found."""
        for kind, path in self._own:
            if kind == "link":
                yield from self.work.tables(path, LINK_SCHEMA)

    def write(self, name: str, lacking: LackingRows | None = None) -> list[tuple[Kind, str]]:
        """Write the rows of the last part as join state; the kind and path of each file, whose name begins so.

        With ``lacking`` only those that the state lacks.
        """
        home = self.work.home
        written: list[tuple[Kind, str]] = []
        rows, links = self.rows(), self.links()
        if lacking is not None:
            rows, links = map(lacking.rows, rows), map(lacking.links, links)
        kinds: tuple[tuple[Kind, pa.Schema, Iterator[pa.Table]], ...] = (
            ("witness", WITNESS_SCHEMA, rows),
            ("link", LINK_SCHEMA, links),
        )
        for kind, schema, tables in kinds:
            path = f"witness/{name}-{kind}.parquet"
            if write_rows(home.root / path, schema, (part for table in tables for part in table.to_batches())):
                written.append((kind, path))
        return written

    def close(self) -> None:
        """Remove the rows that were written: what is needed of them has been taken."""
        self._driver.forget()
        self.work.drop()

    def _cut(self) -> _Cut:
        self._parts += 1
        here = self.work.joined_in == "driver" and self._settings.driver_rows
        return _Cut(self._parts, max(_PART, self._events.count // (_PARTS if here else _FEW_PARTS) + 1))


class LackingRows:
    """Which witness rows, and rows of links, the join state lacks."""

    def __init__(self, state: HeldState, reach: pa.Table) -> None:
        """``reach`` says how long rows are kept from now on; those that it does not name are not."""
        self._state = state
        is_link = reach.column("link").to_numpy(zero_copy_only=False)
        keys = reach.column("key").to_numpy()
        self._variables, self._links = np.unique(keys[~is_link]), np.unique(keys[is_link])
        self._keys = SliceCache(0)
        self._known_links: set[tuple[int, ...]] | None = None

    def rows(self, rows: pa.Table) -> pa.Table:
        """Those of some witness rows that the state lacks."""
        wanted = np.isin(rows.column("var").to_numpy(), self._variables) & ~rows.column("late").to_numpy()
        rows = rows.filter(pa.array(wanted))
        if not rows.num_rows:
            return rows
        docids = rows.column("docid").to_numpy()
        known = self._known(int(docids.min()), int(docids.max()), np.unique(rows.column("var").to_numpy()))
        if not known.num_rows:
            return rows
        names = ("docid", *_OF_ROW)
        docid, code = self._codes(pa.concat_tables([known.select(names), rows.select(names)]))
        order = np.lexsort((code, docid))  # stable: of equal ones those that are known come first
        again = np.zeros(len(order), dtype=np.bool_)
        again[order[1:]] = (docid[order[1:]] == docid[order[:-1]]) & (code[order[1:]] == code[order[:-1]])
        return rows.filter(pa.array(~again[known.num_rows :]))

    def links(self, rows: pa.Table) -> pa.Table:
        """Those of some rows of links that the state lacks."""
        rows = rows.filter(pa.array(np.isin(rows.column("link").to_numpy(), self._links)))
        if not rows.num_rows:
            return rows
        if self._known_links is None:
            self._known_links = {key for table in self._kept("link", None) for key in _link_keys(table)}
        return rows.filter(pa.array([key not in self._known_links for key in _link_keys(rows)], pa.bool_()))

    def _known(self, first: int, last: int, variables: Int64s) -> pa.Table:
        """The rows that the state has of some documents and variables."""
        docid, var = ds.field("docid"), ds.field("var")
        wanted = (docid >= first) & (docid <= last) & var.isin(pa.array(variables)) & ~ds.field("late")
        columns = ["ts", "docid", *_OF_ROW]
        tables = list(self._kept("witness", wanted, columns, (first, last)))
        return pa.concat_tables(tables) if tables else WITNESS_SCHEMA.empty_table().select(columns)

    def _kept(
        self,
        kind: Kind,
        wanted: pc.Expression | None,
        columns: list[str] | None = None,
        docids: tuple[int, int] | None = None,
    ) -> Iterator[pa.Table]:
        """The rows in sight of the files of a kind."""
        floors = self._state.floors
        schema = WITNESS_SCHEMA if kind == "witness" else LINK_SCHEMA
        for file in self._state.files:
            if file.kind != kind or not file.held:
                continue
            if docids is not None and not (
                (file.docid_min or 0) <= docids[1] and docids[0] <= (file.docid_max or docids[0])
            ):
                continue
            table = ds.dataset(self._state.root / file.path, schema=schema).to_table(columns=columns, filter=wanted)
            if floors is not None and table.num_rows:
                if kind == "witness":
                    kept = floors.keep(table.column("var").to_numpy(), table.column("ts").to_numpy())
                else:
                    kept = floors.keep_links(*(table.column(name).to_numpy() for name in ("link", "ts1", "ts2")))
                table = table.filter(pa.array(kept))
            yield table

    def _codes(self, rows: pa.Table) -> tuple[Int64s, Int64s]:
        """Document, and variable, function, node and chain in one number, of each row."""
        keys = self._keys.keys_of(rows).astype(np.int64)
        nodes, chains = (rows.column(name).combine_chunks() for name in ("node", "chain"))
        return rows.column("docid").to_numpy(), keys << 32 | self._keys.shapes.numbers(nodes, chains)


_OF_ROW = ("var", "node", "fn", "chain")
"""What tells the rows of a document apart: two rows of one node may have different chains."""


def _link_keys(rows: pa.Table) -> Iterator[tuple[int, ...]]:
    """What tells rows of links apart."""
    for row in rows.select(["link", "members", "nodes"]).to_pylist():
        yield row["link"], *(member["docid"] for member in row["members"]), *row["nodes"]


# -- a back-fill -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Filled:
    """What a back-fill has found; its matches are of history groups."""

    work: BatchWork
    lacking: tuple[tuple[Kind, str], ...]
    """Files of rows that the join state lacked."""
    results: tuple[Path, ...]
    """Folders with results."""

    def tables(self, home: Home) -> tuple[Iterator[pa.Table], Iterator[pa.Table]]:
        """The witness rows that the join state lacked, and the rows of links."""
        files = {kind: [home.root / path for of, path in self.lacking if of == kind] for kind, _ in self.lacking}
        return map(pq.read_table, files.get("witness", ())), map(pq.read_table, files.get("link", ()))


def back_fill(
    home: Home,
    settings: Settings,
    session: Callable[[], SparkSession],
    queries: Sequence[QueryInfo],
    state: HeldState,
    reach: pa.Table,
    batch: int,
    tag: str,
) -> Filled:
    """Answer queries (``answered``), all registered after the same events, from what is held.

    ``state`` is the join state, ``reach`` how long its rows are kept with these queries.  What is written has the tag,
    and nothing names it yet.
    """
    place = queries[0].docid_from
    starts = [info.ts_from for info in queries]
    least = None if None in starts else min(time for time in starts if time is not None)
    with home.catalog.snapshot() as connection:
        texts = group_texts(connection, {info.gid: info.history for info in queries if info.history is not None})
        events = held_events(connection, place, least)
    planner = Planner(home, Chosen(texts, {text.number: (0, place) for text in texts}))
    try:
        plan = planner.plan(place, place)
        assert plan is not None
        step("fill.planned")
        walk = HeldWalk(home, settings, session, plan, events, batch, tag)
        lacking = LackingRows(state, reach)
        written: list[tuple[Kind, str]] = []
        results = []
        for level in walk.parts():
            step("fill.part")
            results.append(walk.work.results(level))
            written += walk.write(f"{tag}-held-{level.name}", lacking)
            step("fill.rows")
        walk.close()
        step("fill.walked")
    finally:
        planner.close()
    return Filled(walk.work, tuple(written), tuple(results))
