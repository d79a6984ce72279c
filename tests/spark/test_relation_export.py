"""Exported relations, on which the printed statement of a query finds the engine's answers."""

from __future__ import annotations

from pathlib import Path

import pytest

import xscl
from xscl.answers.explaining.templates import template_sql_text
from xscl.answers.sql.export import VIEWS_FILE, chosen_relations, export_relations
from xscl.catalog.queries import read_query
from xscl.engine import Engine
from xscl.templates.statements.dialect import Dialect

SAME = "S//book->b[./author->a] FOLLOWED BY {a = c, 1 min} S//blog->g[./author->c]"


def test_the_printed_statement_runs_on_exported_relations(engine: Engine, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    engine.register(SAME, name="same")
    engine.register(SAME.replace("1 min", "10 s"), name="soon")
    for n in range(6):
        kind = "blog" if n % 2 else "book"
        engine.ingest([xscl.Event("S", f"d{n}", 8 * n, xml=f"<{kind}><author>Ann {n // 4}</author></{kind}>")])
    engine.ingest([xscl.Event("prices", "p", 1, row={"sym": "IBM", "price": 1.5, "note": None})])
    engine.run_once()
    catalog = engine.home.catalog
    template = catalog.ask(read_query, "same").template
    names = chosen_relations(engine.home, ["r_*", "rt_*", "queries", "ch_prices", "late"])
    written = {}
    for target in (tmp_path / "folder", tmp_path / "home.duckdb"):
        written[target.name] = dict(
            export_relations(names, lambda name: engine.sql(f"SELECT * FROM {name}").toArrow(), target)
        )
        with pytest.raises(xscl.EngineError, match="XSCL_CANNOT_WRITE"):
            list(export_relations(names, lambda name: pytest.fail(name), target))
    assert written["folder"] == written["home.duckdb"]
    assert set(written["folder"]) == set(names) and written["folder"]["r_docts"] == 7
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith(".")) == []
    of_engine = {
        name: {tuple(row) for row in engine.sql(f"SELECT * FROM rout_{template} WHERE qid = '{name}'").collect()}
        for name in ("same", "soon")
    }
    assert len(of_engine["same"]) > len(of_engine["soon"]) > 0
    with duckdb.connect(str(tmp_path / "home.duckdb")) as database, duckdb.connect() as other:
        views = (tmp_path / "folder" / VIEWS_FILE).read_text(encoding="utf-8")
        other.execute(views.replace("read_parquet('", f"read_parquet('{tmp_path / 'folder'}/"))
        columns = engine.sql(f"SELECT * FROM rout_{template} LIMIT 0").columns
        for name, expected in of_engine.items():
            own = template_sql_text(catalog, template, name, Dialect.duckdb)
            of_all = template_sql_text(catalog, template, None, Dialect.duckdb)
            for one in (database, other):
                found = one.execute(own)
                places = [[each[0] for each in found.description].index(column) for column in columns if column in own]
                rows = {tuple(row[place] for place in places) for row in found.fetchall()}
                kept = [place for place, column in enumerate(columns) if column in own]
                assert rows == {tuple(row[place] for place in kept) for row in expected}
                assert {row for row in one.execute(of_all).fetchall() if row[0] == name} == set(
                    one.execute(own).fetchall()
                )
        asked = "SELECT comment FROM duckdb_columns() WHERE table_name = 'queries' AND column_name = 'qid'"
        assert database.execute(asked).fetchall() == [("name of the query",)]
        assert database.execute("SELECT sym, price, note FROM ch_prices").fetchall() == [("IBM", 1.5, None)]


def test_a_pattern_that_fits_nothing(engine: Engine) -> None:
    with pytest.raises(xscl.EngineError, match="XSCL_BAD_OPTION"):
        chosen_relations(engine.home, ["nothing*"])


def test_the_printed_statement_joins_replayed_events(engine: Engine) -> None:
    engine.add_channel("S", lateness="0 s")
    engine.register("S//book->b[./author->a] JOIN {a = c, UNBOUNDED} S//blog->g[./author->c]", name="joined")
    for name, ts, kind in (("d0", 50, "book"), ("d1", 10, "blog"), ("d2", 60, "blog")):
        engine.ingest([xscl.Event("S", name, ts, xml=f"<{kind}><author>Ann</author></{kind}>")])
    engine.run_once()
    assert answers(engine, "joined") == {(2, 4)}
    engine.replay_late(ids=["d1"])
    # A replay that waits has joined nothing.
    assert answers(engine, "joined") == {(2, 4)}
    engine.run_once()
    assert answers(engine, "joined") == {(2, 3), (2, 4)}


def test_the_printed_statement_sees_what_was_retained_at_the_registration(engine: Engine) -> None:
    engine.add_channel("S", retention="20 s", lateness="0 s")
    # This query keeps every book, also those that the channel retains no more.
    engine.register("S//book->b[./author->a] JOIN {a = c, 1 h} S//blog->g[./author->c]", name="keeps")
    for number in range(4):
        engine.ingest([xscl.Event("S", f"d{number}", 10 * number, xml="<book><author>Ann</author></book>")])
    engine.run_once()
    engine.register("S//book->b[./author->a] JOIN {a = c, 1 h} S//blog->g[./author->c] STARTING ALL", name="all")
    engine.ingest([xscl.Event("S", "d4", 40, xml="<blog><author>Ann</author></blog>")])
    engine.run_once()
    kept = {docid for docid, _ in answers(engine, "keeps")}
    first = min(kept)
    assert kept == {first, first + 1, first + 2, first + 3}
    assert {docid for docid, _ in answers(engine, "all")} == {first + 1, first + 2, first + 3}


def answers(engine: Engine, query: str) -> set[tuple[int, int]]:
    """The documents that the printed statements find, of the query alone and of its template, as matches have them."""
    template = engine.home.catalog.ask(read_query, query).template
    own = template_sql_text(engine.home.catalog, template, query, Dialect.spark)
    of_all = (
        f"SELECT * FROM ({template_sql_text(engine.home.catalog, template, None, Dialect.spark)}) WHERE qid = '{query}'"
    )
    matches = f"SELECT docids[0] AS docid1, docids[1] AS docid2 FROM matches WHERE qid = '{query}'"
    found = [
        {tuple(row) for row in engine.sql(text).select("docid1", "docid2").collect()} for text in (own, of_all, matches)
    ]
    assert found[0] == found[1] == found[2]
    return found[0]
