"""Subscriptions in the catalogue: adding, changing, and what a poll leaves behind."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.durations import format_duration, parse_duration
from xscl.base.errors import CatalogError, XsclError
from xscl.base.progress import told
from xscl.base.shown import HIDDEN, masked
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import read_channels, require_channel_name
from xscl.catalog.feeds import add_feed_row, update_feed
from xscl.catalog.stored_json import read_stored
from xscl.catalog.suggestions import no_feed
from xscl.catalog.tables import FEEDS
from xscl.ingest.addresses import checked_target, normal_url
from xscl.ingest.fetch_policy import LEAST_INTERVAL, MOST_INTERVAL, Subscription, host_key
from xscl.ingest.opml import Outline
from xscl.ingest.poll_hints import NO_HINTS, hints_from_json

__all__ = [
    "DueFeed",
    "add_feed",
    "drop_feed",
    "due_feeds",
    "find_feeds",
    "import_outlines",
    "move_feed",
    "outlines",
    "parse_interval",
    "set_feed",
]

DEFAULT_CHANNEL = "items"
_STATUSES = ("active", "paused", "stopped")
_PART = re.compile(r"(?:[^/\\]|\\.)+", re.DOTALL)
_ESCAPED = re.compile(r"[/\\]")


@dataclass(frozen=True, slots=True)
class DueFeed:
    """A feed that is to be asked."""

    number: int
    channel: str
    subscription: Subscription
    etag: str | None
    modified: str | None
    allow_private: bool
    requests: int
    """Sent so far."""
    received: int
    """Bytes so far."""


def parse_interval(text: str) -> int:
    """Return a time between polls in microseconds.

    Raises:
        CatalogError: ``XSCL_BAD_OPTION``: no duration, or out of bounds.
    """
    try:
        interval = parse_duration(text)
    except ValueError as error:
        raise CatalogError("XSCL_BAD_OPTION", f"interval: {error}") from None
    if not LEAST_INTERVAL <= interval <= MOST_INTERVAL:
        bounds = f"{format_duration(LEAST_INTERVAL)} to {format_duration(MOST_INTERVAL)}"
        raise CatalogError("XSCL_BAD_OPTION", f"a feed is polled every {bounds}, not {format_duration(interval)}")
    return interval


def add_feed(
    catalog: Catalog,
    url: str,
    *,
    now: int,
    channel: str = DEFAULT_CHANNEL,
    interval: int | None = None,
    folder: str | None = None,
    allow_private: bool = False,
) -> str:
    """Subscribe to a feed; returns its address in normal form.

    Raises:
        SourceError: the address is none that can be fetched.
        CatalogError: ``XSCL_NAME_TAKEN``: it is subscribed already; or the channel takes no feeds.
    """
    outline = Outline(url, folder=folder_parts(folder), own={"channel": channel})
    with catalog.begin() as connection:
        url = checked_target(outline.url, allow_private=allow_private)
        if not _subscribe(connection, url, outline, interval, "active", now, allow_private):
            raise CatalogError(
                "XSCL_NAME_TAKEN", f"{url} is subscribed already", hint=f"change it with 'xscl feed set {url}'"
            )
    return url


def import_outlines(
    catalog: Catalog,
    found: Iterable[Outline],
    *,
    now: int,
    channel: str = DEFAULT_CHANNEL,
    allow_private: bool = False,
) -> Iterator[tuple[Outline, str, XsclError | None]]:
    """Subscribe to the feeds of a list; what is subscribed already stays as it is.

    Yields:
        Each outline with ``added``, ``known`` or ``refused``, and why it was refused.
    """
    results: list[tuple[Outline, str, XsclError | None]] = []
    with catalog.begin() as connection:
        listed_feeds = list(found)
        for number, outline in enumerate(listed_feeds, start=1):
            told("feeds", number, len(listed_feeds))
            try:
                url = checked_target(outline.url, allow_private=allow_private)
                interval = parse_interval(outline.own["interval"]) if "interval" in outline.own else None
                status = outline.own.get("status", "active")
                if status not in _STATUSES:
                    raise CatalogError("XSCL_BAD_OPTION", f"status: {status!r} is none of {', '.join(_STATUSES)}")
                listed = Outline(
                    url,
                    outline.title,
                    outline.home,
                    outline.folder,
                    {"channel": channel, **outline.own},
                    outline.other,
                )
                new = _subscribe(connection, url, listed, interval, status, now, allow_private)
                results.append((outline, "added" if new else "known", None))
            except XsclError as error:
                results.append((outline, "refused", error))
    yield from results


def _subscribe(
    connection: Connection,
    url: str,
    outline: Outline,
    interval: int | None,
    status: str,
    now: int,
    allow_private: bool,
) -> bool:
    """Make a feed's row a subscription; False if it is one already."""
    channel = outline.own.get("channel", DEFAULT_CHANNEL)
    _check_channel(connection, channel)
    before = connection.execute(sa.select(FEEDS.c.number, FEEDS.c.status).where(FEEDS.c.url == url)).first()
    if before is not None and before.status is not None:
        return False
    values = {
        "channel": channel,
        "folder": folder_text(outline.folder),
        "outline": json.dumps(dict(outline.other), ensure_ascii=False) if outline.other else None,
        "status": status,
        "interval": interval,
        "next_fetch": None if status == "stopped" else now,
        "allow_private": allow_private,
    }
    if before is not None:
        update_feed(connection, before.number, {**values, "failures": 0})
    else:
        named = {"title": outline.title, "home": outline.home}
        add_feed_row(connection, {**values, **named, "url": url, "added": now})
    return True


