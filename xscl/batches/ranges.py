"""The range of the intake order that is the next batch, and all that the catalogue says for it, read at one moment.

A batch takes events, answers queries from held events (docs/how-to/history.md), or takes late events again
(docs/explanation/time.md).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import place_of
from xscl.batches.publish_levels import Publishing, acyclic_end, publishing
from xscl.batches.quotas import sight_cuts
from xscl.batches.row_times import RowTimes
from xscl.batches.walls import beat_walls, due_walls
from xscl.catalog.event_counts import channel_counts, nth_event
from xscl.catalog.events import files_between
from xscl.catalog.intake_order import read_heartbeats, read_last_places
from xscl.catalog.prepared import prepared
from xscl.catalog.queries import Feed, query_info, read_feeds
from xscl.catalog.query_state import QueryState, query_state
from xscl.catalog.records import QueryInfo
from xscl.catalog.retained_from import held_times, keep_times
from xscl.catalog.tables import BATCHES, FLUSHES, HAS_SPARE, HEARTBEATS, IS_DROPPED, IS_WAITING, LATE, QUERIES
from xscl.planning.kinds_of_queries import Kinds
from xscl.planning.planned import Plan
from xscl.planning.planner import Planner
from xscl.store.event_retention import Reaches
from xscl.store.home import Home
from xscl.store.join_state import HeldState, files_by_kind, state_among
from xscl.store.state_files import StateFile
from xscl.store.taken_events import TakenEvents, taken_events, written_events
from xscl.store.watermarks import ChannelClocks, channel_clocks
from xscl.templates.retention import REACH_SCHEMA

__all__ = ["BatchRange", "next_batch", "next_range", "next_stop", "reach_after", "waiting_queries"]

_MOST_QUERIES = 10_000
"""Queries that are answered together."""


@dataclass(frozen=True)
class BatchRange:
    """Range of the intake order that is a batch, and the catalogue as it was before the batch."""

    started: float
    """Value of ``time.perf_counter`` when its reading began."""
    batch: int
    first: int
    last: int
    taken_in: int
    """Last place of the intake order."""
    queries: QueryState
    channels: Mapping[str, int]
    """Number of events of each channel."""
    paths: list[str]
    """Files that hold them."""
    plan: Plan | None
    """Plan of the queries that see some event of the range; None: there is no query."""
    reach: pa.Table
    """Table ``REACH_SCHEMA``: how long join state is kept after the batch."""
    reaches: Reaches
    state: HeldState
    clocks: ChannelClocks
    publishing: Publishing | None
    waiting: tuple[QueryInfo, ...]
    """Queries that the batch answers from held events, as they are after it; if there are any, it does nothing else."""
    sight_cuts: npt.NDArray[np.int64] | None
    """Places that tell apart which documents queries see, where bindings are counted for a quota."""
    beats: tuple[tuple[int, str, int], ...]
    """Place, channel and time of its heartbeats."""
    feeds: Sequence[Feed]
    """Queries that publish in the range, if there are queries that are made of parts."""
    has_parts: bool
    """Whether there are queries that are made of parts: about absence, with steps, or with windows."""
    files: Mapping[str, Sequence[StateFile]]
    """Files of state by kind."""
    replayed: frozenset[int]
    """Numbers of late events that it takes again; if there are any, it does nothing else."""
    written: TakenEvents | None
    """Its events, if they are still in memory."""

    @property
    def events(self) -> int:
        """Number of its events."""
        return sum(self.channels.values())

    @cached_property
    def taken(self) -> TakenEvents | None:
        """Its events, if they are still in memory or are rows alone; None: they are to be read from their files."""
        if self.plan is None or not self.channels:
            return None
        if self.written is not None or not self.channels.keys() <= self.plan.answered:
            return self.written
        return taken_events(self.paths, self.first, self.last)

    @property
    def pending(self) -> str | None:
        """File with answers about absence that are not certain yet."""
        return self._path("pending")

    @property
    def windows(self) -> str | None:
        """File with matches that windows are over which are not answered yet."""
        return self._path("windows")

    @property
    def steps(self) -> str | None:
        """File with matches that steps go on from."""
        return self._path("steps")

    @property
    def answered(self) -> tuple[StateFile, ...]:
        """Files with answers about absence that nothing makes final, the oldest one first."""
        return tuple(self.files.get("answered", ()))

    def _path(self, kind: str) -> str | None:
        return next((file.path for file in self.files.get(kind, ())), None)

    @property
    def only_beats(self) -> bool:
        """Whether it has heartbeats, and no events."""
        return bool(self.beats) and not self.events

    @property
    def other(self) -> int | None:
        """Last place of it that no heartbeat has; None: there are heartbeats alone."""
        beats = {place for place, _, _ in self.beats}
        return next((place for place in range(self.last, self.first - 1, -1) if place not in beats), None)

    @property
    def beaten(self) -> dict[str, int]:
        """Greatest time of its heartbeats by channel."""
        found: dict[str, int] = {}
        for _, channel, beat in self.beats:
            found[channel] = max(beat, found.get(channel, beat))
        return found

    @property
    def name(self) -> str:
        """Number and places, for messages."""
        return f"batch {self.batch} (places {self.first} to {self.last})"


def next_batch(home: Home, planner: Planner, batch_docs: int, *, beats: bool = True) -> BatchRange | None:
    """Read the next batch, of ``batch_docs`` events at most; None if there is nothing to do.

    With ``beats``, heartbeats by the wall clock are sent first, to channels that something waits for.  Much to do does
    not keep them waiting, so what they end goes also under load.
    """
    span = _next_batch(home, planner, batch_docs, beats=beats)
    if not isinstance(span, list):
        return span
    beat_walls(home, span)
    return next_batch(home, planner, batch_docs, beats=False)


def _next_batch(
    home: Home, planner: Planner, batch_docs: int, *, beats: bool
) -> BatchRange | None | list[tuple[str, int]]:
    """Read the next batch, or the heartbeats that are due."""
    started = time.perf_counter()
    with home.catalog.read() as connection:
        if beats and (due := due_walls(home, connection)):
            return due
        processed, taken_in = read_last_places(connection)
        if processed >= taken_in:
            return None
        queries = query_state(connection)
        kinds = planner.kinds.read(connection, queries)
        found = next_range(connection, processed + 1, taken_in, batch_docs, publish=kinds.publish)
        return _read_batch(home, planner, connection, found, queries, kinds, started)


def _read_batch(
    home: Home,
    planner: Planner,
    connection: Connection,
    found: Stretch,
    queries: QueryState,
    kinds: Kinds,
    started: float,
) -> BatchRange:
    """Read all that the catalogue says for a batch of some places."""
    first, last = found.first, found.last
    number = (connection.scalar(*_newest_batch()) or 0) + 1
    paths = home.paths(files_between(connection, first, last))
    written = written_events(paths, first, last) if paths else None
    channels = channel_counts(connection, first, last) if written is None else written.counts()
    waiting, replayed, beaten = _reasons(connection, found, number)
    # Queries that were registered at the last place are part of a batch that answers them.
    end = last + 1 if waiting else last
    busy = channels or waiting or replayed or beaten
    plan = planner.plan(first, end, connection) if busy else None
    published = publishing(connection, first, end) if busy and kinds.publish else None
    files, clocks = files_by_kind(connection), channel_clocks(connection)
    return BatchRange(
        started=started,
        batch=number,
        first=first,
        last=last,
        taken_in=found.taken_in,
        queries=queries,
        channels=channels,
        paths=paths,
        plan=plan,
        reach=REACH_SCHEMA.empty_table() if plan is None else reach_after(home, planner, plan, last),
        reaches={} if plan is None else dict(planner.reach.channels),
        state=state_among(home, files, clocks.watermarks),
        clocks=clocks,
        publishing=Publishing((), frozenset()) if published is None and busy and kinds.has_parts else published,
        waiting=waiting,
        sight_cuts=sight_cuts(connection, min([first, *map(place_of, replayed)]), last),
        beats=beaten,
        feeds=read_feeds(connection, first, last) if kinds.has_parts and kinds.publish else (),
        has_parts=kinds.has_parts,
        files=files,
        replayed=replayed,
        written=written,
    )


def _reasons(
    connection: Connection, found: Stretch, number: int
) -> tuple[tuple[QueryInfo, ...], frozenset[int], tuple[tuple[int, str, int], ...]]:
    """Read the queries that a batch answers from held events, the events that it takes again, and its heartbeats."""
    first, last = found.first, found.last
    if found.kind == "back-fill":
        return _answered(waiting_queries(connection, first, last), number, held_times(connection)), frozenset(), ()
    if found.kind == "replay":
        return (), _replayed_at(connection, first), ()
    return (), frozenset(), tuple(read_heartbeats(connection, first, last))


def reach_after(home: Home, planner: Planner, plan: Plan, last: int) -> pa.Table:
    """Return rows of ``REACH_SCHEMA``: how long join state is kept after the place ``last``."""
    if not plan.places:
        return planner.reach.table(plan.program, last)
    times = _ROW_TIMES.setdefault(planner, RowTimes())
    return planner.reach.table(plan.program, last, times.least(home, plan))


_ROW_TIMES: WeakKeyDictionary[Planner, RowTimes] = WeakKeyDictionary()
"""Times of the events that row windows of a planner's queries count."""


