"""Late events taken again, as if they had been in time (docs/explanation/time.md).

A replay has a place in the intake order, and is a batch of its own.  The chosen events are walked for the queries of
two and more blocks that are live there, and joined with the events before that place that are kept: with those of the
archive, because the join state may have done with their partners long since.  Queries of one block have had the events.

The partners, no farther away than any window reaches, are walked first (``HeldWalk``) and what they find among
themselves is thrown away: batches have found it.  So a match is found here if and only if it has an event that is taken
again.  Those events' witness rows, and rows of links, become part of the join state, for what comes later.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import sqlalchemy as sa
from pyspark.sql import SparkSession
from sqlalchemy.engine import Connection

from xscl.base.failpoints import step
from xscl.base.settings import Settings
from xscl.batches.backfill import Filled
from xscl.batches.history_walk import HeldWalk, held_events
from xscl.catalog.retained_from import keep_times
from xscl.catalog.tables import CHANNELS, INTAKE_FILES, IS_DROPPED, LATE, QUERIES
from xscl.planning.planner import Plan, Planner
from xscl.planning.subscribers import Chosen, group_texts
from xscl.store.event_files import Level, events_of
from xscl.store.home import Home
from xscl.templates.bounds import UNBOUNDED

__all__ = ["Replay", "end_dropped", "next_replay", "replay", "replay_at"]


@dataclass(frozen=True, slots=True)
class Replay:
    """Late events that are taken again at a place."""

    place: int
    docids: frozenset[int]


def next_replay(connection: Connection, first: int, last: int) -> int | None:
    """The place of the first replay of a range of the intake order."""
    found: int | None = connection.scalar(
        sa.select(sa.func.min(LATE.c.replayed)).where(LATE.c.replayed.between(first, last))
    )
    return found


def replay_at(connection: Connection, place: int) -> Replay | None:
    """What is taken again at a place; None if it is not the place of a replay, or nothing of it is kept any more."""
    kept = keep_times(connection)
    # Without a number are those that a repair has queries publish anew, and that they have not.
    wanted = LATE.c.replayed == place, LATE.c.docid.is_not(None)
    rows = connection.execute(sa.select(LATE.c.docid, LATE.c.channel, LATE.c.ts).where(*wanted))
    # Upkeep may have removed others, or not yet.
    docids = frozenset(row.docid for row in rows if row.ts >= kept.get(row.channel, row.ts))
    return Replay(place, docids) if docids else None


def end_dropped(connection: Connection, place: int, batch: int) -> None:
    """Queries dropped before a place have no matches of the batch there, of a replay or of answers from what is held,
    whatever members these have.
    """
    dropped = IS_DROPPED, QUERIES.c.docid_until < place, QUERIES.c.ended.is_(None)
    connection.execute(QUERIES.update().where(*dropped).values(ended=batch - 1))


def replay(
    home: Home, settings: Settings, session: Callable[[], SparkSession], found: Replay, plan: Plan, batch: int, tag: str
) -> Filled | None:
    """Find what late events make with others; None if nobody asks.

    ``plan`` is that of all queries that are live at the place.  What is written has the tag, and nothing names it yet.
    """
    events = events_of(home, set(found.docids), ["docid", "channel", "ts"])
    channels = Counter(events.column("channel").to_pylist())
    times = events.column("ts").to_pylist()
    concerned = {
        gid: (live.first, live.last)
        for gid, live in plan.program.groups.items()
        if len(live.channels) > 1 and not channels.keys().isdisjoint(live.channels)
    }
    with home.catalog.read() as connection:
        texts = group_texts(connection, {gid: gid for gid in concerned})
    planner = Planner(home.catalog, home.folder("programs"), Chosen(texts, concerned))
    try:
        mine = planner.plan(found.place, found.place)
        if mine is None or not times:
            return None
        reach = max(planner.reach.table(mine.program, found.place).column("left").to_pylist(), default=0)
        with home.catalog.snapshot() as connection:
            kept = {row.name: row.kept_from for row in connection.execute(sa.select(CHANNELS))}
            held = replace(held_events(connection, found.place), since=_known(kept))
        if reach < UNBOUNDED:
            least = dict.fromkeys(kept, min(times) - reach)
            since = {name: max(held.since.get(name, time), time) for name, time in least.items()}
            held = replace(held, since=since, until=max(times) + reach)
        step("replay.planned")
        walk = HeldWalk(home, settings, session, mine, held, batch, tag)
        for level in walk.parts():
            shutil.rmtree(walk.work.results(level))
            step("replay.part")
        # What these came to was counted, and refused, when they came.
        walk.work.counts.clear()
        walk.work.refused.clear()
        with home.catalog.read() as connection:
            first, last = min(found.docids), max(found.docids)
            files = sa.select(INTAKE_FILES.c.path).where(INTAKE_FILES.c.last >= first, INTAKE_FILES.c.first <= last)
            paths = home.paths(list(connection.scalars(files.order_by(INTAKE_FILES.c.first))))
        level = walk.also(Level(0, first, last, channels, paths, on_time=found.docids, only=found.docids))
        step("replay.walked")
        written = walk.write(f"{tag}-late")
        walk.close()
        step("replay.rows")
    finally:
        planner.close()
    return Filled(walk.work, tuple(written), (walk.work.results(level),))


def _known(times: Mapping[str, int | None]) -> dict[str, int]:
    return {name: time for name, time in times.items() if time is not None}