def _check_channel(connection: Connection, channel: str) -> None:
    require_channel_name(channel)
    known = read_channels(connection).get(channel)
    if known is not None and known.kind != "xml":
        raise CatalogError("XSCL_CHANNEL_KIND", f"the channel {channel} takes rows, and feeds bring documents")


def find_feeds(connection: Connection, urls: Sequence[str]) -> list[int]:
    """Find the numbers of subscriptions by their addresses, also as listings mask them where one feed alone fits.

    Raises:
        CatalogError: ``XSCL_FEED_NOT_FOUND``.
    """
    numbers = []
    for url in urls:
        subscribed = sa.select(FEEDS.c.number, FEEDS.c.url).where(FEEDS.c.status.is_not(None))
        found = connection.execute(subscribed.where(FEEDS.c.url.in_([url, normal_url(url)]))).all()
        if not found and HIDDEN in url:
            found = [row for row in connection.execute(subscribed) if masked(row.url) in (url, normal_url(url))]
            if len(found) > 1:
                hint = "'xscl feed list --json' and the relation feeds have the addresses in whole"
                raise CatalogError("XSCL_FEED_NOT_FOUND", f"{len(found)} feeds are shown as {url}", hint=hint)
        if not found:
            raise no_feed(connection, url)
        numbers.append(found[0].number)
    return numbers


def set_feed(
    catalog: Catalog,
    url: str,
    *,
    now: int,
    channel: str | None = None,
    interval: str | None = None,
    folder: str | None = None,
    status: str | None = None,
    allow_private: bool | None = None,
) -> None:
    """Change a subscription; None leaves a setting as it is.

    Args:
        catalog: of the home.
        url: of the feed.
        now: microseconds since the epoch.
        channel: where its items go from now on.
        interval: a duration, or ``none`` for the default.
        folder: its place in the list; empty for the top.
        status: ``active`` or ``paused``; a feed that was stopped begins anew as ``active``.
        allow_private: whether its host may be on a private network.
    """
    values: dict[str, object] = {}
    if interval is not None:
        values["interval"] = None if interval == "none" else parse_interval(interval)
    if folder is not None:
        values["folder"] = folder_text(folder_parts(folder))
    if allow_private is not None:
        values["allow_private"] = allow_private
    with catalog.begin() as connection:
        (number,) = find_feeds(connection, [url])
        if channel is not None:
            _check_channel(connection, channel)
            values["channel"] = channel
        if status is not None:
            before = connection.scalar(sa.select(FEEDS.c.status).where(FEEDS.c.number == number))
            values["status"] = status
            if status == "active" and before != "active":
                values |= {"next_fetch": now, "failures": 0}
        update_feed(connection, number, values)


