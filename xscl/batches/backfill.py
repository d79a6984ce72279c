"""Answers from held events, for queries that see events from before them (docs/how-to/history.md).

Such a query waits until everything before its registration is processed.  Then the held events of the channels that it
reads are walked for it and for the queries registered with it, and joined among themselves, some thousand at a time.
A plan of their own does that: the work depends on these queries and events alone.  Their matches are kept under
**history groups**, numbers below 0, because the group itself may have other queries, which do not see them.

Witness rows, and rows of links, that the join state lacks become part of it.  So ordinary batches find the matches of
later events with held ones.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from xscl.base.failpoints import step
from xscl.batches.attempt import Attempt, Found
from xscl.batches.history_walk import HeldWalk, held_events
from xscl.batches.missing_rows import LackingRows
from xscl.batches.quotas import BindingCount
from xscl.planning.planner import Planner
from xscl.planning.subscribers import Chosen, group_texts
from xscl.store.state_files import Kind

__all__ = ["back_fill"]


def back_fill(batch: Attempt) -> None:
    """Answer the batch's queries, all registered after the same events, from held events."""
    home, span = batch.home, batch.span
    place = span.waiting[0].docid_from
    starts = [info.ts_from for info in span.waiting]
    least = None if None in starts else min(time for time in starts if time is not None)
    with home.catalog.read() as connection:
        texts = group_texts(connection, {info.gid: info.history for info in span.waiting if info.history is not None})
        events = held_events(connection, place, least)
    chosen = Chosen(texts, {text.number: (0, place, 0) for text in texts})
    lacking = LackingRows(span.state, span.reach)
    written: list[tuple[Kind, str]] = []
    results: list[Path] = []
    with closing(Planner(home.catalog, home.folder("programs"), chosen)) as planner:
        mine = planner.plan(place, place)
        assert mine is not None
        step("fill.planned")
        walk = HeldWalk(home, batch.driver.settings, batch.jobs.session, mine, events, span.batch, batch.tag)
        walk.work.bindings = BindingCount(span.sight_cuts)
        for level in walk.parts():
            step("fill.part")
            results += walk.work.result_files(level)
            written += walk.write(f"{batch.tag}-held-{level.name}", lacking)
            step("fill.rows")
        walk.close()
        step("fill.walked")
    batch.take(Found(walk.work, tuple(written), tuple(results)))
