"""Feeds and the hosts they come from: the one module that writes tables ``feeds`` and ``hosts``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.tables import FEEDS, HOSTS

__all__ = ["add_feed_row", "merge_feed", "put_hosts", "remove_quiet_hosts", "update_feed"]

_COUNTED = ("policy", "reason", "memory", "polls", "items", "versions", "rejected")
"""Columns that a feed takes over from the one that it becomes the same as."""


_ADD = FEEDS.insert()
_GIVEN, _NUMBER = "given_", "of_number"
"""Parameters of statements may not have the names of columns."""


def add_feed_row(connection: Connection, values: Mapping[str, object]) -> None:
    """Add a feed."""
    connection.execute(_ADD, values)


def update_feed(
    connection: Connection, number: int, values: Mapping[str, object], counts: Mapping[str, int] = MappingProxyType({})
) -> None:
    """Change columns of a feed; ``counts`` are added to those that it has."""
    if values or counts:
        given = {f"{_GIVEN}{name}": value for name, value in (*values.items(), *counts.items())}
        connection.execute(_changing(tuple(values), tuple(counts)), {_NUMBER: number, **given})


@lru_cache(maxsize=64)
def _changing(values: tuple[str, ...], counts: tuple[str, ...]) -> sa.Update:
    """Make the statement that changes these columns."""
    changed: dict[str, Any] = {name: sa.bindparam(f"{_GIVEN}{name}") for name in values}
    changed |= {name: FEEDS.c[name] + sa.bindparam(f"{_GIVEN}{name}") for name in counts}
    return FEEDS.update().where(FEEDS.c.number == sa.bindparam(_NUMBER)).values(changed)


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
