"""The statement of each template on SQLite against the engine's kernels and the oracle, for random queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from local_engine import LocalEngine, compiled
from oracle.evaluate import Doc, rout
from oracle.nodes import NAMESPACES
from strategies import event_streams, one_block_queries, two_block_queries

from xscl.compile import CompiledQuery
from xscl.parser import parse_query
from xscl.templates.relations import EVENTS, R_BIN, R_DOC, RELATIONS, rt_rows, rt_table, var_name
from xscl.templates.sql import cq_statement


def load(engine: LocalEngine) -> sa.Engine:
    """The relations of the architecture, on SQLite, from the engine's witnesses."""
    database = sa.create_engine("sqlite://")
    RELATIONS.create_all(database)
    bins, values = set(), set()
    for row in engine.witness:
        for c in row["chain"]:
            bins.add((row["docid"], var_name(c["var1"]), var_name(c["var2"]), c["node1"], c["node2"]))
        if row["fn"] is not None:
            values.add((row["docid"], row["node"], row["fn"], row["strval"], row["num"]))
    events = [
        {
            "docid": i,
            "channel": d.channel,
            "id": d.id,
            "version": 1,
            "item": engine.items[i],
            "ts": d.ts,
            "late": d.late,
        }
        for i, d in enumerate(engine.docs)
    ]
    with database.begin() as connection:
        for table, rows in ((R_BIN, sorted(bins)), (R_DOC, sorted(values, key=repr))):
            if rows:
                connection.execute(table.insert(), [dict(zip(table.columns.keys(), row, strict=True)) for row in rows])
        connection.execute(EVENTS.insert(), events)
    return database


def statement_rows(database: sa.Engine, queries: Mapping[str, CompiledQuery]) -> dict[str, set[tuple[object, ...]]]:
    """R_out of every query, by one statement per template."""
    found: dict[str, set[tuple[object, ...]]] = {name: set() for name in queries}
    templates = {c.template.id: c.template for c in queries.values()}
    with database.begin() as connection:
        for template in templates.values():
            table = rt_table(template)
            table.create(connection)
            for name, query in queries.items():
                if query.template == template:
                    rows = [{"qid": name, "docid_from": 0, **row} for row in rt_rows(template, query.group)]
                    connection.execute(table.insert(), rows)
            for row in connection.execute(cq_statement(template)):
                found[row.qid].add(tuple(row)[2:])
    return found


def joined_columns(query: CompiledQuery, rows: set[tuple[object, ...]], ids: Sequence[str]) -> set[tuple[object, ...]]:
    """R_out rows as the oracle writes them: document ids, then the nodes of the joined variables in atom order."""
    count = query.template.block_count
    places = [count + query.meta_names.index(name) for name in query.joined_names]
    return {(*(ids[row[i]] for i in range(count)), *(row[p] for p in places)) for row in rows}


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
)
@given(
    texts=st.lists(two_block_queries() | one_block_queries(), min_size=1, max_size=4, unique=True),
    docs=event_streams(late=True),
)
def test_statements_equal_the_engine(
    texts: list[str], docs: list[Doc], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder: Path = tmp_path_factory.mktemp("statements")
    engine = LocalEngine(folder, {text: compiled(text) for text in texts})
    engine.run(docs)
    found = statement_rows(load(engine), engine.queries)
    ids = [doc.id for doc in docs]
    for text, query in engine.queries.items():
        count = query.template.block_count
        as_ids = {(*(ids[row[i]] for i in range(count)), *row[count:]) for row in found[text]}
        assert as_ids == engine.rout(text), text
        if query.joined_names and all(name.isidentifier() for name in query.joined_names):
            expected = rout(parse_query(text), docs, query.joined_names, namespaces={**NAMESPACES, "n": "urn:n"})
            assert joined_columns(query, found[text], ids) == expected, text
