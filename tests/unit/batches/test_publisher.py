"""Channels that queries publish to: levels, places, times, what is refused."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow.dataset as ds
import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st
from next_places import places_of_next

import xscl
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.docids import PUBLISHED, place_of, place_sql, published_docid
from xscl.base.document_limits import Limits
from xscl.base.types import Event
from xscl.batches.level import BatchWork
from xscl.batches.publish_levels import channel_levels
from xscl.catalog.channels import read_channels
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import EVENT_IDS, INTAKE_FILES, LATE, REJECTED
from xscl.engine import Engine
from xscl.intake.intake import Intake
from xscl.registry.channels import add_channel

PAIRS = "SELECT <pair k='{x}'/> FROM S/a/k->x FOLLOWED BY {x = y, 1 h} S/b/k->y PUBLISH pairs"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        yield opened


def a(id_: str, ts: int, key: str = "v", channel: str = "S") -> Event:
    return Event(channel, id_, ts, xml=f"<a><k>{key}</k></a>")


def b(id_: str, ts: int, key: str = "v") -> Event:
    return Event("S", id_, ts, xml=f"<b><k>{key}</k></b>")


def events(engine: Engine, channel: str) -> list[dict[str, Any]]:
    """The events of a channel as files hold them, by number."""
    with engine.home.catalog.read() as connection:
        paths = connection.scalars(sa.select(INTAKE_FILES.c.path)).all()
    table = ds.dataset(engine.home.paths(paths), schema=EVENT_SCHEMA).to_table(filter=ds.field("channel") == channel)
    return sorted(table.to_pylist(), key=lambda row: row["docid"])


def members(engine: Engine, query: str) -> list[list[str]]:
    return [[event.id for event in match.events] for match in engine.matches(query)]


# -- levels ----------------------------------------------------------------------------------------------------

CHANNELS = st.sampled_from("abcde")


@given(st.lists(st.tuples(st.frozensets(CHANNELS, min_size=1, max_size=3), CHANNELS), max_size=6))
def test_a_channel_comes_after_those_it_is_made_of(steps: Sequence[tuple[frozenset[str], str]]) -> None:
    levels = channel_levels(steps)
    reached = {target: set(channels) for channels, target in steps}
    reached = {target: {c for channels, t in steps if t == target for c in channels} for target in reached}
    for _ in reached:
        for sources in reached.values():
            sources |= {further for channel in sources for further in reached.get(channel, ())}
    assert (levels is None) == any(target in sources for target, sources in reached.items())
    if levels is not None:
        assert levels.keys() == reached.keys()
        for channels, target in steps:
            before = [levels[channel] for channel in channels if channel in levels]
            assert levels[target] > max(before, default=0)
        for target, level in levels.items():
            before = [levels.get(channel, 0) for channels, t in steps if t == target for channel in channels]
            assert level == 1 + max(before), "no later than needed"


def test_a_query_that_takes_the_way_of_a_dropped_one_back(engine: Engine) -> None:
    """Queries that never live together may feed each other's channels."""
    engine.register("x/a PUBLISH y", name="there")
    engine.ingest([a("1", 1, channel="x"), a("2", 2, channel="y")])
    engine.drop("there")
    engine.register("y/a PUBLISH x", name="back")
    engine.register("x/a", name="reader")
    engine.ingest([a("3", 3, channel="y"), a("4", 4, channel="x")])
    reports = engine.run_once()
    assert [report.published for report in reports] == [1, 1]
    assert members(engine, "there") == [["1"]] and members(engine, "back") == [["3"]]
    published = next(engine.matches("back")).id
    assert sorted(members(engine, "reader")) == sorted([[published], ["4"]])


# -- places ----------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, (1 << 38) - 1), st.integers(0, (1 << 24) - 1)), min_size=1))
def test_a_published_number_holds_its_place(pairs: list[tuple[int, int]]) -> None:
    docids = [published_docid(*pair) for pair in pairs]
    places = [place for place, _ in pairs]
    assert [place_of(docid) for docid in docids] == places
    assert place_of(np.array([*docids, *places])).tolist() == places * 2
    assert len(set(docids)) == len(set(pairs)) and min(docids) >= PUBLISHED > max(places)
    with sqlite3.connect(":memory:") as connection:
        connection.create_function("shiftright", 2, lambda number, bits: None if number is None else number >> bits)
        statement = f"select {place_sql('docid').replace('if(', 'iif(')} from (select ? as docid)"
        asked = [connection.execute(statement, [docid]).fetchone()[0] for docid in [*docids, *places]]
    connection.close()
    assert asked == places * 2


