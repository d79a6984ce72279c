"""Matches for whoever asks: listings by time or in the order of commits, and what a match looks like in JSON."""

from __future__ import annotations

from collections.abc import Iterator

from xscl.cursors import START, Cursor, parse_cursor, refuse_ahead
from xscl.errors import CatalogError
from xscl.home import Home
from xscl.match_reader import MatchReader, Times
from xscl.types import Match, format_time

__all__ = ["MatchListing", "find_match", "list_matches", "match_json"]


class MatchListing(Iterator[Match]):
    """Matches one by one, and the cursor to go on from."""

    def __init__(self, found: Iterator[Match], begin: Cursor | None, end: Cursor, limit: int | None) -> None:
        self._found = found
        self._in_order = begin is not None
        self._end = str(end)
        self._left = limit
        self.cursor = str(begin or START)
        """Behind the last match that was handed out in the order of commits; where the listing began, while matches
        come in another order; behind all that was committed when the listing was asked for, once it has ended."""

    def __next__(self) -> Match:
        if self._left == 0:
            raise StopIteration
        try:
            match = next(self._found)
        except StopIteration:
            self.cursor = self._end
            raise
        if self._left is not None:
            self._left -= 1
        if self._in_order:
            self.cursor = match.cursor
        return match


def list_matches(
    home: Home,
    *,
    query: str | None = None,
    since: int | None = None,
    until: int | None = None,
    now: int | None = None,
    window: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> MatchListing:
    """Matches of the batches that are committed now.

    Sorted by (ts, query, match); with ``after`` in the order in which they were committed, which is the same for ever.
    Times are in microseconds, and all bounds are included.

    Args:
        home: the home.
        query: only of the query of this name.
        since: of this time or later.
        until: of this time or earlier.
        now: as it was at this moment: without matches of a later time.  By default NOW is the time of the call, and
            only a window is cut off there.
        window: all members are in it: ``NOW-7d..NOW``.
        after: only those behind this cursor; ``start`` is before all.
        limit: at most so many.

    Raises:
        CatalogError: there was never a query of that name.
        EngineError: ``XSCL_BAD_WINDOW``, ``XSCL_BAD_CURSOR``.
    """
    times = Times.of(since, until, now, window)
    begin = None if after is None else parse_cursor(after)
    reader = MatchReader(home, query, times, first=0 if begin is None else begin.batch)
    if begin is not None:
        refuse_ahead(begin, reader.committed.last)
    found = reader.by_time() if begin is None else reader.by_commit(begin)
    return MatchListing(reader.built(found), begin, Cursor(reader.committed.last + 1), limit)


def find_match(home: Home, match: str) -> Match:
    """The match whose id is, or begins with, ``match``.

    Raises:
        CatalogError: there is none, or more than one.
    """
    reader = MatchReader(home, None, Times())
    found = [item for item in reader.by_time() if item.id.startswith(match)]
    if len(found) != 1 or not match:
        some = ", ".join(item.id[:12] for item in found[:5])
        what = f"{len(found)} matches begin with {match!r}: {some} …" if found else f"there is no match {match!r}"
        raise CatalogError("XSCL_MATCH_NOT_FOUND", what, hint="list them with 'xscl match list'")
    return next(reader.built(iter(found)))


def match_json(match: Match, *, cursor: bool = False) -> dict[str, object]:
    """A match as the contract writes it; if wanted, with the cursor behind it."""
    return {
        "match": match.id,
        "query": match.query,
        "ts": format_time(match.ts),
        "events": [{"channel": e.channel, "id": e.id, "ts": format_time(e.ts)} for e in match.events],
        "nodes": dict(match.nodes),
        "values": dict(match.values),
        "document": match.document,
        **({} if match.replaces is None else {"replaces": match.replaces}),
        **({"cursor": match.cursor} if cursor else {}),
    }
