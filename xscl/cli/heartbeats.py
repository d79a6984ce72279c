"""``xscl heartbeat``: all events of a channel up to a time are in."""

from __future__ import annotations

from typing import Annotated

import typer

from xscl.cli.options import ServedOptions, say, time_given

__all__ = ["heartbeat"]


def heartbeat(
    channel: Annotated[str, typer.Argument(help="A channel.")],
    time: Annotated[str, typer.Argument(help="Event time: ISO 8601, seconds, or NOW-5min.")],
    *,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse a channel that does not exist.")] = False,
    at: ServedOptions,
) -> None:
    """Say that all events of a channel up to a time are in: later ones of that time and before it are late.

    Example: xscl heartbeat payments 2026-06-01T10:40:00Z
    """
    from xscl.base.types import format_time, now_micros
    from xscl.catalog.suggestions import channel_names, suggestion
    from xscl.intake.heartbeats import take_heartbeat

    moment = time_given(time, "TIME")
    assert moment is not None
    client = at.client(only_home=strict)
    if client is None:
        with at.open().catalog.begin() as connection:
            if not strict and channel not in channel_names(connection):
                meant = suggestion(channel, channel_names(connection), "it is made now")
                say(f"note: there was no channel {channel!r}: {meant}")
            take_heartbeat(connection, channel, moment, now_micros(), strict=strict)
    else:
        client.send_heartbeat(channel, format_time(moment))
    say(f"events of {channel} up to {format_time(moment)} are in")
