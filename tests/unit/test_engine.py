"""The library's face, as far as it needs no Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
import pytest

import xscl
from xscl import Engine
from xscl.base.errors import CatalogError, EngineError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TEXTS = ["S//a", "S//[", None, "S//b"]
NAMES = ["one", "two", None, None]
CONDITIONS = [None, "XSCL_SYNTAX", "XSCL_SYNTAX", None]


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path / "home") as opened:
        yield opened


def conditions(outcomes: list[xscl.QueryOutcome]) -> list[str | None]:
    return [outcome.error and outcome.error.condition for outcome in outcomes]


def test_a_frame_of_pandas_registers_its_rows(engine: Engine) -> None:
    outcomes = engine.register_many(pd.DataFrame({"name": NAMES, "text": TEXTS, "owner": range(4)}))
    assert conditions(outcomes) == CONDITIONS
    assert [outcome.name for outcome in outcomes if outcome.ok] == ["one", "q2"]
    assert conditions(engine.register_many(pd.DataFrame({"text": ["S//a", "S//c"]}))) == [None, None]
    assert len(list(engine.queries())) == 4


def test_all_rows_or_none(engine: Engine) -> None:
    frame = pd.DataFrame({"text": ["S//a", "S//["]})
    assert conditions(engine.register_many(frame, atomic=True)) == ["XSCL_NOT_REGISTERED", "XSCL_SYNTAX"]
    assert conditions(engine.register_many(["S//a"], strict=True)) == ["XSCL_UNKNOWN_CHANNEL"]
    assert list(engine.queries()) == []


def test_a_frame_without_texts_is_refused(engine: Engine) -> None:
    with pytest.raises(EngineError) as refused:
        engine.register_many(pd.DataFrame({"query": ["S//a"]}))
    assert refused.value.condition == "XSCL_BAD_FRAME"


def test_a_frame_of_spark_registers_its_rows(engine: Engine, spark: SparkSession) -> None:
    frame = spark.createDataFrame(list(zip(TEXTS, NAMES, strict=True)), "text string, name string")
    assert conditions(engine.register_many(frame)) == CONDITIONS
    assert [query.name for query in engine.queries()] == ["one", "q2"]


def test_a_file_is_loaded(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "q.xscl"
    path.write_text("\ufeffCREATE QUERY one AS S//a;\nCREATE QUERY two AS S//[;", encoding="utf-8")
    assert conditions(engine.load_file(path, atomic=True)) == ["XSCL_NOT_REGISTERED", "XSCL_SYNTAX"]
    first, second = engine.load_file(str(path))
    assert (first.name, first.ok, second.name, second.line, second.ok) == ("one", True, "two", 2, False)
    for unreadable, content in ((tmp_path / "nowhere", None), (tmp_path / "bytes", b"\xff\xfe\x00")):
        if content is not None:
            unreadable.write_bytes(content)
        with pytest.raises(CatalogError) as refused:
            engine.load_file(unreadable)
        assert refused.value.condition == "XSCL_SOURCE_UNREADABLE"


def test_queries_are_filtered(engine: Engine) -> None:
    follows = "S//a->x FOLLOWED BY {x = y, 1 h} T//b->y"
    engine.register_many([("a1", "S//a"), ("a2", follows), ("b1", follows), ("b2", "T//b")])

    def names(**filters: object) -> list[str]:
        return [query.name for query in engine.queries(**filters)]  # type: ignore[arg-type]

    assert names() == ["a1", "a2", "b1", "b2"]
    assert names(like="a*", channel="T") == ["a2"]
    first, *_ = engine.queries(like="a2")
    assert names(template=first.template) == names(group=first.gid) == ["a2", "b1"]
    assert names(after="a2", limit=1) == names(offset=2, limit=1) == ["b1"]
