"""What the planner compiles, keeps and writes; no Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from xscl.base.types import Event
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import NEVER, statements
from xscl.intake.intake import Intake
from xscl.language import forms as prepared
from xscl.planning import group_forms as planning
from xscl.planning.planner import Planner
from xscl.planning.subscribers import Subscribers
from xscl.registry.registry import Registry
from xscl.store.home import Home, open_home
from xscl.templates.program_files import load_program
from xscl.xpath.spec_files import load_automaton

TEXTS = ["S//a", "S//a->x JOIN {x = y, 1 h} S//b->y", "S//a->x JOIN {x = y, 2 h} S//b->y", "S//c->x[./d]"]


@pytest.fixture
def planner(home: Home) -> Iterator[Planner]:
    opened = Planner(home.catalog, home.folder("programs"))
    yield opened
    opened.close()


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Texts that the planner compiles, in order."""
    found: list[str] = []
    parse_query = planning.parse_query

    def counted(text: str) -> object:
        found.append(text)
        return parse_query(text)

    # Where groups of one instance are compiled together, the forms of texts parse.
    monkeypatch.setattr(planning, "parse_query", counted)
    monkeypatch.setattr(prepared, "parse_query", counted)
    return found


def test_the_first_document_of_a_channel_compiles_only_queries_again_that_ask_for_its_kind(
    home: Home, planner: Planner, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    read_all = Subscribers._read_all
    monkeypatch.setattr(Subscribers, "_read_all", lambda *of: (read.append(of[-1]), read_all(*of))[1])
    asking = ["S//*->x JOIN {x = y, 1 h} S//b->y", "S//b->x JOIN {x = y, 1 h} T//b->y"]
    Registry(home.catalog).register_many([*TEXTS, *asking])
    assert planner.plan(1, NEVER - 1) is not None
    compiled.clear()
    Intake(home).take([Event("S", "1", 1, xml="<a/>")])
    assert planner.plan(1, NEVER - 1) is not None
    assert sorted(compiled) == asking
    assert len(read) == 1, "no query is in another group"


def test_only_new_groups_are_compiled_and_dropped_ones_forgotten(
    home: Home, planner: Planner, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "_PART", 2)
    registry = Registry(home.catalog)
    registry.register_many([*TEXTS[:3], TEXTS[0]])
    assert planner.plan(1, NEVER - 1) is not None
    assert sorted(compiled) == sorted(TEXTS[:2])  # the third differs in its window from the second, and is filled in
    registry.register(TEXTS[3])
    registry.drop("q2")
    assert planner.plan(100, NEVER - 1) is not None
    assert compiled[2:] == TEXTS[3:]
    alive = {info.gid for info in home.catalog.ask(read_queries)}
    assert set(planner._groups) == alive
    assert set(planner._program.groups) == alive


@pytest.mark.parametrize("step", ["_stale", "_bundle", "_split"])
def test_a_plan_that_was_stopped_half_way_is_made_anew(
    home: Home, planner: Planner, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    registry = Registry(home.catalog)
    registry.register_many(TEXTS[:2])
    assert planner.plan(1, NEVER - 1) is not None
    registry.register_many(TEXTS[2:])

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(Planner, step, stop)
        planner.plan(100, NEVER - 1)
    plan = planner.plan(100, NEVER - 1)
    assert plan is not None and set(plan.groups) == {info.gid for info in home.catalog.ask(read_queries)}


def test_workers_are_told_what_changes(home: Home, planner: Planner) -> None:
    registry = Registry(home.catalog)
    registry.register_many(TEXTS[:3])
    plan = planner.plan(1, NEVER - 1)
    assert plan is not None and planner.plan(2, NEVER - 1) == plan
    first = plan.specs_path, plan.program_path
    assert (plan.specs_path, plan.program_path) == first
    automaton, program = load_automaton(str(first[0])), load_program(str(first[1]))
    registry.register(TEXTS[3])
    plan = planner.plan(100, NEVER - 1)
    assert plan is not None
    second = plan.specs_path, plan.program_path
    assert not set(second) & set(first)
    assert load_automaton(str(second[0])) is automaton
    assert load_program(str(second[1])) is program
    assert program.groups == plan.program.groups
    # A program that opens a folder of its own starts from the whole.
    planner.close()
    assert not second[0].exists()
    plan = planner.plan(100, NEVER - 1)
    assert plan is not None
    other = load_automaton(str(plan.specs_path))
    assert other is not automaton and other.size().states == automaton.size().states


def test_nothing_is_written_unless_it_is_asked_for(home: Home, planner: Planner) -> None:
    Registry(home.catalog).register_many(TEXTS)
    assert planner.plan(1, NEVER - 1) is not None
    assert not list(home.folder("programs").iterdir())


def test_what_another_process_registers_and_drops_is_seen(home: Home, planner: Planner) -> None:
    other = open_home(home.root)
    registry = Registry(other.catalog)
    assert planner.plan(1, 2) is None
    registry.register_many([TEXTS[0], TEXTS[1], TEXTS[0]])
    plan = planner.plan(2, 5)
    assert plan is not None
    assert {(live.first, live.last) for live in plan.program.groups.values()} == {(1, NEVER), (2, NEVER)}
    registry.drop("q1")
    registry.drop("q2")
    # The range begins before both drops, which are places 4 and 5, then between them.
    assert planner.plan(3, 5) is not None
    assert {(live.first, live.last) for live in plan.program.groups.values()} == {(1, NEVER), (2, 5)}
    assert planner.plan(4, 6) is not None
    assert {(live.first, live.last) for live in plan.program.groups.values()} == {(3, NEVER), (2, 5)}
    assert planner.plan(5, 6) is not None
    assert {(live.first, live.last) for live in plan.program.groups.values()} == {(3, NEVER)}
    registry.drop("q3")
    assert planner.plan(6, 8) is None
    other.catalog.close()
