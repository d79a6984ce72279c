"""Taking in by tasks: the same home as by the driver, and DataFrames that the driver does not see."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from homes_alike import content

import xscl
from xscl.base.errors import EngineError, SourceError
from xscl.base.settings import Settings, Where
from xscl.catalog.tables import INTAKE_FILES
from xscl.ingest.reading import DEFAULT_READING
from xscl.intake import where as where_module
from xscl.spark.job_counter import Jobs
from xscl.spark.places import HERE, OnSpark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FEED = (
    "<rss version='2.0'><channel><title>F</title><link>http://x.org</link>"
    "<item><guid>1</guid><title>one</title></item><item><guid>{n}</guid><title>two</title></item></channel></rss>"
)


def some_files(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.csv").write_text("n,v\n" + "".join(f"{n},{n % 3}\n" for n in range(1_000)) + "1\n")
    pq.write_table(pa.table({"k": [str(n) for n in range(500)]}), folder / "b.parquet", row_group_size=200)
    for n in range(2, 6):
        (folder / f"f{n}.rss").write_text(FEED.format(n=n))
    lines = [{"channel": "S", "id": str(n), "ts": n, "xml": "<a/>" if n % 7 else "<a"} for n in range(30)]
    (folder / "e.ndjson").write_text("\n".join(map(json.dumps, [*lines, {"flush": True}, *lines])))
    return folder


def test_files_come_to_the_same_home(tmp_path: Path, spark: SparkSession) -> None:
    folder = some_files(tmp_path / "in")
    found, reports = [], []
    for where in ("driver", "spark"):
        chosen: Where = "spark" if where == "spark" else "driver"
        with xscl.connect(home=tmp_path / where, spark=spark, settings=Settings(chosen)) as engine:
            engine.add_channel("a", kind="rows", schema="n bigint, v double")
            reports.append(engine.ingest(folder))
            found.append(content(engine.home))
    assert reports[0].taken > 1_500 and reports[0].rejected == 1 + 10 and reports[0].duplicates > 20
    assert repr(reports[1]) == repr(reports[0]) and reports[1].problems == reports[0].problems
    clock = ("received", "ts")
    for one in found:
        for event in one["events"]:
            assert event["received"] > 0
            event |= dict.fromkeys(clock)
    assert found[1]["events"] == found[0]["events"] and found[1]["ranges"] == found[0]["ranges"]


def test_a_frame_is_taken_in_where_it_lies(tmp_path: Path, spark: SparkSession) -> None:
    frame = spark.range(0, 1_000, 1, 3).selectExpr("id AS seq", "id % 7 AS v", "timestamp_seconds(id) AS at")
    jobs = Jobs(lambda: spark, "frames")
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        jobs.session()
        report = engine.ingest(frame, channel="r", ts="at", id="seq")
        # One that has no row tells the types of the columns.
        assert jobs.count() == 3
        assert (report.taken, report.rejected) == (1_000, 0)
        assert engine.ingest(frame, channel="r", ts="at", id="seq").duplicates == 1_000
        events = content(engine.home)["events"]
        assert [event["id"] for event in events] == [str(n) for n in range(1_000)]
        assert [event["ts"] for event in events] == [n * 1_000_000 for n in range(1_000)]
        with engine.home.catalog.read() as connection:
            assert len(connection.execute(INTAKE_FILES.select()).all()) == 3
        # Without ids of their own, rows have ids that nothing else has.
        for _ in range(2):
            assert engine.ingest(frame.select("v"), channel="w").taken == 1_000
        ids = [event["id"] for event in content(engine.home)["events"]]
        assert len(set(ids)) == len(ids) == 3_000
        with pytest.raises(SourceError, match="there is no column"):
            engine.ingest(frame, channel="r", ts="when")
        with pytest.raises(EngineError, match="needs a channel"):
            engine.ingest(frame)
        with pytest.raises(EngineError, match="no column channel"):
            engine.ingest(frame.selectExpr("'<a/>' AS xml"))
    jobs.close()


def test_rows_that_do_not_fit_are_refused_in_tasks(tmp_path: Path, spark: SparkSession) -> None:
    with xscl.connect(home=tmp_path / "home", spark=spark) as engine:
        engine.add_channel("r", kind="rows", schema="n bigint")
        frame = spark.range(0, 90, 1, 3).selectExpr("CASE WHEN id % 30 = 4 THEN 2.5D ELSE double(id) END AS n")
        report = engine.ingest(frame.selectExpr("string(n) AS m"), channel="r")
        assert (report.taken, report.rejected) == (0, 90)
        report = engine.ingest(frame, channel="r")
        assert (report.taken, report.rejected) == (87, 3)
        assert {problem.condition for problem in report.problems} == {"XSCL_ROW_SCHEMA"}
        assert list(engine.home.folder("programs").glob("intake-*")) == []


def test_auto_counts_work(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = some_files(tmp_path / "in")

    def chosen(where: Where) -> object:
        return where_module.chosen_place(where, [folder], DEFAULT_READING, lambda: spark)

    assert chosen("driver") is HERE and chosen("auto") is HERE
    assert isinstance(chosen("spark"), OnSpark)
    monkeypatch.setattr(where_module, "cores", lambda: 8)
    monkeypatch.setattr(where_module, "start_seconds", lambda: 0.0001)
    assert isinstance(chosen("auto"), OnSpark)
    monkeypatch.setattr(where_module, "cores", lambda: 1)
    assert chosen("auto") is HERE
    with pytest.raises(EngineError, match="where is 'there'"):
        chosen("there")  # type: ignore[arg-type]