class Stretch(NamedTuple):
    """Places of the intake order that are one batch."""

    first: int
    last: int
    taken_in: int
    """Last place of the intake order."""
    kind: Literal["events", "back-fill", "replay"]


def next_range(connection: Connection, first: int, taken_in: int, batch_docs: int, *, publish: bool) -> Stretch:
    """Return the places of the next batch.

    A batch has ``batch_docs`` events at most and ends at a flush.  A batch also ends before a query that is to be
    answered from held events, and before a replay of late events; these are batches of their own.  A batch ends
    before the drop of a query that reads published documents: those that come too late are replayed before it goes.

    Args:
        connection: reads one state of the catalogue.
        first: place at which the batch begins.
        taken_in: last place of the intake order, no less than ``first``.
        batch_docs: events at most.
        publish: whether there are queries that publish.
    """
    again, flush = connection.execute(*_ends(first, taken_in)).one()
    if again == first:
        return Stretch(first, first, taken_in, "replay")
    last = taken_in if again is None else again - 1
    is_filling, last = next_stop(connection, first, _end_before_drop(connection, first, last) if publish else last)
    if is_filling:
        return Stretch(first, last, taken_in, "back-fill")
    nth = nth_event(connection, first, last, batch_docs)
    last = min(place for place in (last, nth, flush) if place is not None)
    return Stretch(first, acyclic_end(connection, first, last) if publish else last, taken_in, "events")


