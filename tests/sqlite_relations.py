"""The relations of the architecture on SQLite, and what the statements of templates find there."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import pytest
import sqlalchemy as sa
from local_engine import UnitsEngine
from oracle.evaluate import Doc

from xscl.language.compiled import CompiledQuery
from xscl.templates.guards import Literal
from xscl.templates.statements.dialect import Dialect
from xscl.templates.statements.dialects import Statement, statement_text
from xscl.templates.statements.relations import (
    R_BIN,
    R_DOC,
    R_DOCTS,
    R_GUARD,
    R_MEMBER,
    R_ORDINAL,
    RELATIONS,
    SUBSCRIBED,
    rt_rows,
    rt_table,
    var_name,
)
from xscl.templates.statements.sql import cq_statement, query_statement


def load(engine: UnitsEngine) -> sa.Engine:
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
            "item": engine.items[i],
            "ts": d.ts,
            "late": d.late,
            "whole": d.whole,
        }
        for i, d in enumerate(engine.docs)
    ]
    members = [{"docid": i, "stream": engine.streams[s]} for i, d in enumerate(engine.docs) for s in d.streams]
    with database.begin() as connection:
        for table, rows in ((R_BIN, sorted(bins)), (R_DOC, sorted(values, key=repr))):
            if rows:
                connection.execute(table.insert(), [dict(zip(table.columns.keys(), row, strict=True)) for row in rows])
        connection.execute(R_DOCTS.insert(), events)
        if members:
            connection.execute(R_MEMBER.insert(), members)
        connection.execute(R_ORDINAL.insert(), list(_ordinals(engine.docs)))
        if held := list(_guards_held(engine)):
            connection.execute(R_GUARD.insert(), held)
    return database


def _ordinals(docs: Sequence[Doc]) -> Iterator[dict[str, object]]:
    """The events of each channel in the order in which they came."""
    counts: Counter[str] = Counter()
    for docid, doc in enumerate(docs):
        if doc.whole:
            yield {"docid": docid, "channel": doc.channel, "ordinal": counts[doc.channel]}
            counts[doc.channel] += 1


def _guards_held(engine: UnitsEngine) -> Iterator[dict[str, object]]:
    """The guards that each document satisfies, by its witnesses."""
    guards = {guard for query in engine.queries.values() for guard in query.group.guards if guard is not None}
    facts: dict[int, set[int]] = {}
    numbers: dict[tuple[int, int], list[float]] = {}
    lengths: dict[tuple[int, int], tuple[int, float]] = {}
    for row in engine.witness:
        facts.setdefault(row["docid"], set()).add(row["var"])
        if row["fn"] == "" and row["num"] is not None:
            numbers.setdefault((row["docid"], row["var"]), []).append(row["num"])
        if row["fn"] == "string-length":
            key, length = (row["docid"], row["var"]), (row["node"], row["num"])
            lengths[key] = min(lengths.get(key, length), length)
    compare = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}

    def holds(docid: int, literal: Literal) -> bool:
        if literal.op == "has":
            return literal.variable in facts[docid]
        key = docid, literal.variable
        if literal.op.startswith("length "):
            return key in lengths and compare[literal.op.split()[1]](lengths[key][1], literal.constant)
        return any(compare[literal.op](number, literal.constant) for number in numbers.get(key, ()))

    for docid in facts:
        for guard in guards:
            if any(all(holds(docid, literal) for literal in each) for each in guard.alternatives):
                yield {"docid": docid, "guard": guard.name}


Sees = tuple[int, int | None]
"""The place after which a query's members come, and the least event time that they have."""
_EVERYTHING: Sees = (-1, None)


def statement_rows(
    database: sa.Engine,
    queries: Mapping[str, CompiledQuery],
    sees: Mapping[str, Sees] | None = None,
    *,
    own: bool = False,
) -> dict[str, set[tuple[object, ...]]]:
    """R_out of every query, by one statement per template; queries that ``sees`` does not name see everything.

    ``own``: statements of single queries must find the same, here and on DuckDB.
    """
    found: dict[str, set[tuple[object, ...]]] = {name: set() for name in queries}
    templates = {c.template.id: c.template for c in queries.values()}
    constants = {
        name: [
            {"qid": name, **dict(zip(SUBSCRIBED, (sees or {}).get(name, _EVERYTHING), strict=True)), **row}
            for row in rt_rows(query.template, query.group)
        ]
        for name, query in queries.items()
    }
    with database.begin() as connection:
        for template in templates.values():
            table = rt_table(template)
            table.create(connection)
            connection.execute(
                table.insert(),
                [row for name, rows in constants.items() if queries[name].template == template for row in rows],
            )
            rows = any(query.group.rows for query in queries.values())
            for row in connection.execute(cq_statement(template, rows=rows)):
                found[row.qid].add(tuple(row)[2:])
        if own:
            statements = {name: query_statement(query.template, constants[name]) for name, query in queries.items()}
            for name, statement in statements.items():
                text = statement_text(statement, Dialect.sqlite)
                assert {tuple(row)[2:] for row in connection.exec_driver_sql(text)} == found[name], (name, text)
            assert _duckdb_rows(connection, statements) == found
    return found


def _duckdb_rows(connection: sa.Connection, statements: Mapping[str, Statement]) -> dict[str, set[tuple[object, ...]]]:
    """R_out of every query, by its own statement on DuckDB."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(config={"threads": 1}) as other:
        for table in RELATIONS.sorted_tables:
            types = ", ".join(f"{column.name} {_TYPES[type(column.type)]}" for column in table.columns)
            other.execute(f"CREATE TABLE {table.name} ({types})")
            if rows := [tuple(row) for row in connection.execute(sa.select(table))]:
                other.executemany(f"INSERT INTO {table.name} VALUES ({', '.join('?' * len(rows[0]))})", rows)
        return {
            name: {row[2:] for row in other.execute(statement_text(statement, Dialect.duckdb)).fetchall()}
            for name, statement in statements.items()
        }


_TYPES = {
    sa.BigInteger: "BIGINT",
    sa.Boolean: "BOOLEAN",
    sa.Double: "DOUBLE",
    sa.Integer: "INTEGER",
    sa.String: "VARCHAR",
}


def joined_columns(query: CompiledQuery, rows: set[tuple[object, ...]], ids: Sequence[str]) -> set[tuple[object, ...]]:
    """R_out rows as the oracle writes them: document ids, then the nodes of the joined variables in atom order."""
    count = query.template.block_count
    places = [count + query.meta_names.index(name) for name in query.joined_names]
    return {(*(ids[row[i]] for i in range(count)), *(row[p] for p in places)) for row in rows}