def drop_feed(catalog: Catalog, url: str) -> None:
    """End a subscription; its items stay, and what tells them from new ones."""
    with catalog.begin() as connection:
        (number,) = find_feeds(connection, [url])
        update_feed(connection, number, {"status": None, "next_fetch": None})


def move_feed(connection: Connection, number: int, url: str, target: str) -> str | None:
    """Give a feed the address that it has moved to; returns why not, if another feed has that."""
    if connection.scalar(sa.select(FEEDS.c.number).where(FEEDS.c.url == target)) is not None:
        problem = f"[XSCL_NAME_TAKEN] it has moved to {target}, which is in the list already"
        update_feed(connection, number, {"status": "stopped", "next_fetch": None, "problem": problem})
        return problem
    values: dict[str, object] = {"url": target, "moved_to": None}
    if host_key(url) != host_key(target):
        values["allow_private"] = False  # that was said of the host it had
    update_feed(connection, number, values)
    return None


def due_feeds(connection: Connection, now: int, numbers: Sequence[int] | None = None) -> list[DueFeed]:
    """Return the active subscriptions that are due, those that wait longest first; of ``numbers`` also those not yet
    due.
    """
    wanted = FEEDS.c.number.in_(numbers) if numbers is not None else FEEDS.c.next_fetch <= now
    statement = sa.select(FEEDS).where(FEEDS.c.status == "active", FEEDS.c.url.is_not(None), wanted)
    return [_due(row) for row in connection.execute(statement.order_by(FEEDS.c.next_fetch, FEEDS.c.number))]


def _due(row: sa.Row[tuple[object, ...]]) -> DueFeed:
    hints = NO_HINTS if row.hints is None else read_stored(FEEDS.c.hints, row.hints, hints_from_json)
    subscription = Subscription(row.url, row.interval, row.failures, row.moved_to, hints)
    return DueFeed(
        row.number,
        row.channel,
        subscription,
        row.etag,
        row.modified,
        row.allow_private,
        row.requests,
        row.bytes,
    )


def outlines(catalog: Catalog) -> Iterator[Outline]:
    """Yield the subscriptions as they are written to a list, by folder and address."""
    with catalog.read() as connection:
        statement = sa.select(FEEDS).where(FEEDS.c.status.is_not(None), FEEDS.c.url.is_not(None))
        for row in connection.execute(statement.order_by(FEEDS.c.folder, FEEDS.c.url)):
            own = {"channel": row.channel} if row.channel != DEFAULT_CHANNEL else {}
            if row.interval is not None:
                own["interval"] = format_duration(row.interval)
            if row.status != "active":
                own["status"] = row.status
            other = read_stored(FEEDS.c.outline, row.outline) if row.outline else {}
            yield Outline(row.url, row.title, row.home, folder_parts(row.folder), own, other)


def folder_text(parts: Sequence[str]) -> str | None:
    r"""Return a folder's path as it is stored: parts divided by ``/``; within a part, ``/`` and ``\`` have a ``\``
    before.
    """
    return "/".join(_ESCAPED.sub(r"\\\g<0>", part) for part in parts) or None


def folder_parts(text: str | None) -> tuple[str, ...]:
    r"""Return the parts of a folder's path.

    >>> folder_parts("News/World"), folder_parts(r"TCP\/IP"), folder_parts(None)
    (('News', 'World'), ('TCP/IP',), ())
    """
    return tuple(re.sub(r"\\(.)", r"\1", part) for part in _PART.findall(text or ""))
