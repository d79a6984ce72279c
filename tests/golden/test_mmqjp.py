"""The example of M. Hong, *Expressive and Scalable Event Stream Processing*, 2009 (Tables 6.2 and 6.4), and how many
templates its chapter 6 counts: ``mmqjp_5`` and ``mmqjp_3`` in the names of tests.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import sqlalchemy as sa

import xscl
from xscl.base.settings import Settings, Where
from xscl.catalog.groups import read_template_use
from xscl.templates.canonical import canonicalize
from xscl.templates.graph import JoinGraph, ValueJoin, Vertex
from xscl.templates.statements.dialects import spark_text
from xscl.templates.statements.relations import R_BIN, R_DOC, R_DOCTS, RELATIONS, rt_table
from xscl.templates.statements.sql import cq_statement
from xscl.templates.template import Template, template_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from xscl.engine import Engine

DAY = 86_400_000_000
QUERIES = """
CREATE QUERY Q1 AS
  S//book->x1[./author->x2][./title->x3] FOLLOWED BY {x2=x5 AND x3=x6, 7 days} S//blog->x4[./author->x5][./title->x6];
CREATE QUERY Q2 AS
  S//book->x1[./author->x2][./category->x7] FOLLOWED BY {x2=x5 AND x7=x8, 7 days}
  S//blog->x4[./author->x5][./category->x8];
CREATE QUERY Q3 AS
  S//blog->x4[./author->x5][./title->x6] FOLLOWED BY {x5=x5' AND x6=x6', 1 day}
  S//blog->x4'[./author->x5'][./title->x6'];
