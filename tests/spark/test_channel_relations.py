"""Channels as relations show what was taken in, and read no more than a statement asks for."""

from __future__ import annotations

import contextlib
import io
import json
import random
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import sample_home

import xscl
from xscl.answers.sql.channel_views import ChannelNames
from xscl.catalog.tables import CHANNELS
from xscl.engine import connect
from xscl.upkeep.event_export import export_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from xscl.engine import Engine

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("channels")
    with connect(home=folder / "home", spark=spark) as engine:
        sample_home.fill(engine, folder)
        sample_home.more(engine, folder)
        yield engine


def rows_of(frame: DataFrame) -> list[dict[str, Any]]:
    return list(frame.toArrow().to_pylist())


def exported(engine: Engine) -> dict[str, dict[str, dict[str, Any]]]:
    """Events by channel and id, from an event file; the streams that brought one are listed."""
    stream = io.BytesIO()
    export_events(engine.home, stream)
    of_stream = {row.name: row.channel for row in engine.sql("SELECT name, channel FROM streams").collect()}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for text in stream.getvalue().decode().splitlines():
        line = json.loads(text)
        if "channel" in line:
            channel = of_stream.get(line["channel"], line["channel"])
            event = found.setdefault(channel, {}).setdefault(line["id"], {**line, "stream": []})
            event["stream"] = sorted({*event["stream"], line["channel"]} - {channel})
    return found


def test_every_channel_shows_the_events_that_an_event_file_has(filled: Engine) -> None:
    events = exported(filled)
    listed = {row.name: row.kind for row in filled.sql("SELECT name, kind FROM channels").collect()}
    names = {channel: name for name, channel in ChannelNames.of(listed).listed.items()}
    documents = {row.docid: row.content for row in filled.sql("SELECT docid, content FROM events").collect()}
    for number, (channel, kind) in enumerate(listed.items()):
        frame = filled.sql(f"SELECT * FROM {names[channel]}")
        framed = filled.channel_df(channel)
        assert frame.schema == framed.schema
        rows = rows_of(framed if number % 2 else frame)
        assert len({row["docid"] for row in rows}) == len(rows)
        if channel in ("echoes", "louder"):  # an event file has no published documents
            published = rows_of(filled.sql(f"SELECT docid, id, content FROM events WHERE channel = '{channel}'"))
            assert published == [{name: row[name] for name in ("docid", "id", "content")} for row in rows] != []
            continue
        assert sorted(row["id"] for row in rows) == sorted(events[channel]), channel
        for row in rows:
            event = events[channel][row["id"]]
            assert row["ts"] == datetime.fromisoformat(event["ts"])
            assert row["stream"] == event["stream"]
            if kind == "rows":
                assert {name: row[name] for name in event["row"]} == event["row"]
            elif channel == "news":
                root = ET.fromstring(event["xml"])
                assert row["title"] == root.findtext("title")
                assert row["guid"] == root.findtext("guid")
                assert row["published"] == datetime.fromisoformat(root.findtext("published") or "")
                assert row["link"] == [link.text for link in root.iter("link")]
            else:
                assert row["content"] == event["xml"] == documents[row["docid"]]


def test_a_channel_of_some_time(filled: Engine) -> None:
    since = rows_of(filled.channel_df("S", since="1970-01-01T00:00:30Z", until=31_000_000))
    assert {row["ts"] for row in since} == {EPOCH + timedelta(seconds=30), EPOCH + timedelta(seconds=31)}
    with pytest.raises(xscl.CatalogError, match="did you mean 'news'") as refused:
        filled.channel_df("newz")
    assert refused.value.condition == "XSCL_UNKNOWN_CHANNEL"
    with pytest.raises(xscl.EngineError, match="did you mean ch_news"):
        filled.sql("SELECT * FROM ch_newz")


def test_matches_join_with_the_channels_of_their_members(filled: Engine) -> None:
    joined = "SELECT m.match, b.id, d.id AS by FROM matches m JOIN ch_s b ON b.docid = m.docids[0] "
    joined += "JOIN ch_s d ON d.docid = m.docids[1] WHERE m.qid = 'author_long'"
    listed = [(match.id, *(event.id for event in match.events)) for match in filled.matches("author_long")]
    assert sorted(tuple(row) for row in filled.sql(joined).collect()) == sorted(listed) != []
    everything = filled.sql("SELECT match, qid, block, channel, id, version FROM match_members").collect()
    all_of = [(m.id, m.query, block, e.channel, e.id) for m in filled.matches() for block, e in enumerate(m.events)]
    assert sorted((r.match, r.qid, r.block, r.channel, r.id) for r in everything) == sorted(all_of)
    assert {r.version for r in everything} == {1, 2}


