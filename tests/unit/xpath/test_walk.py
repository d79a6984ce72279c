"""What a walk does for states with conditions: nothing for those that lead elsewhere."""

from __future__ import annotations

import tracemalloc

import pytest
from lxml import etree
from patterns import Patterns, plain_spec, walk
from patterns import document as random_document
from strategies import Dice
from xpath_oracle import Law, Numbered

from xscl.base.safe_xml import parse_xml
from xscl.xpath.automaton import walk as module
from xscl.xpath.automaton.automaton import Automaton
from xscl.xpath.automaton.states import Branch
from xscl.xpath.automaton.walk import Ahead
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.pattern import Axis, Call, Comparison, Constant, Definition, Here, NodeTest, Step, exists_chain

K = NodeTest("attribute", "", "k")


def element(name: str) -> NodeTest:
    return NodeTest("element", "", name)


def above(number: int) -> Step:
    """``//a[@k > -number]``"""
    bound = Comparison(Here(), ">", Constant(str(-number), is_number=True))
    return Step("descendant", element("a"), (exists_chain((Step("child", K),), (bound,)),))


@pytest.mark.parametrize("axis", ["child", "descendant"])
def test_open_states_that_lead_elsewhere_are_not_looked_at(monkeypatch: pytest.MonkeyPatch, axis: Axis) -> None:
    looked = 0
    ways = Ahead.ways

    def counted(self: Ahead, tests: tuple[int, ...]) -> list[tuple[Branch, int]]:
        nonlocal looked
        found = ways(self, tests)
        looked += len(found)
        return found

    monkeypatch.setattr(Ahead, "ways", counted)
    count = 500
    machine = Automaton(
        plain_spec(Definition("S", (above(number), Step(axis, element(f"e{number}"))))) for number in range(count)
    )
    rows = match_document(machine, "S", parse_xml(f"<r><a k='1'>{'<b><c/></b>' * 50}<e7/><e9 k=''/></a><e8/></r>"))
    assert len(rows) == 2
    assert looked == 2


@pytest.mark.parametrize("wide", [0, 1, 64])
def test_states_with_few_and_many_next_steps(monkeypatch: pytest.MonkeyPatch, wide: int) -> None:
    monkeypatch.setattr(module, "_WIDE", wide)
    choose = Dice(wide)
    texts = [random_document(choose, depth=6) for _ in range(8)]
    elements = [found for text in texts for found in parse_xml(text).iter(etree.Element)]
    patterns = Patterns(choose)
    specs = patterns.specs(80) + [patterns.spec(walk(choose, elements)) for _ in range(40)]
    # One state with more next steps than any document has names.
    tests = [*map(element, "abcd"), K, NodeTest("text"), *(element(f"e{number}") for number in range(100))]
    specs += [plain_spec(Definition("S", (above(9), Step(choose.one("child", "descendant"), test)))) for test in tests]
    specs = list(dict.fromkeys(specs))
    law, machine = Law(specs), Automaton(specs)
    for text in texts:
        law.check(Numbered(parse_xml(text)), match_document(machine, "S", parse_xml(text)))


@pytest.mark.parametrize("functions", [(), ("lower",), ("normalize-space", "lower")])
def test_texts_of_nested_elements_are_not_all_kept(functions: tuple[str, ...]) -> None:
    """A hundred elements around one text have it a hundred times."""
    depth, size = 100, 1_000_000
    value: Here | Call = Here()
    for name in functions:
        value = Call(name, (value,))
    condition = Comparison(value, "=", Constant("z", is_number=False))
    step = Step("descendant", NodeTest("element", "", "a"), (condition,))
    machine = Automaton([plain_spec(Definition("S", (step,)))])
    document = parse_xml("<a>" * depth + "X" * size + "</a>" * depth)
    tracemalloc.start()
    try:
        match_document(machine, "S", document)
        assert tracemalloc.get_traced_memory()[1] < 60 * size
    finally:
        tracemalloc.stop()