"""
D1 = (
    "<book><publisher>Wrox</publisher><author>Danny Ayers</author><author>Andrew Watt</author>"
    "<title>Beginning RSS and Atom Programming</title><category>Scripting &amp; Programming</category>"
    "<category>Web Site Development</category></book>"
)
D2 = (
    "<blog><url>http://example.org/</url><author>Danny Ayers</author>"
    "<title>Beginning RSS and Atom Programming</title><category>Book Announcement</category>"
    "<category>Scripting &amp; Programming</category></blog>"
)
NAMES = {
    "S//book": "x1",
    "S//book/author": "x2",
    "S//book/title": "x3",
    "S//blog": "x4",
    "S//blog/author": "x5",
    "S//blog/title": "x6",
    "S//book/category": "x7",
    "S//blog/category": "x8",
}


@pytest.fixture(scope="module")
def thesis(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Engine]:
    with xscl.connect(home=tmp_path_factory.mktemp("thesis"), spark=spark) as engine:
        assert all(outcome.ok for outcome in engine.load(QUERIES))
        engine.ingest([xscl.Event("S", "d1", 1, xml=D1), xscl.Event("S", "d2", 2, xml=D2)])
        engine.run_once()
        yield engine


def rows(engine: Engine, statement: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in engine.sql(statement).collect()]


def variables(engine: Engine) -> dict[str, str]:
    found = {var: NAMES[definition] for var, definition in rows(engine, "SELECT var, definition FROM variables")}
    assert sorted(found.values()) == sorted(NAMES.values())
    return found


def the_template(engine: Engine) -> Template:
    templates = engine.home.catalog.ask(read_template_use)
    assert [queries for _, queries, _ in templates] == [3], "Q1, Q2 and Q3 have one template"
    return templates[0][0]


def test_mmqjp_5_r_t(thesis: Engine) -> None:
    name = variables(thesis)
    columns = ", ".join(f"var{i}" for i in range(1, 7))
    found = rows(thesis, f"SELECT qid, {columns}, lo_1_2, hi_1_2 FROM rt_{the_template(thesis).id} ORDER BY qid")
    assert [(qid, *(name[str(v)] for v in rest[:6]), *rest[6:]) for qid, *rest in found] == [
        ("Q1", "x1", "x2", "x3", "x4", "x5", "x6", 1, 7 * DAY),
        ("Q2", "x1", "x2", "x7", "x4", "x5", "x8", 1, 7 * DAY),
        ("Q3", "x4", "x5", "x6", "x4", "x5", "x6", 1, DAY),
    ]


def test_mmqjp_5_r_bin(thesis: Engine) -> None:
    name = variables(thesis)
    found = rows(
        thesis, "SELECT id, var1, var2, node1, node2 FROM r_bin JOIN events USING (docid) ORDER BY id, node1, node2"
    )
    assert [(id_, name[str(v1)], name[str(v2)], n1, n2) for id_, v1, v2, n1, n2 in found] == [
        ("d1", "x1", "x2", 0, 2),
        ("d1", "x1", "x2", 0, 3),
        ("d1", "x1", "x3", 0, 4),
        ("d1", "x1", "x7", 0, 5),
        ("d1", "x1", "x7", 0, 6),
        ("d2", "x4", "x5", 0, 2),
        ("d2", "x4", "x6", 0, 3),
        ("d2", "x4", "x8", 0, 4),
        ("d2", "x4", "x8", 0, 5),
    ]


def test_mmqjp_5_r_doc(thesis: Engine) -> None:
    found = rows(thesis, "SELECT id, node, fn, strval, num FROM r_doc JOIN events USING (docid) ORDER BY id, node")
    assert found == [
        ("d1", 2, "", "Danny Ayers", None),
        ("d1", 3, "", "Andrew Watt", None),
        ("d1", 4, "", "Beginning RSS and Atom Programming", None),
        ("d1", 5, "", "Scripting & Programming", None),
        ("d1", 6, "", "Web Site Development", None),
        ("d2", 2, "", "Danny Ayers", None),
        ("d2", 3, "", "Beginning RSS and Atom Programming", None),
        ("d2", 4, "", "Book Announcement", None),
        ("d2", 5, "", "Scripting & Programming", None),
    ]


R_OUT = [("Q1", "d1", "d2", 0, 2, 4, 0, 2, 3), ("Q2", "d1", "d2", 0, 2, 5, 0, 2, 5)]


def r_out(engine: Engine, template: Template) -> list[tuple[object, ...]]:
    nodes = ", ".join(f"node{i}" for i in range(1, 7))
    return rows(
        engine,
        f"SELECT qid, a.id, b.id, {nodes} FROM rout_{template.id} "
        "JOIN events a ON a.docid = docid1 JOIN events b ON b.docid = docid2 ORDER BY qid",
    )


def test_mmqjp_5_r_out(thesis: Engine) -> None:
    assert r_out(thesis, the_template(thesis)) == R_OUT


@pytest.mark.parametrize(("where", "known"), [("driver", False), ("driver", True), ("spark", False)])
def test_gp10_new_queries_over_old_documents(spark: SparkSession, tmp_path: Path, where: Where, known: bool) -> None:
    """New queries over old documents, as in PSoup: the same rows as when the queries came first, on either
    side, and whether or not another query has asked for the patterns.
    """
    with xscl.connect(home=tmp_path / "home", spark=spark, settings=Settings(where)) as engine:
        if known:
            engine.load(QUERIES.replace("QUERY Q", "QUERY before"))
        engine.ingest([xscl.Event("S", "d1", 1, xml=D1), xscl.Event("S", "d2", 2, xml=D2)])
        engine.run_once()
        assert all(outcome.ok for outcome in engine.load(QUERIES.replace(";", " STARTING ALL;")))
        assert all(outcome.ok for outcome in engine.load(QUERIES.replace("QUERY Q", "QUERY after")))
        engine.run_once()
        (template,) = (template for template, _, _ in engine.home.catalog.ask(read_template_use))
        before = [("before" + qid[1:], *rest) for qid, *rest in R_OUT] if known else []
        assert r_out(engine, template) == R_OUT + before
        listed = [(match.query, [event.id for event in match.events]) for match in engine.matches()]
        assert [(query, *ids) for query, ids in listed] == [row[:3] for row in R_OUT + before]


def test_mmqjp_5_r_out_by_the_statement_on_spark_and_on_sqlite(thesis: Engine) -> None:
    template = the_template(thesis)
    id_of = dict(rows(thesis, "SELECT docid, id FROM events"))
    on_spark = rows(thesis, spark_text(cq_statement(template)))
    database = sa.create_engine("sqlite://")
    RELATIONS.create_all(database)
    rt = rt_table(template)
    rt.create(database)
    with database.begin() as connection:
        for table in (R_DOCTS, R_BIN, R_DOC, rt):
            held = [row.asDict() for row in thesis.sql(f"SELECT * FROM {table.name}").collect()]
            connection.execute(table.insert(), held)
        on_sqlite = [tuple(row) for row in connection.execute(cq_statement(template))]
    assert sorted(on_spark) == sorted(on_sqlite)
    assert sorted((q, id_of[a], id_of[b], *nodes) for q, _, a, b, *nodes in on_sqlite) == R_OUT


def test_mmqjp_5_two_matches_with_equal_output_documents(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from xscl.cli.app import main

    (tmp_path / "queries.xscl").write_text(QUERIES)
    lines = [{"channel": "S", "id": id_, "ts": ts, "xml": xml} for id_, ts, xml in (("d1", 1, D1), ("d2", 2, D2))]
    (tmp_path / "events.ndjson").write_text("\n".join(map(json.dumps, lines)))
    monkeypatch.setattr("sys.argv", ["xscl", "eval", str(tmp_path / "queries.xscl"), str(tmp_path / "events.ndjson")])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code in (0, None)
    q1, q2 = map(json.loads, capsys.readouterr().out.splitlines())
    assert (q1["query"], q2["query"]) == ("Q1", "Q2")
    assert q1["document"] == q2["document"] == f"<result>{D1}{D2}</result>"
    assert q1["ts"] == "1970-01-01T00:00:02Z"
    assert q1["events"] == [
        {"channel": "S", "id": "d1", "ts": "1970-01-01T00:00:01Z"},
        {"channel": "S", "id": "d2", "ts": "1970-01-01T00:00:02Z"},
    ]
    assert q1["nodes"] == {"x1": 0, "x4": 0}
    assert q1["values"]["x2"] == "Danny Ayers"
    assert q1["match"] != q2["match"]


# -- how many templates there are ------------------------------------------------------------------------------

Shape = tuple["Shape", ...]
"""A reduced tree: the shapes of the children; a leaf has none, an inner node two or more."""


def test_mmqjp_3_flat_template_counts() -> None:
    assert [len(flat_templates(k)) for k in (1, 2, 3, 4)] == [1, 3, 6, 16]


def test_mmqjp_3_complex_template_counts() -> None:
    assert [len(complex_templates(k)) for k in (1, 2, 3, 4)] == [1, 3, 16, 215]


def flat_templates(k: int) -> set[str]:
    """All templates of k value joins over flat schemas: a root with leaves on each side."""
    shapes = [(((),) * n if n > 1 else ()) for n in range(1, k + 1)]
    return {key for left, right in itertools.product(shapes, shapes) for key in keys(left, right, k)}


def complex_templates(k: int) -> set[str]:
    """All templates of k value joins over any schema."""
    shapes = [shape for n in range(1, k + 1) for shape in trees(n)]
    return {key for left, right in itertools.product(shapes, shapes) for key in keys(left, right, k)}


def trees(leaves: int) -> list[Shape]:
    """All reduced trees with so many leaves, children in a fixed order."""
    if leaves == 1:
        return [()]
    return [
        tuple(children)
        for sizes in partitions(leaves, leaves - 1)
        for children in {tuple(sorted(c)) for c in itertools.product(*(trees(size) for size in sizes))}
    ]


def partitions(total: int, most: int) -> Iterator[list[int]]:
    if total == 0:
        yield []
    for part in range(min(total, most), 0, -1):
        for rest in partitions(total - part, part):
            yield [part, *rest]


def keys(left: Shape, right: Shape, k: int) -> set[str]:
    """Template ids of all ways to join two trees by k edges that leave no leaf out."""
    vertices: list[Vertex] = []
    sides = [grow(vertices, block, -1, shape) for block, shape in enumerate((left, right))]
    found = set()
    for edges in itertools.combinations(list(itertools.product(*sides)), k):
        if {e[0] for e in edges} == set(sides[0]) and {e[1] for e in edges} == set(sides[1]):
            graph = JoinGraph(tuple(vertices), tuple(ValueJoin(a, b, "EQ") for a, b in edges))
            found.add(template_of(canonicalize(graph)).id)
    return found


def grow(vertices: list[Vertex], block: int, parent: int, shape: Shape) -> list[int]:
    """Add a tree's vertices; gives its leaves."""
    place = len(vertices)
    vertices.append(Vertex(block, parent, "v"))
    return [leaf for child in shape for leaf in grow(vertices, block, place, child)] or [place]
