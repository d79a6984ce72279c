"""Status of batches, of templates and of a home, for listings and messages."""

from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import place_of, published_docid
from xscl.base.shown import counted
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_streams
from xscl.catalog.counters import total
from xscl.catalog.event_counts import channel_counts, event_count, first_events
from xscl.catalog.groups import read_template_use
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.memberships import resolve_stream
from xscl.catalog.queries import read_feeders
from xscl.catalog.retained_from import held_up, held_up_note
from xscl.catalog.steps import has_steps
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import (
    BATCHES,
    CHANNELS,
    GROUPS,
    IS_RETRACTING,
    LATE,
    NEVER,
    PARTS,
    QUERIES,
    REJECTED,
    STATE_FILES,
)
from xscl.language.facts import is_made
from xscl.store.home import Home

__all__ = ["batch_columns", "batch_rows", "skipped_notes", "state_notes", "template_rows"]

_HELD = sa.case((STATE_FILES.c.held > 0, STATE_FILES.c.bytes), else_=0)
_STATE = sa.select(
    sa.func.coalesce(sa.func.sum(STATE_FILES.c.held), 0), sa.func.coalesce(sa.func.sum(_HELD), 0), sa.func.count()
).where(STATE_FILES.c.kind != "reach")
"""Rows of join state, bytes of the files that hold them, and all files."""
_NOTES = 20
"""Queries that are told one by one."""


def batch_columns() -> list[str]:
    """Return the columns of ``batch_rows``."""
    return [column.name for column in BATCHES.columns if column.name not in ("result_path", "committed")]


def batch_rows(catalog: Catalog, *, after: int = 0, limit: int | None = None) -> list[dict[str, object]]:
    """Return one row a committed batch, of the batches behind ``after``, and at most ``limit``."""
    names = batch_columns()
    wanted = sa.select(*(BATCHES.c[name] for name in names)).where(BATCHES.c.batch > after)
    with catalog.read() as connection:
        rows = connection.execute(wanted.order_by(BATCHES.c.batch).limit(limit)).mappings().all()
    return [{name: round(v, 3) if isinstance(v := row[name], float) else v for name in names} for row in rows]


def state_notes(home: Home) -> Iterator[str]:
    """Describe the contents of a home in a few lines."""
    catalog = home.catalog
    with catalog.read() as connection:
        events = event_count(connection)
        rows, size, files = connection.execute(_STATE).one()
        purged = (connection.scalar(sa.select(sa.func.sum(BATCHES.c.purged))) or 0) + total(connection, "purged")
        late, rejected = (_count(connection, table) + total(connection, table.name) for table in (LATE, REJECTED))
        unsettled = [] if not rows else list(_unsettled(connection))
    processed, last = catalog.ask(read_last_places)
    yield (
        f"events {events}, join state {counted(rows, 'row')} in {counted(size, 'byte')} (files: {files}), "
        f"purged {counted(purged, 'row')}, late {late}, rejected {rejected}"
    )
    if last > processed:
        yield f"not processed yet: {counted(last - processed, 'place')} of the intake order (xscl run --once)"
    for name in held_up(catalog):
        yield held_up_note(name)
    if unsettled:
        more = f" and {len(unsettled) - _NOTES:,} more" if len(unsettled) > _NOTES else ""
        yield (
            f"nothing settles the times of {', '.join(unsettled[:_NOTES])}{more}, so what may join with them is never "
            f"purged: xscl channel set {unsettled[0]} --lateness 1h, or --wall 1min, or heartbeats"
        )


def _unsettled(connection: Connection) -> Iterator[str]:
    """Yield the channels that queries may read, with neither a lateness nor heartbeats, which no query feeds."""
    settling = CHANNELS.c.lateness, CHANNELS.c.heartbeat, CHANNELS.c.wall
    names = sa.select(CHANNELS.c.name).where(*(column.is_(None) for column in settling)).order_by(CHANNELS.c.name)
    feeders = read_feeders(connection)
    return (name for name in connection.scalars(names) if name not in feeders and not is_made(name))