def test_what_is_published_is_an_event_like_any(engine: Engine) -> None:
    engine.register(PAIRS, name="p")
    engine.ingest([b("0", 9), a("1", 3), a("2", 1), b("3", 5), b("4", 4)])
    (report,) = engine.run_once()
    assert (report.events, report.published) == (5, 6)
    found = events(engine, "pairs")
    placed = [(place_of(row["docid"]), row["ts"] // 1_000_000) for row in found]
    assert placed == [(3, 9), (4, 9), (5, 5), (5, 5), (6, 4), (6, 4)]
    assert {row["id"] for row in found} == {match.id for match in engine.matches("p")}
    received = {place_of(row["docid"]): row["received"] for row in events(engine, "S")}
    for row in found:
        assert row["content"] == '<pair k="v"/>' and row["item"] == row["docid"] and not row["late"]
        assert row["received"] == received[place_of(row["docid"])]
    assert engine.home.catalog.ask(read_channels)["pairs"].kind == "xml"
    again = Event("pairs", found[0]["id"], 1, xml=found[0]["content"])
    other = Event("pairs", found[0]["id"], 1, xml="<pair/>")
    taken = engine.ingest([again, other])
    assert (taken.duplicates, [problem.condition for problem in taken.problems]) == (1, ["XSCL_EVENT_ID_REUSED"])


def test_ranges_do_not_count_what_is_published(engine: Engine) -> None:
    engine.register("S PUBLISH out", name="p")
    engine.ingest([a(str(number), number) for number in range(1, 6)])
    assert [report.published for report in engine.run_once(batch_docs=2)] == [2, 2, 1]
    engine.ingest([a("6", 6), a("7", 7)])
    with engine.home.catalog.read() as connection:
        assert places_of_next(connection, 1) == (7, 7)
    assert [report.events for report in engine.run_once(batch_docs=2)] == [2]


# -- who sees what ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_docs", [1, 2, 100])
def test_queries_come_and_go_by_event_files(engine: Engine, tmp_path: Path, batch_docs: int) -> None:
    lines = [
        '{"register": {"name": "early", "text": "pairs"}}',
        f'{{"register": {{"name": "p", "text": "{PAIRS}"}}}}',
        '{"channel": "S", "id": "1", "ts": 1, "xml": "<a><k>v</k></a>"}',
        '{"channel": "S", "id": "2", "ts": 2, "xml": "<b><k>v</k></b>"}',
        '{"register": {"name": "late", "text": "pairs/pair->x JOIN {1 h, ONCE} pairs/pair->y"}}',
        '{"channel": "S", "id": "3", "ts": 3, "xml": "<b><k>v</k></b>"}',
        '{"drop": "early"}',
        '{"channel": "S", "id": "4", "ts": 4, "xml": "<b><k>v</k></b>"}',
        '{"drop": "p"}',
        '{"channel": "S", "id": "5", "ts": 5, "xml": "<b><k>v</k></b>"}',
    ]
    (tmp_path / "events.ndjson").write_text("\n".join(lines))
    engine.ingest(tmp_path / "events.ndjson")
    engine.run_once(batch_docs=batch_docs)
    assert members(engine, "p") == [["1", "2"], ["1", "3"], ["1", "4"]]
    two, three, four = [match.id for match in engine.matches("p")]
    assert members(engine, "early") == [[two], [three]]
    assert members(engine, "late") == [[three, four]], "the document of place 4 was there before the query"


def test_a_published_document_joins_in_either_order(engine: Engine) -> None:
    engine.register(PAIRS, name="p")
    engine.register("pairs/pair/@k->x JOIN {x = y, 1 h} T/a/k->y", name="first")
    engine.register("T/a/k->x FOLLOWED BY {x = y, 1 h} pairs/pair/@k->y", name="second")
    engine.register("T/a/k->x JOIN {x = y, 1 h} pairs/pair/@k->y JOIN {x = z, 1 h} S/b/k->z", name="third")
    engine.ingest([a("1", 1), a("t1", 2, channel="T"), b("2", 3), a("t2", 4, channel="T")])
    engine.run_once(batch_docs=3)
    (pair,) = engine.matches("p")
    assert members(engine, "first") == [[pair.id, "t1"], [pair.id, "t2"]]
    assert members(engine, "second") == [["t1", pair.id]]
    assert members(engine, "third") == [["t1", pair.id, "2"], ["t2", pair.id, "2"]]


def test_levels_that_are_empty_or_read_by_nobody_cost_nothing(engine: Engine) -> None:
    texts = ("S/a PUBLISH one", "SELECT <r>{x}</r> FROM one/*->x PUBLISH two", "two/r PUBLISH three")
    engine.register_many([*texts, ("end", "three/r/a/k"), "three/r PUBLISH unread"])
    with mock.patch.object(BatchWork, "_walk", autospec=True, side_effect=BatchWork._walk) as stage1:
        engine.ingest([b("0", 0)])
        (report,) = engine.run_once()
        assert (report.published, stage1.call_count) == (0, 1)
        engine.ingest([a("1", 1)])
        (report,) = engine.run_once()
        assert (report.published, stage1.call_count) == (4, 1 + 4)
    assert [match.document for match in engine.matches("end")] == ["<k>v</k>"]
    assert {row["content"] for row in events(engine, "three")} == {"<r><a><k>v</k></a></r>"}


def test_rows_become_documents_and_join_with_rows_as_numbers(engine: Engine) -> None:
    engine.register(
        "SELECT <up of='{s}'>{q}</up> "
        "FROM T[./s->s][./p->p] FOLLOWED BY {s = t AND q > p, 1 h} T[./s->t][./p->q] PUBLISH ups"
    )
    engine.register("ups/up/p->x JOIN {x = p, 1 h} T/T/p->p", name="reader")
    prices = [101.5, 99.0, 101.5, 102.0]
    engine.ingest([Event("T", f"t{ts}", ts, row={"s": "IBM", "p": price}) for ts, price in enumerate(prices, start=1)])
    engine.run_once(batch_docs=3)
    assert {row["content"] for row in events(engine, "ups")} == {
        '<up of="IBM"><p>101.5</p></up>',
        '<up of="IBM"><p>102</p></up>',
    }
    assert [ids[1] for ids in members(engine, "reader")].count("t1") == 1


def test_several_queries_of_one_group_publish_each_for_itself(engine: Engine) -> None:
    for name, target in (("p", "one"), ("q", "one"), ("r", "two")):
        engine.register(f"S/a PUBLISH {target}", name=name)
    engine.ingest([a("1", 1)])
    engine.run_once()
    assert [len(events(engine, channel)) for channel in ("one", "two")] == [2, 1]


# -- lateness --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch_docs", [1, 2, 100])
def test_late_by_the_clock_of_the_channel_at_the_place(engine: Engine, batch_docs: int) -> None:
    add_channel(engine.home.catalog, "out", lateness="2 s")
    engine.register("S PUBLISH out", name="p")
    engine.register("out/a", name="one_block")
    engine.register("out/a->x JOIN {1 h, ONCE} out/a->y", name="two_blocks")
    # The event of `out` itself moves the clock from its place on; what is published makes it late never.
    engine.ingest(
        [a("5", 5), a("3", 3), a("2", 2), a("10", 10, channel="out"), a("7", 7), a("9", 9), a("1", 1, channel="out")]
    )
    engine.run_once(batch_docs=batch_docs)
    found = {match.events[0].id: match.id for match in engine.matches("p")}
    late = {row["id"] for row in events(engine, "out") if row["late"]}
    assert late == {found["2"], found["7"], "1"}
    assert len(members(engine, "one_block")) == 7
    assert len(members(engine, "two_blocks")) == 4 * 3 // 2
    assert {row["id"] for row in engine.home.catalog.rows(LATE)} == late


def test_a_clock_that_channels_share(engine: Engine) -> None:
    add_channel(engine.home.catalog, "S", clock="both")
    add_channel(engine.home.catalog, "out", lateness="2 s", clock="both")
    engine.register("S/a PUBLISH out", name="p")
    engine.ingest([a("1", 1), b("2", 6), a("3", 3), a("4", 4)])
    engine.run_once()
    late = [row["late"] for row in events(engine, "out")]
    assert late == [False, True, False]


def test_what_is_published_after_the_end_of_all_input(engine: Engine) -> None:
    engine.register("S/a PUBLISH out", name="one")
    engine.register("out/a->x JOIN {1 h} S/b->y", name="pairs")
    engine.ingest([a("0", 0), b("1", 1)])
    engine.run_once()
    engine.end_input()
    engine.run_once()
    engine.ingest([a("2", 2)])
    engine.run_once()
    assert members(engine, "one") == [["0"], ["2"]] and len(members(engine, "pairs")) == 2
    told = [row["message"] for row in engine.home.catalog.rows(LATE) if row["channel"] == "out"]
    assert len(told) == 1 and "lateness behind 9999-12-31T23:59:59.999999Z when" in told[0]


@pytest.mark.parametrize("batch_docs", [1, 100])
def test_state_is_kept_for_what_may_be_published_late(engine: Engine, batch_docs: int) -> None:
    add_channel(engine.home.catalog, "S", lateness="2 s")
    engine.register("S/b PUBLISH out", name="p")
    engine.register("S/a/k->x JOIN {x = y, 5 s} out/b/k->y", name="joined")
    engine.ingest([a("1", 1), a("2", 100), b("3", 4), a("4", 300), b("5", 102)])
    engine.run_once(batch_docs=batch_docs)
    first, second = [match.id for match in engine.matches("p")]
    assert [row["late"] for row in events(engine, "S")] == [False, False, True, False, True]
    assert members(engine, "joined") == [["1", first], ["2", second]]


@pytest.mark.parametrize("batch_docs", [1, 100])
def test_state_goes_by_the_clock_that_a_published_channel_shares(engine: Engine, batch_docs: int) -> None:
    add_channel(engine.home.catalog, "S", lateness="2 s")
    add_channel(engine.home.catalog, "out", lateness="2 s", clock="S")
    engine.register("S/b PUBLISH out", name="p")
    engine.register("S/a/k->x JOIN {x = y, 5 s} out/b/k->y", name="joined")
    engine.ingest([a("1", 1), b("2", 3), b("3", 100), b("4", 99), a("5", 101), b("6", 50)])
    reports = engine.run_once(batch_docs=batch_docs)
    published = [match.id for match in engine.matches("p")]
    three, _, ninety_nine, hundred = published
    assert sorted(members(engine, "joined")) == sorted([["1", three], ["5", ninety_nine], ["5", hundred]])
    assert [row["late"] for row in events(engine, "out")] == [False, False, False, True]
    assert reports[-1].state_rows == 3


# -- refusals and failures -------------------------------------------------------------------------------------


def test_documents_over_a_limit_are_refused_alone(engine: Engine) -> None:
    engine.register("SELECT <d>{x}{x}</d> FROM S/a->x PUBLISH out", name="p")
    many = Event("S", "1", 1, xml=f"<a>{'<b/>' * 300_000}</a>")
    Intake(engine.home, limits=Limits(max_nodes=10**6)).take([many, a("2", 2)])
    engine.run_once()
    assert [row["content"] for row in events(engine, "out")] == ["<d><a><k>v</k></a><a><k>v</k></a></d>"]
    (refused,) = engine.home.catalog.rows(REJECTED)
    assert (refused["channel"], refused["condition"], refused["source"]) == ("out", "XSCL_DOCUMENT_LIMIT", "query p")
    assert refused["id"] in {match.id for match in engine.matches("p")}


def test_a_channel_that_has_become_one_of_rows(engine: Engine) -> None:
    """Meanwhile the query, which waits to be answered from what is held, was dropped."""
    engine.ingest([a("1", 1)])
    engine.register("S PUBLISH out STARTING ALL", name="p")
    engine.drop("p")
    engine.ingest([Event("out", "r", 1, row={"x": 1})])
    reports = engine.run_once()
    assert sum(report.published for report in reports) == 0
    assert len(members(engine, "p")) == 1
    assert [row["condition"] for row in engine.home.catalog.rows(REJECTED)] == ["XSCL_CHANNEL_KIND"]


def test_a_batch_that_fails_leaves_nothing_and_runs_again(engine: Engine) -> None:
    engine.register("S PUBLISH one", name="p")
    engine.register("one/a PUBLISH two", name="q")
    engine.ingest([a("1", 1), a("2", 2)])
    engine.register("one/a/k->x JOIN {x = y, 1 h} two/a/k->y JOIN {y = z, 1 h} S/a/k->z", name="links")

    def files() -> list[str]:
        folders = map(engine.home.folder, ("events", "witness", "results"))
        return sorted(str(path) for folder in folders for path in folder.rglob("*"))

    before = files()
    with (
        mock.patch("xscl.batches.publishing.publisher.Publisher.commit", side_effect=RuntimeError("no")),
        pytest.raises(RuntimeError),
    ):
        engine.run_once()
    assert files() == before
    assert list(engine.matches()) == [] and engine.home.catalog.ask(read_last_places)[0] == 0
    assert not {"one", "two"} & engine.home.catalog.ask(read_channels).keys()
    (report,) = engine.run_once()
    assert report.published == 4
    with engine.home.catalog.read() as connection:
        assert len(connection.execute(sa.select(EVENT_IDS.c.docid).distinct()).all()) == 6


def test_an_id_that_is_taken_adds_nothing(engine: Engine, tmp_path: Path) -> None:
    texts = (("p", "S PUBLISH out"), ("reader", "out/a"))
    engine.register_many(texts)
    engine.ingest([a("1", 1)])
    engine.run_once()
    (published,) = events(engine, "out")
    with xscl.connect(home=tmp_path / "other") as other:
        other.register_many(texts)
        other.ingest([Event("out", published["id"], 1, xml=published["content"]), a("1", 1)])
        (report,) = other.run_once()
        assert report.published == 0
        assert len(events(other, "out")) == 1
        assert [m.id for m in other.matches()] == [m.id for m in engine.matches()]