def next_stop(connection: Connection, first: int, last: int) -> tuple[bool, int]:
    """Return whether a batch from ``first`` on answers queries from held events, and its last place, at most ``last``.

    A batch of events ends before a query that waits for its answers from held events.  A batch that begins with one
    goes on while nothing comes but registrations, so that all queries of it see the same events.
    """
    places = list(connection.scalars(*_waiting_places(first, last)))
    if not places:
        return False, last
    if places[0] > first:
        return False, places[0] - 1
    event = nth_event(connection, first, last, 1)
    dropped = sa.select(sa.func.min(QUERIES.c.docid_until)).where(IS_DROPPED, QUERIES.c.docid_until > first)
    ends = [place - 1 for place in (event, connection.scalar(dropped)) if place is not None]
    ends += [places[-1] - 1] if len(places) > _MOST_QUERIES else []
    return True, min([last, *ends])


def _end_before_drop(connection: Connection, first: int, last: int) -> int:
    """Return the last place, at most ``last``, of a batch from ``first`` on that leaves drops to the next one, unless
    nothing comes before them.
    """
    spare = connection.scalar(*_first_spare(first))
    if spare is None or spare > last:
        return last
    places = nth_event(connection, first, last, 1), connection.scalar(*_first_reason(first, last))
    begin = min((place for place in places if place is not None), default=last)
    if begin > spare:
        spare = connection.scalar(*_first_spare(begin))
    return last if spare is None else min(last, spare - 1)


