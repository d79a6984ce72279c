"""Rows on Spark: hashes, documents and witnesses in SQL are those of Python; stored rows of both kinds."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from rows_and_specs import NUMBERS, TEXTS, random_cells, random_shape, random_text

import xscl
from xscl.answers.matches.listing import match_json
from xscl.answers.sql.frames import with_documents
from xscl.base.arrow_schemas import EVENT_SCHEMA
from xscl.base.settings import Settings
from xscl.base.values import value_hash
from xscl.ingest.rows import cells_document
from xscl.xpath.relational import ChannelSplit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from xscl.engine import Engine


def stored(channel: str, docid: int, cells: Sequence[str | None]) -> dict[str, object]:
    fixed = {"version": 1, "item": docid, "ts": docid, "received": docid, "late": docid % 7 == 0, "membership": 0}
    return {"docid": docid, "channel": channel, "id": f"e{docid}", "content": None, "cells": list(cells), **fixed}


def events_frame(spark: SparkSession, rows: list[dict[str, object]]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_pylist(rows, schema=EVENT_SCHEMA))


def all_texts() -> list[str]:
    generator = random.Random(3)
    return [*TEXTS, *NUMBERS, *(random_text(generator) for _ in range(3_000))]


def test_the_hash_of_a_value_is_that_of_spark(spark: SparkSession) -> None:
    texts = [*all_texts(), *("é😀x"[i % 3] * i for i in range(200)), "y" * 1_000_000]
    frame = spark.createDataFrame(pa.table({"text": texts}))
    for row in frame.selectExpr("text", "xxhash64(text) as h").collect():
        assert row.h == value_hash(row.text), row.text[:80]


def test_documents_of_rows_in_sql(spark: SparkSession) -> None:
    generator = random.Random(5)
    shapes = {f"C{i}": random_shape(generator) for i in range(40)}
    events = []
    for docid, text in enumerate(all_texts()):
        channel = f"C{docid % len(shapes)}"
        cells = random_cells(generator, shapes[channel])
        cells[generator.randrange(len(cells))] = text
        events.append(stored(channel, docid, cells))
    document = {**stored("C0", -1, []), "content": "<a/>", "cells": None}
    found = with_documents(spark, events_frame(spark, [*events, document]), shapes).collect()
    contents = {row.docid: row.content for row in found}
    assert contents.pop(-1) == "<a/>"
    for event in events:
        shape = shapes[event["channel"]]  # type: ignore[index]
        assert contents[event["docid"]] == cells_document(event["cells"], shape.columns, element=shape.element)  # type: ignore[arg-type]


# -- through the engine ----------------------------------------------------------------------------------------

SENSORS = (
    ("room", "temps/temps[./room->r] JOIN {r = s, 1 h} doors/doors[./room->s]"),
    ("wing", "temps/temps[./wing][./room->r] JOIN {r = s, 1 h} doors/doors[./room->s]"),
    ("near", "temps/temps[./t->t] JOIN {t = d, 1 h} doors/doors[./d->d]"),
    ("lower", "temps/temps[./room->r] JOIN {lower(r) = lower(s), 1 h} doors/doors[./room->s]"),
    ("hot", "temps/temps[./t > 20][./room->r] JOIN {r = s, 1 h} doors/doors[./room->s]"),
    ("any", "temps//*->r JOIN {r = s, 1 h} doors//*->s"),
    ("mixed", "temps//room->r JOIN {r = s, 1 h} S//room->s"),
    ("select", "SELECT t, d FROM temps/temps[./room->r][./t->t] JOIN {r = s, 1 h} doors/doors[./room->s][./d->d]"),
)


def sensor_events() -> list[xscl.Event]:
    generator = random.Random(2)
    rooms = ("r1", "R1", "r2", "a<b>&\r\n'", "")
    found = []
    for i in range(30):
        temp = {"room": generator.choice(rooms), "t": generator.choice((19.5, 20.0, 21.5, None)), "on": i % 2 == 0}
        temp["wing"] = generator.choice(("w", None))
        found.append(xscl.Event("temps", f"t{i}", i, row=temp))
        found.append(xscl.Event("doors", f"d{i}", i, row={"d": generator.choice((20, 19)), "room": rooms[i % 5]}))
        found.append(xscl.Event("S", f"s{i}", i, xml=f"<x><room>{i % 3 and 'r1'}</room></x>"))
    return found


@pytest.mark.parametrize("queries", [SENSORS, SENSORS[:3]])
def test_all_ways_of_keeping_rows_answer_alike(
    queries: tuple[tuple[str, str], ...], tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = sensor_events()
    answers: dict[str, list[str]] = {}
    contents: dict[str, list[str]] = {}
    jobs: dict[str, list[int | None]] = {}
    for way in ("walked", "columns", "driver"):
        with monkeypatch.context() as patch:
            if way == "walked":
                patch.setattr(ChannelSplit, "put", lambda self, asked: None)
            sizes = Settings() if way == "driver" else Settings("spark")
            with xscl.connect(home=tmp_path / way, spark=spark, settings=sizes) as engine:
                assert all(outcome.ok for outcome in engine.register_many(queries))
                engine.ingest(events[:45])
                reports = engine.run_once()
                engine.ingest(events[45:])
                # The same content again adds nothing, however it was kept.
                assert engine.ingest(events).duplicates == len(events)
                assert engine.ingest([xscl.Event("doors", "d0", 0, row={"room": "else"})]).rejected == 1
                reports = [*reports, *engine.run_once()]
                jobs[way] = [report.jobs for report in reports]
                answers[way] = [json.dumps(match_json(match)) for match in engine.matches()]
                rows = engine.sql("select content from events order by docid").collect()
                contents[way] = [row.content for row in rows]
    assert len(answers["walked"]) > 100
    assert all(answer == answers["walked"] for answer in answers.values())
    assert all(content == contents["walked"] for content in contents.values())
    assert jobs["walked"] == jobs["columns"]
    assert set(jobs["driver"]) == {0}


def test_what_columns_answer_is_not_walked(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("a document is walked")

    monkeypatch.setattr("xscl.batches.walking.witness_rows", refuse)
    engine.register_many([*SENSORS[:6], ("documents", "S//room->r JOIN {r = s, 1 h} S//room->s")])
    engine.ingest([event for event in sensor_events() if event.row is not None])
    (report,) = engine.run_once()
    assert report.witnesses > 0 and report.matches > 0
