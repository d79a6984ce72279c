"""Listing the items of feeds: title, feed, date and link of each, newest first; and showing one."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.answers.feed_listing import find_listed
from xscl.answers.matches.growing_parts import MOST, growing_parts
from xscl.base.errors import CatalogError, EngineError
from xscl.base.name_patterns import like
from xscl.base.safe_xml import parse_stored
from xscl.base.system_errors import named_file_faults
from xscl.base.types import format_time
from xscl.catalog.catalog import Catalog
from xscl.catalog.memberships import aliases
from xscl.catalog.records import RAW
from xscl.catalog.retained_from import in_sight
from xscl.catalog.tables import EVENT_IDS, FEEDS, in_parts
from xscl.store.event_files import events_of
from xscl.store.home import Home

__all__ = ["ITEM_COLUMNS", "ItemFilter", "find_item", "item_page", "item_rows", "received_by_day"]

ITEM_COLUMNS = ("item", "ts", "title", "link", "feed", "address", "channel", "version")
"""Names in a row."""
_CURSOR = re.compile(r"(-?\d{1,17})_(\d{1,18})", re.ASCII)
_SOME = 5
_DAY = 86_400_000_000
_COUNTED = 100_000
"""Events of a home among which those of a feed are counted."""


@dataclass(frozen=True, slots=True)
class ItemFilter:
    """The items that are wanted; None asks for nothing."""

    feed: str | None = None
    """A feed's address, or a part of the address or title of one or several."""
    channel: str | None = None
    since: int | None = None
    """Items of this event time or later, microseconds."""
    until: int | None = None
    like: str | None = None
    """A pattern of the whole title or link (``like``)."""
    after: str | None = None
    """Cursor of an item (``item_page``): only those that come behind it."""


def item_rows(home: Home, wanted: ItemFilter) -> Iterator[dict[str, object]]:
    """Return a row for each item, its newest version, with ``ITEM_COLUMNS``, the newest items first.

    Raises:
        CatalogError: ``XSCL_FEED_NOT_FOUND``: no feed has that address, nor that part.
    """
    return (row for row, _ in _find_rows(home, wanted))


def item_page(home: Home, wanted: ItemFilter, limit: int) -> tuple[list[dict[str, object]], str | None]:
    """Return so many items at most, and the cursor behind them; None at the end.

    Raises:
        CatalogError: as ``item_rows`` does; ``XSCL_BAD_CURSOR``.
    """
    found = list(islice(_find_rows(home, wanted), limit + 1))
    after = found[limit - 1][1] if len(found) > limit else None
    return [row for row, _ in found[:limit]], after


def _find_rows(home: Home, wanted: ItemFilter) -> Iterator[tuple[dict[str, object], str]]:
    """Yield the rows of items, each with its cursor."""
    with home.catalog.read() as connection:
        identities = None
        if wanted.feed is not None:
            identities = [row.identity for row in find_listed(connection, wanted.feed) if row.identity is not None]
        addresses = _addresses(connection)
    fits = None if wanted.like is None else like(wanted.like)
    with named_file_faults(home.root):
        for part in growing_parts(_newest(home.catalog, wanted, identities)):
            for row, cursor in _rows(home, part, addresses):
                if fits is None or fits(row["title"]) or fits(row["link"]):
                    yield row, cursor


