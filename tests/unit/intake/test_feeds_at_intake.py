"""Feeds at intake: what polls bring, which times items have, and what is kept of a feed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.answers.feed_listing import feed_rows
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.types import Event
from xscl.catalog.tables import FEEDS, INTAKE_FILES
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.records import Poll
from xscl.intake.intake import Intake
from xscl.store.home import Home, init_home

SECOND = 1_000_000
DAY = 86_400 * SECOND
JUNE = 1_780_272_000 * SECOND  # 2026-06-01


class Service:
    """A home whose clock is set by hand, and that polls feeds."""

    def __init__(self, folder: Path) -> None:
        self.home: Home = init_home(folder / "home")
        self.now = JUNE
        self.intake = Intake(self.home, now=lambda: self.now)

    def poll(
        self, *items: str, head: str = "", channel: str = "items", subscription: int | None = None, **values: object
    ):
        text = f"<rss><channel><title>T</title><link>http://x.org/</link>{head}{''.join(items)}</channel></rss>"
        document = read_feed(text.encode(), source="f.xml", channel=channel)
        assert document is not None
        if subscription is not None:
            document = type(document)(
                document.feed, document.entries, channel, "http://x.org/f", Poll(subscription, values)
            )
        return self.intake.take([document])

    def events(self, channel: str = "items") -> list[dict[str, object]]:
        with self.home.catalog.read() as connection:
            paths = connection.execute(sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first)).scalars().all()
        rows = [row for path in self.home.paths(paths) for row in pq.read_table(path, schema=EVENT_SCHEMA).to_pylist()]
        return [row for row in rows if row["channel"] == channel]


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(tmp_path)


def item(guid: str = "g", title: str = "t", date: str = "", link: str = "") -> str:
    parts = {"guid": guid, "title": title, "pubDate": date, "link": link}
    return f"<item>{''.join(f'<{name}>{text}</{name}>' for name, text in parts.items() if text)}</item>"


def test_a_poll_brings_what_is_new(service: Service) -> None:
    report = service.poll(item("1"), item("2"))
    assert (report.taken, report.duplicates) == (4, 0)
    report = service.poll(item("1"), item("2"), item("3"))
    assert (report.taken, report.duplicates) == (2, 4)
    report = service.poll(item("1", "edited"), item("2"))
    assert (report.taken, report.versions, report.duplicates) == (2, 2, 2)
    assert [row["id"] for row in service.events()] == ["1", "2", "3", "1#2"]
    (row,) = feed_rows(service.home.catalog)
    assert {name: row[name] for name in ("polls", "items", "versions", "rejected", "policy", "feed")} == {
        "polls": 3,
        "items": 4,
        "versions": 1,
        "rejected": 0,
        "policy": "guid",
        "feed": "http://x.org/ T",
    }


def test_polls_of_one_chunk_know_of_each_other(service: Service) -> None:
    texts = [f"<rss><channel>{item('1', title)}{item('2')}</channel></rss>" for title in ("a", "a", "b")]
    documents = [read_feed(text.encode(), source="f.xml") for text in texts]
    report = service.intake.take([document for document in documents if document is not None])
    assert (report.taken, report.versions, report.duplicates) == (6, 2, 6)


def test_times_of_items(service: Service) -> None:
    service.poll(
        item("past", date="30 May 2026 00:00 GMT"),
        item("future", date="30 Jun 2026 00:00 GMT"),
        item("none", "n"),
        head="<lastBuildDate>29 May 2026 00:00 GMT</lastBuildDate>",
    )
    past, future, none = service.events()
    assert (past["ts"], past["declared"], past["time_source"]) == (JUNE - 2 * DAY, JUNE - 2 * DAY, "published")
    assert (future["ts"], future["declared"]) == (future["received"], JUNE + 29 * DAY)
    assert (none["ts"], none["declared"], none["time_source"]) == (JUNE - 3 * DAY, JUNE - 3 * DAY, "feed")


def test_an_item_without_any_date_has_its_receipt(service: Service) -> None:
    service.poll(item())
    (event,) = service.events()
    assert event["ts"] == event["received"] and (event["declared"], event["time_source"]) == (None, "received")


def test_an_edited_item_of_the_future_keeps_its_time(service: Service) -> None:
    service.poll(item("g", "a", "30 Jun 2026 00:00 GMT"))
    service.now += DAY
    service.poll(item("g", "b", "30 Jun 2026 00:00 GMT"))
    first, second = service.events()
    assert second["id"] == "g#2" and second["ts"] == first["ts"] == first["received"] != second["received"]


def test_a_date_of_change_dates_the_version(service: Service) -> None:
    changed = '<atom:updated xmlns:atom="http://www.w3.org/2005/Atom">2026-06-03</atom:updated></item>'
    service.poll(item("g", "a").replace("</item>", changed.replace("-03", "-01")))
    service.now += 5 * DAY
    service.poll(item("g", "b").replace("</item>", changed))
    first, second = service.events()
    assert (first["time_source"], first["ts"]) == ("updated", JUNE)
    assert (second["ts"], second["declared"]) == (JUNE + 2 * DAY, JUNE + 2 * DAY)


def test_another_channel_gets_the_same_items(service: Service) -> None:
    assert service.poll(item()).taken == service.poll(item(), channel="other").taken == 2
    assert service.poll(item()).taken == service.poll(item(), channel="other").taken == 0
    assert len(service.events("other")) == 1


def test_what_was_refused_is_refused_again_until_it_can_be_taken(service: Service) -> None:
    strict = Intake(service.home, strict=True)
    document = read_feed(f"<rss><channel>{item()}</channel></rss>".encode(), source="f.xml")
    assert document is not None
    assert strict.take([document]).rejected == strict.take([document]).rejected == 2
    assert service.intake.take([document]).taken == 2
    assert next(feed_rows(service.home.catalog))["rejected"] == 4


def test_feeds_read_tolerantly_are_counted(service: Service) -> None:
    document = read_feed(b"<rss><channel>\n<item><title>a & b</title></item></channel></rss>", source="f.xml")
    assert document is not None
    report = service.intake.take([document])
    assert (report.taken, report.tolerant, report.rejected) == (1, 1, 0)
    assert report.flaws[0].startswith("f.xml: line 2, column")


def subscribe(service: Service, url: str) -> int:
    with service.home.catalog.begin() as connection:
        connection.execute(FEEDS.insert().values(url=url, channel="items", added=0))
        return int(connection.execute(sa.select(sa.func.max(FEEDS.c.number))).scalar_one())


def test_what_a_poll_leaves_is_stored_with_its_items(service: Service) -> None:
    number = subscribe(service, "http://x.org/f")
    service.poll(item("1"), subscription=number, etag='"a"')
    with service.home.catalog.read() as connection:
        row = connection.execute(sa.select(FEEDS)).one()
    assert (row.etag, row.items, row.polls, row.identity, row.title) == ('"a"', 1, 1, "http://x.org/ T", "T")


def test_a_subscription_keeps_its_identity(service: Service) -> None:
    number = subscribe(service, "http://x.org/f")
    service.poll(item("1"), subscription=number)
    renamed = '<atom:link xmlns:atom="http://www.w3.org/2005/Atom" rel="self" href="http://x.org/new"/>'
    assert service.poll(item("1"), head=renamed, subscription=number).taken == 0


def test_a_feed_that_was_read_from_a_file_becomes_the_subscription(service: Service) -> None:
    service.poll(item("1"))
    number = subscribe(service, "http://x.org/f")
    assert service.poll(item("1"), item("2"), subscription=number).taken == 2
    (row,) = service.home.catalog.rows(FEEDS)
    assert (row["number"], row["polls"], row["items"]) == (number, 2, 2)


def test_one_feed_at_two_addresses(service: Service) -> None:
    first, second = (subscribe(service, f"http://x.org/{name}") for name in "ab")
    assert service.poll(item("1"), subscription=first, etag="a").taken == 2
    assert service.poll(item("1"), subscription=second, etag="b").taken == 0
    with service.home.catalog.read() as connection:
        assert connection.execute(sa.select(FEEDS.c.etag).order_by(FEEDS.c.number)).scalars().all() == ["a", "b"]


ITEMS = st.builds(
    item,
    st.sampled_from(["", "a", "b"]),
    st.sampled_from(["", "one", "two"]),
    st.sampled_from(["", "30 May 2026 00:00 GMT", "30 Jun 2026 00:00 GMT"]),
    st.sampled_from(["", "http://x.org/1", "http://x.org/2"]),
)


@settings(deadline=None, max_examples=examples(16))
@given(st.lists(st.lists(ITEMS, max_size=4), max_size=4))
def test_the_last_poll_again_adds_nothing(polls: list[list[str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Path(folder))
        for items in polls:
            service.poll(*items)
            service.poll(*items)
            assert service.poll(*items).taken == 0
        times = {row["id"]: (row["ts"], row["received"]) for row in service.events()}
        assert all(ts <= received for ts, received in times.values())


def test_items_without_guid_that_version_0_1_took(service: Service) -> None:
    """Their ids were the digests of the entries."""
    text = "<rss><channel><title>T</title><link>http://x.org/</link><item><title>a</title></item></channel></rss>"
    document = read_feed(text.encode(), source="f.xml")
    assert document is not None
    (entry,) = document.entries
    old = [
        Event(channel, entry.digest, xml=xml, feed=document.feed.identity, digest=entry.digest)
        for channel, xml in (("items", "<item><title>a</title></item>"), ("items.raw", entry.raw))
    ]
    assert service.intake.take(old).taken == 2
    report = service.intake.take([document])
    assert (report.taken, report.duplicates) == (0, 2)
