"""Statements of SQL on Spark: nothing but reading is done, by way of views that make what is asked for."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa
import pytest

import xscl
from xscl.answers.sql import views as sql_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from xscl.engine import Engine


def plan(frame: DataFrame) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        frame.explain(True)
    return printed.getvalue()


def test_a_call_behind_many_columns_is_not_made(engine: Engine, spark: SparkSession) -> None:
    columns = ", ".join(f"{n} AS c{n}" for n in range(40))
    call = "reflect('java.lang.System', 'setProperty', 'xscl.test', 'called')"
    for statement in (f"SELECT {columns}, {call} AS r", f"SELECT * FROM (SELECT {columns}, upper({call}) AS r)"):
        with pytest.raises(xscl.EngineError, match="reflect"):
            engine.sql(statement).collect()
    read = "SELECT reflect('java.lang.System', 'getProperty', 'xscl.test', 'untouched') AS r"
    assert spark.sql(read).collect()[0].r == "untouched"


def test_an_alias_that_looks_like_a_call_is_refused(engine: Engine) -> None:
    assert engine.sql("WITH a AS (SELECT 1), mine(x) AS (SELECT 2) SELECT x FROM mine").collect()[0].x == 2
    for name in ("reflect", "`java_method`"):
        with pytest.raises(xscl.EngineError, match="is a function of Spark"):
            engine.sql(f"WITH a AS (SELECT 1), {name}(x) AS (SELECT 2) SELECT x FROM {name}")


def test_sparks_own_errors_stay_as_they_are(engine: Engine, spark: SparkSession) -> None:
    from pyspark.errors import AnalysisException

    with pytest.raises(xscl.EngineError, match=r"nothing.*line 2") as refused:
        engine.sql("SELECT qid,\nnothing FROM queries")
    assert refused.value.condition == "XSCL_SQL"
    with pytest.raises(AnalysisException):
        spark.sql("SELECT nothing FROM range(1)")


@pytest.fixture
def compiling(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The caller's session and those of statements compile code, without which Spark cannot list views."""
    mode, made = "spark.sql.codegen.factoryMode", sql_views._own_session

    def own_session(given: SparkSession) -> SparkSession:
        session = made(given)
        session.conf.set(mode, "FALLBACK")
        return session

    monkeypatch.setattr(sql_views, "_own_session", own_session)
    before = spark.conf.get(mode)
    spark.conf.set(mode, "FALLBACK")
    yield
    spark.conf.set(mode, before)


@pytest.mark.usefixtures("compiling")
def test_frames_and_views_of_the_caller_are_relations(engine: Engine, spark: SparkSession) -> None:
    engine.register("S/a", name="Q")
    engine.ingest([xscl.Event("S", "1", 1, xml="<a/>")])
    engine.run_once()
    rows = {"qid": ["Q", "R"], "owner": ["ann", "bob"]}
    statement = "SELECT o.owner, count(*) AS n FROM matches m JOIN Owners o USING (qid) GROUP BY o.owner"
    for frame in (spark.createDataFrame(pd.DataFrame(rows)), pd.DataFrame(rows), pa.table(rows)):
        assert [tuple(row) for row in engine.sql(statement, owners=frame).collect()] == [("ann", 1)]
    with pytest.raises(xscl.EngineError, match="no relation 'Owners'"):
        engine.sql(statement)
    spark.createDataFrame(pd.DataFrame(rows)).createOrReplaceTempView("owners")
    spark.range(3).createOrReplaceTempView("queries")
    try:
        assert [tuple(row) for row in engine.sql(statement).collect()] == [("ann", 1)]
        assert engine.sql("SELECT qid FROM queries").collect()[0].qid == "Q", "the home's own relation goes before"
        assert spark.table("queries").count() == 3, "and hides nothing of the caller's"
        assert "owners" in {row.tableName for row in engine.sql("SHOW TABLES").collect()}
    finally:
        spark.catalog.dropTempView("owners")
        spark.catalog.dropTempView("queries")
    for name, frame in (("matches", pd.DataFrame(rows)), ("owners", 3)):
        with pytest.raises(xscl.XsclError) as refused:
            engine.sql(f"SELECT * FROM {name}", **{name: frame}).collect()
        assert refused.value.condition == "XSCL_BAD_OPTION", name


def test_counts_of_matches_read_no_event_and_make_no_id(engine: Engine) -> None:
    engine.register("S//a->x[./k->p] FOLLOWED BY {p = q, 1 h} S//a->y[./k->q]", name="Q")
    engine.ingest([xscl.Event("S", str(n), n, xml="<i><a><k>v</k></a></i>") for n in range(4)])
    engine.run_once()
    for columns in ("count(*)", "qid, count(*) AS n", "count(nodes)", "max(batch)"):
        grouped = " GROUP BY qid" if columns.startswith("qid") else ""
        frame = engine.sql(f"SELECT {columns} FROM matches{grouped}")
        text = plan(frame).partition("== Optimized Logical Plan ==")[2]
        # Files of results are read, and no others.
        assert set(re.findall(r"ReadSchema: struct<(\w+)", text)) == {"relation"}, text
        assert "sha2" not in text and "collect_list" not in text
        if "nodes" not in columns:
            assert not re.search(r"ReadSchema: struct<[^\n]*\bnodes:", text), text
    assert engine.sql("SELECT count(*) FROM matches").collect()[0][0] == 6
    times = plan(engine.sql("SELECT max(ts_max) FROM matches")).partition("== Optimized Logical Plan ==")[2]
    assert re.findall(r"ReadSchema: struct<docid:bigint,ts:bigint>", times) and "sha2" not in times


def test_describe_shows_comments(engine: Engine) -> None:
    engine.register("S/a", name="Q")
    engine.ingest([xscl.Event("prices", "1", 1, row={"sym": "IBM", "price": 1.5})])
    for relation, column, comment in (
        ("matches", "qid", "name of the query"),
        ("ch_prices", "sym", "column sym of the rows"),
        ("ch_prices", "ts", "event time"),
    ):
        found = {row.col_name: row.comment for row in engine.sql(f"DESCRIBE {relation}").collect()}
        assert found[column] == comment and all(found.values())
