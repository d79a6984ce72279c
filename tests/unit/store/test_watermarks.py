"""Watermarks after a batch, by clocks and heartbeats; the epoch is a time as all others are."""

from __future__ import annotations

from dataclasses import replace

import pytest

from xscl.catalog.records import ChannelInfo
from xscl.store.watermarks import ChannelClocks, next_watermarks


def clocks(processed: int | None, beaten: int | None) -> ChannelClocks:
    """Return the clocks of one channel with a lateness of 6."""
    of = replace(ChannelInfo.new("A"), lateness=6)
    return ChannelClocks({"A": of}, {"A": processed}, {"A": None}, {"A": beaten}, {"A": 0})


@pytest.mark.parametrize(
    ("newest", "beaten", "watermark"), [(6, -100, 0), (5, -100, -1), (5, -1, 0), (5, 3, 4), (None, -1, 0), (6, None, 0)]
)
def test_the_later_of_clock_and_heartbeat_counts(newest: int | None, beaten: int | None, watermark: int) -> None:
    times = {} if newest is None else {"A": newest}
    assert next_watermarks(clocks(None, beaten), 1, times).watermarks == {"A": watermark}


def test_heartbeats_do_not_go_back() -> None:
    assert next_watermarks(clocks(None, 0), 1, beaten={"A": -5}).beaten == {}
    assert next_watermarks(clocks(None, 0), 1, beaten={"A": 5}).beaten == {"A": 5}
    assert next_watermarks(clocks(None, None), 1, beaten={"A": -5}).beaten == {"A": -5}
