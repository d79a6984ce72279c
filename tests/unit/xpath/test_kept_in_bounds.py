"""Definitions that come and go leave nothing behind; what is not asked for is not read."""

from __future__ import annotations

from typing import Any

import pytest
from local_engine import compiled
from patterns import plain_spec

from xscl.base.errors import DocumentLimitError
from xscl.base.safe_xml import parse_xml
from xscl.xpath.automaton import chains
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.automaton.states import WitnessSpec
from xscl.xpath.conditions import condition
from xscl.xpath.conditions.condition import Memo
from xscl.xpath.conditions.predicates import PredicateIndex
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.guards import Guards
from xscl.xpath.nodes import Node
from xscl.xpath.pattern import Axis, Comparison, Constant, Definition, Exists, Here, NodeTest, Step

B = NodeTest("element", "", "b")
ABOVE = Comparison(Here(), ">", Constant("1", is_number=True))


def test_conditions_go_with_the_last_state_that_has_them() -> None:
    guards = Guards()
    (number,) = {guards.add(test, (ABOVE,)) for test in (1, 2, 2)}
    root = parse_xml("<a>2</a>")
    for test, rest in ((2, {1, 2}), (1, {2}), (2, set())):
        guards.remove(test, number)
        assert {each for each in (1, 2) if guards.holding(None, [each], root, Memo())} == rest
        assert (guards.number((ABOVE,)) == number) == bool(rest)


CONTAINS = [f"[contains(./t, 'w{n}')][contains(lower(./d), 'W{n}')]" for n in range(50)]
TEXTS_READ = [
    (CONTAINS, 2),
    ([f"[./t != 'w{n}' or contains(./d/*, 'w')]" for n in range(50)], 3),
    ([f"[string-length(normalize-space(.)) > {n}][count(./x[contains(., 'w{n}')]) = 0]" for n in range(50)], 1),
    ([f"[./t[contains(., 'w{n}')]]" for n in range(50)], 1),
]


@pytest.mark.parametrize(("brackets", "most"), TEXTS_READ)
def test_a_text_is_read_once_a_node_however_many_conditions_ask_for_it(
    brackets: list[str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs = [spec for each in brackets for spec in compiled(f"S/i{each}").specs]
    machine, read = Automaton(specs), 0
    plain = condition.string_value

    def counted(node: Node) -> str:
        nonlocal read
        read += 1
        return plain(node)

    monkeypatch.setattr(condition, "string_value", counted)
    root = parse_xml("<i><t>w1 w7</t><d>x <b>w7</b></d></i>")
    found = len(match_document(machine, "S", root))
    assert 0 < read <= most
    monkeypatch.setattr(condition, "string_value", plain)
    alone = sum(len(match_document(Automaton([spec]), "S", root)) for spec in specs)
    assert found == alone


@pytest.mark.parametrize("kind", ["element", "attribute"])
def test_a_namespace_that_looks_like_none(kind: str) -> None:
    test = NodeTest(kind, "?", None)  # type: ignore[arg-type]
    machine = Automaton([plain_spec(Definition("S", (Step("descendant", test),)))])
    for text in ('<r xmlns:q="?" {} ><z:a xmlns:z="urn:z" z:k=""/><q:a q:k=""/></r>', '<q:r xmlns:q="?" q:k="" />'):
        rows = match_document(machine, "S", parse_xml(text.format("")))
        assert len(rows) == 1


def test_a_chain_stops_growing_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chains, "MAX_CHAIN_ENTRIES", 100)
    x, leaf, beside = (Step("descendant", NodeTest("element", "", name)) for name in ("x", "l", "a"))
    upper, lower, hanging = (Definition("S", steps) for steps in ((x,), (x, leaf), (x, beside)))
    machine = Automaton([WitnessSpec(lower, ("",), ((upper, lower), (upper, hanging)), ((upper, hanging),))])
    found: list[int] = []
    descend = chains._descend

    def counted(*args: Any) -> set[int]:
        found.extend(nodes := descend(*args))
        return nodes

    monkeypatch.setattr(chains, "_descend", counted)
    with pytest.raises(DocumentLimitError):
        match_document(machine, "S", parse_xml("<x>" * 50 + "<l/>" + "<a/>" * 20 + "</x>" * 50))
    assert len(found) == 120


@pytest.mark.parametrize("axis", ["child", "descendant"])
def test_values_are_not_read_where_only_nodes_are_asked_for(monkeypatch: pytest.MonkeyPatch, axis: Axis) -> None:
    index = PredicateIndex[int]()
    index.add((Exists(Step(axis, B)),), 1)
    monkeypatch.setattr(condition, "string_value", lambda _: pytest.fail("a string value is read"))
    assert index.satisfied(parse_xml("<a><b>1</b><b>2</b></a>"), Memo()) == {1}
    assert index.satisfied(parse_xml("<a><c>1</c></a>"), Memo()) == set()


@pytest.mark.parametrize("axis", ["child", "descendant"])
def test_values_are_read_again_once_one_is_asked_for(axis: Axis) -> None:
    index = PredicateIndex[int]()
    index.add((Exists(Step(axis, B)),), 1)
    index.add((Exists(Step(axis, B, (ABOVE,))),), 2)
    assert index.satisfied(parse_xml("<a><b>1</b><b>2</b></a>"), Memo()) == {1, 2}
    assert index.satisfied(parse_xml("<a><b>1</b></a>"), Memo()) == {1}
    index.remove(1)
    assert index.satisfied(parse_xml("<a><b>2</b></a>"), Memo()) == {2}
