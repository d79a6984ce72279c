"""The last matches behind a cursor that hold, for feeds and for pages that show the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from xscl.answers.matches.cursors import Cursor, parse_cursor, refuse_ahead
from xscl.answers.matches.listing import built_matches
from xscl.answers.matches.reader import FoundMatch, MatchReader
from xscl.answers.matches.times import Times
from xscl.base.system_errors import named_file_faults
from xscl.base.types import Match
from xscl.catalog.batches import newest_batch
from xscl.store.home import Home

__all__ = ["NewestMatches", "matches_of_batches", "newest_matches"]

_BACK, _FURTHER = 100, 8
"""Batches that are looked through for the last matches at first, and how many times more then."""
_SPARE = 10
"""Times as many of the last matches that are remembered, because later ones may be taken back."""


class NewestMatches(NamedTuple):
    """The last matches of a query behind a cursor, as they were committed."""

    matches: list[Match]
    gone: frozenset[str]
    """Ids of matches that were taken back behind it; some were found again since."""
    cursor: str
    """The cursor behind everything."""


def newest_matches(home: Home, query: str, after: str, most: int) -> NewestMatches:
    """Return the last matches of a query behind a cursor.

    Raises:
        CatalogError: there was never a query of that name.
        EngineError: ``XSCL_BAD_CURSOR``.
    """
    begin, back = parse_cursor(after), _BACK
    with named_file_faults(home.root):
        last = home.catalog.ask(newest_batch)
        refuse_ahead(begin, last)
        while True:
            # Nobody looks through all that a query ever answered for its last matches.
            start = max(begin, Cursor(max(last + 1 - back, 0)), key=lambda cursor: cursor.batch)
            reader = MatchReader(home, query, Times(), first=start.batch)
            found, gone = _last_found(reader, start, most)
            if len(found) >= most or start.batch <= begin.batch:
                matches = list(built_matches(home, iter(found)))
                return NewestMatches(matches, frozenset(gone), str(Cursor(reader.committed.last + 1)))
            back *= _FURTHER


def matches_of_batches(home: Home, query: str | None, batches: Sequence[int], most: int) -> list[Match]:
    """Return the last matches of some batches, in the order in which they were committed.

    Args:
        home: the home.
        query: name of the query; None: of all.
        batches: numbers of the latest batches with matches, the last one first.
        most: matches at most.
    """
    found: list[FoundMatch] = []
    size = 1
    with named_file_faults(home.root):
        while batches and len(found) < most:
            start = Cursor(batches[min(size, len(batches)) - 1])
            found, _ = _last_found(MatchReader(home, query, Times(), first=start.batch), start, most)
            if size >= len(batches):
                break
            size *= 2
        return list(built_matches(home, iter(found)))


def _last_found(reader: MatchReader, start: Cursor, most: int) -> tuple[list[FoundMatch], set[str]]:
    """Return the last matches behind a cursor that hold, and the ids of all that were taken back behind it."""
    spare = _SPARE * most
    while True:
        found: dict[str, FoundMatch] = {}
        gone: set[str] = set()
        left_out = False
        for item in reader.by_commit(start):
            found.pop(item.id, None)
            if item.retracted is not None:
                gone.add(item.id)
                continue
            found[item.id] = item
            if len(found) > spare:
                del found[next(iter(found))]
                left_out = True
        # So many were taken back that earlier ones are among the last.
        if left_out and len(found) < most:
            spare *= _FURTHER
            continue
        return list(islice(found.values(), max(len(found) - most, 0), None)), gone