def skipped_notes(catalog: Catalog, first: int) -> Iterator[str]:
    """Note the queries that missed events which were processed from ``first`` on, as they were registered later.

    The first ones by name have a note of their own, all others have one together.
    """
    with catalog.read() as connection:
        newer = list(_registered_after(connection, first))
        if not newer:
            return
        streams = read_streams(connection)
        last = max(place for _, place, _, _ in newer)
        earliest: dict[str, int] = {}
        for span in _events_before(first, last):
            for channel, docid in first_events(connection, *span).items():
                earliest[channel] = min(earliest.get(channel, last), place_of(docid))
        skipped = []
        for name, place, names, may_fill in newer:
            channels = {resolve_stream(streams, channel)[0] for channel in names}
            # A document that is published for its own place is older than it.
            if any(earliest.get(channel, last + 1) <= place for channel in channels):
                skipped.append((name, place, channels, may_fill))
        skipped.sort(key=lambda query: query[0])
        for name, place, channels, may_fill in skipped[:_NOTES]:
            older = [channel_counts(connection, *span) for span in _events_before(first, place)]
            count = sum(counts.get(channel, 0) for counts in older for channel in channels)
            told = "STARTING ALL includes older events" if may_fill else "it sees events from its registration on"
            yield f"note: {counted(count, 'older event')} skipped for query {name}; {told}"
    if len(skipped) > _NOTES:
        yield f"note: events were skipped for {len(skipped) - _NOTES:,} more queries that are newer than they"


def _registered_after(connection: Connection, first: int) -> Iterator[tuple[str, int, list[str], bool]]:
    """Yield the live queries from this place of the intake order on that see what comes later.

    Yields:
        Name, place and channels of each, and whether its text may ask for older events.
    """
    retracting = sa.exists().where(PARTS.c.gid == QUERIES.c.gid, IS_RETRACTING)
    may_fill = sa.and_(QUERIES.c.level.is_(None), ~retracting).label("may_fill")
    # Numbers and places grow together, so that older queries need not be read.
    facts = QUERIES.c.qid, QUERIES.c.docid_from, QUERIES.c.docid_until, QUERIES.c.sees_from, GROUPS.c.channels
    statement = sa.select(*facts, may_fill).join(GROUPS, GROUPS.c.gid == QUERIES.c.gid).order_by(QUERIES.c.query.desc())
    for row in connection.execution_options(yield_per=1_000).execute(statement):
        if row.docid_from <= first:
            return
        if row.docid_until == NEVER and row.sees_from >= row.docid_from:
            yield row.qid, row.docid_from, read_stored(GROUPS.c.channels, row.channels), bool(row.may_fill)


def _events_before(first: int, place: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return the spans of numbers of the events with places from ``first`` to ``place``: of ingested, and of published
    ones.
    """
    # Published documents up to a place are numbered below the first one of the next place.
    return (first, place), (published_docid(first, 0), published_docid(place + 1, 0) - 1)


def _count(connection: Connection, table: sa.Table) -> int:
    return connection.scalar(sa.select(sa.func.count()).select_from(table)) or 0


def template_rows(catalog: Catalog) -> list[dict[str, object]]:
    """Return a row for each template, those with most queries first, and behind them one for each step."""
    found: list[dict[str, object]] = [
        {
            "template": template.id,
            "blocks": template.block_count,
            "variables": template.width,
            "joins": len(template.joins),
            "queries": queries,
            "groups": groups,
            "shape": template.certificate,
        }
        for template, queries, groups in catalog.ask(read_template_use)
    ]
    if catalog.ask(has_steps):
        from xscl.answers.explaining.step_templates import step_rows  # reads texts, which takes a while to load

        found += step_rows(catalog)
    return found
