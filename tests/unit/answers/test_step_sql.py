"""Statements of steps on SQLite find what the oracle does, for queries of one shape together and for one alone."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from random import Random

import pytest
from budget import examples
from oracle.texts import number
from played_steps import Played
from step_queries import other_numbers

import xscl
from xscl.answers.explaining.step_sql import relations_of, step_statement
from xscl.answers.explaining.templates import template_facts, template_sql_text, template_text
from xscl.answers.status import template_rows
from xscl.base.errors import CatalogError, QueryError
from xscl.base.values import apply_functions
from xscl.catalog.steps import is_step
from xscl.catalog.suggestions import unknown_notes
from xscl.language.steps.shapes import shape_of
from xscl.registry.query_list import QueryFilter, query_count
from xscl.templates.statements.dialect import Dialect

Found = tuple[tuple[tuple[str, str], ...], tuple[int, ...], int]
"""Members, nodes and time of a match."""


def load(database: sqlite3.Connection, each: Sequence[Played]) -> None:
    """The relations of a step: queries are numbered from 0 on, and each has parts of its own."""
    shapes = [shape_of(played.definition) for played in each]
    relations = relations_of("s3_x", shapes[0][0])
    for name, columns in (relations.queries, *relations.parts):
        database.execute(f"CREATE TABLE {name} ({', '.join(columns)})")
    name, columns = relations.queries
    for qid, (_, numbers) in enumerate(shapes):
        own = {"qid": qid, **{f"n{place}": _told(value) for place, value in enumerate(numbers)}}
        own |= {f"x{place}": value("", each)["x"] for place, each in enumerate(numbers) if isinstance(each, str)}
        row = [own.get(column, qid) for column in columns]
        database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)
    for qid, played in enumerate(each):
        for part, (name, columns) in enumerate(relations.parts):
            for row in rows(played, qid, part, columns):
                database.execute(f"INSERT INTO {name} VALUES ({', '.join('?' * len(row))})", row)


def _told(value: Fraction | str) -> float | str:
    return value if isinstance(value, str) else float(value)


def rows(played: Played, qid: int, part: int, columns: Sequence[str]) -> list[list[object]]:
    """The matches of a part."""
    of, layout = played.parts[part], played.layout
    found = []
    for at in range(len(of)):
        known: dict[str, object] = {"part": qid, "start": int(of.start[at]), "ts": int(of.ts[at])}
        for block in range(layout.blocks[-1]):
            known |= {f"docid{block + 1}": int(of.docs[at, block]), f"t{block + 1}": int(of.times[at, block])}
            known[f"node{block + 1}"] = int(of.nodes[at, block])
            known[f"item{block + 1}"] = played.items.get(int(of.docs[at, block]))
        for name in range(layout.variables[-1]):
            known[f"m{name + 1}"] = int(of.nodes[at, layout.blocks[-1] + name])
            known |= value(f"{name + 1}", of.texts[at, name])
            known |= value(f"{name + 1}_lower", apply_functions("lower", of.texts[at, name] or ""))
        found.append([known[column] for column in columns])
    return found


def value(name: str, text: str | None) -> dict[str, object]:
    exact = None if text is None else number(text)
    return {f"v{name}": text, f"x{name}": None if exact is None else float(exact)}


def told(played: Played, row: Sequence[int]) -> Found:
    """A row of the statement without its query, as the oracle tells it."""
    blocks = played.layout.blocks[-1]
    by_place = {place: (doc.channel, doc.id) for doc, place in played.place.items()}
    return tuple(by_place[doc] for doc in row[:blocks]), tuple(row[blocks:-2]), row[-1]


def expected(played: Played) -> set[Found]:
    return {(members, nodes, ts) for members, nodes, _, ts, _ in played.expected()}


def test_statements_on_sqlite_are_the_oracles() -> None:
    count = 0
    for seed in range(2_000, 2_000 + examples(120)):
        choose = Random(seed)
        try:
            first = Played(seed)
            each = [first, Played(seed, other_numbers(choose, first.text))]
        except QueryError:
            continue
        shapes = [shape_of(played.definition) for played in each]
        if first.is_longest or shapes[0][0] != shapes[1][0]:
            continue
        database = sqlite3.connect(":memory:")
        load(database, each)
        found: list[set[Found]] = [set(), set()]
        for qid, *row in database.execute(step_statement("s3_x", shapes[0][0])):
            found[qid].add(told(each[qid], row))
        assert found == [*map(expected, each)], [played.text for played in each]
        alone = database.execute(step_statement("s3_x", shapes[1][0], shapes[1][1]) + " WHERE qid = 1")
        assert {told(each[1], row) for _, *row in alone} == expected(each[1]), each[1].text
        count += bool(found[0])
    assert count > examples(120) // 10


@pytest.mark.parametrize(
    "condition",
    [
        "NEXT {{2 * w = '{}'}} A[./v->w]",
        "NEXT {{2 * w != '{}'}} A[./v->w]",
        "FOLD {{w > 1 WHILE count() != '{}'}} A[./v->w]",
        "FOLD {{w > 1, 2 * w AS n}} A[./v->w] FILTER {{n = '{}'}}",
        "FOLD {{w > 1, w AS n}} A[./v->w] FILTER {{n != '{}'}}",
    ],
)
def test_own_texts_are_numbers_where_numbers_are_compared(condition: str) -> None:
    count = 0
    for seed in range(examples(80)):
        texts = [f"SELECT v, w FROM A[./v->v] {condition.format(own)}" for own in ("4", "2.50", "x", "1", "2")]
        each = [Played(seed, text) for text in texts]
        database = sqlite3.connect(":memory:")
        load(database, each)
        found: list[set[Found]] = [set() for _ in each]
        for qid, *row in database.execute(step_statement("s3_x", shape_of(each[0].definition)[0])):
            found[qid].add(told(each[qid], row))
        assert found == [*map(expected, each)], condition
        count += len(set(map(frozenset, found))) > 1
    assert count


def test_steps_are_templates(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        for least in (1, 2, 3):
            engine.register(
                f"SELECT p, q FROM a[./v > {least}][./v->p] NEXT {{q >= {least} * p, 1 h}} b[./v->q]", name=f"q{least}"
            )
        engine.register("a FOLD {1 h, LONGEST} a", name="runs")
        catalog = engine.home.catalog
        rows = [row for row in template_rows(catalog) if is_step(str(row["template"]))]
        assert [(row["blocks"], row["joins"], row["queries"], row["groups"]) for row in rows] == [
            (2, 1, 3, 3),
            (2, 1, 1, 1),
        ]
        name, longest = (str(row["template"]) for row in rows)
        facts = template_facts(catalog, name)
        assert facts["examples"] == ["q1", "q2", "q3"] and facts["steps"] == 1
        assert "q1, q2, q3" in template_text(catalog, name)
        shared = template_sql_text(catalog, name, None, Dialect.sqlite)
        assert f"rs_{name}: qid, part1, part2" in shared and "NOT EXISTS" in shared and "q.n" in shared
        alone = template_sql_text(catalog, name, "q3", Dialect.sqlite)
        assert "(3 * l.x1)" in alone and "q.n" not in alone
        assert "LONGEST" in template_sql_text(catalog, longest, None, Dialect.sqlite)
        with pytest.raises(CatalogError, match=f"the query runs has no step {name}"):
            template_sql_text(catalog, name, "runs", Dialect.sqlite)
        # The beginning of an id suffices where no other step has it.
        assert template_facts(catalog, name[:-2]) == facts
        assert template_text(catalog, name[:-2]) == template_text(catalog, name)
        assert template_sql_text(catalog, name[:-2], None, Dialect.sqlite) == shared
        with pytest.raises(CatalogError, match="several templates begin with 's3_'"):
            template_facts(catalog, "s3_")
        # Queries are listed by the same names.
        engine.drop("q2")
        for beginning in (name, name[:-2]):
            assert [info.name for info in engine.queries(template=beginning)] == ["q1", "q3"]
        assert catalog.ask(query_count, QueryFilter(template=longest)) == 1
        assert list(engine.queries(template="s3_no")) == []
        with pytest.raises(CatalogError, match="several templates begin with 's3_'"):
            list(engine.queries(template="s3_"))
        assert catalog.ask(unknown_notes, None, name) == []
        assert catalog.ask(unknown_notes, None, "s3_no") == ["there is no template 's3_no'"]
