"""The statement of a template as a text."""

from __future__ import annotations

import sqlite3

import pytest
import sqlalchemy as sa
from budget import examples
from hypothesis import given, settings
from local_engine import compiled
from sqlalchemy.dialects import sqlite
from strategies import one_block_queries, two_block_queries

from xscl.base.docids import published_docid
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.relations import (
    R_BIN,
    R_DOCTS,
    RELATIONS,
    SUBSCRIBED,
    held_columns,
    rt_rows,
    rt_table,
    var_name,
)
from xscl.templates.statements.sql import cq_statement
from xscl.templates.template import Template

TEXTS = one_block_queries() | two_block_queries()


def prepared(template: Template) -> sqlite3.Connection:
    database = sqlite3.connect(":memory:")
    database.create_function("greatest", -1, max)  # Spark's name; SQLAlchemy writes SQLite's own
    for table in [*RELATIONS.sorted_tables, rt_table(template)]:
        database.execute(str(sa.schema.CreateTable(table).compile(dialect=sqlite.dialect())))
    return database


@settings(max_examples=examples(32), deadline=None)
@given(TEXTS)
def test_statements_parse(text: str) -> None:
    template = compiled(text).template
    statement = spark_text(cq_statement(template))
    assert "\\" not in statement
    assert ":" not in statement, "every constant is written out"
    database = prepared(template)
    columns = [row[0] for row in database.execute(statement).description]
    documents = [f"docid{i}" for i in range(1, template.block_count + 1)]
    assert columns == ["qid", "case", *documents, *(f"node{i}" for i in range(1, template.width + 1))]
    plan = str(cq_statement(template).compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    database.execute(plan)
    database.close()


@settings(max_examples=examples(20), deadline=None)
@given(TEXTS)
def test_rows_of_rt_fill_its_columns(text: str) -> None:
    query = compiled(text)
    names = {column.name for column in rt_table(query.template).columns}
    rows = rt_rows(query.template, query.group)
    assert len(rows) == len(query.group.cases)
    assert all(set(row) | {"qid", *SUBSCRIBED, *held_columns(query.template)} == names for row in rows)


def test_the_text_depends_on_the_template_alone() -> None:
    a, b = compiled("S//a->x JOIN {x = y, 1 h} T//b->y"), compiled("U//c->x FOLLOWED BY {lower(x) = url(y)} V//@k->y")
    assert spark_text(cq_statement(a.template)) == spark_text(cq_statement(b.template))


def test_the_statement_of_a_pair() -> None:
    statement = spark_text(cq_statement(compiled("S//a->x JOIN {x = y, 1 h} T//b->y").template))
    for part in ("late", "item", "once_1_2", "lo_1_2", "hi_1_2", "sees_from", "ts_from", "DISTINCT"):
        assert part in statement
    single = spark_text(cq_statement(compiled("S//a").template))
    assert "late" not in single


@pytest.mark.parametrize(
    ("key", "name"), [(0, "0" * 16), (1, "0" * 15 + "1"), (-1, "f" * 16), (-(2**63), "8" + "0" * 15)]
)
def test_names_of_variables(key: int, name: str) -> None:
    assert var_name(key) == name


def test_a_published_document_counts_by_its_place() -> None:
    query = compiled("S//a")
    table = rt_table(query.template)
    (row,) = rt_rows(query.template, query.group)
    docids = [5, 6, published_docid(5, 9), published_docid(6, 0)]
    engine = sa.create_engine("sqlite://")
    with engine.begin() as connection:
        RELATIONS.create_all(connection)
        table.create(connection)
        connection.execute(table.insert(), [{"qid": "q", "sees_from": 5, "ts_from": None, **row}])
        for docid in docids:
            event = {"docid": docid, "channel": "S", "id": str(docid), "item": docid, "ts": 1}
            connection.execute(R_DOCTS.insert(), [{**event, "late": False, "whole": True}])
            var = row["var1"]
            connection.execute(R_BIN.insert(), [{"docid": docid, "var1": var, "var2": var, "node1": 0, "node2": 0}])
        found = {r.docid1 for r in connection.execute(cq_statement(query.template))}
    assert found == {6, published_docid(6, 0)}
