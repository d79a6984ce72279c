"""An automaton that grows and shrinks while documents are matched answers as one made for its present specs."""

from __future__ import annotations

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from patterns import Patterns, documents, family, family_document, plain_spec, spec_sets, walk
from patterns import document as random_document
from strategies import Choices, Dice
from xpath_oracle import Law, Numbered, witness_rows_of

from xscl.base.safe_xml import parse_xml
from xscl.base.values import value_hash
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.document_witnesses import match_document
from xscl.xpath.pattern import Definition, NodeTest, Step


def same_as_fresh(machine: Automaton, specs: list[WitnessSpec], texts: list[str]) -> int:
    """Compare with an automaton of the specs alone; how many rows there were."""
    fresh = Automaton(specs)
    count = 0
    for text in texts:
        wanted = witness_rows_of(match_document(fresh, "S", parse_xml(text)))
        assert witness_rows_of(match_document(machine, "S", parse_xml(text))) == wanted
        count += len(wanted)
    return count


def test_none_at_first() -> None:
    machine = Automaton()
    assert match_document(machine, "S", parse_xml("<a/>")) == []
    spec = plain_spec(Definition("S", (Step("child", NodeTest("element", "", "a")),)))
    machine.add(spec)
    (row,) = match_document(machine, "S", parse_xml("<a>x</a>"))
    assert (row.node, row.value, row.hash) == (0, "x", value_hash("x"))
    machine.remove(spec)
    assert match_document(machine, "S", parse_xml("<a/>")) == []


def test_what_one_spec_adds_to_a_definition_goes_with_it() -> None:
    a, b, c = (Step("descendant", NodeTest("element", "", name)) for name in "abc")
    upper, lower, beside = Definition("S", (a,)), Definition("S", (a, b)), Definition("S", (a, c))
    plain = WitnessSpec(lower, ("",), ((lower, lower),))
    more = WitnessSpec(lower, ("number", None), ((upper, lower), (upper, beside)), ((upper, beside),))
    machine = Automaton([plain, more])
    text = "<a><a><b>1</b></a><c>x</c></a>"
    (both,) = (row for row in match_document(machine, "S", parse_xml(text)) if row.function == "number")
    assert len(both.chain) == 4
    machine.remove(more)
    (row,) = match_document(machine, "S", parse_xml(text))
    assert (row.function, row.chain) == ("", ((lower.key, lower.key, 2, 2),))
    machine.add(more)
    assert same_as_fresh(machine, [plain, more], [text]) == 3
    machine.remove(plain)
    assert same_as_fresh(machine, [more], [text]) == 2


@settings(max_examples=examples(24), deadline=None)
@given(st.lists(documents(), min_size=1, max_size=2), spec_sets(6), st.data())
def test_any_order_of_changes(texts: list[str], specs: list[WitnessSpec], data: st.DataObject) -> None:
    choose = Choices(data.draw)
    machine, present = Automaton(), list[WitnessSpec]()
    for _ in range(choose.count(2, 10)):
        absent = [spec for spec in specs if spec not in present]
        if absent and (not present or choose.chance(60)):
            present.append(choose.one(*absent))
            machine.add(present[-1])
        else:
            machine.remove(present.pop(choose.count(0, len(present) - 1)))
        if choose.chance(70):
            same_as_fresh(machine, present, texts)
    same_as_fresh(machine, present, texts)


