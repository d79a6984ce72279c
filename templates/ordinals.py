"""Ordinals of events in their channels: who is among the newest n when another event comes (row windows).

A window ``LAST n OF x`` counts events in the intake order, before all conditions.  So the age of an event is the number
of events of its channel that came behind it, up to the place of a match's last member.  Ages are looked up in the
places of the channels' events; those are told for each batch, and nothing of them is part of a program's file.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import numpy as np

from xscl.base.docids import place_of
from xscl.templates.columns import Bools, Int64s

__all__ = ["Ordinals"]

_NONE: Int64s = np.empty(0, np.int64)


class Ordinals:
    """Places of the events of channels that row windows count.

    A channel's places may begin late, if as many are told before a batch as any window counts.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        """Channels that some window counts, by number from 1."""
        self.places: Mapping[str, Int64s] = {}
        """Places by channel, ascending."""
        self._windows: Counter[tuple[str, int]] = Counter()
        """Channel and number of events, and for how many blocks of groups."""

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "places": {}}

    def count(self, rows: Sequence[int], channels: Sequence[str], sign: int) -> None:
        """Count the row windows of a group in, or out."""
        for count, channel in zip(rows, channels, strict=False):
            if count:
                self._windows[channel, count] += sign
        self._windows = +self._windows

    @property
    def windows(self) -> Collection[tuple[str, int]]:
        """Return the channels that are counted, and how many events windows count of each."""
        return self._windows.keys()

    @property
    def counts(self) -> dict[str, int]:
        """Return the greatest number of events that a window counts, by channel."""
        found: dict[str, int] = {}
        for channel, count in self._windows:
            found[channel] = max(count, found.get(channel, 0))
        return found

    def number(self, channel: str) -> int:
        """Return the number of a channel, which gets one if it has none."""
        return self._numbers.setdefault(channel, len(self._numbers) + 1)

    def take(self, places: Mapping[str, Int64s]) -> None:
        """Take the places of the events of each channel, ascending, for what is joined next."""
        self.places = places

    def admit(self, rows: Sequence[int], channels: Sequence[str], docs: Int64s) -> Bools:
        """Tell which combinations of documents, a row for each, have those among the newest that ``rows`` asks for."""
        found = np.ones(len(docs), np.bool_)
        newest = place_of(docs).max(axis=1) if any(rows) else _NONE
        for block, (count, channel) in enumerate(zip(rows, channels, strict=False)):
            if count:
                found &= self.ages(self.number(channel), docs[:, block], newest) < count
        return found

    def ages(self, number: int, docs: Int64s, newest: Int64s) -> Int64s:
        """Return how many events of a channel came behind each of some documents of it, up to each place."""
        name = next((channel for channel, of in self._numbers.items() if of == number), "")
        places = self.places.get(name, _NONE)
        ages: Int64s = np.searchsorted(places, newest, side="right") - np.searchsorted(
            places, place_of(docs), side="right"
        )
        return ages
