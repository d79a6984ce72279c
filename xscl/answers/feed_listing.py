"""Rows of a listing of feeds, how each of them does, and finding one by its address or a part of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.feed_health import Health
from xscl.base.durations import format_duration
from xscl.base.errors import CatalogError
from xscl.base.name_patterns import like
from xscl.base.shown import HIDDEN, counted, masked
from xscl.base.types import format_time
from xscl.catalog.catalog import Catalog
from xscl.catalog.tables import FEEDS

__all__ = [
    "ALL_FEEDS",
    "FEED_COLUMNS",
    "FeedFilter",
    "feed_rows",
    "feed_summary",
    "find_listed",
    "one_listed",
]

FEED_COLUMNS = (
    "feed",
    "title",
    "channel",
    "folder",
    "health",
    "status",
    "interval",
    "next",
    "fetched",
    "succeeded",
    "last",
    "failures",
    "polls",
    "items",
    "versions",
    "rejected",
    "requests",
    "bytes",
    "policy",
    "reason",
)
"""Names in a row."""
_SOME = 5


@dataclass(frozen=True, slots=True)
class FeedFilter:
    """The feeds that are wanted; None asks for nothing."""

    like: str | None = None
    """A pattern of the whole address or title (``like``)."""
    channel: str | None = None
    folder: str | None = None
    """A folder of the list, with all inside it."""
    health: Health | None = None


ALL_FEEDS = FeedFilter()


def feed_rows(catalog: Catalog, wanted: FeedFilter = ALL_FEEDS) -> Iterator[dict[str, object]]:
    """Yield a row for each feed, subscribed or met in files, with ``FEED_COLUMNS``."""
    with catalog.read() as connection:
        found = connection.execute(sa.select(FEEDS).order_by(FEEDS.c.number)).all()
    fits = like(wanted.like or "*")
    folder = None if wanted.folder is None else wanted.folder.strip("/")
    for row in found:
        if not (fits(row.url or row.identity) or fits(row.title)):
            continue
        if wanted.channel not in (None, row.channel):
            continue
        if folder is not None and not f"{row.folder or ''}/".startswith(f"{folder}/"):
            continue
        health = _health(row)
        if wanted.health in (None, health):
            yield _row(row, health)


def _row(row: sa.Row[tuple[object, ...]], health: Health) -> dict[str, object]:
    return {
        "feed": row.url or row.identity,
        "title": row.title,
        "channel": row.channel,
        "folder": row.folder,
        "health": health.value,
        "status": row.status or "not subscribed",
        "interval": None if row.interval is None else format_duration(row.interval),
        "next": _time(row.next_fetch),
        "fetched": _time(row.fetched),
        "succeeded": _time(row.succeeded),
        "last": row.problem or _last(row.http_status),
        "failures": row.failures,
        "polls": row.polls,
        "items": row.items,
        "versions": row.versions,
        "rejected": row.rejected,
        "requests": row.requests,
        "bytes": row.bytes,
        "policy": row.policy,
        "reason": row.reason,
    }


def _health(row: sa.Row[tuple[object, ...]]) -> Health:
    if row.status is None:
        return Health.file
    if row.status != "active":
        return Health(row.status)
    if row.failures or row.problem:
        return Health.failing
    return Health.new if row.fetched is None else Health.ok


def _last(status: int | None) -> str | None:
    return {None: None, 304: "304 not modified"}.get(status, str(status))


def _time(micros: int | None) -> str | None:
    return None if micros is None else format_time(micros - micros % 1_000_000)


def feed_summary(rows: Collection[Mapping[str, object]], now: int) -> str:
    """Count the feeds of each health, those that are due, and their items, in a line.

    Args:
        rows: of ``feed_rows``.
        now: microseconds since the epoch.
    """
    by_health = Counter(str(row["health"]) for row in rows)
    words = {Health.file: "not subscribed"}
    parts = [f"{by_health[health]} {words.get(health, health.value)}" for health in Health if by_health[health]]
    until = _time(now) or ""
    due = sum(row["status"] == "active" and str(row["next"] or "") <= until for row in rows)
    told = counted(len(rows), "feed") + (f": {', '.join(parts)}" if parts else "")
    if due:
        told += f"; {due} due ('xscl feed fetch')"
    items = sum(int(str(row["items"])) for row in rows)
    rejected = sum(int(str(row["rejected"])) for row in rows)
    return f"{told}; {counted(items, 'item')}" + (f", {rejected:,} rejected" if rejected else "")


def find_listed(connection: Connection, text: str) -> list[sa.Row[tuple[object, ...]]]:
    """Find the rows of ``feeds`` whose address is ``text``, or else whose address or title has it as a part.

    Raises:
        CatalogError: ``XSCL_FEED_NOT_FOUND``: there is none.
    """
    rows = connection.execute(sa.select(FEEDS).order_by(FEEDS.c.number)).all()
    named = text.rstrip("/")
    found = [row for row in rows if (row.url or "").rstrip("/") == named or row.identity == text]
    if not found and HIDDEN in text:
        found = [row for row in rows if masked(row.url or "").rstrip("/") == named]
    if not found:
        part = text.casefold()
        found = [row for row in rows if any(part in (t or "").casefold() for t in (row.url, row.identity, row.title))]
    if not found or not text:
        raise CatalogError(
            "XSCL_FEED_NOT_FOUND",
            f"no feed is called {text!r}",
            hint="'xscl feed list' and the relation feeds have them",
        )
    return found


def one_listed(catalog: Catalog, text: str) -> tuple[dict[str, object], str | None]:
    """Find a feed's row of the listing, and its identity; ``text`` is its address, or a part of its address or title.

    A feed may be subscribed at several addresses: the row is that of the address, and the identity that of the feed.

    Raises:
        CatalogError: ``XSCL_FEED_NOT_FOUND``: there is none, or more than one.
    """
    with catalog.read() as connection:
        found = find_listed(connection, text)
    identity = next((row.identity for row in found if row.identity is not None), None)
    at_address = [row for row in found if (row.url or "").rstrip("/") == text.rstrip("/")]
    if len(found) > 1 and len(at_address) == 1:
        found = at_address
    if len(found) > 1:
        some = ", ".join(row.url or row.identity for row in found[:_SOME])
        more = " …" if len(found) > _SOME else ""
        raise CatalogError("XSCL_FEED_NOT_FOUND", f"{len(found)} feeds have {text!r}: {some}{more}")
    [row] = found
    return _row(row, _health(row)), row.identity or identity
