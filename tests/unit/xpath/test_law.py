"""Many specs in one automaton against lxml's XPath, one compiled path a pattern, and against elementpath."""

from __future__ import annotations

import re

import pytest
from budget import examples
from hypothesis import given, settings
from lxml import etree
from patterns import Patterns, documents, family, family_document, many_definitions, plain_spec, spec_sets, walk
from patterns import document as random_document
from strategies import NAMESPACES, Dice, many_block_query, plain_stream
from xpath_oracle import Law, Numbered, count_by_elementpath, is_undisputed

from xscl.base.errors import XsclError
from xscl.base.safe_xml import parse_xml
from xscl.language.compile import compile_query
from xscl.language.syntax.parser import parse_query
from xscl.xpath.automaton.automaton import Automaton, WitnessSpec
from xscl.xpath.document_witnesses import match_document


@settings(max_examples=examples(40), deadline=None)
@given(documents(), spec_sets())
def test_a_few_specs(text: str, specs: list[WitnessSpec]) -> None:
    found = Numbered(parse_xml(text))
    Law(specs).check(found, match_document(Automaton(specs), "S", found.root))


@pytest.mark.parametrize(("seed", "count"), list(enumerate([1, 2, 5, 10, 20, 50, 100, 200])))
def test_many_specs(seed: int, count: int) -> None:
    choose = Dice(seed)
    texts = [random_document(choose, depth=choose.count(2, 6)) for _ in range(8)]
    elements = [element for text in texts for element in parse_xml(text).iter(etree.Element)]
    patterns = Patterns(choose)
    specs = patterns.specs(count)
    specs += [patterns.spec(walk(choose, elements)) for _ in range(count // 2)]
    specs = list(dict.fromkeys(specs))
    law, machine = Law(specs), Automaton(specs)
    rows = 0
    for text in texts:
        found = match_document(machine, "S", parse_xml(text))
        law.check(Numbered(parse_xml(text)), found)
        rows += len(found)
    assert rows >= count


@pytest.mark.parametrize(("seed", "size"), [(1, 5), (2, 40), (3, 400)])
def test_families_of_constants(seed: int, size: int) -> None:
    choose = Dice(seed)
    definitions = family(choose, size)
    assert len(definitions) > size * 0.9
    specs = [plain_spec(definition) for definition in definitions]
    law, machine = Law(specs), Automaton(specs)
    rows = 0
    for _ in range(6):
        found = Numbered(parse_xml(family_document(choose, size)))
        matched = match_document(machine, "S", found.root)
        law.check(found, matched)
        rows += len(matched)
    assert rows > size


def test_specs_of_compiled_queries() -> None:
    choose = Dice(7)
    specs: dict[WitnessSpec, None] = {}
    refused = 0
    while len(specs) < 300:
        text = many_block_query(choose)
        try:
            specs.update(dict.fromkeys(compile_query(parse_query(text), text, namespaces=NAMESPACES).specs))
        except XsclError:
            refused += 1
    assert refused < 100
    assert any(spec.hanging for spec in specs)
    machine = Automaton(specs)
    laws = {name: Law(spec for spec in specs if spec.definition.channel == name) for name in "ST"}
    rows = 0
    for event in plain_stream(choose, 40, 40):
        found = match_document(machine, event.channel, parse_xml(event.xml))
        laws[event.channel].check(Numbered(parse_xml(event.xml)), found)
        rows += len(found)
    assert rows > 1_000


def test_nodes_by_elementpath() -> None:
    choose = Dice(11)
    texts = [re.sub(r"<!--.*?-->|<\?.*?\?>", "", random_document(choose, depth=4)) for _ in range(5)]
    elements = [element for text in texts for element in parse_xml(text).iter(etree.Element)]
    definitions = Patterns(choose).definitions(400, depth=2)
    definitions += [walk(choose, elements) for _ in range(200)]
    known = set(filter(is_undisputed, definitions))
    assert len(known) > 150
    machine = Automaton(plain_spec(definition) for definition in known)
    rows = 0
    for text in texts:
        found = Numbered(parse_xml(text))
        counts = dict.fromkeys((definition.key for definition in known), 0)
        for row in match_document(machine, "S", found.root):
            counts[row.var] += 1
        rows += sum(counts.values())
        for definition in known:
            assert counts[definition.key] == count_by_elementpath(found, definition), definition
    assert rows > 500


@pytest.mark.parametrize("count", [10, 1_000])
def test_patterns_by_the_thousand(count: int) -> None:
    definitions = many_definitions(Dice(1), count)
    assert len(set(definitions)) == count
    specs = [plain_spec(definition) for definition in definitions]
    found = Numbered(parse_xml(family_document(Dice(2), count)))
    rows = match_document(Automaton(specs), "S", found.root)
    Law(specs).check(found, rows)
    assert rows
