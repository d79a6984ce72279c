"""Facts of channels from which queries are compiled."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ChannelFacts"]


@dataclass(frozen=True, slots=True)
class ChannelFacts:
    """The knowledge that registration has of a channel."""

    kind: str | None = None
    """``xml``, ``rows``, or None while nothing is known of it."""
    numeric: frozenset[str] = frozenset()
    """Numeric columns of a row channel."""
    texts: frozenset[str] = frozenset()
    """String columns of a row channel."""
    times: frozenset[str] = frozenset()
    """Columns of times and dates of a row channel."""
    truths: frozenset[str] = frozenset()
    """Columns of truth values of a row channel."""
    channel: str | None = None
    """The channel that this is a stream of; None: it is a channel."""
    stream: int = 0
    """The stream's number, 0 for a channel."""
