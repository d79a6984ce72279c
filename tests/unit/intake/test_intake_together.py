"""Where the parts of the intake meet: feeds in streams, rows in streams, and counts that add up."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.types import Event
from xscl.catalog.event_counts import event_count
from xscl.catalog.memberships import stored_memberships
from xscl.catalog.tables import FEEDS, INTAKE_FILES, LATE, REJECTED
from xscl.ingest.feed_bytes import read_feed
from xscl.ingest.records import FeedDocument, Poll, Record, Rejected, RowOptions, RowTable
from xscl.intake.intake import Intake, IntakeReport
from xscl.registry.channels import add_channel
from xscl.store.home import Home, init_home

S = 1_000_000
DAY = 86_400 * S
JUNE = 1_780_272_000 * S  # 2026-06-01
DATE = "<pubDate>Sun, 31 May 2026 00:00:00 GMT</pubDate>"


def take(home: Home, *records: Record, now: int = JUNE) -> IntakeReport:
    return Intake(home, now=lambda: now).take(records)


def feed(*items: tuple[str, str, str], channel: str = "items", title: str = "T") -> FeedDocument:
    """A feed of items: guid, link and title."""
    entries = "".join(
        f"<item><guid>{guid}</guid><link>http://x.org/{link}</link><title>{text}</title>{DATE}</item>"
        for guid, link, text in items
    )
    text = f"<rss><channel><title>{title}</title><link>http://x.org/</link>{entries}</channel></rss>"
    document = read_feed(text.encode(), source="f.xml", channel=channel)
    assert document is not None
    return document


def polled(document: FeedDocument, number: int) -> FeedDocument:
    return FeedDocument(document.feed, document.entries, document.channel, document.source, Poll(number, {}))


def rows(home: Home, channel: str) -> list[dict[str, object]]:
    """What lies in files of a channel, in intake order, with the numbers of its streams."""
    paths = home.paths([str(row["path"]) for row in home.catalog.rows(INTAKE_FILES)])
    found = [row for path in paths for row in pq.read_table(path, schema=EVENT_SCHEMA).to_pylist()]
    with home.catalog.read() as connection:
        memberships = stored_memberships(connection)
    for row in found:
        row["streams"] = len(memberships[row["membership"]].streams) if row["membership"] else 0
    return sorted((row for row in found if row["channel"] == channel), key=lambda row: row["docid"])


def counts(report: IntakeReport) -> tuple[int, int, int, int]:
    return report.taken, report.duplicates, report.shared, report.rejected


# -- feeds in streams ----------------------------------------------------------------------------------------------

CHANGING = [
    [("1", "a", "A"), ("2", "b", "B")],
    [("3", "a", "A"), ("4", "b", "B")],
    [("5", "a", "A"), ("6", "b", "B"), ("7", "c", "C")],
    [("1", "a", "A"), ("2", "b", "B edited")],
    [("1", "a", "A"), ("2", "b", "B")],
    [("3", "a", "A"), ("7", "c", "C")],
]
"""A feed whose guids change at every poll, of which old polls are read again at the end."""


@pytest.mark.parametrize("forgets", [False, True])
def test_a_feed_in_a_stream_is_taken_as_in_a_channel(home: Home, forgets: bool) -> None:
    add_channel(home.catalog, "bbc", of="streamed")
    seen = []
    for poll in CHANGING:
        if forgets:
            with home.catalog.begin() as connection:
                connection.execute(FEEDS.update().values(memory=None))
        plain, by_stream = (take(home, feed(*poll, channel=name, title=name)) for name in ("plain", "bbc"))
        assert counts(plain) == counts(by_stream)
        seen.append(plain.taken)
    assert seen[0] == 4 and seen[-2:] == [0, 0]
    assert len({(row["items"], row["versions"], row["policy"]) for row in home.catalog.rows(FEEDS)}) == 1
    for raw in ("", ".raw"):
        assert [row["id"] for row in rows(home, f"plain{raw}")] == [row["id"] for row in rows(home, f"streamed{raw}")]
        assert {row["streams"] for row in rows(home, f"streamed{raw}")} == {1}


@pytest.mark.parametrize("together", [False, True])
def test_one_feed_in_two_streams_of_one_source(home: Home, together: bool) -> None:
    for name in "ab":
        add_channel(home.catalog, name, of="items", source="wire")
    given: list[Record] = [feed(("1", "x", "X"), channel=name) for name in "ab"]
    reports = [take(home, *given)] if together else [take(home, record) for record in given]
    assert [sum(numbers) for numbers in zip(*map(counts, reports), strict=True)] == [2, 0, 2, 0]
    assert counts(take(home, *given)) == (0, 4, 0, 0)
    (row,) = home.catalog.rows(FEEDS)
    assert (row["items"], row["polls"]) == (1, 4)


def test_one_feed_in_two_streams_of_different_sources(home: Home) -> None:
    for name in "ab":
        add_channel(home.catalog, name, of="items")
    assert counts(take(home, feed(("1", "x", "X"), channel="a"))) == (2, 0, 0, 0)
    # An item of a feed is one item of the channel, and the first stream has it.
    assert counts(take(home, feed(("1", "x", "X"), ("2", "y", "Y"), channel="b"))) == (2, 2, 0, 0)
    assert [row["id"] for row in rows(home, "items")] == ["1", "2"]
    (row,) = home.catalog.rows(FEEDS)
    assert (row["items"], row["polls"]) == (2, 2)


def test_two_subscriptions_that_turn_out_to_be_one_feed(home: Home) -> None:
    with home.catalog.begin() as connection:
        for number, channel in ((1, "items"), (2, "other")):
            values = {"number": number, "url": f"http://x.org/{number}", "channel": channel, "added": 0}
            connection.execute(FEEDS.insert().values(values))
    first, second = (polled(feed(("1", "a", "A"), channel=name), n) for n, name in ((1, "items"), (2, "other")))
    assert counts(take(home, first, second)) == (4, 0, 0, 0)
    assert counts(take(home, second, first, second)) == (0, 6, 0, 0)
    stored = {row["number"]: row for row in home.catalog.rows(FEEDS)}
    assert (stored[1]["items"], stored[1]["polls"]) == (2, 2)
    assert (stored[2]["items"], stored[2]["polls"], stored[2]["identity"]) == (0, 3, None)


def test_a_date_of_the_future_makes_nothing_late(home: Home) -> None:
    add_channel(home.catalog, "items", lateness="1 h")
    later = "<pubDate>Tue, 30 Jun 2026 00:00:00 GMT</pubDate>"
    text = f"<rss><channel><title>T</title><item><guid>1</guid><title>t</title>{later}</item></channel></rss>"
    document = read_feed(text.encode(), source="f.xml")
    assert document is not None
    assert take(home, document).late == 0
    assert take(home, Event("items", "x", JUNE // S + 1, xml="<item/>"), now=JUNE + S).late == 0
    assert take(home, Event("items", "y", JUNE // S - 7200, xml="<item/>"), now=JUNE + S).late == 1
    (late,) = home.catalog.rows(LATE)
    assert (late["id"], late["channel"]) == ("y", "items")
    (item, *_) = rows(home, "items")
    assert (item["ts"], item["declared"]) == (item["received"], JUNE + 29 * DAY)


# -- rows ----------------------------------------------------------------------------------------------------------


def table(channel: str, ids: Sequence[str], values: Sequence[int], times: Sequence[int | None]) -> RowTable:
    columns = {"id": pa.array(ids, pa.string()), "v": pa.array(values, pa.int64()), "t": pa.array(times, pa.int64())}
    return RowTable(channel, pa.table(columns), "r.csv", options=RowOptions(id="id", ts="t", columns=("v",)))


def test_rows_of_tables_say_what_rows_alone_say(home: Home) -> None:
    add_channel(home.catalog, "way", kind="rows", schema="v bigint", of=None)
    add_channel(home.catalog, "s", of="way")
    for name in ("bulk", "s"):
        assert counts(take(home, table(name, ["a", "b"], [1, 2], [5, None]))) == (2, 0, 0, 0)
    take(home, Event("single", "a", 5, row={"v": 1}), Event("single", "b", row={"v": 2}))
    names = ("id", "version", "late", "declared", "time_source", "content", "cells")
    bulk, by_stream, single = (
        [[row[name] for name in names] for row in rows(home, n)] for n in ("bulk", "way", "single")
    )
    assert bulk == by_stream == single
    assert [row[3:5] for row in bulk] == [[5 * S, "given"], [None, "received"]]
    assert [row["membership"] for row in rows(home, "bulk")] == [row["membership"] for row in rows(home, "single")]
    assert [row["streams"] for row in rows(home, "way")] == [1, 1]


# -- everything together -------------------------------------------------------------------------------------------

_IDS = st.sampled_from(["1", "2", "1#2"])
_TEXTS = st.sampled_from(["A", "B"])
_NAMES = st.sampled_from(["items", "a", "b", "c"])
_TIMES = st.sampled_from([None, 1, 2])


@st.composite
def _documents(draw: st.DrawFn) -> Event:
    xml = draw(st.sampled_from(["<item>A</item>", "<item>B</item>", "<broken>"]))
    return Event(draw(_NAMES), draw(_IDS), draw(_TIMES), xml=xml, source="d")


@st.composite
def _rows(draw: st.DrawFn) -> Event:
    return Event(
        draw(st.sampled_from(["R", "r", "items"])), draw(_IDS), draw(_TIMES), row={"v": draw(st.integers(0, 1))}
    )


@st.composite
def _tables(draw: st.DrawFn) -> RowTable:
    count = draw(st.integers(0, 3))
    lists = (st.lists(strategy, min_size=count, max_size=count) for strategy in (_IDS, st.integers(0, 1), _TIMES))
    return table(draw(st.sampled_from(["R", "r", "items"])), *map(draw, lists))


@st.composite
def _feeds(draw: st.DrawFn) -> FeedDocument:
    items = draw(st.lists(st.tuples(_IDS, st.sampled_from("xy"), _TEXTS), max_size=3))
    return feed(*items, channel=draw(_NAMES), title=draw(_TEXTS))


_RECORDS = st.lists(
    st.one_of(_documents(), _rows(), _tables(), _feeds(), st.just(Rejected("x", "XSCL_BAD_EVENT", "no"))), max_size=8
)


def size(record: Record) -> int:
    """How many events a record gives."""
    match record:
        case FeedDocument():
            return sum(1 if entry.raw is None else 2 for entry in record.entries)
        case RowTable():
            return len(record.rows)
    return 1


@given(_RECORDS, st.booleans())
@settings(deadline=None, max_examples=examples(24))
def test_counts_add_up(records: list[Record], together: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = init_home(Path(folder) / "home")
        add_channel(home.catalog, "R", kind="rows", schema="v bigint")
        add_channel(home.catalog, "r", of="R", source="s")
        for name, source in (("a", "wire"), ("b", "wire"), ("c", None)):
            add_channel(home.catalog, name, of="items", source=source)
        report = IntakeReport()
        for part in [records] if together else [[record] for record in records]:
            report.add(take(home, *part))
        assert sum(counts(report)) == sum(map(size, records))
        stored = [row for name in ("items", "items.raw", "R") for row in rows(home, name)]
        with home.catalog.read() as connection:
            assert report.taken == event_count(connection)
            memberships = stored_memberships(connection)
        whole = [row for row in stored if not row["membership"] or memberships[row["membership"]].whole]  # type: ignore[index]
        assert len({(row["channel"], row["id"]) for row in whole}) == len(whole) == report.taken
        assert len(home.catalog.rows(REJECTED)) <= report.rejected
        feeds = home.catalog.rows(FEEDS)
        assert sum(row["items"] for row in feeds) <= report.taken  # type: ignore[misc]
        # Other content under an id is refused while its channel has had no feed, and a version once it has.
        reused = sum(row["condition"] == "XSCL_EVENT_ID_REUSED" for row in home.catalog.rows(REJECTED))
        for most in (reused, 0):
            again = take(home, *records)
            assert again.taken <= most and again.shared == 0
            assert sum(counts(again)) == sum(map(size, records))
        home.catalog.close()
