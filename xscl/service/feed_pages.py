"""The last matches of queries as entries of feeds, kept so that a reader that asks often costs little."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from dataclasses import dataclass, field

from xscl.answers.matches.cursors import parse_cursor
from xscl.answers.matches.feeds import FeedEntry, feed_entry
from xscl.answers.matches.newest import newest_matches
from xscl.catalog.batches import commit_time, newest_batch
from xscl.store.home import Home

__all__ = ["MOST_ENTRIES", "FeedPages"]

MOST_ENTRIES = 100
"""Entries of a feed at most."""
_QUERIES = 64
"""Queries whose entries are kept."""


@dataclass(slots=True)
class _Kept:
    """Entries of one query, oldest first."""

    cursor: str = "start"
    """Place up to which matches were looked for."""
    entries: deque[FeedEntry] = field(default_factory=lambda: deque(maxlen=MOST_ENTRIES))
    changed: int | None = None
    """Time at which the last of them was committed, microseconds."""


class FeedPages:
    """Entries of the feeds of a home's queries."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._kept: OrderedDict[str, _Kept] = OrderedDict()
        self._turn = threading.Lock()

    def entries(self, query: str, most: int) -> tuple[list[FeedEntry], int | None]:
        """Return the last entries of a query, newest first, and the time of the last commit among them.

        A match that took the place of another one stands there alone.

        Raises:
            CatalogError: there was never a query of that name.
        """
        with self._turn:
            kept = self._kept.pop(query, None) or _Kept()
            self._bring_up_to_date(query, kept)
            self._kept[query] = kept
            if len(self._kept) > _QUERIES:
                self._kept.popitem(last=False)
            replaced = {entry.replaces for entry in kept.entries}
            found = [entry for entry in reversed(kept.entries) if entry.id not in replaced]
            return found[:most], kept.changed

    def _bring_up_to_date(self, query: str, kept: _Kept) -> None:
        ask = self._home.catalog.ask
        if kept.cursor != "start" and parse_cursor(kept.cursor).batch > ask(newest_batch):
            return
        newest = newest_matches(self._home, query, kept.cursor, MOST_ENTRIES)
        held = [entry for entry in kept.entries if entry.id not in newest.gone]
        changed = [kept.changed]
        if len(held) < len(kept.entries):
            changed.append(ask(commit_time, parse_cursor(newest.cursor).batch - 1))
            if len(kept.entries) == MOST_ENTRIES:
                # Earlier matches, which were left out, take the places of those that went.
                newest = newest_matches(self._home, query, "start", MOST_ENTRIES)
                held = []
        if newest.matches:
            changed.append(ask(commit_time, parse_cursor(newest.matches[-1].cursor).batch))
        kept.cursor = newest.cursor
        kept.entries = deque([*held, *map(feed_entry, newest.matches)], MOST_ENTRIES)
        kept.changed = max((time for time in changed if time is not None), default=None)
