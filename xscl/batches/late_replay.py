"""Late events taken again, as if they had been in time (docs/explanation/time.md).

A replay has a place in the intake order, and is a batch of its own.  The chosen events are walked for the queries of
two and more blocks that are live there, and joined with the events before that place that are kept.  The archive has
these, because the join state may have done with their partners long since.  Queries of one block have had the events.

The partners, no farther away than any window reaches, are walked first (``HeldWalk``).  Their matches among themselves
are thrown away: batches have found them.  So a match is found here if and only if it has an event that is taken again.
The witness rows of those events, and rows of links, become part of the join state, for later events.
"""

from __future__ import annotations

import shutil
from collections import Counter
from contextlib import closing
from dataclasses import replace

from xscl.base.failpoints import step
from xscl.batches.attempt import Attempt, Found
from xscl.batches.history_walk import HeldWalk, held_events
from xscl.batches.quotas import BindingCount
from xscl.batches.walking import Level
from xscl.catalog.events import files_between
from xscl.catalog.retained_from import keep_times
from xscl.planning.planned import Plan
from xscl.planning.planner import Planner
from xscl.planning.subscribers import Chosen, group_texts
from xscl.store.event_files import events_of
from xscl.templates.bounds import UNBOUNDED

__all__ = ["replay"]


def replay(batch: Attempt, plan: Plan) -> None:
    """Find the matches of the batch's late events with others.

    ``plan`` is that of all queries that are live at the place.
    """
    home, span = batch.home, batch.span
    events = events_of(home, span.replayed, ["docid", "channel", "ts"])
    channels = Counter(events.column("channel").to_pylist())
    times = events.column("ts").to_pylist()
    concerned = {
        gid: (live.first, live.last, live.newest)
        for gid, live in plan.program.groups.items()
        if len(live.channels) > 1 and not channels.keys().isdisjoint(live.channels)
    }
    with home.catalog.read() as connection:
        chosen = Chosen(group_texts(connection, {gid: gid for gid in concerned}), concerned)
        first, last = min(span.replayed), max(span.replayed)
        paths = home.paths(files_between(connection, first, last))
        # Row windows count what they counted when the event came, as far as that is there.
        held = replace(held_events(connection, span.first), since=keep_times(connection), counted_from={})
    with closing(Planner(home.catalog, home.folder("programs"), chosen)) as planner:
        mine = planner.plan(span.first, span.first)
        if mine is None or not times:
            return
        reach = max(planner.reach.table(mine.program, span.first).column("left").to_pylist(), default=0)
        if reach < UNBOUNDED:
            least = min(times) - reach
            since = {name: max(held.since.get(name, least), least) for name in span.clocks.channels}
            held = replace(held, since=since, until=max(times) + reach)
        step("replay.planned")
        walk = HeldWalk(home, batch.driver.settings, batch.jobs.session, mine, held, span.batch, batch.tag)
        walk.work.bindings = BindingCount(span.sight_cuts)
        for level in walk.parts():
            # A level without an event to meet has no folder.
            shutil.rmtree(walk.work.results(level), ignore_errors=True)
            step("replay.part")
        # Their counts, and refusals, are those of batches before.
        walk.work.counts.clear()
        walk.work.bindings.clear()
        walk.work.refused.clear()
        level = walk.also(Level(0, first, last, channels, paths, on_time=span.replayed, only=span.replayed))
        step("replay.walked")
        written = walk.write(f"{batch.tag}-late")
        walk.close()
        step("replay.rows")
    batch.take(Found(walk.work, tuple(written), tuple(walk.work.result_files(level))))
