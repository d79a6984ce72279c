"""Row windows in tasks of Spark, and in the statement of their template on Spark SQL."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from oracle.evaluate import Doc, answers

import xscl
from xscl.catalog.groups import read_template_use
from xscl.engine import Engine
from xscl.language.syntax.parser import parse_query
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.sql import cq_statement

S = 1_000_000
QUERIES = {
    "two": "A->x[./k->a] JOIN {a = b, LAST 2 OF x} B[./k->b]",
    "both": "A->x[./k->a] JOIN {a = b, LAST 3 OF x, LAST 1 OF y} B->y[./k->b]",
    "all": "A->x[./k->a] JOIN {a = b, UNBOUNDED} B[./k->b]",
    "guarded": "A->x[./v > 1][./k->a] JOIN {a = b, 9 s, LAST 4 OF x} B[./k->b]",
}


def events(docs: Sequence[Doc]) -> list[xscl.Event]:
    return [xscl.Event(doc.channel, doc.id, doc.ts // S, xml=doc.xml) for doc in docs]


def test_tasks_and_statements_answer_as_the_oracle(executor_engine: Engine) -> None:
    choose = Random(3)
    docs = [
        Doc(choose.choice("AB"), str(at), at * S, f"<e><k>{choose.randrange(2)}</k><v>{choose.randrange(4)}</v></e>")
        for at in range(16)
    ]
    for name, text in QUERIES.items():
        executor_engine.register(text, name=name)
    for some in (docs[:7], docs[7:]):
        executor_engine.ingest(events(some))
        executor_engine.run_once()
    for name, text in QUERIES.items():
        expected = {tuple(id_ for _, id_ in members) for members, _ in answers(parse_query(text), docs)}
        found = {tuple(event.id for event in match.events) for match in executor_engine.matches(name)}
        assert found == expected != set(), name
    ((template, *_),) = executor_engine.home.catalog.ask(read_template_use)
    columns = ["qid", "docid1", "docid2", "node1", "node2"]
    stored = executor_engine.sql(f"SELECT {', '.join(columns)} FROM rout_{template.id}").collect()
    by_statement = executor_engine.sql(spark_text(cq_statement(template, rows=True))).select(*columns).collect()
    # What the guard reads is kept for row windows alone.
    first, second = ([row for row in rows if row.qid != "guarded"] for rows in (stored, by_statement))
    assert sorted(first) == sorted(second)
