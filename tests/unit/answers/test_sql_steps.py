"""Steps of relations as text: what a statement needs, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from xscl.answers.sql_relations import steps_text
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
    assert text.startswith("with\n-- ") and text.endswith("batch from matches;")
    flow = ["held_events", "documents", "members", "grouped_members", "combinations"]
    assert steps(text) == [*flow, "group_rows", "subscribers", "classes", "found", "matches"]
    assert "-- documents: origin, class, first, last, docs\n" in text
    (template,) = home.catalog.ask(read_templates)
    several = steps_text(home, f"SELECT * FROM r_doc JOIN rout_{template.id} ON true")
    assert several.count("\nwith\n") == 1 and steps(several)[0] == "held_witness"


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
