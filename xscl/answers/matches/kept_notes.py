"""Notes on listings of matches that begin before the events that are kept (PSoup's retention)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xscl.base.types import format_time
from xscl.catalog.channels import read_streams
from xscl.catalog.records import QueryInfo
from xscl.language.shown import shown
from xscl.language.syntax import ast
from xscl.language.syntax.parser import parse_query
from xscl.store.home import Home

__all__ = ["incomplete_notes"]


def incomplete_notes(
    home: Home, kept: Mapping[str, int], least: int | None, asked: Sequence[QueryInfo] | None
) -> tuple[str, ...]:
    """Return what a listing may lack because it begins before what is kept, as sentences.

    Args:
        home: has the matches.
        kept: the time from which on events are kept, by channel from which some may have gone.
        least: the beginning of the listing in microseconds since the epoch; None: it has none.
        asked: queries whose matches are listed; None: all.
    """
    if least is None:
        return ()
    times = dict(kept)
    if asked is not None:
        info = max(asked, key=lambda each: each.query)
        with home.catalog.read() as connection:
            streams = read_streams(connection)
        names = {block.channel for block in ast.blocks(shown(parse_query(info.text)).source)}
        channels = {streams[name].channel if name in streams else name for name in names}
        # Who asked for what was held found nothing older than that.
        both = [*kept.items(), *info.held_from.items()]
        times = {name: max(of for channel, of in both if channel == name) for name in channels & dict(both).keys()}
        least = least if info.ts_from is None else max(least, info.ts_from)
    begun = max(times.values(), default=least)
    if begun <= least:
        return ()
    gone = sorted(name for name, time in times.items() if time > least)
    return (f"incomplete before {format_time(begun)}: older events of {', '.join(gone)} are no longer kept",)
