"""The longest matches of a FOLD: those whose events are no proper part of the events of another one.

A match is certain when its run has ended, and so have those of all matches of the same events.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from xscl.templates.columns import Bools, Int64s

__all__ = ["undominated"]


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
