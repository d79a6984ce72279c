"""Answers from what is held, for queries that see what was there before them (docs/how-to/history.md).

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
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.failpoints import step
from xscl.base.settings import Settings
from xscl.batches.history_walk import HeldWalk, held_events
from xscl.batches.level import BatchWork
from xscl.batches.missing_rows import LackingRows
from xscl.catalog.catalog import QueryInfo, query_info
from xscl.catalog.event_counts import nth_event
from xscl.catalog.tables import IS_DROPPED, IS_WAITING, QUERIES
from xscl.planning.planner import Planner
from xscl.planning.subscribers import Chosen, group_texts
from xscl.store.home import Home
from xscl.store.join_state import HeldState, Kind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Filled", "answered", "back_fill", "mark_filled", "next_stop", "waiting_queries"]

_MOST_QUERIES = 10_000
"""That are answered together."""


def next_stop(connection: Connection, first: int, last: int) -> tuple[bool, int]:
    """How far a batch may go that begins at the place ``first``, ``last`` at most; and whether it is a back-fill.

    A batch of events ends before a query that waits for its answers from what is held.  A batch that begins with one
    goes on while nothing comes but registrations, so that all queries of it see the same events.
    """
    waiting = sa.select(QUERIES.c.docid_from).where(IS_WAITING, QUERIES.c.docid_from.between(first, last))
    places = list(connection.scalars(waiting.order_by(QUERIES.c.docid_from).limit(_MOST_QUERIES + 1)))
    if not places:
        return False, last
    if places[0] > first:
        return False, places[0] - 1
    event = nth_event(connection, first, last, 1)
    dropped = sa.select(sa.func.min(QUERIES.c.docid_until)).where(IS_DROPPED, QUERIES.c.docid_until >= first)
    ends = [place - 1 for place in (event, connection.scalar(dropped)) if place is not None]
    ends += [places[-1] - 1] if len(places) > _MOST_QUERIES else []
    return True, min([last, *ends])


def waiting_queries(connection: Connection, first: int, last: int) -> tuple[QueryInfo, ...]:
    """The queries registered at some places that wait for their answers from what is held."""
    found = sa.select(QUERIES).where(IS_WAITING, QUERIES.c.docid_from.between(first, last))
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
    planner = Planner(home.catalog, home.folder("programs"), Chosen(texts, {text.number: (0, place) for text in texts}))
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
