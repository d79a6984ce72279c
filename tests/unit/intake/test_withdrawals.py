"""Entries that feeds withdraw by ``deleted-entry`` (RFC 6721)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa

import xscl
from xscl.catalog.channels import read_channels
from xscl.catalog.feed_clocks import FeedClock, put_feed_clocks
from xscl.catalog.feeds import add_feed_row
from xscl.catalog.intake_order import read_processed
from xscl.catalog.removals import trim_removals
from xscl.catalog.tables import FEEDS, NEVER
from xscl.engine import Engine
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.records import Poll
from xscl.intake.feed_times import FeedTimes
from xscl.intake.intake import IntakeReport
from xscl.intake.withdrawals import without_withdrawn

HEAD = (
    '<feed xmlns="http://www.w3.org/2005/Atom" xmlns:at="http://purl.org/atompub/tombstones/1.0">'
    "<id>http://x.org/{feed}</id><title>{feed}</title><updated>2026-06-09T00:00:00Z</updated>"
)


def entry(guid: str, day: int = 1, text: str = "rain") -> str:
    updated = f"2026-06-{day:02}T00:00:00Z"
    return f"<entry><id>{guid}</id><title>{text}</title><updated>{updated}</updated></entry>"


def deleted(guid: str, day: int) -> str:
    return f'<at:deleted-entry ref="{guid}" when="2026-06-{day:02}T00:00:00Z"><at:comment/></at:deleted-entry>'


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as made:
        made.register("items->i[contains(./title, 'rain')] ON CHANGE RETRACT", name="rain")
        made.register("items->i[contains(./title, 'rain')]", name="ever")
        yield made


def poll(engine: Engine, *parts: str, feed: str = "one") -> IntakeReport:
    document = read_feed((HEAD.format(feed=feed) + "".join(parts) + "</feed>").encode(), source=f"{feed}.xml")
    assert document is not None
    report = engine.ingest([document])
    engine.run_once()
    return report


def held(engine: Engine, name: str = "rain") -> list[str]:
    return sorted(match.events[0].id for match in engine.matches(name))


def test_a_withdrawn_entry_is_removed(engine: Engine) -> None:
    poll(engine, entry("a"), entry("b"), entry("c"))
    # An entry that only leaves the feed stays.
    assert (poll(engine, entry("c")).removed, held(engine)) == (0, ["a", "b", "c"])
    report = poll(engine, entry("c"), deleted("a", 2), deleted("never", 2))
    assert (report.removed, report.missing, report.rejected) == (2, 0, 0)  # the item and the entry as published
    assert held(engine) == ["b", "c"]
    assert [each.retracted.because for each in engine.changes("rain", after="start") if each.retracted] == ["removed"]
    assert held(engine, "ever") == ["a", "b", "c"]
    # The feed goes on saying it, and shows the old text again.
    assert (poll(engine, entry("a"), deleted("a", 2)).removed, held(engine)) == (0, ["b", "c"])
    assert (poll(engine, entry("a")).taken, held(engine)) == (0, ["b", "c"])


def test_a_newer_version_stays_though_the_old_withdrawal_is_repeated(engine: Engine) -> None:
    poll(engine, entry("a"), deleted("b", 3), entry("b", 3))
    assert held(engine) == ["a"]
    poll(engine, deleted("a", 2))
    assert held(engine) == []
    assert poll(engine, entry("a", 5, "more rain"), deleted("a", 2)).versions == 2
    assert held(engine) == ["a#2"]
    # The version has left the feed, and the withdrawal has not.
    assert (poll(engine, deleted("a", 2)).removed, held(engine)) == (0, ["a#2"])
    assert (poll(engine, deleted("a", 2), deleted("a", 6)).removed, held(engine)) == (2, [])


def test_an_item_that_changed_behind_its_withdrawal_stays(engine: Engine) -> None:
    assert poll(engine, entry("z", 5), deleted("z", 2), entry("y", 5)).taken == 4
    # Both entries have left the feed, and withdrawals of before have not.
    assert (poll(engine, deleted("z", 2), deleted("y", 4)).removed, held(engine)) == (0, ["y", "z"])
    # An older text that comes again changes nothing of it.
    poll(engine, entry("z", 1, "old rain"))
    assert (poll(engine, deleted("z", 4)).removed, poll(engine, deleted("y", 5)).removed) == (0, 2)


def test_a_withdrawal_whose_removal_is_forgotten_takes_no_newer_version(engine: Engine) -> None:
    poll(engine, entry("a"))
    poll(engine, deleted("a", 2))
    poll(engine, entry("a", 5, "more rain"))
    with engine.home.catalog.begin() as connection:
        trim_removals(connection, NEVER, read_processed(connection) + 1)
    assert (poll(engine, deleted("a", 2)).removed, held(engine)) == (0, ["a#2"])


def test_a_feed_withdraws_its_own_entries_only(engine: Engine) -> None:
    poll(engine, entry("a"))
    poll(engine, entry("a"), feed="two")
    assert len(held(engine)) == 2
    poll(engine, deleted("a", 2), feed="two")
    assert held(engine) == ["a"]


def fetched(engine: Engine, subscription: int, address: str, *parts: str) -> IntakeReport:
    """Take a feed as it was fetched, which says that it is http://good.org/f."""
    head = HEAD.format(feed="good") + '<link rel="self" href="http://good.org/f"/>'
    document = read_feed((head + "".join(parts) + "</feed>").encode(), source=address)
    assert document is not None
    return engine.ingest([replace(document, poll=Poll(subscription, {}, address))])


