"""The data sources xscl-xml and xscl-feed on Spark, batch and streaming, into a home."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import xscl

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from xscl.engine import Engine

FEED = """<rss version="2.0"><channel><title>T</title><link>https://example.org/</link>
<item><title>A &amp; B</title><link>https://example.org/{n}</link><guid>g{n}</guid>
<pubDate>Mon, 01 Jun 2026 09:30:00 GMT</pubDate><category>x</category></item></channel></rss>"""


def records(folder: Path) -> None:
    (folder / "a.xml").write_text("<r><i n='1' t='2026-06-01T09:30:00Z'/><i n='2' t='soon'/></r>")
    (folder / "b.xml.gz").write_bytes(gzip.compress(b"<r><i n='3'/><x></r>"))


def read(spark: SparkSession, folder: Path, **options: str) -> DataFrame:
    return (
        spark.read.format("xscl-xml").options(split="//i", id="@n", ts="@t", channel="S", **options).load(str(folder))
    )


def test_documents_in_a_batch(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    records(folder)
    frame = read(spark, folder)
    found = frame.selectExpr("id", "cast(ts as long)", "xml", "error is null").orderBy("source", "id").collect()
    assert [tuple(row) for row in found] == [
        ("1", 1780306200, '<i n="1" t="2026-06-01T09:30:00Z"/>', True),
        ("2", None, None, False),
        (None, None, None, False),
        ("3", None, '<i n="3"/>', True),
    ]
    assert read(spark, folder, mode="DROPMALFORMED").count() == 2
    with pytest.raises(Exception, match="XSCL_BAD_EVENT_TIME"):
        read(spark, folder, mode="FAILFAST").count()
    engine.register("S//i->a[./@n->x]", name="Q")
    report = engine.ingest(frame)
    assert (report.taken, report.rejected) == (2, 2)
    assert sorted(problem.condition for problem in report.problems) == [
        "XSCL_BAD_EVENT_TIME",
        "XSCL_MALFORMED_DOCUMENT",
    ]
    engine.run_once()
    assert len(list(engine.matches("Q"))) == 2


def test_feeds_in_a_batch(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    for n in range(3):
        (tmp_path / f"{n}.xml").write_text(FEED.format(n=n))
    frame = spark.read.format("xscl-feed").load([str(tmp_path / f"{n}.xml") for n in range(3)])
    row = frame.where("guid = 'g1'").selectExpr("*", "cast(published as long) as p").first()
    assert row is not None
    assert (row.id, row.title, row.item_url, row.p) == ("g1", "A & B", "https://example.org/1", 1780306200)
    assert (row.feed, row.channel_title, row.categories) == ("https://example.org/ T", "T", ["x"])
    assert row.xml.startswith("<item>") and row.raw.startswith("<item>") and row.error is None
    assert engine.ingest(frame).taken == 6
    assert engine.ingest(tmp_path).duplicates == 6
    assert {name for name, *_ in engine.sql("SELECT DISTINCT channel FROM events").collect()} == {"items", "items.raw"}


def test_documents_in_a_stream(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    records(folder)
    checkpoint = str(tmp_path / "checkpoint")

    def run() -> list[int]:
        """Rows of the micro-batches over what is there now."""
        stream = spark.readStream.format("xscl-xml")
        stream = stream.options(split="//i", id="@n", channel="S", settleSeconds="0", maxFilesPerTrigger="1")
        query = engine.ingest_stream(stream.load(str(folder)), checkpoint=checkpoint, available_now=True)
        query.awaitTermination()
        return [progress.numInputRows for progress in query.recentProgress if progress.numInputRows]

    assert run() == [2, 2]
    assert run() == []
    (folder / "0.xml").write_text("<r><i n='4'/><i n='5'/><i n='6'/></r>")
    assert run() == [3]
    assert engine.sql("SELECT count(*) FROM events").first()[0] == 6
    assert engine.sql("SELECT count(*) FROM rejected").first()[0] == 1


def test_a_session_of_ones_own_knows_them(tmp_path: Path, spark: SparkSession) -> None:
    mine = spark.newSession()
    xscl.register_sources(mine)
    (tmp_path / "a.xml").write_text("<a/>")
    assert mine.read.format("xscl-xml").load(str(tmp_path)).count() == 1
    with pytest.raises(Exception, match="XSCL_BAD_OPTION"):
        mine.read.format("xscl-xml").load().count()
