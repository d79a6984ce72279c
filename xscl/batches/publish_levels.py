"""Levels of published channels: channels of a level are fed by queries over channels of levels before it.

So a channel is complete before it is read, and every match of a batch is found in the level of its last document.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.prepared import prepared
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS, OF_STEPS, OF_WINDOWS, PARTS, QUERIES

__all__ = ["Publishing", "acyclic_end", "channel_levels", "publishing"]

Step = tuple[frozenset[str], str]
"""Channels that a query reads, and the one it publishes to."""


@dataclass(frozen=True, slots=True)
class Publishing:
    """Channels and groups of the queries that publish and see some event of a range of the intake order."""

    levels: tuple[frozenset[str], ...]
    """Channels that are published to, by level; a channel comes after the channels that its queries read."""
    groups: frozenset[int]
    """Groups with a query that publishes, and what stands for these in matches of single queries."""
    decided: Mapping[int, int] = field(default_factory=dict)
    """Level behind which all is found that decides answers, by group that publishes and is made of others."""


def publishing(connection: Connection, first: int, last: int) -> Publishing | None:
    """Read the levels of the channels that get documents for the events of a range; None if no query publishes."""
    steps = _steps(connection, first, last)
    if not steps:
        return None
    levels = channel_levels(steps)
    assert levels is not None, "a range ends before its queries would feed themselves (acyclic_end)"
    found = tuple(
        frozenset(name for name, level in levels.items() if level == number)
        for number in range(1, max(levels.values()) + 1)
    )
    rows = connection.execute(sa.select(QUERIES.c.gid, QUERIES.c.history).where(*_publishing(first, last)))
    groups = frozenset(number for row in rows for number in row if number is not None)
    return Publishing(found, groups, _decided(connection, first, last, levels))


def _decided(connection: Connection, first: int, last: int, levels: Mapping[str, int]) -> dict[int, int]:
    """Return the level of what such groups read that are about absence, or whose matches changes take back."""
    found = {}
    for gid, channels in connection.execute(*_made_of_others(first, last)):
        names = read_stored(GROUPS.c.channels, channels)
        found[gid] = max((levels.get(name, 0) for name in names), default=0)
    return found


@prepared
def _made_of_others(first: int, last: int) -> sa.Select[Any]:
    joined = sa.select(GROUPS.c.gid, GROUPS.c.channels).join(QUERIES, QUERIES.c.gid == GROUPS.c.gid)
    joined = joined.join(PARTS, sa.and_(PARTS.c.gid == GROUPS.c.gid, PARTS.c.number == 0))
    return joined.where(*_publishing(first, last), PARTS.c.ends.not_in((OF_STEPS, OF_WINDOWS))).distinct()


def channel_levels(steps: Iterable[Step]) -> dict[str, int] | None:
    """Return the level of each channel that is published to, from 1; None if channels feed themselves.

    >>> channel_levels([(frozenset({"a"}), "b"), (frozenset({"a", "b"}), "c"), (frozenset({"a"}), "c")])
    {'b': 1, 'c': 2}
    """
    sources: dict[str, set[str]] = {}
    for channels, target in steps:
        sources.setdefault(target, set()).update(channels)
    levels: dict[str, int] = {}
    waiting = {target: channels & sources.keys() for target, channels in sources.items()}
    level = 1
    while waiting:
        ready = sorted(target for target, channels in waiting.items() if not channels & waiting.keys())
        if not ready:
            return None
        for target in ready:
            levels[target] = level
            del waiting[target]
        level += 1
    return levels


def acyclic_end(connection: Connection, first: int, last: int) -> int:
    """Return the last place, at most ``last``, of a batch from ``first`` on whose queries do not feed themselves.

    Live queries never do.  Queries of a range may, where one was registered after another was dropped; then the batch
    ends at the first registration of a query that publishes, which as any cut changes no answer.
    """
    if channel_levels(_steps(connection, first, last)) is not None:
        return last
    statement = sa.select(sa.func.min(QUERIES.c.docid_from)).where(
        QUERIES.c.publish.is_not(None), QUERIES.c.docid_from > first
    )
    return min(last, connection.scalar(statement) or last)


def _publishing(first: int, last: int) -> tuple[sa.ColumnElement[bool], ...]:
    """Return the conditions of queries that publish and see some event of a range."""
    return QUERIES.c.publish.is_not(None), QUERIES.c.docid_from < last, QUERIES.c.docid_until > first


def _steps(connection: Connection, first: int, last: int) -> list[Step]:
    """Read the channels that such queries read and publish to, each pair once."""
    rows = connection.execute(*_read_and_published(first, last))
    return [(frozenset(read_stored(GROUPS.c.channels, row.channels)), row.publish) for row in rows]


@prepared
def _read_and_published(first: int, last: int) -> sa.Select[Any]:
    joined = sa.select(GROUPS.c.channels, QUERIES.c.publish).join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
    return joined.where(*_publishing(first, last)).distinct()
