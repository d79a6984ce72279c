"""Lanes: bindings of a part by key and time, along which all instances of all patterns move at once.

``advance`` finds for each request the first rows of its key, behind a time, that satisfy its conditions.  All rows of
that one time that do are found, so ties are neither lost nor ordered.  Order is the order of times, never of arrival.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from xscl.templates.columns import Bools, Int64s

__all__ = ["FAR", "Hits", "Lane", "Passes", "Requests", "advance", "lane_of", "reached"]

FAR = 1 << 62
"""A time behind all others; its negative is before all others."""
_AT_ONCE = 1 << 18
"""Rows that are tested at once while requests are few."""
Passes = Callable[[Int64s, Int64s], Bools]
"""Conditions: which pairs of a request and a row of the lane satisfy them."""


class _Clock(NamedTuple):
    """Times as small numbers from 0 on."""

    least: int
    wide: int
    """Number behind all of them."""
    times: Int64s | None
    """Different times, ascending, by whose places they are numbered; None: by their distance from the least."""

    def behind(self, ts: Int64s) -> Int64s:
        """Return the least number of a later time."""
        if self.times is None:
            found: Int64s = np.clip(ts, self.least - 1, self.least + self.wide - 2) - (self.least - 1)
        else:
            found = np.searchsorted(self.times, ts, "right")
        return found


def _clock(ts: Int64s, keys: int) -> _Clock:
    least, most = (int(ts.min()), int(ts.max())) if len(ts) else (0, 0)
    wide = most - least + 2
    if wide * keys < FAR:
        return _Clock(least, wide, None)
    times = np.unique(ts)
    return _Clock(least, len(times) + 1, times)


class Lane(NamedTuple):
    """Rows in the order of (key, time), and where each of them came from."""

    key: Int64s
    start: Int64s
    ts: Int64s
    row: Int64s
    """Place of each among the rows that the lane was made of."""
    ties: Int64s
    """Place behind the last row of the same key and time."""
    clock: _Clock
    rank: Int64s
    """Key and time, as one number."""

    def after(self, key: Int64s, ts: Int64s) -> Int64s:
        """Return the place of the first row of each key that is later than a time."""
        found: Int64s = np.searchsorted(self.rank, key * self.clock.wide + self.clock.behind(ts), "left")
        return found


class Requests(NamedTuple):
    """Requests for the first rows of a key behind a time."""

    key: Int64s
    after: Int64s
    """Rows start later."""
    low: Int64s
    """Rows are at this time or later."""
    until: Int64s
    """Rows are at this time or before."""


class Hits(NamedTuple):
    """Pairs of a request and a row of a lane, in the order of requests and rows."""

    request: Int64s
    at: Int64s


def lane_of(key: Int64s, start: Int64s, ts: Int64s) -> Lane:
    """Put rows in the order of keys and times.

    Keys are small numbers from 0 on.
    """
    clock = _clock(ts, int(key.max(initial=0)) + 1)
    rank = key * clock.wide + clock.behind(ts - 1)
    order = np.argsort(rank, kind="stable")
    rank = rank[order]
    ends = np.append(np.flatnonzero(rank[1:] != rank[:-1]) + 1, len(rank)) if len(rank) else np.zeros(0, np.int64)
    ties = np.repeat(ends, np.diff(ends, prepend=0))
    return Lane(key[order], start[order], ts[order], order, ties, clock, rank)


def advance(lane: Lane, asked: Requests, passes: Passes | None = None) -> Hits:
    """Return for each request the first rows that satisfy it: all of them that are of the same time.

    Args:
        lane: the rows.
        asked: the requests.
        passes: further conditions; it is asked for places of requests and of rows of the lane.
    """
    pos = lane.after(asked.key, np.maximum(asked.after, asked.low - 1))
    end = np.maximum(lane.after(asked.key, asked.until), pos)
    mine = np.flatnonzero(pos < end)
    width, found = 1, [Hits(mine[:0], mine[:0])]
    while len(mine):
        tested = np.minimum(end[mine] - pos[mine], width)
        which, rows = _spread(pos[mine], tested)
        good = _test(lane, asked, passes, mine[which], rows)
        hits = np.flatnonzero(good)
        hits = hits[np.diff(which[hits], prepend=-1) != 0]
        found.append(Hits(mine[which[hits]], rows[hits]))
        pos[mine] += tested
        waits = pos[mine] < end[mine]
        waits[which[hits]] = False
        mine = mine[waits]
        # Few that are far from their row are tested against many rows at once, so that rounds stay few.
        width = min(2 * width, max(1, _AT_ONCE // max(1, len(mine))))
    first = Hits(*(np.concatenate(column) for column in zip(*found, strict=True)))
    return _with_ties(lane, asked, passes, first)


def _spread(begin: Int64s, counts: Int64s) -> tuple[Int64s, Int64s]:
    """Return as many numbers from each beginning on as it has, and the beginning that each belongs to."""
    which = np.repeat(np.arange(len(begin)), counts)
    return which, np.arange(len(which)) - np.repeat(np.cumsum(counts) - counts - begin, counts)


def _test(lane: Lane, asked: Requests, passes: Passes | None, request: Int64s, at: Int64s) -> Bools:
    good: Bools = lane.start[at] > asked.after[request]
    if passes is not None and good.any():
        some = np.flatnonzero(good)
        good[some] = passes(request[some], at[some])
    return good


def _with_ties(lane: Lane, asked: Requests, passes: Passes | None, first: Hits) -> Hits:
    """Add to the first row of each request the others of its time that satisfy it."""
    more = lane.ties[first.at] - first.at - 1
    which, rows = _spread(first.at + 1, more)
    if len(rows):
        good = _test(lane, asked, passes, first.request[which], rows)
        first = Hits(np.append(first.request, first.request[which[good]]), np.append(first.at, rows[good]))
    order = np.lexsort((first.at, first.request))
    return Hits(first.request[order], first.at[order])


def reached(lane: Lane, waiting: Requests, floor: int) -> Bools:
    """Tell which rows of a lane requests may still find: those that wait, and those that come at ``floor`` or later.

    Rows of one key are kept alike, from its oldest request to its farthest.
    """
    kept: Bools = lane.ts >= floor
    if not len(waiting.key) or not len(lane.key):
        return kept
    keys, code = np.unique(waiting.key, return_inverse=True)
    least, most = np.full(len(keys), FAR), np.full(len(keys), -FAR)
    np.minimum.at(least, code, waiting.after)
    np.maximum.at(most, code, waiting.until)
    at = np.minimum(np.searchsorted(keys, lane.key), len(keys) - 1)
    kept |= (keys[at] == lane.key) & (lane.ts > least[at]) & (lane.ts <= most[at])
    return kept
