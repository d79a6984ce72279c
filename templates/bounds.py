"""Windows as bounds on the difference of event times: ``lo <= ts(right) - ts(left) <= hi``, in microseconds."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["UNBOUNDED", "Bounds"]

UNBOUNDED = 1 << 62
"""Stands for no bound, so that bounds are plain numbers everywhere; no two event times differ by that much."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """An interval of time differences, both ends included."""

    lo: int = -UNBOUNDED
    hi: int = UNBOUNDED

    def __and__(self, other: Bounds) -> Bounds:
        """What both allow."""
        return Bounds(max(self.lo, other.lo), min(self.hi, other.hi))

    @property
    def empty(self) -> bool:
        """No difference satisfies it."""
        return self.lo > self.hi

    @property
    def finite(self) -> bool:
        """Bounded on both sides."""
        return self.lo > -UNBOUNDED and self.hi < UNBOUNDED
