"""Least times of the newest events of channels, below which row windows need no join state."""

from __future__ import annotations

import numpy as np

from xscl.planning.planned import Plan
from xscl.store.event_files import events_of
from xscl.store.home import Home
from xscl.templates.columns import Int64s

__all__ = ["RowTimes"]


class RowTimes:
    """Times of the newest events, remembered from batch to batch."""

    def __init__(self) -> None:
        self._times: dict[str, tuple[Int64s, Int64s]] = {}
        """Places and times by channel."""

    def least(self, home: Home, plan: Plan) -> dict[tuple[str, int], int]:
        """Return the earliest event time that each row window may still count.

        Windows of fewer events, or of events that are no longer held, are left out.
        """
        ordinals, found = plan.program.ordinals, {}
        known, self._times = self._times, {}
        for channel, count in ordinals.counts.items():
            places = plan.places[channel][-count:]
            self._times[channel] = self._read(home, places, *known.get(channel, (places[:0], places[:0])))
        for channel, count in ordinals.windows:
            places, times = self._times[channel]
            wanted = plan.places[channel][-count:]
            newest = times[np.isin(places, wanted)]
            if len(newest) == count:
                found[channel, count] = int(newest.min())
        return found

    def _read(self, home: Home, wanted: Int64s, places: Int64s, times: Int64s) -> tuple[Int64s, Int64s]:
        stays = np.isin(places, wanted)
        new = wanted[~np.isin(wanted, places)]
        table = events_of(home, new, ["docid", "ts"])
        columns = (table.column(name).to_numpy() for name in ("docid", "ts"))
        docids, ts = columns
        return np.concatenate([places[stays], docids]), np.concatenate([times[stays], ts])
