"""The longest matches of a FOLD: those whose events are no proper part of the events of another one.

A match is certain when its run has ended, and so have those of all matches of the same events.  Where the FOLD stands
over another one, all that has these events and may still become a match has ended, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from xscl.templates.columns import Bools, Int64s

__all__ = ["last_of_supersets", "undominated"]

_NEVER = -(1 << 62)
_Where = dict[tuple[int, int], list[int]]


def undominated(key: Int64s, events: Sequence[frozenset[int]], ends: Int64s) -> tuple[Bools, Int64s]:
    """Tell which matches are the longest, and when they are certain.

    Args:
        key: matches of different keys have no events in common that count.
        events: the events of each.
        ends: time up to which each run's end had to be settled.

    Returns:
        Which are the longest so far; and times as ``ends``, the greatest of the matches of the same events.
    """
    where: dict[tuple[int, frozenset[int]], int] = {}
    code = [where.setdefault(each, len(where)) for each in zip(key.tolist(), events, strict=True)]
    last = np.full(len(where), -(1 << 62))
    np.maximum.at(last, code, ends)
    having: dict[tuple[int, int], list[frozenset[int]]] = defaultdict(list)
    for of, some in where:
        for event in some:
            having[of, event].append(some)
    longest = np.array(
        [not any(some < other for other in min((having[of, e] for e in some), key=len)) for of, some in where],
        dtype=np.bool_,
    )
    return longest[code], last[code]


def last_of_supersets(
    key: Int64s,
    events: Sequence[frozenset[int]],
    other_key: Int64s,
    others: Sequence[frozenset[int]],
    times: Int64s,
) -> Int64s:
    """Return for each match the greatest time of the others that have all of its events; -2^62: there are none.

    Args:
        key: matches are compared with others of the same key.
        events: the events of each.
        other_key: keys of others.
        others: their events.
        times: their times.
    """
    if not len(times):
        return np.full(len(key), _NEVER)
    having: _Where = defaultdict(list)
    for place, (of, some) in enumerate(zip(other_key.tolist(), others, strict=True)):
        for event in some:
            having[of, event].append(place)
    found = [
        max((int(times[at]) for at in _rarest(having, of, some) if some <= others[at]), default=_NEVER)
        for of, some in zip(key.tolist(), events, strict=True)
    ]
    return np.array(found, dtype=np.int64)


def _rarest(having: _Where, key: int, events: frozenset[int]) -> Sequence[int]:
    """Return the places that have the event that the fewest have."""
    return min((having.get((key, event), ()) for event in events), key=len)
