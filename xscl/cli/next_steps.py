"""Telling what to do next where a listing is empty."""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.docids import PUBLISHED
from xscl.base.shown import counted
from xscl.catalog.catalog import Catalog
from xscl.catalog.event_counts import event_count
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import CHANNELS, FEEDS, INTAKE_FILES, LATE, NEVER, QUERIES

__all__ = [
    "many_late",
    "no_batches",
    "no_channels",
    "no_feeds",
    "no_items",
    "no_late_events",
    "no_matches",
    "no_queries",
]


def no_queries() -> str:
    """Tell how queries are registered."""
    return "no queries yet: xscl query add NAME 'TEXT', or xscl query load FILE"


def no_channels() -> str:
    """Tell how channels come to be."""
    return "no channels yet: the first event of a channel makes it ('xscl ingest PATH'), or 'xscl channel add NAME'"


def no_feeds() -> str:
    """Tell how feeds are subscribed to."""
    return "no feeds yet: xscl feed add URL, or xscl feed import LIST.opml"


def many_late() -> str:
    """Tell what can be done where many events come late, as in an archive whose events are not in the order of time."""
    return (
        "no join has late events ('xscl late list'); 'xscl late replay' joins them as if in time, and "
        "'xscl channel set NAME --lateness none' lets events of any age be in time"
    )


def no_matches(catalog: Catalog) -> str:
    """Tell which of the steps before a match is still to be taken."""
    with catalog.read() as connection:
        queries = connection.execute(sa.select(QUERIES.c.query).where(QUERIES.c.docid_until == NEVER).limit(1)).first()
        events = event_count(connection)
    if queries is None:
        return no_queries().replace("no queries", "no matches, and no queries", 1)
    return f"no matches yet: {_of_events(catalog, events)}"


def _of_events(catalog: Catalog, events: int) -> str:
    processed, last = catalog.ask(read_last_places)
    if not events:
        return "no events: xscl ingest PATH, or xscl feed fetch"
    if processed < last:
        return f"{counted(last - processed, 'place')} of the intake order not processed: xscl run --once"
    if catalog.ask(_came_before):
        return (
            "all events came before the queries, which see later ones; with STARTING ALL a query sees earlier ones, too"
        )
    late = catalog.ask(_count_late)
    came_late = f" {counted(late, 'event')} came late, which no match has ('xscl late list');" if late else ""
    return (
        f"all events are processed;{came_late} 'xscl query explain NAME' says what a query sees, "
        "'xscl query test NAME FILE' what it finds in a document"
    )


def _came_before(connection: Connection) -> bool:
    """Tell whether no event is behind a place from which a live query sees events."""
    last = sa.select(sa.func.max(INTAKE_FILES.c.last)).where(INTAKE_FILES.c.last < PUBLISHED).scalar_subquery()
    seen = sa.select(sa.func.min(QUERIES.c.sees_from) >= last).where(QUERIES.c.docid_until == NEVER)
    return bool(connection.scalar(seen))


def _count_late(connection: Connection) -> int:
    """Count late events that were not replayed."""
    count = sa.select(sa.func.count()).select_from(LATE).where(LATE.c.replayed.is_(None))
    return connection.execute(count).scalar_one()


def no_batches(catalog: Catalog) -> str:
    """Tell how events are processed."""
    with catalog.read() as connection:
        events = event_count(connection)
    return f"no batches yet: {'xscl run --once' if events else 'no events: xscl ingest PATH'}"


def no_late_events(catalog: Catalog) -> str:
    """Tell whether there can be any."""
    with catalog.read() as connection:
        limited = connection.execute(sa.select(CHANNELS.c.name).where(CHANNELS.c.lateness.is_not(None)).limit(1))
        if limited.first() is not None:
            return "no late events"
    return "no late events: no channel has a lateness ('xscl channel set NAME --lateness \"1 h\"')"


def no_items(catalog: Catalog) -> str:
    """Tell how the items of feeds come in."""
    with catalog.read() as connection:
        feeds = connection.execute(sa.select(FEEDS.c.number).limit(1)).first()
    return "no items yet: xscl feed fetch" if feeds is not None else no_feeds().replace("no feeds", "no items", 1)