def test_events_that_a_channel_no_longer_keeps_are_not_shown(filled: Engine) -> None:
    before = {row.id for row in filled.sql("SELECT id FROM ch_s").collect()}
    with filled.home.catalog.begin() as connection:
        connection.execute(CHANNELS.update().where(CHANNELS.c.name == "S").values(kept_from=30_000_000))
    try:
        kept = {row.id for row in filled.sql("SELECT id FROM ch_s").collect()}
        assert kept == {row.id for row in filled.sql("SELECT id FROM events WHERE channel = 'S'").collect()} < before
        assert min(row["ts"] for row in rows_of(filled.channel_df("S"))) == EPOCH + timedelta(seconds=30)
    finally:
        with filled.home.catalog.begin() as connection:
            connection.execute(CHANNELS.update().where(CHANNELS.c.name == "S").values(kept_from=None))


def test_random_rows_come_back_as_they_went_in(engine: Engine) -> None:
    chance = random.Random(18)
    schema = "id bigint, name string, temp double, price decimal, good boolean, at timestamp, day date"
    engine.add_channel("Readings.of-rooms", kind="rows", schema=schema)
    rows = []
    for _number in range(300):
        at = EPOCH + timedelta(microseconds=chance.randrange(4 * 10**15))
        row = {
            "id": chance.randrange(-(2**63), 2**63),
            "name": "".join(chance.choices("aé<&'\"` \t", k=4)),
            "temp": chance.uniform(-1e9, 1e9),
            "price": Decimal(chance.randrange(-(10**30), 10**30)).scaleb(-12),
            "good": chance.random() < 0.5,
            "at": at,
            "day": at.date(),
        }
        rows.append({name: None if chance.random() < 0.2 else value for name, value in row.items()})
    engine.ingest([xscl.Event("Readings.of-rooms", f"r{n}", n, row=row) for n, row in enumerate(rows)])
    found = rows_of(engine.sql("SELECT * FROM ch_readings_of_rooms ORDER BY ts"))
    assert [{name.removeprefix("row_"): row[name] for name in [*row][-7:]} for row in found] == rows
    few = engine.sql("SELECT avg(temp), count(row_id) FROM ch_readings_of_rooms WHERE price > 0 AND good").collect()
    chosen = [row for row in rows if row["price"] is not None and row["price"] > 0 and row["good"]]
    assert few[0][1] == sum(row["id"] is not None for row in chosen)
    engine.ingest([xscl.Event("Readings.of-rooms", "long", 1, row={"price": "9" * 25})])
    with pytest.raises(Exception, match="XSCL_COLUMN_TYPE.*'price' holds 9999"):
        engine.sql("SELECT price FROM ch_readings_of_rooms").collect()
    assert engine.sql("SELECT id FROM ch_readings_of_rooms").count() == 301


def test_channels_that_sql_cannot_tell_apart(engine: Engine) -> None:
    for channel in ("a.b", "a-b", "T", "t", "order"):
        engine.ingest([xscl.Event(channel, channel, 1, xml=f"<x>{channel}</x>")])
    with pytest.raises(xscl.EngineError, match=r"several channels: (a-b, a\.b|a\.b, a-b)") as refused:
        engine.sql("SELECT * FROM ch_a_b")
    full = {channel: name for name, channel in re.findall(r"(ch_\w+) is that of ([\w.-]+)", str(refused.value.hint))}
    for channel, name in full.items():
        assert engine.sql(f"SELECT content FROM {name}").collect()[0].content == f"<x>{channel}</x>"
    assert len(full) == 2 and engine.sql("SELECT id FROM CH_Order").collect()[0].id == "order"
    shown = [row.tableName for row in engine.sql("SHOW TABLES").collect()]
    assert {"ch_order", *full.values()} < {*shown} and not {"ch_a_b", "ch_t"} & {*shown}
    assert {row.col_name for row in engine.sql("DESCRIBE ch_order").collect()} == {
        *("docid", "id", "version", "ts", "received", "stream", "content")
    }


# -- as little as possible -----------------------------------------------------------------------------------------


def plan(frame: DataFrame) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain("extended")
    return printed.getvalue().partition("== Optimized Logical Plan ==")[2]


def files_read(text: str) -> int:
    return sum(map(int, re.findall(r"InMemoryFileIndex\((\d+) paths\)", text)))


def columns_read(text: str) -> set[str]:
    return {name for schema in re.findall(r"ReadSchema: struct<(.*)>", text) for name in re.findall(r"(\w+):", schema)}


