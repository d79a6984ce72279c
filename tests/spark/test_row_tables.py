"""Tables of rows through Spark: joined with documents, from its DataFrames, from a database by JDBC."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest

import xscl
from xscl.answers.matches.listing import match_json
from xscl.base.errors import XsclError
from xscl.base.settings import Settings
from xscl.intake.intake import IntakeReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

DAY = datetime(2026, 6, 1, tzinfo=UTC)
QUERIES = [
    ("news", "news/item[./airport->p] FOLLOWED BY {p = o, 2 h} flights/flights[./origin->o][./delay > 30]"),
    ("before", "flights[./due->a][./origin->o] JOIN {o = q AND a < b, 1 d} flights[./left->b][./origin->q]"),
    ("days", "flights[./due->a] FOLLOWED BY {a < d, 1 h} flights[./day->d]"),
    ("fares", "flights[./fare->f] FOLLOWED BY {f > 1.5 * g, 3 h} flights[./fare->g]"),
]


def flights() -> pa.Table:
    count = 60
    due = [DAY + timedelta(minutes=7 * n, milliseconds=250 * (n % 3)) for n in range(count)]
    return pa.table(
        {
            "seq": pa.array(range(count), pa.int32()),
            "due": pa.array(due, pa.timestamp("us", "UTC")),
            "left": pa.array([None if n % 9 == 0 else t + timedelta(minutes=n % 5 * 10) for n, t in enumerate(due)]),
            "day": pa.array([date(2026, 6, 1 + n % 2) for n in range(count)]),
            "origin": pa.array([("JFK", "LGA", "EWR")[n % 3] for n in range(count)]).dictionary_encode(),
            "delay": pa.array([None if n % 9 == 0 else float(n % 50) for n in range(count)]),
            "fare": pa.array([Decimal(n % 7) + Decimal("0.10") for n in range(count)], pa.decimal128(8, 2)),
        }
    )


def news() -> list[xscl.Event]:
    places = ("JFK", "EWR", "BOS")
    return [
        xscl.Event("news", f"n{n}", DAY + timedelta(hours=n), xml=f"<item><airport>{places[n % 3]}</airport></item>")
        for n in range(6)
    ]


def as_events(table: pa.Table) -> list[xscl.Event]:
    return [xscl.Event("flights", str(row["seq"]), row["due"], row=row) for row in table.to_pylist()]


def test_rows_join_documents_however_they_came(tmp_path: Path, spark: SparkSession) -> None:
    answers: dict[str, list[str]] = {}
    table = flights()
    schema = "seq int, due timestamp, left timestamp, day date, origin string, delay double, fare decimal"
    for way in ("events", "table", "driver", "frame"):
        sizes = Settings() if way == "driver" else Settings("spark")
        with xscl.connect(home=tmp_path / way, spark=spark, settings=sizes) as engine:
            engine.add_channel("flights", kind="rows", schema=schema)
            assert all(outcome.ok for outcome in engine.register_many(QUERIES))
            engine.ingest(news()[:3])
            for part in (table.slice(0, 25), table.slice(25)):
                given = {
                    "events": lambda part: as_events(part),
                    "table": lambda part: part,
                    "driver": lambda part: part,
                    "frame": lambda part: spark.createDataFrame(part),
                }[way](part)
                more = {} if way == "events" else {"channel": "flights", "id": "seq", "ts": "due"}
                report = engine.ingest(given, **more)
                assert (report.taken, report.rejected) == (len(part), 0), report.problems
                engine.run_once()
            engine.ingest(news()[3:])
            engine.run_once()
            answers[way] = [json.dumps(match_json(match)) for match in engine.matches()]
            found = engine.sql("select count(*) as n, count(distinct id) as ids from events where channel = 'flights'")
            assert tuple(found.collect()[0]) == (60, 60)
    counts = {name: sum(f'"query": "{name}"' in one for one in answers["table"]) for name, _ in QUERIES}
    assert all(counts.values()), counts
    for way, found_answers in answers.items():
        assert found_answers == answers["events"], way


def test_a_streaming_frame_of_rows(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    spark.createDataFrame(flights().select(["seq", "origin", "delay"])).write.parquet(str(folder))
    for _ in range(2):
        # The second reads all of it again.
        stream = spark.readStream.schema("seq int, origin string, delay double").parquet(str(folder))
        checkpoint = str(tmp_path / f"checkpoint{_}")
        query = engine.ingest_stream(stream, checkpoint=checkpoint, channel="flights", id="seq")
        query.processAllAvailable()
        query.stop()
    assert engine.sql("select count(*) from events").collect()[0][0] == 60


def test_a_table_of_a_jdbc_database(engine: Engine, spark: SparkSession, tmp_path: Path) -> None:
    """Derby comes with Spark."""
    url = f"jdbc:derby:{tmp_path / 'plant'};create=true"
    frame = spark.createDataFrame(flights().select(["seq", "due", "origin", "fare"]))
    properties = {"driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver"}
    frame.where("seq < 40").write.jdbc(url, "flights", properties=properties)

    def take() -> IntakeReport:
        return engine.ingest_jdbc(url, "flights", key="seq", channel="flights", ts="due", properties=properties)

    assert take().taken == 40
    assert take().taken == 0
    frame.where("seq >= 40").write.jdbc(url, "flights", mode="append", properties=properties)
    assert take().taken == 20
    ids = [row.id for row in engine.sql("select id from events order by docid").collect()]
    assert ids == [f"flights:{n}" for n in range(60)]
    with pytest.raises(XsclError, match="XSCL_SOURCE_UNREADABLE"):
        engine.ingest_jdbc(url, "nothing", key="seq", channel="flights", properties=properties)


def test_frames_that_are_no_tables(engine: Engine) -> None:
    with pytest.raises(XsclError, match="needs a channel"):
        engine.ingest(flights())
    with pytest.raises(XsclError, match="key and a channel"):
        engine.ingest("sqlite://", table="t")
    report = engine.ingest(pd.DataFrame({"v": [1.0, None]}), channel="R")
    assert report.taken == 2
    assert re.fullmatch(r"row-[0-9a-f]{32}:1", engine.sql("select id from events order by docid").collect()[0].id)
