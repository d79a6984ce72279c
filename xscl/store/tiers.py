"""Tiers of log-structured files: those of one tier are merged, so that a row is written a logarithm of times."""

from __future__ import annotations

from math import log

__all__ = ["tier_of"]


def tier_of(size: int, small: int, fanout: int) -> int:
    """The tier of a file: 0 up to the size ``small``, each further one up to ``fanout`` times the one before.

    >>> [tier_of(size, 1_000, 8) for size in (0, 1_000, 1_001, 8_001, 64_001)]
    [0, 0, 1, 2, 3]
    """
    return 0 if size <= small else 1 + int(log(size / small, fanout))
