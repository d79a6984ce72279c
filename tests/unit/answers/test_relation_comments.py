"""Every relation and every column has a comment, and the page of relations has the same ones."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

import xscl
from xscl.answers.sql.comments import RELATIONS, column_comment, relation_comment
from xscl.answers.sql.guard import judge
from xscl.answers.sql.relation_steps import RELATION_NAMES, relation_steps
from xscl.answers.sql.relations import home_relations
from xscl.answers.sql.steps import Needs
from xscl.engine import Engine
from xscl.store.home import init_home

ROOT = Path(__file__).resolve().parents[3]


def test_every_column_of_every_relation(tmp_path: Path) -> None:
    engine = Engine(init_home(tmp_path / "home"))
    engine.register("S//a->x[./b->y] JOIN {x <= 2 * z + 1 AND y = u, 1 h} T//c->z[./d->u]", name="pair")
    engine.register("S//a", name="one")
    engine.ingest([xscl.Event("S", "1", 1, xml="<a/>"), xscl.Event("r", "1", 1, row={"id": 1, "price": 2.5})])
    engine.ingest([xscl.Event("items", "1", 1, xml="<item><title>t</title></item>")])
    with home_relations(engine.home) as relations:
        assert len(relations.listed) > len(RELATION_NAMES) + 4
        for name in sorted(relations.listed):
            assert relation_comment(name), name
            _, steps = relations.steps(judge(f"SELECT * FROM {name}", relations.names))
            for column in (text.strip("`") for text in steps[name][-1].columns):
                assert column_comment(name, column, relations.view(name)), (name, column)
    assert column_comment("rt_t", "hi_1_2") == "greatest time from block 1 to block 2, microseconds; 2^62: no bound"


def test_no_comment_on_what_is_not_there() -> None:
    assert set(RELATIONS) == set(RELATION_NAMES)
    for name, (_, columns) in RELATIONS.items():
        assert not columns.keys() - set(relation_steps(name, Needs(), {})[-1].columns), name


def test_the_page_has_the_same_comments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "tools"))
    relations = importlib.import_module("relations")
    written = relations.PAGE.read_text(encoding="utf-8")
    assert relations.page(written) == written, "docs/tools/relations.py --write"
