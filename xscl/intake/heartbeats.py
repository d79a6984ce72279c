"""Heartbeats: at a place of the intake order, all events of a channel up to a time are in.

Later events of the channel up to that time are late.  So whoever waits for the channel knows how far its times are
settled, also where nothing comes (docs/explanation/time.md, Heartbeats).
"""

from __future__ import annotations

from sqlalchemy.engine import Connection

from xscl.base.errors import CatalogError
from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.catalog.channels import note_heartbeat, put_channel, read_channels, read_streams, require_channel_name
from xscl.catalog.home_channels import HOME_CHANNELS
from xscl.catalog.intake_order import add_heartbeat, take_places
from xscl.catalog.records import ChannelInfo
from xscl.catalog.suggestions import how_created, no_channel
from xscl.language.facts import is_made
from xscl.registry.publish_graph import is_fed

__all__ = ["end_input", "take_heartbeat"]


def end_input(connection: Connection, now: int) -> None:
    """Say that nothing comes any more: send each channel a heartbeat of the last time there is.

    Args:
        connection: of the transaction.
        now: the time of receipt.
    """
    for name in read_channels(connection):
        if not is_made(name) and name not in HOME_CHANNELS and not is_fed(connection, name):
            _put_heartbeat(connection, name, LAST_TIME, now)


def take_heartbeat(connection: Connection, channel: str, time: int, now: int, *, strict: bool = False) -> int:
    """Note that all events of a channel up to a time are in; return the heartbeat's place of the intake order.

    Args:
        connection: of the transaction.
        channel: its name; one that is not there is made, for documents.
        time: event time, microseconds since the epoch.
        now: the time of receipt.
        strict: whether the channel has to be there.

    Raises:
        CatalogError: ``XSCL_UNKNOWN_CHANNEL``; ``XSCL_BAD_CHANNEL``: it is a stream, or queries publish to it;
            ``XSCL_BAD_EVENT_TIME``: no event can have the time; ``XSCL_BAD_NAME``.
    """
    if not FIRST_TIME <= time <= LAST_TIME:
        raise CatalogError(
            "XSCL_BAD_EVENT_TIME",
            "the time of the heartbeat is not in the years 1 to 9999",
            hint="in ISO 8601 it is written 2026-06-01T10:40:00Z; numbers may be of another unit than was meant",
        )
    require_channel_name(channel)
    streams = read_streams(connection)
    if channel in streams:
        raise CatalogError(
            "XSCL_BAD_CHANNEL",
            f"{channel} is a stream of {streams[channel].channel}, and heartbeats speak of whole channels",
            hint=f"send it to {streams[channel].channel} when all its streams are in",
        )
    if is_fed(connection, channel):
        raise CatalogError(
            "XSCL_BAD_CHANNEL",
            f"queries publish to {channel}, so its times are settled when those of the channels they read are",
            hint="send heartbeats to the channels that these queries read",
        )
    if channel not in read_channels(connection):
        if strict:
            raise no_channel(connection, channel, how_created(channel, strict=True))
        put_channel(connection, ChannelInfo.new(channel))
    return _put_heartbeat(connection, channel, time, now)


def _put_heartbeat(connection: Connection, channel: str, time: int, now: int) -> int:
    place, _ = take_places(connection, 1, now)
    add_heartbeat(connection, place, channel, time)
    note_heartbeat(connection, channel, time)
    return place
