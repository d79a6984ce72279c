"""A change of a channel's lateness, clock or idle time has a place of the intake order: that of a heartbeat.

Times that are settled stay settled.  A lateness that is raised would let older events in again, when some batches have
done with them and others have not; so what was late up to there stays late.  A lateness that is lowered settles times
at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from sqlalchemy.engine import Connection

from xscl.base.types import FIRST_TIME, now_micros
from xscl.catalog.channels import note_heartbeat, read_channels, read_newest
from xscl.catalog.clocks import Clocks
from xscl.catalog.intake_order import add_heartbeat, take_places
from xscl.catalog.queries import read_feeders
from xscl.catalog.records import ChannelInfo

__all__ = ["keep_settled"]


def keep_settled(connection: Connection, before: Mapping[str, ChannelInfo]) -> None:
    """Send heartbeats to the channels whose times are settled less far or further than with the settings of before."""
    now, newest, feeders = read_channels(connection), read_newest(connection), read_feeders(connection)
    old, new = Clocks(before.values(), newest), Clocks(now.values(), newest)
    for name, channel in before.items():
        times = _late_below(old, channel), _late_below(new, now[name])
        known = [time for time in times if time is not None and time > FIRST_TIME]
        # Times of published channels follow from those of others.
        if times[0] == times[1] or not known or name in feeders:
            continue
        beat = max(known) - 1
        if channel.heartbeat is None or channel.heartbeat < beat:
            place, _ = take_places(connection, 1, now_micros())
            add_heartbeat(connection, place, name, beat)
            note_heartbeat(connection, name, beat)


def _late_below(clocks: Clocks, channel: ChannelInfo) -> int | None:
    """Return the time below which events are late."""
    shown = clocks.shown(channel)
    return None if shown is None or channel.lateness is None else shown - channel.lateness