def test_channels_with_letters_of_other_languages(engine: Engine) -> None:
    engine.ingest([xscl.Event(name, "1", 1, xml="<a/>") for name in ("Größen", "日本", "S")])
    engine.run_once()
    listed = {row.tableName for row in engine.sql("SHOW TABLES").collect()}
    assert {"ch_größen", "ch_日本", "ch_s"} <= listed
    for name in ("`ch_größen`", "`ch_Größen`", "`ch_日本`", "ch_s"):
        assert [row.id for row in engine.sql(f"SELECT id FROM {name}").collect()] == ["1"]
    assert engine.sql("DESCRIBE `ch_größen`").collect()[0].col_name == "docid"
    assert engine.channel_df("日本").count() == 1


@pytest.fixture
def days(engine: Engine, tmp_path: Path) -> Engine:
    """Ten days of items, a file for each, and a file of rows."""
    for day in range(1, 11):
        items = "".join(
            f"<item><guid>g{day}-{n}</guid><title>t{n}</title><description>&lt;a href='http://a.org/{n}'&gt;x&lt;/a&gt;"
            f"</description><pubDate>{day:02d} Jan 2026 00:00:{n:02d} GMT</pubDate></item>"
            for n in range(20)
        )
        feed = f"<rss version='2.0'><channel><title>T</title><link>http://a.org/</link>{items}</channel></rss>"
        (tmp_path / "feed.xml").write_text(feed)
        engine.ingest(tmp_path / "feed.xml", channel="news")
    engine.ingest([xscl.Event("ticks", f"{n}", n, row={"sym": "a", "price": n / 4}) for n in range(5)])
    return engine


def test_a_narrow_question_reads_few_files_and_no_content(days: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[str] = []
    paths = type(days.home).paths

    def noted(home: Any, names: Any) -> list[str]:
        checked.extend(names)
        return paths(home, names)

    monkeypatch.setattr(type(days.home), "paths", noted)
    narrow = days.sql("SELECT id, ts FROM ch_news WHERE ts >= '2026-01-03' AND ts < '2026-01-03 12:00:00'")
    text = plan(narrow)
    assert len(narrow.collect()) == 20
    assert files_read(text) == len(checked) == 1
    assert columns_read(text) == {"channel", "id", "ts"}
    assert "ArrowEvalPython" not in text, "no document is parsed"
    # All ten files have the channel; the file of rows has not.
    everything = plan(days.sql("SELECT id, ts FROM ch_news"))
    assert files_read(everything) == 10 and "ArrowEvalPython" not in everything
    few = days.sql("SELECT title, link FROM ch_news WHERE ts BETWEEN timestamp'2026-01-04' AND '2026-01-05T00:00:01Z'")
    text = plan(few)
    assert files_read(text) == 2 and columns_read(text) == {"channel", "ts", "content"}
    executed = text.partition("== Physical Plan ==")[2]
    assert len(re.findall("ArrowEvalPython", executed)) == 1, "both columns come from one walk"
    assert re.search(r"PushedFilters: \[[^]]*EqualTo\(channel,news\)[^]]*GreaterThanOrEqual\(ts,", text)
    assert [row.link for row in few.collect()].count(["https://a.org/1"]) == 2 and few.count() == 22
    ticks = plan(days.sql("SELECT price FROM ch_ticks WHERE sym = 'a'"))
    assert files_read(ticks) == 1 and columns_read(ticks) == {"channel", "cells"}
    framed = plan(days.channel_df("news", since="2026-01-09T00:00:00Z").select("id"))
    assert files_read(framed) == 2 and columns_read(framed) == {"channel", "id", "ts"}


def test_a_frame_shows_one_moment(days: Engine) -> None:
    frame = days.channel_df("ticks")
    before = frame.count()
    days.ingest([xscl.Event("ticks", "more", 9, row={"sym": "b", "price": 1.0})])
    assert frame.count() == before == 5 and days.channel_df("ticks").count() == 6


def test_the_page_on_sql_shows_what_its_join_gives(engine: Engine) -> None:
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "how-to" / "sql.md").read_text(encoding="utf-8")
    name, text = re.findall(r"xscl query add (\w+) '(.*)'", page)[0]
    statement = re.findall(r'xscl sql "(SELECT left.*)"', page)[0]
    shown = page.split(statement)[1].split("```\n")[2].splitlines()
    engine.register(text, name=name)
    for feed in ("hour", "day"):
        engine.ingest(root / "xscl" / "demo" / "corpus" / f"earthquakes-past-{feed}.atom.gz", channel="quakes")
    engine.run_once()
    rows = engine.sql(statement).collect()
    assert [re.split(r" +", line, maxsplit=2) for line in shown[1:]] == [[str(value) for value in row] for row in rows]
