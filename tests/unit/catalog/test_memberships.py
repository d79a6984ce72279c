"""Streams of channels: making them, and which event each copy that they bring is."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from budget import examples
from oracle.streams import Copy, Stream, events
from stored_events import stored_events
from strategies import Dice

from xscl.answers.channel_listing import channel_rows
from xscl.base.errors import CatalogError
from xscl.base.types import Event
from xscl.catalog.channels import read_channels, read_facts, read_streams
from xscl.catalog.groups import read_rt_rows, read_templates
from xscl.catalog.memberships import member_names
from xscl.catalog.tables import EVENT_IDS, GROUPS, LATE, MEMBERSHIPS, QUERIES
from xscl.ingest.records import RowOptions, RowTable
from xscl.intake.intake import Intake, IntakeReport
from xscl.registry.channels import add_channel, drop_channel, set_channel
from xscl.registry.query_list import QueryFilter, list_queries
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home

S = 1_000_000


def make(home: Home, **sources: str | None) -> None:
    """Streams of ``items``, each of a source."""
    for name, source in sources.items():
        add_channel(home.catalog, name, of="items", source=source)


def take(home: Home, *items: Event) -> IntakeReport:
    return Intake(home, now=lambda: 1_000 * S).take(items)


def item(stream: str, id_: str = "g", ts: int = 1, xml: str = "<item/>", feed: str | None = None) -> Event:
    return Event(stream, id_, ts, xml=xml, feed=feed)


def members(home: Home) -> list[tuple[object, list[str], bool]]:
    """(id, names of the streams, whole) of every row."""
    with home.catalog.read() as connection:
        told = {(number, channel): (names, whole) for number, channel, _, names, whole in member_names(connection)}
    return [(row["id"], *told.get((row["membership"], row["channel"]), ([], True))) for row in stored_events(home)]


def refusal(call: object, *args: object, **more: object) -> str:
    with pytest.raises(CatalogError) as caught:
        call(*args, **more)  # type: ignore[operator]
    return caught.value.condition


# -- the catalogue -------------------------------------------------------------------------------------------------


def test_a_stream_makes_its_channel_and_shares_its_settings(home: Home) -> None:
    add_channel(home.catalog, "ticks", kind="rows", schema="p bigint", lateness="1 h", clock="c")
    add_channel(home.catalog, "nyse", of="ticks", source="wire")
    add_channel(home.catalog, "bbc", of="items")
    listed = {row["channel"]: row for row in channel_rows(home.catalog)}
    assert list(listed) == ["items", "bbc", "ticks", "nyse"]
    assert listed["nyse"] == {**listed["ticks"], "channel": "nyse", "of": "ticks", "source": "wire"}
    assert (listed["bbc"]["of"], listed["bbc"]["kind"], listed["items"]["of"]) == ("items", "xml", None)
    facts = home.catalog.ask(read_facts)
    assert facts["nyse"].numeric == {"p"} and facts["nyse"].channel == "ticks"
    assert facts["bbc.raw"].channel == "items.raw" and facts["bbc.raw"].stream == facts["bbc"].stream


def test_channels_and_streams_have_one_name_space(home: Home) -> None:
    make(home, a=None)
    add_channel(home.catalog, "T")
    assert refusal(add_channel, home.catalog, "a") == "XSCL_NAME_TAKEN"
    assert refusal(add_channel, home.catalog, "a.raw") == "XSCL_NAME_TAKEN"
    for name in ("a", "T", "items"):
        assert refusal(add_channel, home.catalog, name, of="items") == "XSCL_NAME_TAKEN"
    assert refusal(add_channel, home.catalog, "b", of="a") == "XSCL_BAD_CHANNEL"
    assert refusal(add_channel, home.catalog, "b", of="items", lateness="1 h") == "XSCL_BAD_CHANNEL"
    assert refusal(add_channel, home.catalog, "b", source="wire") == "XSCL_BAD_CHANNEL"
    take(home, item("met"))
    assert refusal(add_channel, home.catalog, "met", of="items") == "XSCL_NAME_TAKEN"


def test_a_name_that_queries_use_for_a_channel_is_no_stream(home: Home) -> None:
    registry = Registry(home.catalog)
    registry.register("later//a", name="q")
    registry.register("other//a PUBLISH out", name="p")
    registry.register("late.raw//a", name="r")
    for name in ("later", "out", "late"):
        assert refusal(add_channel, home.catalog, name, of="items") == "XSCL_NAME_TAKEN"
    make(home, bbc=None)
    assert refusal(registry.register, "other//a PUBLISH bbc", name="s") == "XSCL_BAD_CHANNEL"
    registry.drop("q")
    make(home, later=None)


def test_only_the_source_of_a_stream_is_set(home: Home) -> None:
    make(home, a=None)
    assert refusal(set_channel, home.catalog, "a", lateness="1 h") == "XSCL_BAD_CHANNEL"
    assert refusal(set_channel, home.catalog, "items", source="w") == "XSCL_BAD_CHANNEL"
    set_channel(home.catalog, "a", source="w")
    assert home.catalog.ask(read_streams)["a"].source == "w"
    set_channel(home.catalog, "a", source="none")
    assert home.catalog.ask(read_streams)["a"].source is None


def test_what_is_needed_is_not_dropped(home: Home) -> None:
    registry = Registry(home.catalog)
    make(home, a=None, b=None)
    registry.register("a//title", name="q")
    assert refusal(drop_channel, home.catalog, "items") == "XSCL_CHANNEL_USED"
    assert refusal(drop_channel, home.catalog, "a") == "XSCL_CHANNEL_USED"
    assert refusal(drop_channel, home.catalog, "b.raw") == "XSCL_CHANNEL_USED"
    assert refusal(drop_channel, home.catalog, "c") == "XSCL_UNKNOWN_CHANNEL"
    take(home, item("b"))
    assert refusal(drop_channel, home.catalog, "b") == "XSCL_CHANNEL_USED"
    registry.drop("q")
    drop_channel(home.catalog, "a")
    assert refusal(drop_channel, home.catalog, "items") == "XSCL_CHANNEL_USED"
    add_channel(home.catalog, "T")
    drop_channel(home.catalog, "T")
    assert list(home.catalog.ask(read_channels)) == ["items"]


def test_queries_are_listed_by_stream_and_by_channel(home: Home) -> None:
    make(home, a=None, b=None)
    registry = Registry(home.catalog)
    registry.register("a//title->x JOIN {x = y, 1 h} T//title->y", name="q")
    registry.register("b//title->x JOIN {x = y, 1 h} T//title->y", name="p")

    def listed(channel: str) -> list[str]:
        return [info.name for info in list_queries(home.catalog, QueryFilter(channel=channel))]

    assert (listed("a"), listed("b"), listed("items"), listed("T")) == (["q"], ["p"], ["p", "q"], ["p", "q"])
    (note,) = registry.register("a//x JOIN {1 h} U//x").notes
    assert note == "there is no channel 'U' yet; its first event will create it"


def test_queries_over_streams_are_groups_of_one_instance(home: Home) -> None:
    make(home, a=None, b=None)
    registry = Registry(home.catalog)
    for name in ("a", "b", "items"):
        registry.register(f"{name}//title->x JOIN {{x = y, 1 h}} T//title->y", name=name)
    groups = {row["gid"] for row in home.catalog.rows(QUERIES)}
    (template,) = home.catalog.ask(read_templates)
    assert len(groups) == 3
    assert len({row["iid"] for row in home.catalog.rows(GROUPS)}) == 1
    numbers = home.catalog.ask(read_streams)
    streams = {row["qid"]: (row["stream1"], row["stream2"]) for row in home.catalog.ask(read_rt_rows, template)}
    assert streams in (
        {"a": (numbers["a"].number, None), "b": (numbers["b"].number, None), "items": (None, None)},
        {"a": (None, numbers["a"].number), "b": (None, numbers["b"].number), "items": (None, None)},
    )


# -- events --------------------------------------------------------------------------------------------------------


def test_an_event_of_a_stream_is_of_its_channel(home: Home) -> None:
    make(home, a=None)
    report = take(home, item("a"), item("items", "h"), item("a.raw", "e", xml="<entry/>"))
    assert report.taken == 3
    assert [(row["channel"], row["id"]) for row in stored_events(home)] == [
        ("items", "g"),
        ("items", "h"),
        ("items.raw", "e"),
    ]
    assert members(home) == [("g", ["a"], True), ("h", [], True), ("e", ["a.raw"], True)]
    assert [(row["channel"], row["events"]) for row in channel_rows(home.catalog)] == [
        ("items", 2),
        ("a", 1),
        ("items.raw", 1),
        ("a.raw", 1),
    ]


def test_g_rum_equal_items_of_one_source_in_one_batch_are_one_row_with_two_members(home: Home) -> None:
    make(home, a="wire", b="wire")
    report = take(home, item("a"), item("b"))
    assert (report.taken, report.shared, report.duplicates) == (1, 1, 0)
    assert members(home) == [("g", ["a", "b"], True)]


def test_g_rum_different_publication_times_stay_two(home: Home) -> None:
    make(home, a="wire", b="wire")
    assert take(home, item("a"), item("b", ts=2)).taken == 2
    assert members(home) == [("g", ["a"], True), ("g (b)", ["b"], True)]


def test_g_rum_items_of_sources_that_are_not_declared_equal_stay_two(home: Home) -> None:
    make(home, a="wire", b=None, c="press", d=None)
    assert take(home, item("a"), item("b"), item("c"), item("d")).taken == 4
    assert [names for _, names, _ in members(home)] == [["a"], ["b"], ["c"], ["d"]]


def test_different_content_stays_two(home: Home) -> None:
    make(home, a="wire", b="wire")
    assert take(home, item("a"), item("b", xml="<other/>")).taken == 2
    assert [row["item"] for row in stored_events(home)] == [row["docid"] for row in stored_events(home)]


def test_a_copy_that_comes_later_has_a_row_of_its_own(home: Home) -> None:
    make(home, a="wire", b="wire", c="wire")
    take(home, item("a"))
    report = take(home, item("b"), item("c"))
    assert (report.taken, report.shared) == (0, 2)
    assert members(home) == [("g", ["a"], True), ("g", ["b", "c"], False)]
    first, copy = stored_events(home)
    assert copy["item"] == first["docid"] and copy["content"] == first["content"]
    assert [row["events"] for row in channel_rows(home.catalog)] == [1, 1, 1, 1]
    assert take(home, item("a"), item("b"), item("c")).duplicates == 3


def test_versions_of_a_shared_item_are_shared(home: Home) -> None:
    make(home, a="wire", b="wire")
    first, second = (item(name, xml="<item>2</item>", feed=f"f{name}") for name in "ab")
    take(home, item("a", feed="fa"), item("b", feed="fb"), first, second)
    assert members(home) == [("g", ["a", "b"], True), ("g#2", ["a", "b"], True)]
    assert len({row["item"] for row in stored_events(home)}) == 1
    # One that b has alone is a version of the same item.
    take(home, item("b", xml="<item>3</item>", feed="fb"))
    assert members(home)[2] == ("g (fb)#3", ["b"], True)
    assert len({row["item"] for row in stored_events(home)}) == 1


def test_one_feed_in_two_streams_of_one_source(home: Home) -> None:
    make(home, a="wire", b="wire", c=None)
    report = take(home, *(item(name, feed="f") for name in "abc"))
    assert (report.taken, report.shared, report.duplicates) == (1, 1, 1)
    assert members(home) == [("g", ["a", "b"], True)]


def test_equal_items_of_two_feeds_keep_what_names_their_feeds(home: Home) -> None:
    """However the copies come, each stream reads the item as its own feed has it."""
    make(home, a="wire", b="wire")
    copies = [replace(item(name, xml=f"<item>{name}</item>", feed=f"f{name}"), digest="entry") for name in "ab"]
    assert (take(home, *copies).shared, take(home, *copies).duplicates) == (1, 2)
    assert members(home) == [("g", ["a"], True), ("g", ["b"], False)]
    assert [row["content"] for row in stored_events(home)] == ["<item>a</item>", "<item>b</item>"]


def test_an_id_with_other_content_is_refused_within_a_stream(home: Home) -> None:
    make(home, a="wire", b="wire")
    report = take(home, item("a"), item("b", xml="<x/>"), item("b", xml="<y/>"), item("items", xml="<z/>"))
    assert (report.taken, report.rejected) == (3, 1)
    assert [problem.condition for problem in report.problems] == ["XSCL_EVENT_ID_REUSED"]
    assert [row["id"] for row in stored_events(home)] == ["g", "g (b)", "g (items)"]


def test_rows_of_streams(home: Home) -> None:
    add_channel(home.catalog, "ticks", kind="rows")
    for name in ("nyse", "lse"):
        add_channel(home.catalog, name, of="ticks", source="wire")
    events_ = [Event(name, "1", 1, row={"p": 1, "q": "x"}) for name in ("nyse", "lse")]
    assert take(home, *events_, Event("lse", "2", 1, xml="<a/>")).rejected == 1
    assert members(home) == [("1", ["lse", "nyse"], True)]
    assert home.catalog.ask(read_facts)["lse"].numeric == {"p"}


def test_tables_of_rows_of_streams(home: Home) -> None:
    add_channel(home.catalog, "ticks", kind="rows")
    for name, source in (("nyse", "wire"), ("lse", "wire"), ("own", None)):
        add_channel(home.catalog, name, of="ticks", source=source)
    columns = {"k": ["1", "2"], "t": [1, 2], "p": [5, None]}
    options = RowOptions(("p",), "k", "t")

    def table(stream: str, rows: pa.Table) -> IntakeReport:
        return Intake(home, now=lambda: 1_000 * S).take([RowTable(stream, rows, stream, options=options)])

    assert table("nyse", pa.table(columns)).taken == 2
    report = table("lse", pa.table({**columns, "p": [5, 7]}))
    assert (report.taken, report.shared, report.rejected) == (1, 1, 0)
    assert table("own", pa.table(columns)).taken == 2
    assert table("nyse", pa.table(columns)).duplicates == 2
    assert members(home) == [
        ("1", ["nyse"], True),
        ("2", ["nyse"], True),
        ("1", ["lse"], False),
        ("2 (lse)", ["lse"], True),
        ("1 (own)", ["own"], True),
        ("2 (own)", ["own"], True),
    ]
    assert [(row["channel"], row["events"]) for row in channel_rows(home.catalog)] == [
        ("ticks", 5),
        ("lse", 2),
        ("nyse", 2),
        ("own", 2),
    ]


def test_a_copy_is_late_at_its_own_place(home: Home) -> None:
    add_channel(home.catalog, "items", lateness="1 s")
    make(home, a="wire", b="wire", c="wire")
    take(home, item("a"), item("b"), item("items", "h", ts=9), item("c"))
    assert members(home) == [("g", ["a", "b"], True), ("h", [], True), ("g", ["c"], False)]
    assert [row["late"] for row in stored_events(home)] == [False, False, True]
    assert [row["id"] for row in home.catalog.rows(LATE)] == ["g"]


def test_a_clock_that_moves_between_keeps_copies_apart_where_lateness_counts(home: Home) -> None:
    """What is published for a match takes the place of its last member, and may be late there."""
    add_channel(home.catalog, "items", lateness="1 h")
    make(home, a="wire", b="wire")
    take(home, item("a"), item("items", "h", ts=9), item("b"))
    assert [whole for _, _, whole in members(home)] == [True, True, False]


def test_memberships_are_few(home: Home) -> None:
    make(home, a="wire", b="wire")
    take(home, *(item(name, str(number)) for number in range(50) for name in "ab"))
    assert sorted((json.loads(row["streams"]), row["whole"]) for row in home.catalog.rows(MEMBERSHIPS)) == [  # type: ignore[arg-type]
        ([1], True),
        ([1, 2], True),
        ([2], False),
    ]
    assert len(stored_events(home)) == 50 and len(home.catalog.rows(EVENT_IDS)) == 100


def random_copies(choose: Dice, feeds: bool) -> list[Copy]:
    return [
        Copy(
            choose.one("a", "b", "c", "d", "items"),
            choose.one("g", "g", "h"),
            choose.count(1, 2),
            choose.one("x", "x", "y"),
            choose.one("f1", "f2", "f3", "f3") if feeds else None,
        )
        for _ in range(choose.count(2, 9))
    ]


@pytest.mark.parametrize("seed", range(examples(60)))
def test_copies_in_any_chunks_are_the_events_of_the_oracle(seed: int, tmp_path: Path) -> None:
    choose = Dice(seed)
    sources = {"a": "wire", "b": "wire", "c": choose.one("wire", "press"), "d": None}
    feeds = choose.chance(50)
    copies = random_copies(choose, feeds)
    expected, refused = events(copies, {name: Stream(source) for name, source in sources.items()}, feeds=feeds)
    seen = []
    for attempt, ends in enumerate(([0, len(copies)], sorted({0, len(copies), choose.count(0, len(copies))}))):
        home = init_home(tmp_path / str(attempt))
        if choose.chance(50):
            add_channel(home.catalog, "items", lateness="1 h")
        make(home, **sources)
        problems = []
        for start, end in pairwise(ends):
            part = [item(c.name, c.id, c.ts, f"<item>{c.content}</item>", c.feed) for c in copies[start:end]]
            problems += take(home, *part).problems
        assert len(problems) == len(refused)
        had: Counter[tuple[object, str]] = Counter()
        for id_, names, _ in members(home):
            had.update((id_, name) for name in names)
        assert set(had.values()) <= {1}, "a stream has an event once"
        whole = [(id_, row) for (id_, _, whole), row in zip(members(home), stored_events(home), strict=True) if whole]
        assert [(id_, row["ts"], row["content"]) for id_, row in whole] == [
            (e.id, e.ts * S, f"<item>{e.content}</item>") for e in expected
        ]
        assert set(had) == {(e.id, name) for e in expected for name in e.by if name is not None}
        of_item = {row["docid"]: e.number for (_, row), e in zip(whole, expected, strict=True)}
        assert [of_item[row["item"]] for _, row in whole] == [e.item for e in expected]
        assert all(row["item"] == dict(whole)[row["id"]]["item"] for row in stored_events(home))
        seen.append(had)
        home.catalog.close()
    assert seen[0] == seen[-1]
