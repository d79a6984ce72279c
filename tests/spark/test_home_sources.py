"""The data sources xscl-channel and xscl-matches: each event and each match once, over restarts and failures."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import xscl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from xscl.engine import Engine

PAIRS = "S//a->x[./k->p] FOLLOWED BY {p = q, 1 h} S//a->y[./k->q] PUBLISH pairs"


def event(number: int, ts: float | None = None) -> xscl.Event:
    key = number % 3
    return xscl.Event("S", f"e{number}", number if ts is None else ts, xml=f"<i><a><k>{key}</k></a></i>")


class Stream:
    """A stream that takes what is there, and goes on where it ended, in a process that knows its checkpoint only."""

    def __init__(self, spark: SparkSession, home: Path, folder: Path, source: str, **options: str) -> None:
        self._frame = spark.readStream.format(source).options(**options).load(str(home))
        self._folder = folder
        self.taken: list[Any] = []
        self.fails = False

    def take(self) -> list[int]:
        """Sizes of the micro-batches that are there now; each row is noted unless the batch fails."""
        sizes = []

        def note(batch: DataFrame, number: int) -> None:
            rows = batch.collect()
            sizes.append(len(rows))
            if self.fails:
                raise RuntimeError("the sink has failed")
            self.taken.extend(rows)

        writer = self._frame.writeStream.foreachBatch(note)
        writer = writer.option("checkpointLocation", str(self._folder)).trigger(availableNow=True)
        try:
            writer.start().awaitTermination()
        except Exception:
            if not self.fails:
                raise
        return [size for size in sizes if size]


def test_a_stream_of_a_channel_has_each_event_once(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    engine.register(PAIRS, name="Q")
    engine.ingest([event(number) for number in range(4)])
    mine = Stream(spark, engine.home.root, tmp_path / "a", "xscl-channel", channel="S", maxRowsPerTrigger="3")
    assert mine.take() == [3, 1]
    engine.ingest([xscl.Event("other", "o", 9, xml="<o/>"), event(5, 2.5), event(6)])
    engine.run_once()
    mine.fails = True
    mine.take()
    mine.fails = False
    engine.ingest([event(7)])
    assert sum(mine.take()) == 3
    known = {row.docid: row.id for row in engine.sql("SELECT docid, id FROM ch_s").collect()}
    assert Counter((row.docid, row.id) for row in mine.taken) == Counter(known.items())
    assert {row.content for row in mine.taken} == {f"<i><a><k>{k}</k></a></i>" for k in range(3)}


def test_a_stream_of_matches_has_each_match_once(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    engine.register(PAIRS, name="Q")
    engine.register("S//a", name="each")
    home = engine.home.root
    mine = Stream(spark, home, tmp_path / "a", "xscl-matches", maxRowsPerTrigger="7")
    for first in (0, 4, 8):
        engine.ingest([event(number) for number in range(first, first + 4)])
        engine.run_once(batch_docs=3)
        mine.fails = first == 4
        mine.take()
    listed = {match.id: match for match in engine.matches()}
    assert Counter(row.match for row in mine.taken) == Counter(listed.keys())
    for row in mine.taken:
        match = listed[row.match]
        assert (row.query, row.ids, dict(row["values"]), row.document) == (
            match.query,
            [member.id for member in match.events],
            dict(match.values),
            match.document,
        )
    cursor = [match.cursor for match in engine.matches("Q", after="start")][4]
    rest = spark.read.format("xscl-matches").options(query="Q", after=cursor).load(str(home)).select("match").collect()
    assert sorted(row.match for row in rest) == sorted(m.id for m in engine.matches("Q", after=cursor))


def test_a_channel_as_a_batch(engine: Engine, spark: SparkSession) -> None:
    engine.add_channel("left", of="wire", source="w")
    engine.add_channel("right", of="wire", source="w")
    for stream, id_ in (("left", "a"), ("right", "a"), ("right", "b")):
        engine.ingest([xscl.Event(stream, id_, 5, xml=f"<w>{id_}</w>")])
    engine.add_channel("rooms", kind="rows", schema="room string, temp double")
    engine.ingest([xscl.Event("rooms", f"r{n}", n, row={"room": "a", "temp": n / 2}) for n in range(20)])
    home = str(engine.home.root)
    read = spark.read.format("xscl-channel")
    wire = read.option("channel", "wire").load(home).collect()
    assert sorted((row.id, row.stream, row.content) for row in wire) == [
        ("a", ["left"], "<w>a</w>"),
        ("b", ["right"], "<w>b</w>"),
    ]
    rooms = read.options(channel="rooms", since="1970-01-01T00:00:05Z", until="7000000").load(home)
    assert rooms.schema.simpleString() == engine.channel_df("rooms").schema.simpleString()
    assert sorted((row.id, row.temp) for row in rooms.collect()) == [("r5", 2.5), ("r6", 3.0), ("r7", 3.5)]
    few = spark.read.format("xscl-channel").option("channel", "rooms").schema("temp double, docid bigint").load(home)
    assert few.columns == ["temp", "docid"] and few.count() == 20


def test_a_refusal_is_told_by_spark(engine: Engine, spark: SparkSession) -> None:
    with pytest.raises(Exception, match=r"XSCL_UNKNOWN_CHANNEL.*there is no channel 'T'"):
        spark.read.format("xscl-channel").option("channel", "T").load(str(engine.home.root))
