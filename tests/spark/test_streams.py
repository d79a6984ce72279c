"""Streams of channels with Spark: both ways of joining, what relations show, what is published."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import xscl
from xscl.answers.explaining.templates import template_sql_text
from xscl.base.settings import Settings, Where
from xscl.catalog.groups import read_template
from xscl.catalog.queries import read_query
from xscl.templates.statements.dialect import Dialect
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.sql import cq_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERIES = {
    "whole": "items//title->x FOLLOWED BY {x = y, 1 h} talk//title->y",
    "a": "a//title->x FOLLOWED BY {x = y, 1 h} talk//title->y",
    "b": "b//title->x FOLLOWED BY {x = y, 1 h} talk//title->y PUBLISH out",
    "three": "a//title->x JOIN {x = y, 1 h} b//title->y FOLLOWED BY {y = z, 1 h} talk//title->z",
    "out": "out/result",
    "once": "a//title->x JOIN {x = y, 1 h, ONCE} b//title->y",
    "one": "b//title",
    "numbers": "nyse->t[./p->p] FOLLOWED BY {p = q, 1 h} lse->u[./q->q]",
}


def item(stream: str, id_: str, ts: int, title: str) -> xscl.Event:
    return xscl.Event(stream, id_, ts, xml=f"<item><title>{title}</title></item>")


BATCHES = (
    [item("a", "g", 1, "x"), item("b", "g", 1, "x"), item("a", "h", 2, "y"), item("b", "i", 3, "x")],
    [item("a", "m", 1, "z")],
    [item("a", "n", 2, "z"), item("b", "n", 2, "z")],
    [item("b", "h", 2, "y"), item("b", "m", 1, "z"), xscl.Event("talk", "t", 9, xml="<t><title>x</title></t>")],
    [
        xscl.Event("talk", "u", 10, xml="<t><title>y</title></t>"),
        xscl.Event("nyse", "1", 1, row={"p": 5, "q": 7}),
        xscl.Event("lse", "1", 1, row={"p": 5, "q": 7}),
        xscl.Event("lse", "2", 2, row={"p": 7, "q": 5}),
    ],
)
EXPECTED = {
    "whole": {"g t", "i t", "h u"},
    "a": {"g t", "h u"},
    "b": {"g t", "i t", "h u"},
    "three": {"g i t"},
    "once": {"g i", "m n"},
    "young": {"n m"},
    "one": {"g", "h", "i", "m", "n"},
    "numbers": {"1 2"},
}


@pytest.mark.parametrize(
    ("where", "cuts"), [pytest.param("spark", "batches", marks=pytest.mark.thorough), ("driver", "one batch")]
)
def test_streams(spark: SparkSession, tmp_path: Path, where: Where, cuts: str) -> None:
    with xscl.connect(home=tmp_path / "home", spark=spark, settings=Settings(where)) as engine:
        engine.add_channel("ticks", kind="rows")
        for name, of in {"a": "items", "b": "items", "nyse": "ticks", "lse": "ticks"}.items():
            engine.add_channel(name, of=of, source="wire")
        for name, text in QUERIES.items():
            engine.register(text, name=name)
        for number, batch in enumerate(BATCHES):
            if number == 2:  # it sees no copy of m but the one of b
                engine.register(QUERIES["once"], name="young")
            engine.ingest(batch)
            if cuts == "batches":
                engine.run_once()
        engine.run_once()
        found: dict[str, list[str]] = {}
        for match in engine.matches():
            found.setdefault(match.query, []).append(" ".join(event.id for event in match.events))
        assert {name: set(found[name]) for name in EXPECTED} == EXPECTED
        assert {name: len(listed) - len(set(listed)) for name, listed in found.items()} == dict.fromkeys(found, 0)
        assert len(found["out"]) == 3
        shown = {(row.channel, row.id): row.member for row in engine.sql("select * from events").collect()}
        assert shown["items", "g"] == shown["items", "h"] == ["a", "b"]
        assert shown["items", "i"] == ["b"] and shown["talk", "t"] == [] and shown["ticks", "1"] == ["lse", "nyse"]
        assert len(shown) == 5 + 2 + 2 + 3
        docids = {row.docid: row.id for row in engine.sql("select docid, id from events").collect()}
        of_query: dict[str, set[str]] = {}
        listed = engine.sql("select match, qid, docids from matches").collect()
        for row in listed:
            of_query.setdefault(row.qid, set()).add(" ".join(docids[docid] for docid in row.docids))
        assert {name: of_query[name] for name in EXPECTED} == EXPECTED
        assert {row.match for row in listed} == {match.id for match in engine.matches()}
        if where == "driver":
            return
        # The statement of a template asks the relations for the same, whoever joined.
        template = engine.home.catalog.ask(read_query, "a").template
        statement = spark_text(cq_statement(engine.home.catalog.ask(read_template, template)))
        asked = {(row.qid, row.docid1, row.docid2) for row in engine.sql(statement).collect()}
        stored = engine.sql(f"select qid, docid1, docid2 from rout_{template}").collect()
        assert asked == {(row.qid, row.docid1, row.docid2) for row in stored} and len(asked) == 12
        own = template_sql_text(engine.home.catalog, template, "a", Dialect.spark)
        assert f"rt_{template}" not in own
        of_a = {(row.qid, row.docid1, row.docid2) for row in engine.sql(own).collect()}
        assert of_a == {row for row in asked if row[0] == "a"} and of_a
