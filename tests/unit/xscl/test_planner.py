"""What the planner compiles, keeps and writes; no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from xscl import planner as planning
from xscl.home import Home, init_home
from xscl.planner import Planner
from xscl.registry import Registry
from xscl.tables import NEVER
from xscl.xpath.spec_files import load_automaton

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
    compile_query = planning.compile_query

    def counted(query: object, text: str, **given: object) -> object:
        compiled.append(text)
        return compile_query(query, text, **given)  # type: ignore[arg-type]

    monkeypatch.setattr(planning, "compile_query", counted)
    monkeypatch.setattr(planning, "_IN", 2)
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


def test_workers_are_told_what_changes(home: Home, planner: Planner) -> None:
    registry = Registry(home.catalog)
    registry.register_many(TEXTS[:3])
    first = planner.plan(1, NEVER - 1)
    assert first is not None and planner.plan(2, NEVER - 1) == first
    automaton = load_automaton(str(first.specs_path))
    registry.register(TEXTS[3])
    second = planner.plan(100, NEVER - 1)
    assert second is not None and second.specs_path != first.specs_path
    assert load_automaton(str(second.specs_path)) is automaton
    # A program that opens a folder of its own starts from the whole.
    planner.close()
    third = planner.plan(100, NEVER - 1)
    assert third is not None and not first.specs_path.exists()
    other = load_automaton(str(third.specs_path))
    assert other is not automaton and other.size().states == automaton.size().states
