"""Queries of one skeleton in tasks of Spark, and the statement of their template over guards."""

from __future__ import annotations

from pathlib import Path

from oracle.evaluate import Doc, answers
from pyspark.sql import SparkSession

import xscl
from xscl.base.settings import Settings
from xscl.catalog.groups import read_template_use
from xscl.language.syntax.parser import parse_query
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.sql import cq_statement

SECOND = 1_000_000
CONDITIONS = {
    "cheap": "[./price < 3]",
    "dear": "[./price >= 3]",
    "words": "[contains(./name, 'b') or ./name = 'a1']",
    "neither": "[not(./price > 1)][not(contains(./name, 'b'))]",
    "all": "",
}
QUERIES = {
    name: f"S{condition}[./key->k] JOIN {{k = l, 4 s}} S[./price != 2][./key->l]"
    for name, condition in CONDITIONS.items()
}
DOCS = [
    Doc(
        "S", f"e{i}", i * 1_000_000, f"<r><price>{i % 5}</price><name>{'ab'[i % 2]}{i % 3}</name><key>{i % 2}</key></r>"
    )
    for i in range(12)
]


def test_guards_in_tasks_and_in_the_statement_of_the_template(spark: SparkSession, tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home", spark=spark, settings=Settings(where="spark")) as engine:
        for name, text in QUERIES.items():
            engine.register(text, name=name)
        for some in (DOCS[:5], DOCS[5:]):
            engine.ingest(xscl.Event(doc.channel, doc.id, doc.ts / 1e6, xml=doc.xml) for doc in some)
            engine.run_once()
        found: dict[str, set[tuple[str, ...]]] = {name: set() for name in QUERIES}
        for match in engine.matches():
            found[match.query].add(tuple(event.id for event in match.events))
        for name, text in QUERIES.items():
            expected = {tuple(id_ for _, id_ in documents) for documents, _ in answers(parse_query(text), DOCS)}
            assert found[name] == expected != set(), name
        ((template, *_),) = engine.home.catalog.ask(read_template_use)
        columns = ["qid", "docid1", "docid2", "node1", "node2"]
        stored = engine.sql(f"SELECT {', '.join(columns)} FROM rout_{template.id}").collect()
        by_statement = engine.sql(spark_text(cq_statement(template))).select(*columns).collect()
        assert sorted(stored) == sorted(by_statement)
        texts = {row.text for row in engine.sql("SELECT text FROM guards").collect()}
        assert texts == {
            "S/*[./price[. < 3]]",
            "S/*[./price[. >= 3]]",
            "S/*[(./name[. = 'a1'] or contains(./name, 'b'))]",
            "S/*[not(./price[. > 1])][not(contains(./name, 'b'))]",
            "S/*[./price[. != 2]]",
        }
