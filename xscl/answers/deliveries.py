"""Deliveries of matches: adding them, sending again, and rows of their listing, without anything secret."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xscl.answers.matches.cursors import Cursor, parse_cursor, refuse_ahead
from xscl.answers.matches.reader import named_queries
from xscl.base.errors import EngineError
from xscl.base.shown import masked
from xscl.base.types import format_time, now_micros
from xscl.catalog.batches import batches_with_matches, newest_batch
from xscl.catalog.deliveries import (
    Delivery,
    add_delivery,
    count_dead_letters,
    list_deliveries,
    new_secret,
    replay,
    replay_from,
)
from xscl.ingest.addresses import checked_target
from xscl.store.home import Home

__all__ = ["DELIVERY_COLUMNS", "Lag", "add_files", "add_webhook", "delivery_lags", "delivery_rows", "send_again"]

DELIVERY_COLUMNS = (
    "delivery",
    "query",
    "kind",
    "target",
    "state",
    "sent",
    "cursor",
    "failures",
    "next_attempt",
    "dead_letters",
    "dead_matches",
    "problem",
)
"""Columns of ``delivery_rows``."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Distance of a delivery from the newest commit."""

    batches: int
    """Batches with matches, of whichever query."""
    since: int | None
    """Time at which the first of them was committed, microseconds."""


def add_webhook(home: Home, name: str, query: str, url: str, *, after: str | None, private: bool = False) -> str:
    """Have the matches of a query sent to an address of the web; return the key of the signatures, told only now.

    Args:
        home: where the query is.
        name: of the delivery.
        query: also one that was dropped.
        url: whose host is checked whenever something is sent.
        after: cursor behind which to begin; None: what is committed from now on.
        private: whether the address may be on a private network.

    Raises:
        SourceError: ``XSCL_BAD_URL``, ``XSCL_PRIVATE_ADDRESS``.
        CatalogError: ``XSCL_QUERY_NOT_FOUND``, ``XSCL_DELIVERY_EXISTS``.
        EngineError: ``XSCL_BAD_CURSOR``.
    """
    target = checked_target(url, allow_private=private)
    secret = new_secret()
    _add(home, Delivery(name, query, "web", target, _begin(home, query, after), now_micros(), secret, private))
    return secret


def add_files(home: Home, name: str, query: str, folder: Path, *, after: str | None, most_bytes: int) -> None:
    """Have the matches of a query written to files of a folder, which is made if it is not there.

    Raises:
        EngineError: ``XSCL_CANNOT_WRITE``; others as ``add_webhook`` says.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError("XSCL_CANNOT_WRITE", f"{folder}: {error.strerror}") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise EngineError("XSCL_CANNOT_WRITE", f"{folder}: no file can be made there")
    begin = _begin(home, query, after)
    _add(home, Delivery(name, query, "files", str(folder.resolve()), begin, now_micros(), most_bytes=most_bytes))


def delivery_rows(home: Home) -> list[dict[str, object]]:
    """List deliveries by name; passwords and tokens in their addresses are hidden."""
    with home.catalog.read() as connection:
        found, dead = list_deliveries(connection), count_dead_letters(connection)
    return [_row(delivery, *dead.get(delivery.name, (0, 0))) for delivery in found]


def delivery_lags(home: Home, place: Callable[[Delivery], str]) -> dict[str, Lag]:
    """Tell how far each delivery is behind the commits.

    Args:
        home: where they are.
        place: gives the cursor up to which a delivery has looked.
    """
    with home.catalog.read() as connection:
        return {
            delivery.name: Lag(*batches_with_matches(connection, parse_cursor(place(delivery)).batch))
            for delivery in list_deliveries(connection)
        }


def send_again(home: Home, name: str, after: str | None) -> dict[str, int | str]:
    """Have a delivery send again what it gave up, or all matches behind a cursor.

    Raises:
        CatalogError: ``XSCL_DELIVERY_NOT_FOUND``.
        EngineError: ``XSCL_BAD_CURSOR``.
    """
    cursor = None if after is None else _checked(home, after)
    with home.catalog.begin() as connection:
        if cursor is None:
            return {"matches": replay(connection, name)}
        replay_from(connection, name, cursor)
    return {"after": cursor}


def _row(delivery: Delivery, letters: int, matches: int) -> dict[str, object]:
    state = "retrying" if delivery.failures else "dead letters" if letters else "active"
    return {
        "delivery": delivery.name,
        "query": delivery.query,
        "kind": delivery.kind,
        "target": masked(delivery.target),
        "state": state,
        "sent": delivery.sent,
        "cursor": delivery.cursor,
        "failures": delivery.failures,
        "next_attempt": format_time(delivery.due) if delivery.due else None,
        "dead_letters": letters,
        "dead_matches": matches,
        "problem": delivery.problem,
    }


def _begin(home: Home, query: str, after: str | None) -> str:
    named_queries(home, query)
    if after is not None:
        return _checked(home, after)
    return str(Cursor(home.catalog.ask(newest_batch) + 1))


def _checked(home: Home, after: str) -> str:
    cursor = parse_cursor(after)
    refuse_ahead(cursor, home.catalog.ask(newest_batch))
    return str(cursor)


def _add(home: Home, delivery: Delivery) -> None:
    with home.catalog.begin() as connection:
        add_delivery(connection, delivery)
