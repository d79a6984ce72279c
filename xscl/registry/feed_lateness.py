"""Declaring the lateness of single feeds, in channels with ``--lateness auto``."""

from __future__ import annotations

from collections.abc import Mapping

import sqlalchemy as sa

from xscl.base.docids import PUBLISHED
from xscl.base.errors import CatalogError
from xscl.base.types import FIRST_TIME, now_micros
from xscl.catalog.catalog import Catalog
from xscl.catalog.channels import note_heartbeat, read_channels, read_newest
from xscl.catalog.clocks import Clocks
from xscl.catalog.feed_clocks import FeedClock, put_feed_clocks, read_feed_clocks, settled_by
from xscl.catalog.intake_order import add_heartbeat, take_places
from xscl.catalog.suggestions import how_created, no_channel
from xscl.catalog.tables import EVENT_IDS

__all__ = ["set_feed_lateness"]


def set_feed_lateness(catalog: Catalog, name: str, lateness: Mapping[str, int]) -> None:
    """Declare the lateness of feeds of a channel with ``lateness='auto'``, microseconds by the feeds' identities.

    Items that come later are judged by it.  A heartbeat behind it says how far the times are settled so.

    Raises:
        CatalogError: there is no such channel, or its feeds have no lateness of their own.
    """
    with catalog.begin() as connection:
        channels = read_channels(connection)
        channel = channels.get(name)
        if channel is None:
            raise no_channel(connection, name, how_created(name))
        if not channel.auto:
            raise CatalogError(
                "XSCL_BAD_CHANNEL",
                f"feeds of {name} have no lateness of their own",
                hint=f"xscl channel set {name} --lateness auto",
            )
        mine = EVENT_IDS.c.channel == name, EVENT_IDS.c.docid < PUBLISHED
        newest = sa.select(EVENT_IDS.c.feed, sa.func.max(EVENT_IDS.c.ts)).where(*mine).group_by(EVENT_IDS.c.feed)
        known = {row[0]: row[1] for row in connection.execute(newest)}
        put_feed_clocks(connection, name, [FeedClock(feed, most, known.get(feed)) for feed, most in lateness.items()])
        greatest = Clocks(channels.values(), read_newest(connection)).greatest
        settled = settled_by(read_feed_clocks(connection, name).values(), greatest, channel.idle)
        if settled is not None and settled > max(FIRST_TIME, (channel.heartbeat or FIRST_TIME) + 1):
            place, _ = take_places(connection, 1, now_micros())
            add_heartbeat(connection, place, name, settled - 1)
            note_heartbeat(connection, name, settled - 1)
