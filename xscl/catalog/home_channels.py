"""Channels that tell of the home itself: their columns, and whether a query reads them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from xscl.catalog.records import ChannelInfo
from xscl.catalog.tables import CHANNELS, GROUPS, NEVER, QUERIES

__all__ = ["HOME_BATCHES", "HOME_CHANNELS", "HOME_POLLS", "HOME_REJECTED", "home_channel", "is_told", "whose_rows"]

HOME_BATCHES, HOME_POLLS, HOME_REJECTED = "xscl.batches", "xscl.polls", "xscl.rejected"
_COUNTS = ("events", "witnesses", "pairs", "matches", "retracted", "published", "rejected", "late_for")
HOME_CHANNELS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        HOME_BATCHES: {
            "batch": "bigint",
            **dict.fromkeys(_COUNTS, "bigint"),
            "joined_in": "string",
            **dict.fromkeys(("prepare_s", "stage1_s", "join_s"), "double"),
            **dict.fromkeys(("state_rows", "state_bytes"), "bigint"),
        },
        HOME_POLLS: {
            "feed": "string",
            "channel": "string",
            "status": "bigint",
            "new": "bigint",
            "problem": "string",
            "seconds": "double",
        },
        HOME_REJECTED: {
            **dict.fromkeys(("channel", "id", "query", "condition", "message", "source"), "string"),
        },
    }
)
"""Columns and their types of each such channel."""
_WALL = 1_000_000
"""Distance behind now of heartbeats that runs send; no row has a time before that of an earlier one."""
_RETENTION = 30 * 86_400_000_000


def home_channel(name: str) -> ChannelInfo:
    """Return one of these channels with the settings that it begins with."""
    return ChannelInfo(
        name,
        "rows",
        feed=False,
        element=name,
        schema=dict(HOME_CHANNELS[name]),
        lateness=None,
        clock=name,
        wall=_WALL,
        retention=_RETENTION,
    )


def is_told(connection: Connection, name: str) -> bool:
    """Return whether a live query reads one of these channels; the first one to be registered creates it."""
    there = sa.select(CHANNELS.c.name).where(CHANNELS.c.name == name)
    if connection.execute(there).first() is None:
        return False
    reads = sa.select(QUERIES.c.query).join(GROUPS, GROUPS.c.gid == QUERIES.c.gid)
    live = QUERIES.c.docid_until == NEVER, GROUPS.c.channels.contains(f'"{name}"', autoescape=True)
    return connection.execute(reads.where(*live).limit(1)).first() is not None


def whose_rows(name: str) -> str | None:
    """Say why no event from outside is for a channel; None where any may be."""
    return f"{name} has rows about the home, which the home makes itself" if name in HOME_CHANNELS else None
