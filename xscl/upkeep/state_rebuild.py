"""Join state that was lost, made again: the events that are there are walked for all live queries."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Collection
from dataclasses import replace

import sqlalchemy as sa

from xscl.base.settings import DEFAULT_SETTINGS
from xscl.base.types import now_micros
from xscl.batches.history_walk import HeldEvents, HeldWalk
from xscl.batches.missing_rows import LackingRows
from xscl.batches.ranges import reach_after
from xscl.catalog.batches import newest_batch
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.parts import finders_of
from xscl.catalog.state_files import remove_state_files
from xscl.catalog.tables import INTAKE_FILES, LATE, NEVER, QUERIES
from xscl.planning.planned import Plan
from xscl.planning.planner import Planner
from xscl.planning.subscribers import Chosen, group_texts
from xscl.spark.session import start_session
from xscl.store.home import Home
from xscl.store.join_state import commit_state, held_state, next_state
from xscl.store.state_files import Kind, facts_of_file
from xscl.store.watermarks import channel_clocks, next_watermarks
from xscl.templates.retention import REACH_SCHEMA

__all__ = ["rebuild_state"]


def rebuild_state(home: Home, lost: Collection[str]) -> int:
    """Make again what the join state lacks of processed events; how many rows.

    Until its one transaction the lost files stay named, so that a process may end anywhere.

    Args:
        home: the home, whose lock the caller holds.
        lost: files of join state, as they are named, that are not read any more.
    """
    with home.catalog.read() as connection:
        last = home.catalog.ask(read_last_places)[0]
        batch = newest_batch(connection)
        finders = finders_of(connection)
        live = connection.scalars(sa.select(QUERIES.c.gid).where(QUERIES.c.docid_until == NEVER).distinct())
        gids = {part for gid in live for part in finders.get(gid, (gid,))}
        texts = group_texts(connection, {gid: gid for gid in gids})
        again = connection.scalars(sa.select(LATE.c.docid).where(LATE.c.replayed <= last, LATE.c.docid.is_not(None)))
        count = connection.scalar(sa.select(sa.func.sum(INTAKE_FILES.c.rows))) or 0
        # All that is there: what is held no more may still have partners to come.
        events = HeldEvents(last + 1, {}, frozenset(again), int(count))
        named = held_state(home, connection)
        state = replace(named, files=tuple(file for file in named.files if file.path not in lost))
    programs = home.folder("programs")
    current = Planner(home.catalog, programs)
    chosen = Planner(home.catalog, programs, Chosen(texts, dict.fromkeys(gids, (0, last + 1, 0))))
    try:
        now, plan = current.plan(last, last + 1), chosen.plan(last + 1, last + 1)
        reach = REACH_SCHEMA.empty_table() if now is None else reach_after(home, current, now, last)
        written, rows = (
            ([], 0) if plan is None else _write_missing_rows(home, plan, events, batch, LackingRows(state, reach))
        )
        with home.catalog.read() as connection:
            watermarks = next_watermarks(channel_clocks(connection), last)
        change = next_state(home, state, batch=batch, reach=reach, watermarks=watermarks, fresh=written)
        with home.catalog.begin() as connection:
            remove_state_files(connection, lost)
            commit_state(connection, change, now_micros())
    finally:
        current.close()
        chosen.close()
    return rows


def _write_missing_rows(
    home: Home, plan: Plan, events: HeldEvents, batch: int, lacking: LackingRows
) -> tuple[list[tuple[Kind, str]], int]:
    """Write the rows that are lacking; return their files, and how many rows they have."""
    tag = f"{batch:08d}-{uuid.uuid4().hex[:8]}"
    walk = HeldWalk(home, DEFAULT_SETTINGS, start_session, plan, events, batch, tag)
    written: list[tuple[Kind, str]] = []
    try:
        for level in walk.parts():
            written += walk.write(f"{tag}-held-{level.name}", lacking)
    finally:
        walk.close()
        shutil.rmtree(home.root / "results" / tag, ignore_errors=True)
    return written, sum(facts_of_file(home.root, path, kind, batch).rows for kind, path in written)