@pytest.mark.parametrize("first", ["good.org", "evil.org"])
def test_a_feed_that_says_it_is_another_withdraws_nothing(engine: Engine, first: str) -> None:
    good, evil, mirror = "http://good.org/f", "http://evil.org/f", "http://good.org/g"
    with engine.home.catalog.begin() as connection:
        for url in sorted((good, evil), key=lambda url: first not in url) + [mirror]:
            add_feed_row(connection, {"url": url, "channel": "items", "added": 1, "status": "active"})
        number = {row.url: row.number for row in connection.execute(sa.select(FEEDS))}
    fetched(engine, 1, f"http://{first}/f", entry("n"), entry("m"))
    report = fetched(engine, number[evil], evil, deleted("n", 9), deleted("m", 9))
    assert report.removed == 0
    assert report.notes == [f"{evil}: 2 withdrawals not taken, as 'http://good.org/f' is a feed of another host"]
    assert fetched(engine, number[mirror], mirror, deleted("m", 9)).removed == 2
    assert fetched(engine, number[good], good, deleted("n", 9)).removed == 2


def test_a_feed_that_says_it_is_another_moves_no_clock(engine: Engine) -> None:
    engine.add_channel("slow", lateness="auto")
    with engine.home.catalog.begin() as connection:
        put_feed_clocks(connection, "slow", [FeedClock("http://good.org/f", 0, 5)])
        channel = read_channels(connection)["slow"]
        times = FeedTimes(connection)
        times.still = True
        assert times.late_by(channel, "http://good.org/f", 90, None) is None
        times.still = False
        assert times.late_by(channel, "http://good.org/f", 7, None) is None
        assert times.late_by(channel, "http://good.org/f", 6, None) == 7


def test_withdrawals_without_an_id_or_a_time_are_none() -> None:
    texts = '<at:deleted-entry ref="a"/>', '<at:deleted-entry when="2026-06-02T00:00:00Z"/>', deleted("b", 2)
    text = HEAD.format(feed="one") + "".join(texts) + entry("a") + entry("b", 1) + entry("c") + "</feed>"
    document = read_feed(text.encode(), source="f.xml")
    assert document is not None
    assert [each.guid for each in document.withdrawn] == ["b"]
    left, checked = without_withdrawn(document, [1, 2, 3])
    assert ([each.guid for each in left.entries], checked) == (["a", "c"], [1, 3])
