"""What the planner compiles, keeps and writes; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xscl import batch
from xscl.batch import Planner
from xscl.home import Home, init_home
from xscl.registry import Registry
from xscl.tables import NEVER
from xscl.xpath.worker import load_automaton

TEXTS = ["S//a", "S//a->x JOIN {x = y, 1 h} S//b->y", "S//a->x JOIN {x = y, 2 h} S//b->y", "S//c->x[./d]"]


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    opened = init_home(tmp_path / "home")
    yield opened
    opened.catalog.close()


@pytest.fixture
def planner(home: Home) -> Iterator[Planner]:
    opened = Planner(home)
    yield opened
    opened.close()


def test_only_new_groups_are_compiled_and_dropped_ones_forgotten(
    home: Home, planner: Planner, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []
    compile_query = batch.compile_query

    def counted(query: object, text: str, **given: object) -> object:
        compiled.append(text)
        return compile_query(query, text, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(batch, "compile_query", counted)
    monkeypatch.setattr(batch, "_IN", 2)
    registry = Registry(home.catalog)
    registry.register_many([*TEXTS[:3], TEXTS[0]])
    assert planner.plan(1, NEVER - 1) is not None
    assert sorted(compiled) == sorted(TEXTS[:3])
    registry.register(TEXTS[3])
    registry.drop("q2")
    assert planner.plan(100, NEVER - 1) is not None
    assert compiled[3:] == TEXTS[3:]
    alive = {info.gid for info in home.catalog.queries()}
    assert set(planner._compiled) == alive


def test_equal_sets_of_specs_have_one_file(tmp_path: Path) -> None:
    names = set()
    for order in (1, -1):
        home = init_home(tmp_path / f"home{order}")
        Registry(home.catalog).register_many(TEXTS[::order])
        planner = Planner(home)
        plan = planner.plan(1, NEVER - 1)
        assert plan is not None
        load_automaton(str(plan.specs_path))
        names.add(plan.specs_path.name)
        planner.close()
        home.catalog.close()
    assert len(names) == 1
