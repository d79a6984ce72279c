"""The baselines give what the queries ask, without Spark: on SQLite, against loops over pairs of documents."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from local_engine import compiled
from lxml import etree

from xscl.bench.baselines import Estimate, Prepared, delta_text
from xscl.bench.documents import family_documents
from xscl.bench.matching import event_batches
from xscl.bench.relations import Relations, digest, sample_queries
from xscl.bench.views import VIEWS, views_text
from xscl.bench.workload import thesis_queries, three_level, two_level
from xscl.templates.statements.relations import R_BIN, R_DOC, rt_rows, var_name
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.spec_files import SpecChange, apply_change
from xscl.xpath.witness import witness_rows

STATE, BATCH = 30, 10
ATOM = re.compile(r"v(\d+) = w\1")
LEAF = re.compile(r"(\w+)->([vw]\d+)\]")

Expected = dict[str, set[tuple[int, int]]]
"""Pairs of documents of each query."""


# So few leaves that queries of several joins are satisfied, too.
@pytest.fixture(params=[two_level(3), three_level(2, 2)], ids=["two-level", "three-level"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Relations, Expected]]:
    schema = request.param
    texts = dict(thesis_queries(schema, 60, seed=5, most_joins=3))
    documents = list(family_documents(schema, STATE + BATCH, families=4, seed=7, run="only"))
    yield relations(texts, documents, schema.channel, tmp_path), answers(texts, documents)


def relations(texts: dict[str, str], documents: list[str], channel: str, folder: Path) -> Relations:
    """As a home has them; a query stands for itself, and docids count from 1."""
    queries = {name: compiled(text) for name, text in texts.items()}
    automaton = Automaton()
    apply_change(automaton, SpecChange(None, tuple({s: None for q in queries.values() for s in q.specs})))
    (events,) = event_batches(channel, documents, len(documents))
    witness = [row for batch in witness_rows(automaton, events) for row in batch.to_pylist()]
    bins = {
        (row["docid"], var_name(c["var1"]), var_name(c["var2"]), c["node1"], c["node2"])
        for row in witness
        for c in row["chain"]
    }
    values = {
        (row["docid"], row["node"], row["fn"], row["strval"], row["num"]) for row in witness if row["fn"] is not None
    }
    for table, rows in ((R_BIN, bins), (R_DOC, values)):
        named = [dict(zip(table.columns.keys(), row, strict=True)) for row in rows]
        pq.write_table(pa.Table.from_pylist(named), folder / table.name)
    pq.write_table(pa.Table.from_batches([events]).drop_columns(["content"]), folder / "r_docts")
    templates = {query.template.id: query.template for query in queries.values()}
    return Relations(
        folder=folder,
        first=STATE + 1,
        last=STATE + BATCH,
        documents=STATE + BATCH,
        templates=tuple(templates.values()),
        rt={
            id_: pa.Table.from_pylist(
                [
                    {"qid": name, "sees_from": -1, "ts_from": None, **row}
                    for name, query in queries.items()
                    if query.template == template
                    for row in rt_rows(template, query.group)
                ]
            )
            for id_, template in templates.items()
        },
        stands_for={name: name for name in queries},
    )


def answers(texts: dict[str, str], documents: list[str]) -> Expected:
    """Every query on every pair whose second document is of the batch."""
    values = [{e.tag: e.text for e in etree.fromstring(document).iter()} for document in documents]
    found: Expected = {}
    for name, text in texts.items():
        leaf = {variable: field for field, variable in LEAF.findall(text)}
        joins = [(leaf[f"v{number}"], leaf[f"w{number}"]) for number in ATOM.findall(text)]
        assert joins
        pairs = {
            (one + 1, other + 1)
            for other in range(STATE, STATE + BATCH)
            for one in range(other)
            if all(values[one][left] == values[other][right] for left, right in joins)
        }
        if pairs:
            found[name] = pairs
    assert max(len(ATOM.findall(texts[name])) for name in found) > 1
    return found


def test_prepared_statements(case: tuple[Relations, Expected]) -> None:
    given, expected = case
    database = Prepared(given)
    documents = given.batch()
    assert documents == list(range(STATE + 1, STATE + BATCH + 1))
    found = database.one_by_one(list(given.stands_for), documents, 600, 100)
    assert {name: count for name, (count, _) in found.digests.items()} == {n: len(p) for n, p in expected.items()}
    assert found.asked == set(given.stands_for) and found.agrees(found.digests)
    assert found.measured == 0 and found.seconds > 0
    part = database.one_by_one(list(given.stands_for), documents[:1], 600, 100)
    assert {name: count for name, (count, _) in part.digests.items()} == {
        name: len(some) for name, pairs in expected.items() if (some := {p for p in pairs if p[1] == STATE + 1})
    }
    assert digest(part.digests) != digest(found.digests) and not part.agrees(found.digests)
    database.close()


def test_statements_of_a_batch_with_and_without_views(case: tuple[Relations, Expected]) -> None:
    given, expected = case
    prepared = Prepared(given)
    database = prepared.database
    for name in ("r_doc", "r_bin", "r_docts"):
        database.execute(f"create table {name}w as select * from {name} where docid >= {given.first}")
    for name, text in VIEWS.items():
        database.execute(f"create table {name} as {text}")
    for template in given.templates:
        plain = {tuple(row) for row in database.execute(delta_text(template))}
        assert {(row[0], *row[2:4]) for row in plain} == {
            (name, *pair) for name in given.rt[template.id].column("qid").to_pylist() for pair in expected.get(name, ())
        }
        assert {tuple(row) for row in database.execute(views_text(template))} == plain
    prepared.close()


def test_samples(case: tuple[Relations, Expected]) -> None:
    given, _ = case
    assert sample_queries(given, 40, 1) == sample_queries(given, 40, 1) != sample_queries(given, 40, 2)
    assert set(sample_queries(given, 40, 1)) <= set(given.stands_for)
    assert set(given.template_of()) == set(given.stands_for)


def test_an_estimate_speaks_of_the_queries_that_were_asked() -> None:
    estimate = Estimate(1.0, 1, {"a": (2, 5)}, frozenset({"a", "b"}))
    assert estimate.agrees({"a": (2, 5), "c": (1, 1)})
    assert not estimate.agrees({"a": (2, 6)})
    assert not estimate.agrees({"a": (2, 5), "b": (1, 1)})
