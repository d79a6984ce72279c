"""Records of the catalogue: channels, streams and queries as its rows have them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from xscl.catalog.tables import NEVER

__all__ = ["RAW", "ChannelInfo", "QueryInfo", "StreamInfo"]

RAW = ".raw"
"""Suffix of the names of channels and streams of entries as they were published."""


@dataclass(frozen=True, slots=True)
class ChannelInfo:
    """A channel as the catalogue has it."""

    name: str
    kind: str
    feed: bool
    element: str
    schema: Mapping[str, str | None] | None
    """Columns of a row channel; a type is None while only NULLs were seen.  None: fixed by the first row."""
    lateness: int | None
    clock: str
    idle: int | None = None
    """Greatest distance of its clock behind the newest of all channels, microseconds; None: unlimited."""
    retention: int | None = None
    """Time for which events are held, microseconds; None: for ever."""
    heartbeat: int | None = None
    """Event time up to which all events are in, by its heartbeats; None: none came."""
    auto: bool = False
    """Whether each feed has a lateness of its own; then the channel has none."""
    wall: int | None = None
    """Distance behind now of the heartbeats that runs make, microseconds; None: they make none."""

    @classmethod
    def new(cls, name: str, kind: str = "xml") -> ChannelInfo:
        """Return a channel with default settings."""
        return cls(name, kind, feed=False, element=name, schema=None, lateness=None, clock=name)


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream of a channel as the catalogue has it."""

    number: int
    """Number from 1; 0 stands for none: the channel itself."""
    name: str
    channel: str
    source: str | None
    """Label shared by streams with equal events; None: the stream shares events with no other."""


@dataclass(frozen=True, slots=True)
class QueryInfo:
    """A query as the catalogue has it."""

    query: int
    name: str
    text: str
    namespaces: Mapping[str, str]
    gid: int
    template: str
    digest: str
    names: Mapping[str, list[Any]]
    """Its own names of meta-variables, nodes that make a match (and their blocks), and joined variables."""
    docid_from: int
    docid_until: int
    received: int
    publish: str | None
    """Channel to which its output goes."""
    starting: str
    """``NOW``, ``ALL`` or a time, ISO 8601."""
    sees_from: int
    """Place of the intake order after which it sees members: its own, or 0 with ``STARTING`` ALL or a time."""
    ts_from: int | None
    """Least event time of members that it sees, microseconds; None: any."""
    history: int | None
    """Number that stands for its group in matches found from retained events; None: there is none."""
    filled: int | None
    """Batch that found those matches."""
    ended: int | None = None
    """Batch after which it has no matches, whatever members they have; None: places tell."""
    held_from: Mapping[str, int] = field(default_factory=dict)
    """Least event time, by channel, of members from before it.  Older ones were not retained."""
    owner: str = ""
    """Person or program that registered it; '' where nobody said."""
    suspended: str | None = None
    """Quota that ended it, in words; None: none did."""
    released: int | None = None
    """Place at which its suspension ended, by resuming or dropping it; None: it has not."""
    level: str | None = None
    """Level of consistency of a query about absence, or with steps; None: it is another one, and has none."""
    late_for: int = 0
    """Events of its channels that came too late for its memory, and in time for others."""
    written: str | None = None
    """Its text with the queries that it has in parentheses, for which ``text`` has channels; None: it has none."""

    @property
    def said(self) -> str:
        """Text as it was written."""
        return self.text if self.written is None else self.written

    @property
    def groups(self) -> tuple[int, ...]:
        """Groups whose matches it may have."""
        return (self.gid,) if self.history is None else (self.gid, self.history)

    def admits(self, members: Iterable[tuple[str, int, int]]) -> bool:
        """Return whether the query sees a match of these members, as far as times tell.

        Args:
            members: channel, place in the intake order and event time of each.
        """
        return all(
            (self.ts_from is None or ts >= self.ts_from)
            and (place > self.docid_from or ts >= self.held_from.get(channel, ts))
            for channel, place, ts in members
        )

    @property
    def live(self) -> bool:
        """Whether the query is neither dropped nor suspended."""
        return self.docid_until == NEVER

    @property
    def is_suspended(self) -> bool:
        """Whether a quota has ended the query, and it was neither resumed nor dropped since."""
        return self.suspended is not None and self.released is None
