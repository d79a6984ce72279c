"""The machine of all definitions: shared states, and tables that strangers' names do not fill."""

from __future__ import annotations

import pytest

from xscl.safexml import parse_xml
from xscl.xpath.automaton import Automaton, Move, WitnessSpec
from xscl.xpath.pattern import Comparison, Constant, Definition, Exists, Here, NodeTest, Step
from xscl.xpath.witness import match_document

A, B, C = (NodeTest("element", "", name) for name in "abc")
ANY = NodeTest("element", None, None)
X = Comparison(Here(), "=", Constant("x", is_number=False))


def path(*steps: tuple[str, NodeTest]) -> Definition:
    return Definition("S", tuple(Step(axis, test) for axis, test in steps))


def spec(definition: Definition) -> WitnessSpec:
    return WitnessSpec(definition, ("",), ((definition, definition),))


def automaton(*definitions: Definition) -> Automaton:
    return Automaton(map(spec, definitions))


def moves(machine: Automaton) -> list[Move]:
    return list(machine._moves.values())


def widest(machine: Automaton) -> int:
    return max(len(move.next) for move in moves(machine))


def test_equal_prefixes_are_one_state() -> None:
    machine = automaton(
        path(("descendant", A), ("child", B)), path(("descendant", A), ("child", C)), path(("descendant", A))
    )
    assert len(machine.states) == 4
    assert [state.parent for state in machine.states] == [-1, 0, 1, 1]


def test_other_conditions_are_another_state() -> None:
    plain, conditioned = Step("child", A), Step("child", A, (X,))
    machine = automaton(Definition("S", (plain,)), Definition("S", (conditioned,)))
    assert len(machine.states) == 3
    assert len({state.key for state in machine.states}) == 3


def test_conditions_on_the_document_node_are_another_root() -> None:
    below = Exists(Step("descendant", B))
    machine = automaton(Definition("S", (Step("child", A),)), Definition("S", (Step("child", A),), (below,)))
    assert [state.parent for state in machine.states] == [-1, 0, -1, 2]


def test_channels_nobody_reads() -> None:
    machine = automaton(path(("child", A)))
    assert machine.start("T") is None
    assert match_document(machine, "T", parse_xml("<a/>")) == []
    assert machine.start("S") is not None


def test_dead_parts_are_not_entered() -> None:
    machine = automaton(path(("child", A), ("child", B)))
    start = machine.start("S")
    assert start is not None
    assert machine.enter(start, "c").dead
    assert not machine.enter(start, "a").dead


MANY = automaton(
    path(("descendant", A)),
    Definition("S", (Step("descendant", ANY, (Exists(Step("child", B)),)), Step("descendant", C))),
    path(("child", ANY), ("descendant", NodeTest("attribute", "", "k"))),
)


def test_names_of_strangers_do_not_fill_the_tables() -> None:
    before = None
    for number in range(20_000):
        name = f"e{number}"
        content = f"<a><b/><{name}><c k='{number}'/></{name}></a>"
        rows = match_document(MANY, "S", parse_xml(f"<{name} {name}='1'>{content}</{name}>"))
        assert len(rows) == 3
        if number == 10:
            before = len(moves(MANY)), widest(MANY)
    assert (len(moves(MANY)), widest(MANY)) == before
    assert widest(MANY) <= 4


def test_namespaces_of_strangers_do_not_fill_the_tables() -> None:
    machine = automaton(path(("descendant", NodeTest("element", "urn:n", "a"))))
    for number in range(1_000):
        match_document(machine, "S", parse_xml(f"<a xmlns='urn:{number}'><b{number} xmlns='urn:n'/></a>"))
    assert widest(machine) <= 2


@pytest.mark.parametrize(
    ("test", "name"),
    [(NodeTest("element", None, "a"), "{{urn:{}}}a"), (NodeTest("element", "urn:n", None), "{{urn:n}}{}")],
)
def test_names_that_wildcards_match_do_not_fill_the_tables(test: NodeTest, name: str) -> None:
    machine = automaton(path(("descendant", test)))
    start = machine.start("S")
    assert start is not None
    for number in range(1_000):
        assert not machine.enter(start, name.format(f"n{number}")).dead
    assert widest(machine) <= 10
