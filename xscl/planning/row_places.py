"""Places of the events that row windows count, brought up to date batch by batch."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from sqlalchemy.engine import Connection

from xscl.catalog.event_places import event_places, places_before
from xscl.templates.columns import Int64s

__all__ = ["RowPlaces"]


class RowPlaces:
    """Places by channel: those of a batch, and before it as many as some window counts."""

    def __init__(self, *, whole: bool) -> None:
        """Begin without places; with ``whole`` all are told, for matches whose last member came before the batch."""
        self._whole = whole
        self._known: dict[str, Int64s] = {}
        self._most: dict[str, int] = {}
        """Number of places before the batch that were read for each channel."""
        self._last = -1
        """Last place of the last batch."""

    def move(self, connection: Connection, counts: Mapping[str, int], first: int, last: int) -> Mapping[str, Int64s]:
        """Return the places for a batch.

        Args:
            connection: to the catalogue.
            counts: by channel the greatest number of events that a window counts.
            first: first place of the batch.
            last: last one.
        """
        goes_on = first == self._last + 1
        known = self._known if goes_on else {}
        found: dict[str, Int64s] = {}
        for channel, count in counts.items():
            if self._whole:
                found[channel] = event_places(connection, channel, 0, last)
                continue
            before = known.get(channel)
            if before is None or self._most[channel] < count:
                before = places_before(connection, channel, first, count)
            new = event_places(connection, channel, first, last)
            found[channel] = np.concatenate([before[max(len(before) - count, 0) :], new])
        # All together: a call that fails half way leaves what the last batch knew, for the same batch again.
        self._known, self._most, self._last = found, dict(counts), last
        return found
