"""Checks of ``PUBLISH`` at registration: no channel may feed itself.

The live queries make a graph of channels: an edge from each channel that a query reads to the one it publishes to.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.catalog.prepared import prepared
from xscl.catalog.stored_json import read_stored
from xscl.catalog.tables import GROUPS, HOME, INTAKE_FILES, IS_PUBLISHING, NEVER, QUERIES
from xscl.registry.query_list import reads

__all__ = ["Publications", "is_fed", "is_feeding", "is_published"]

_PUBLISHING = (IS_PUBLISHING, QUERIES.c.docid_until == NEVER)
_LOOK_UPS = 50


def is_published(connection: Connection, channel: str) -> bool:
    """Whether some query publishes to a channel, or will for events that wait to be processed."""
    return connection.execute(*_feeding(channel)).first() is not None


@prepared
def _feeding(channel: str) -> sa.Select[Any]:
    return sa.select(QUERIES.c.query).where(is_feeding(channel)).limit(1)


def is_fed(connection: Connection, channel: str) -> bool:
    """Tell whether a live query publishes to a channel.

    The intake order alone decides that, and not how far events are processed.
    """
    return connection.execute(*_fed(channel)).first() is not None


@prepared
def _fed(channel: str) -> sa.Select[Any]:
    return sa.select(QUERIES.c.query).where(QUERIES.c.publish == channel, QUERIES.c.docid_until == NEVER).limit(1)


def is_feeding(channel: str) -> sa.ColumnElement[bool]:
    """Return the condition that a query publishes to a channel, or will for events that wait to be processed."""
    # A dropped query is live for what came before.
    files = INTAKE_FILES.c
    after = files.last > sa.select(HOME.c.processed).scalar_subquery(), files.last > QUERIES.c.docid_from
    waiting = sa.exists().where(*after, files.first < QUERIES.c.docid_until)
    return sa.and_(QUERIES.c.publish == channel, (QUERIES.c.docid_until == NEVER) | waiting)


class Publications:
    """The graph as one transaction sees it; the caller holds the write lock and says what it adds.

    Channels that are fed from a new query's target are looked up one by one, each once; if there are many, the whole
    graph is.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stored: dict[str, dict[str, str]] = {}
        """Edges that were read: for a channel the channels fed from it, each with the name of a query that feeds it."""
        self._reached: dict[str, set[str]] = {}
        """Channels fed from a channel, in however many steps, where finding out took long."""
        self._complete = False
        """Whether ``_stored`` has all edges."""
        self._added: dict[str, dict[str, str]] = {}
        """Edges of queries that this transaction has added, as in ``_stored``."""
        self._fed: dict[str, bool] = {}
        """Whether any query publishes to a channel, for each channel that was asked for or added."""

    def check(self, name: str | None, channels: Iterable[str], target: str) -> None:
        """Refuse a query that reads ``channels`` and publishes to ``target`` if it must not.

        Raises:
            CatalogError: channels would feed themselves.
        """
        ends = set(channels)
        if target not in ends and not any(self._is_fed(channel) for channel in ends):
            return  # a way from the target to one of them would end with a query that publishes to it
        way = self._way(target, ends)
        if way is None:
            return
        # The new query leads from the end of the way back to its beginning.
        steps = [(way[-1], name or "this query", target)]
        steps += [(a, self._fed_from(a)[b], b) for a, b in zip(way, way[1:], strict=False)]
        path = " → ".join([way[-1], *way])
        told = ", ".join(f"{query} reads {a} and publishes {b}" for a, query, b in steps)
        raise CatalogError(
            "XSCL_CYCLIC_PUBLISH",
            f"these channels would feed themselves: {path} ({told})",
            hint="publish to a channel that no query on the way reads",
        )

    def add(self, name: str, channels: Collection[str], target: str) -> None:
        """Note a query that was registered in this transaction."""
        for channel in channels:
            self._added.setdefault(channel, {}).setdefault(target, name)
        self._fed[target] = True
        for start in [start for start, reached in self._reached.items() if not reached.isdisjoint(channels)]:
            del self._reached[start]

    def _is_fed(self, channel: str) -> bool:
        if channel not in self._fed:
            self._fed[channel] = is_published(self._connection, channel)
        return self._fed[channel]

    def _fed_from(self, channel: str) -> Mapping[str, str]:
        if channel not in self._stored and not self._complete:
            if len(self._stored) < _LOOK_UPS:
                self._look_up(channel)
            else:
                self._look_up_all()
        return {**self._added.get(channel, {}), **self._stored.get(channel, {})}

    def _look_up(self, channel: str) -> None:
        statement = (
            sa.select(QUERIES.c.publish, sa.func.min(QUERIES.c.qid).label("name"))
            .where(*_PUBLISHING, reads(self._connection, channel))
            .group_by(QUERIES.c.publish)
        )
        self._stored[channel] = {row.publish: row.name for row in self._connection.execute(statement)}

    def _look_up_all(self) -> None:
        statement = (
            sa.select(GROUPS.c.channels, QUERIES.c.publish, sa.func.min(QUERIES.c.qid).label("name"))
            .join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
            .where(*_PUBLISHING)
            .group_by(GROUPS.c.channels, QUERIES.c.publish)
        )
        for row in self._connection.execute(statement):
            for channel in read_stored(GROUPS.c.channels, row.channels):
                self._stored.setdefault(channel, {})[row.publish] = row.name
        self._complete = True

    def _way(self, start: str, ends: set[str]) -> list[str] | None:
        """Return a shortest way along the edges from a channel to one of others, both included; None without one."""
        if start in self._reached and self._reached[start].isdisjoint(ends):
            return None
        came_from: dict[str, str | None] = {start: None}
        front = [start]
        while front:
            found = next((channel for channel in front if channel in ends), None)
            if found is not None:
                way = [found]
                while (before := came_from[way[-1]]) is not None:
                    way.append(before)
                return way[::-1]
            after = {target: channel for channel in front for target in self._fed_from(channel)}
            front = [target for target in after if target not in came_from]
            came_from |= {target: after[target] for target in front}
        if len(came_from) > _LOOK_UPS:
            self._reached[start] = set(came_from)
        return None
