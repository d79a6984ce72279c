"""Origins of classes of results: the part of a level of a batch that has numbered them."""

from __future__ import annotations

from xscl.templates.columns import Int64s

__all__ = [
    "ABSENCE_LEVEL",
    "CHANGES_LEVEL",
    "STEPS_LEVEL",
    "WINDOWS_LEVEL",
    "batch_of",
    "batch_sql",
    "batches_of",
    "origin_of",
]

_LEVEL_BITS, _PART_BITS = 16, 16
CHANGES_LEVEL, STEPS_LEVEL, WINDOWS_LEVEL, ABSENCE_LEVEL = range((1 << _LEVEL_BITS) - 4, 1 << _LEVEL_BITS)
"""Levels of origins of what is decided over matches, behind all levels that publish; no two may share one."""


def origin_of(batch: int, level: int, part: int = 0) -> int:
    """Return the origin of the classes that one part of one level of a batch numbers (32 bits are below the
    batch's).
    """
    assert 0 <= level < 1 << _LEVEL_BITS and 0 <= part < 1 << _PART_BITS
    return (batch << _LEVEL_BITS | level) << _PART_BITS | part


def batch_of(origin: int) -> int:
    """Return the batch of an origin.

    >>> batch_of(origin_of(7, 1, 2))
    7
    """
    return origin >> (_LEVEL_BITS + _PART_BITS)


def batches_of(origins: Int64s) -> Int64s:
    """Return ``batch_of`` of each value of a column."""
    return origins >> (_LEVEL_BITS + _PART_BITS)


def batch_sql(origin: str) -> str:
    """Return ``batch_of`` of a column as a text of Spark SQL."""
    return f"shiftright({origin}, {_LEVEL_BITS + _PART_BITS})"