@pytest.mark.parametrize(("seed", "count", "rounds"), [(1, 6, 60), (2, 40, 30), (3, 200, 12)])
def test_many_changes_between_documents(seed: int, count: int, rounds: int) -> None:
    choose = Dice(seed)
    texts = [random_document(choose, depth=4) for _ in range(6)] + [family_document(choose, 20, 8) for _ in range(2)]
    elements = [element for text in texts for element in parse_xml(text).iter(etree.Element)]
    patterns = Patterns(choose)
    specs = patterns.specs(count) + [patterns.spec(walk(choose, elements)) for _ in range(count)]
    specs += map(plain_spec, family(choose, 20)[:count])
    specs = list(dict.fromkeys(specs))
    machine, present, rows = Automaton(specs[::2]), specs[::2], 0
    for _ in range(rounds):
        for _ in range(choose.count(1, len(specs) // 4)):
            spec = choose.one(*specs)
            if spec in present:
                machine.remove(spec)
                present.remove(spec)
            else:
                machine.add(spec)
                present.append(spec)
        rows += same_as_fresh(machine, present, [choose.one(*texts) for _ in range(2)])
    assert rows > 5 * rounds
    for spec in present:
        machine.remove(spec)
    assert same_as_fresh(machine, [], texts) == 0


def test_a_grown_automaton_keeps_the_law() -> None:
    choose = Dice(4)
    texts = [random_document(choose) for _ in range(5)]
    specs = Patterns(choose).specs(120)
    machine = Automaton()
    for spec in specs:
        machine.add(spec)
        match_document(machine, "S", parse_xml(choose.one(*texts)))
    for spec in specs[::3]:
        machine.remove(spec)
    kept = [spec for place, spec in enumerate(specs) if place % 3]
    law = Law(kept)
    for text in texts:
        law.check(Numbered(parse_xml(text)), match_document(machine, "S", parse_xml(text)))


def test_a_removed_channel_is_read_by_nobody() -> None:
    path = (Step("descendant", NodeTest("element", "", "a")),)
    first, second = plain_spec(Definition("S", path)), plain_spec(Definition("T", path))
    machine = Automaton([first, second])
    root = parse_xml("<a/>")
    assert len(match_document(machine, "S", root)) == len(match_document(machine, "T", root)) == 1
    machine.remove(first)
    assert match_document(machine, "S", root) == []
    assert len(match_document(machine, "T", root)) == 1


# -- sizes, counted --------------------------------------------------------------------------------------------


def rounds_of_patterns(rounds: int, count: int) -> list[list[WitnessSpec]]:
    """In each round other patterns, over other names and constants."""
    found = []
    for number in range(rounds):
        choose = Dice(number)
        specs = Patterns(choose).specs(count // 2) + [plain_spec(d) for d in family(choose, count // 2)]
        for place in range(count // 10):
            step = Step("descendant", NodeTest("element", "", f"e{number}_{place}"))
            specs.append(plain_spec(Definition("S", (step,))))
        found.append(list(dict.fromkeys(specs)))
    return found


def test_sizes_follow_the_specs() -> None:
    machine = Automaton()
    empty = machine.size()
    (specs,) = rounds_of_patterns(1, 200)
    for spec in specs:
        machine.add(spec)
    full = machine.size()
    assert full.states > 100
    assert full.bytes > empty.bytes
    match_document(machine, "S", parse_xml(random_document(Dice(1))))
    assert machine.size().moves > empty.moves
    for spec in specs:
        machine.remove(spec)
    match_document(machine, "S", parse_xml(random_document(Dice(1))))
    # What is dead may stay until it is as much as what lives.
    assert machine.size().states <= max(2 * empty.states, empty.states + 64)


def test_rounds_of_changes_do_not_add_up() -> None:
    choose = Dice(5)
    texts = [random_document(choose, depth=4), family_document(choose, 100)]
    lasting = Patterns(Dice(6)).specs(20)
    machine, sizes, alone = Automaton(lasting), [], []
    # Many enough that what a round leaves would come to several times the bounds below.
    for specs in rounds_of_patterns(12, 200):
        specs = [spec for spec in specs if spec not in lasting]
        for spec in specs:
            machine.add(spec)
        fresh = Automaton([*lasting, *specs])
        for text in texts:
            match_document(machine, "S", parse_xml(text))
            match_document(fresh, "S", parse_xml(text))
        sizes.append(machine.size())
        alone.append(fresh.size())
        for spec in specs:
            machine.remove(spec)
    assert max(size.states for size in sizes) <= 3 * max(size.states for size in alone)
    assert max(size.moves for size in sizes) <= 3 * max(size.moves for size in alone)
    assert max(size.bytes for size in sizes) <= 4 * max(size.bytes for size in alone)
    same_as_fresh(machine, lasting, texts)


def test_names_that_nobody_asks_for_any_more_do_not_fill_the_tables() -> None:
    machine = Automaton([plain_spec(Definition("S", (Step("descendant", NodeTest("element", "", "a")),)))])
    most = 0
    for number in range(400):
        step = Step("descendant", NodeTest("element", "", f"e{number}"))
        spec = plain_spec(Definition("S", (step,)))
        machine.add(spec)
        rows = match_document(machine, "S", parse_xml(f"<r><e{number}/><a/><e{number - 1}/></r>"))
        assert len(rows) == 2
        machine.remove(spec)
        size = machine.size()
        if number == 40:
            most = size.states + size.moves
    assert size.states + size.moves <= 2 * most
