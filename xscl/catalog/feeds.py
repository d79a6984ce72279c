"""Feeds and the hosts they come from: the one module that writes tables ``feeds`` and ``hosts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.tables import FEEDS, HOSTS

__all__ = ["add_feed_row", "merge_feed", "put_hosts", "remove_quiet_hosts", "update_feed"]

_COUNTED = ("policy", "reason", "memory", "polls", "items", "versions", "rejected")
"""Columns that a feed takes over from the one that it becomes the same as."""


def add_feed_row(connection: Connection, values: Mapping[str, object]) -> None:
    """Add a feed."""
    connection.execute(FEEDS.insert().values(**values))


def update_feed(connection: Connection, number: int, values: Mapping[str, object]) -> None:
    """Change columns of a feed."""
    if values:
        connection.execute(FEEDS.update().where(FEEDS.c.number == number).values(**values))


def merge_feed(connection: Connection, number: int, identity: str, other: int | None) -> None:
    """Give a feed an identity; another feed that has it already becomes part of it."""
    taken: dict[str, object] = {"identity": identity}
    if other is not None:
        columns = (FEEDS.c[name] for name in _COUNTED)
        taken |= connection.execute(sa.select(*columns).where(FEEDS.c.number == other)).one()._mapping
        connection.execute(FEEDS.delete().where(FEEDS.c.number == other))
    update_feed(connection, number, taken)


def remove_quiet_hosts(connection: Connection, before: int) -> None:
    """Remove hosts without failures that could have been asked since a time."""
    connection.execute(HOSTS.delete().where((HOSTS.c.next_request < before) & (HOSTS.c.failures == 0)))


def put_hosts(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Add or replace hosts."""
    if rows:
        connection.execute(HOSTS.delete().where(HOSTS.c.host.in_([row["host"] for row in rows])))
        connection.execute(HOSTS.insert(), rows)