def waiting_queries(connection: Connection, first: int, last: int) -> tuple[QueryInfo, ...]:
    """Read the queries registered at some places that wait for their answers from held events."""
    return tuple(query_info(row) for row in connection.execute(*_waiting(first, last)).mappings())


@prepared
def _newest_batch() -> sa.Select[Any]:
    return sa.select(sa.func.max(BATCHES.c.batch))


@prepared
def _ends(first: int, last: int) -> sa.Select[Any]:
    """Select the first places of a range that has a replay of late events, and that has a flush."""
    replay = sa.select(sa.func.min(LATE.c.replayed)).where(LATE.c.replayed.between(first, last))
    flush = sa.select(sa.func.min(FLUSHES.c.place)).where(FLUSHES.c.place.between(first, last))
    return sa.select(replay.scalar_subquery(), flush.scalar_subquery())


@prepared
def _first_spare(first: int) -> sa.Select[Any]:
    return sa.select(sa.func.min(QUERIES.c.spare)).where(HAS_SPARE, QUERIES.c.spare > first)


@prepared
def _first_reason(first: int, last: int) -> sa.Select[Any]:
    """Select the place of the first heartbeat, or of a query that is to be answered from held events."""
    beats = sa.select(HEARTBEATS.c.place).where(HEARTBEATS.c.place.between(first, last))
    fills = sa.select(QUERIES.c.docid_from).where(IS_WAITING, QUERIES.c.docid_from.between(first, last))
    places = sa.union_all(beats, fills).subquery()
    return sa.select(sa.func.min(places.c.place))


@prepared
def _waiting(first: int, last: int) -> sa.Select[Any]:
    between = QUERIES.c.docid_from.between(first, last)
    return sa.select(QUERIES).where(IS_WAITING, between).order_by(QUERIES.c.query)


@prepared
def _waiting_places(first: int, last: int) -> sa.Select[Any]:
    places = sa.select(QUERIES.c.docid_from).where(IS_WAITING, QUERIES.c.docid_from.between(first, last))
    return places.order_by(QUERIES.c.docid_from).limit(_MOST_QUERIES + 1)


@prepared
def _late_again(place: int) -> sa.Select[Any]:
    # Events without a number are published documents that a repair has queries publish again, and that they have not.
    wanted = LATE.c.replayed == place, LATE.c.docid.is_not(None)
    return sa.select(LATE.c.docid, LATE.c.channel, LATE.c.ts).where(*wanted)


def _answered(queries: tuple[QueryInfo, ...], batch: int, held_from: Mapping[str, int]) -> tuple[QueryInfo, ...]:
    """Return queries as they are when a batch has answered them; queries of one group have one history group.

    The join state may have events from before ``held_from``, for other queries; these are to see them in no later
    match.
    """
    numbers: dict[int, int] = {}
    for info in queries:
        numbers.setdefault(info.gid, -info.query)
    return tuple(replace(info, history=numbers[info.gid], filled=batch, held_from=held_from) for info in queries)


def _replayed_at(connection: Connection, place: int) -> frozenset[int]:
    """Read the numbers of the late events that are taken again at a place and are still kept."""
    rows = connection.execute(*_late_again(place)).all()
    kept = keep_times(connection) if rows else {}
    # Upkeep may have removed others, or not yet.
    return frozenset(row.docid for row in rows if row.ts >= kept.get(row.channel, row.ts))
