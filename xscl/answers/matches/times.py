"""Bounds of the times of matches that a listing has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from xscl.answers.matches.window import parse_window
from xscl.base.types import now_micros
from xscl.templates.columns import Bools, Int64s

__all__ = ["Times"]


@dataclass(frozen=True, slots=True)
class Times:
    """Bounds of event times in microseconds, both ends included; None is no bound."""

    begin: int | None = None
    """Least time of the oldest member."""
    since: int | None = None
    """Least time of the newest member."""
    until: int | None = None
    """Greatest time of the newest member."""

    @classmethod
    def of(cls, since: int | None, until: int | None, now: int | None, window: str | None) -> Self:
        """Combine the bounds of ``list_matches``.

        Raises:
            EngineError: ``XSCL_BAD_WINDOW``.
        """
        begin, ends = None, [until, now]
        if window is not None:
            begin, end = parse_window(window).at(now_micros() if now is None else now)
            ends.append(end)
        return cls(begin, since, min((end for end in ends if end is not None), default=None))

    @property
    def least(self) -> int | None:
        """Earliest time that a match within the bounds may have; None: any."""
        return max((bound for bound in (self.begin, self.since) if bound is not None), default=None)

    def __bool__(self) -> bool:
        return (self.begin, self.since, self.until) != (None, None, None)

    def admit(self, oldest: Int64s, newest: Int64s) -> Bools:
        """Tell which matches are within the bounds, by the times of their oldest and newest members."""
        admitted = np.ones(len(oldest), dtype=np.bool_)
        for bound, times in ((self.begin, oldest), (self.since, newest)):
            if bound is not None:
                admitted &= times >= bound
        return admitted if self.until is None else admitted & (newest <= self.until)
