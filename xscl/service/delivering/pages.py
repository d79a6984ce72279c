"""Pages of a delivery: the next matches behind a cursor, as lines of JSON."""

from __future__ import annotations

import json
from dataclasses import dataclass

from xscl.answers.matches.cursors import parse_cursor
from xscl.answers.matches.listing import Listing, list_matches, match_json
from xscl.base.shown import json_escaped
from xscl.store.home import Home

__all__ = ["Page", "next_page"]


@dataclass(frozen=True, slots=True)
class Page:
    """Matches that are delivered together."""

    cursors: tuple[str, ...]
    """The cursor behind each line: a match that is taken back has another line with the same id."""
    body: bytes
    """Their lines, each with the cursor behind it."""
    cursor: str
    """Place behind them, and behind all that is not for the query."""


def next_page(home: Home, query: str, after: str, *, most: int, most_bytes: int, until: str | None = None) -> Page:
    """Read the next matches of a query behind a cursor.

    Args:
        home: where they are.
        query: its name.
        after: the cursor.
        most: matches at most.
        most_bytes: bytes of their lines at most, unless the first one has more.
        until: cursor of the last match; None: all that is committed.
    """
    listing = list_matches(home, Listing(query=query, after=after, limit=most))
    end = None if until is None else parse_cursor(until)
    cursors: list[str] = []
    lines: list[bytes] = []
    size, cursor = 0, None
    for match in listing:
        line = (json_escaped(json.dumps(match_json(match, cursor=True), ensure_ascii=False)) + "\n").encode()
        if cursors and size + len(line) > most_bytes or end is not None and parse_cursor(match.cursor).is_behind(end):
            break
        cursors.append(match.cursor)
        lines.append(line)
        size += len(line)
        cursor = match.cursor
    else:
        cursor = listing.cursor
    return Page(tuple(cursors), b"".join(lines), cursor or after)