def received_by_day(catalog: Catalog, identity: str, now: int, days: int) -> list[int]:
    """Count the items and new versions of a feed that came on each of the days before ``now``, the last day last.

    Only the newest events of the home are looked at, so that the answer takes no longer as the home grows.
    """
    ids = EVENT_IDS.c
    newest = sa.select(ids.received, ids.feed, ids.channel).order_by(ids.docid.desc()).limit(_COUNTED).subquery()
    column = newest.c
    wanted = sa.select(column.received).where(column.feed == identity, column.received > now - days * _DAY)
    counted = [0] * days
    with catalog.read() as connection:
        for received in connection.scalars(wanted.where(column.channel.not_like(f"%{RAW}"))):
            counted[max(0, days - 1 - (now - received) // _DAY)] += 1
    return counted


def _addresses(connection: Connection) -> dict[str, str]:
    """Give the address of each feed that has one, by its identity."""
    found = connection.execute(sa.select(FEEDS.c.identity, FEEDS.c.url).where(FEEDS.c.identity.is_not(None)))
    return {row.identity: row.url or row.identity for row in found}


def _items(connection: Connection) -> sa.Select[tuple[object, ...]]:
    """Return all versions of items in sight, without the entries as they were published."""
    ids = EVENT_IDS.c
    columns = ids.channel, ids.id, ids.base, ids.feed, ids.version, ids.docid, ids.ts
    of_feeds = ids.feed != "", ids.channel.not_like(f"%{RAW}"), ids.membership.not_in(aliases(connection))
    return sa.select(*columns).where(*of_feeds, in_sight(connection))


def _newest(
    catalog: Catalog, wanted: ItemFilter, identities: Collection[str] | None
) -> Iterator[sa.Row[tuple[object, ...]]]:
    """Select the versions that are asked for, the newest first."""
    ids = EVENT_IDS.c
    asked: list[sa.ColumnElement[bool]] = []
    if identities is not None:
        asked.append(ids.feed.in_(identities))
    if wanted.channel is not None:
        asked.append(ids.channel == wanted.channel)
    if wanted.since is not None:
        asked.append(ids.ts >= wanted.since)
    if wanted.until is not None:
        asked.append(ids.ts <= wanted.until)
    if wanted.after is not None:
        ts, docid = _place(wanted.after)
        asked.append(sa.or_(ids.ts < ts, sa.and_(ids.ts == ts, ids.docid < docid)))
    with catalog.read() as connection:
        statement = _items(connection).where(*asked).order_by(ids.ts.desc(), ids.docid.desc())
        yield from connection.execution_options(yield_per=MOST).execute(statement)


def _place(cursor: str) -> tuple[int, int]:
    """Read the time and the document's number of a cursor.

    Raises:
        EngineError: ``XSCL_BAD_CURSOR``.
    """
    found = _CURSOR.fullmatch(cursor)
    if found is None:
        raise EngineError("XSCL_BAD_CURSOR", f"{cursor[:100]!r} is no cursor of items", hint="use that of a listing")
    return int(found[1]), int(found[2])


def _rows(
    home: Home, part: Sequence[sa.Row[tuple[object, ...]]], addresses: Mapping[str, str]
) -> Iterator[tuple[dict[str, object], str]]:
    with home.catalog.read() as connection:
        last = _last_versions(connection, part)
    part = [row for row in part if last.get((row.channel, row.feed, row.base)) == row.version]
    events = events_of(home, {row.docid for row in part}, ["docid", "content"]).to_pylist()
    documents = {event["docid"]: event["content"] for event in events}
    for row in part:
        # What retention has removed meanwhile is not listed.
        if (content := documents.get(row.docid)) is not None:
            yield _row(row, dict(reversed(_fields(content))), addresses), f"{row.ts}_{row.docid}"


def _row(row: sa.Row[tuple[object, ...]], fields: Mapping[str, str], addresses: Mapping[str, str]) -> dict[str, object]:
    return {
        "item": row.id,
        "ts": None if row.ts is None else format_time(row.ts),
        "title": fields.get("title"),
        "link": fields.get("item_url"),
        "feed": fields.get("channel_title"),
        "address": addresses.get(row.feed, row.feed),
        "channel": row.channel,
        "version": row.version,
    }


def _last_versions(
    connection: Connection, rows: Collection[sa.Row[tuple[object, ...]]]
) -> dict[tuple[str, str, str], int]:
    ids = EVENT_IDS.c
    found: dict[tuple[str, str, str], int] = {}
    shown = in_sight(connection)
    for some in in_parts(sorted({row.base for row in rows})):
        for channel in sorted({row.channel for row in rows}):
            mine = ids.channel == channel, ids.base.in_(some), shown
            newest = sa.select(ids.feed, ids.base, sa.func.max(ids.version).label("version")).where(*mine)
            for row in connection.execute(newest.group_by(ids.feed, ids.base)):
                found[channel, row.feed, row.base] = row.version
    return found


def _fields(content: str) -> list[tuple[str, str]]:
    """Give the fields of an item's document, by name."""
    return [(str(child.tag), " ".join((child.text or "").split())) for child in parse_stored(content)]


def _search_rows(home: Home, connection: Connection, text: str, feed: str | None) -> list[sa.Row[tuple[object, ...]]]:
    """Return the rows of items with an id, or a part of an id, title or link; those of ids go before those of parts."""
    ids = EVENT_IDS.c
    part = "".join(f"\\{c}" if c in "\\%_" else c for c in text)
    statement = _items(connection)
    if feed is not None:
        listed = [row.identity for row in find_listed(connection, feed) if row.identity is not None]
        statement = statement.where(ids.feed.in_(listed))
    for same in (ids.base == text, ids.id == text, ids.base.like(f"%{part}%", escape="\\")):
        # An item's versions are many rows, but one item.
        if found := connection.execute(statement.where(same).order_by(ids.docid.desc()).limit(1_000)).all():
            return list(found)
    if not text:
        return []
    shown = [row["item"] for row in islice(item_rows(home, ItemFilter(feed=feed, like=f"*{text}*")), _SOME)]
    return list(connection.execute(statement.where(ids.id.in_(shown))))


def find_item(home: Home, text: str, feed: str | None = None) -> tuple[dict[str, object], list[tuple[str, str]]]:
    """Find an item's row, its newest version or the one that is named, and the fields of its document.

    Args:
        home: the home.
        text: the item's id, as listings give it; or a part of its id, title or link that no other item has.
        feed: an address or a part, as in ``ItemFilter``.

    Raises:
        CatalogError: ``XSCL_ITEM_NOT_FOUND``: there is none, or more than one.
    """
    with home.catalog.read() as connection:
        found = _search_rows(home, connection, text, feed)
        addresses = _addresses(connection)
    items = list(dict.fromkeys((row.channel, row.feed, row.base) for row in found))
    if len(items) != 1 or not text:
        some = ", ".join(list(dict.fromkeys(row.id for row in found))[:_SOME])
        what = f"{len(items)} items have {text!r}: {some} …" if items and text else f"there is no item {text!r}"
        raise CatalogError(
            "XSCL_ITEM_NOT_FOUND", what, hint="list them with 'xscl item list'; --feed tells feeds apart"
        )
    row = max(found, key=lambda each: each.version)
    columns = ["content", "received", "declared", "time_source"]
    with named_file_faults(home.root):
        [event] = events_of(home, {row.docid}, columns).to_pylist()
    fields = _fields(event["content"])
    declared = event["declared"]
    facts = {
        "received": format_time(event["received"]),
        "declared": None if declared is None else format_time(declared),
        "time_source": event["time_source"],
        "document": event["content"],
    }
    return {**_row(row, dict(reversed(fields)), addresses), **facts}, fields
