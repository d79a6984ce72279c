"""Facts of channels from which queries are compiled."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

__all__ = ["ANSWERS", "SUB_QUERIES", "ChannelFacts", "asks_kind", "deciding", "is_made", "is_sub_query", "unnumbered"]

ANSWERS = "xscl.answers"
"""Channel of the documents that windows of matches make."""
SUB_QUERIES = "xscl.sub."
"""Beginning of the names of sub-queries, and of the channels that they publish to."""
_NUMBERED = re.compile(rf"({re.escape(SUB_QUERIES)}[0-9a-f]{{16}})\.\d+")
"""Name of a sub-query: a digest of its text, and a number for each of equal ones."""


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


def asks_kind(text: str, channels: Collection[str]) -> bool:
    """Whether a query is compiled to something else once an unknown channel has documents.

    ``*`` may be any column of rows yet to come.  Documents of one channel may come before another turns out to have
    rows, and have to join with them.  No document of a channel comes before it is known.
    """
    return "*" in text or len(set(channels)) > 1


def deciding(facts: ChannelFacts | None, is_asked: bool) -> ChannelFacts:
    """Return the facts that decide what a query is compiled to; ``is_asked``: it ``asks_kind``."""
    if facts is None:
        return ChannelFacts()
    return replace(facts, kind=None) if facts.kind == "xml" and not is_asked else facts


def is_sub_query(name: str) -> bool:
    """Tell whether a name is that of a sub-query, or of its channel."""
    return name.startswith(SUB_QUERIES)


def unnumbered(text: str) -> str:
    """Return a text with the names of sub-queries alone, without their numbers.

    Equal sub-queries of one home differ in these, by who was registered before; ids of matches do not depend on that.

    >>> unnumbered("xscl.sub.0123456789abcdef.2")
    'xscl.sub.0123456789abcdef'
    """
    return _NUMBERED.sub(r"\1", text) if SUB_QUERIES in text else text


def is_made(channel: str) -> bool:
    """Tell whether the engine alone makes the events of a channel: answers, and what sub-queries find."""
    return channel == ANSWERS or is_sub_query(channel)
