"""Frontiers: how far the times of each channel are settled, by what, and what waits for it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.channels import read_channels
from xscl.catalog.clocks import Clocks
from xscl.catalog.queries import read_feeders
from xscl.catalog.tables import CHANNELS
from xscl.store.home import Home
from xscl.store.join_state import held_state
from xscl.templates.retention import BY_ROWS

__all__ = ["Frontier", "frontiers"]


@dataclass(frozen=True, slots=True)
class Frontier:
    """Times of a channel after the last batch."""

    channel: str
    clock: int | None
    """Time that its clock shows, by processed events; None: none."""
    watermark: int | None
    """Time below which all events are in; None: events of any age may come."""
    source: str | None
    """Reason for it: ``lateness``, ``heartbeat``, ``feeds`` that have a lateness of their own, or ``published`` for
    channels that only queries publish to."""
    waiting: int
    """Variables and links whose rows in the join state wait for the channel."""


def frontiers(home: Home, connection: Connection) -> Iterator[Frontier]:
    """Yield the frontiers of all channels, by name."""
    channels, waiting = read_channels(connection), Counter[str]()
    reach = held_state(home, connection).reach
    if reach is not None:
        waiting.update(name for name in reach.column("channel").to_pylist() if name != BY_ROWS)
    rows = {row.name: row for row in connection.execute(sa.select(CHANNELS))}
    clocks = Clocks(channels.values(), {name: row.processed for name, row in rows.items()})
    feeders = read_feeders(connection)
    for name, channel in channels.items():
        row, source = rows[name], None
        if row.watermark is not None:
            beat = None if row.beaten is None else row.beaten + 1
            by_queries = name in feeders and channel.lateness is None
            source = "published" if by_queries else "lateness"
            if row.watermark == beat and not by_queries:
                source = "feeds" if channel.auto else "heartbeat"
        yield Frontier(name, clocks.shown(channel), row.watermark, source, waiting[name])
