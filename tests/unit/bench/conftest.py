"""Feed items of the demonstration for small benches: reading all of its feeds takes seconds."""

from __future__ import annotations

from functools import cache
from importlib.resources import as_file, files

import pytest

from xscl.bench import matching
from xscl.ingest.expand import feed_events
from xscl.ingest.records import FeedDocument
from xscl.ingest.sources import read_paths


@cache
def items_of_one_feed() -> tuple[str, ...]:
    with as_file(files("xscl.demo")) as here:
        feeds = [*read_paths([here / "corpus" / "trending-2026-08-11-daily-cpp.rss.gz"])]
    return tuple(
        str(event.xml)
        for feed in feeds
        if isinstance(feed, FeedDocument)
        for event in feed_events(feed)
        if event.channel == "items"
    )


@pytest.fixture
def items_of_one_feed_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have benches draw their feed items from one feed."""
    monkeypatch.setattr(matching, "_demo_items", items_of_one_feed)
