"""Steps of relations as text: what a statement needs, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from xscl.answers.sql.relations import steps_text
from xscl.base.errors import EngineError
from xscl.base.types import Event
from xscl.catalog.groups import read_templates
from xscl.engine import connect
from xscl.store.home import Home, open_home

PAIRS = "S//a->x[./k->p] FOLLOWED BY {p = q, 1 h} S//a->y[./k->q]"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    with connect(home=tmp_path / "home") as engine:
        engine.register(PAIRS, name="Q")
        engine.ingest([Event("S", str(n), n, xml="<i><a><k>v</k></a></i>") for n in range(3)])
        engine.run_once()
    return open_home(tmp_path / "home")


def steps(text: str) -> list[str]:
    return [line.partition(" as (")[0] for line in text.splitlines() if line.endswith(" as (")]


def test_a_relation_is_one_with_statement(home: Home) -> None:
    text = steps_text(home, "SELECT * FROM matches")
    number, text = text.split("\n", 1)
    assert number.startswith(f"-- {1 << 62} is 2^62, ") and str(1 << 62) in text
    assert text.startswith("with\n-- ") and text.endswith("batch from matches;")
    flow = ["held_events", "documents", "members", "grouped_members", "combinations"]
    assert steps(text) == [*flow, "group_rows", "subscribers", "classes", "found", "matches"]
    assert "-- documents: origin, class, first, last, docs\n" in text
    (template,) = home.catalog.ask(read_templates)
    several = steps_text(home, f"SELECT * FROM r_doc JOIN rout_{template.id} ON true")
    assert several.count("\nwith\n") == 2 and steps(several)[0] == "held_witness"


def test_steps_that_a_statement_does_not_need_are_left_out(home: Home) -> None:
    few = ["documents", "combinations", "group_rows", "subscribers", "classes", "found", "matches"]
    assert steps(steps_text(home, "SELECT qid, nodes, docids FROM matches")) == few
    counted = steps(steps_text(home, "SELECT qid, count(*) FROM matches GROUP BY qid"))
    assert "class_sizes" in counted and "combinations" not in counted
    with connect(home=home.root) as engine:
        engine.register("S//a STARTING '1970-01-01T00:00:04Z'", name="timed")
    assert "admitted" in steps(steps_text(home, "SELECT qid FROM matches"))


def test_a_statement_that_writes_has_no_steps(home: Home) -> None:
    with pytest.raises(EngineError, match="begins no statement that reads"):
        steps_text(home, "DROP TABLE matches")


def test_a_column_that_no_relation_has_is_refused(home: Home) -> None:
    for statement, name in (
        ("SELECT docid FROM matches", "docids"),
        ("SELECT m.Qidd FROM matches m", "qid"),
        ("WITH t AS (SELECT qid AS a FROM matches WHERE bach = 1) SELECT a FROM t", "batch"),
    ):
        with pytest.raises(EngineError, match=rf"there is no column '\w+' in matches; did you mean {name}\?"):
            steps_text(home, statement)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT QID, m.batch AS b FROM matches AS m ORDER BY b",
        "WITH t (a) AS (SELECT qid FROM matches) SELECT a FROM t",
        "SELECT d.n FROM (SELECT count(*) AS n FROM matches) d",
        "SELECT col FROM (SELECT explode(docids) FROM matches)",
        "SELECT e FROM matches LATERAL VIEW explode(docids) t AS e",
        "SELECT s.f FROM (SELECT named_struct('f', qid) AS s FROM matches)",
        "SELECT transform(docids, d -> d + 1), current_date, ts_min + INTERVAL 1 DAY FROM matches",
        "SELECT timestampdiff(HOUR, ts_min, ts_max), extract(YEAR FROM ts_min) FROM matches",
        "SELECT `count(1)` FROM (SELECT count(1) FROM matches)",
        "SHOW COLUMNS IN matches",
    ],
)
def test_names_that_a_statement_makes_are_known(home: Home, statement: str) -> None:
    steps_text(home, statement)
