"""Random documents and the patterns that walk through them."""

from __future__ import annotations

import re
from collections import Counter
from itertools import islice

from budget import examples
from local_engine import compiled
from lxml import etree

from xscl.bench.grammar import CHANNEL, MAX_DEPTH, Grammar, block_spec, documents, patterns, random_grammar
from xscl.xpath.pattern import Definition

GRAMMAR = random_grammar(1)


def below(grammar: Grammar, name: str) -> set[str]:
    return {*grammar.inner.get(name, ()), *grammar.leaves.get(name, ())}


def test_every_name_can_be_reached() -> None:
    for seed in range(examples(10)):
        grammar = random_grammar(seed)
        reached, new = {grammar.root}, {grammar.root}
        while new:
            new = set().union(*(below(grammar, name) for name in new)) - reached
            reached |= new
        assert len(reached) == 60
        assert len(grammar.inner) == len(grammar.leaves) == 36
        assert len(grammar.attributes) == 20
        assert len(grammar.numeric) == 12
        assert grammar.numeric < reached - set(grammar.inner)


def test_documents_follow_the_grammar() -> None:
    names, depths = set(), set()
    for text in islice(documents(GRAMMAR, seed=5), 300):
        root = etree.fromstring(text)
        assert root.tag == GRAMMAR.root
        for element in root.iter():
            names.add(element.tag)
            depths.add(len(list(element.iterancestors())) + 1)
            assert {child.tag for child in element} <= below(GRAMMAR, element.tag)
            assert set(element.attrib) <= set(GRAMMAR.attributes.get(element.tag, ()))
            assert (len(element) == 0) is (element.tag not in GRAMMAR.inner)
            assert bool(element.text) is (len(element) == 0)
            if element.text:
                assert element.text.isdigit() is (element.tag in GRAMMAR.numeric)
    assert max(depths) == MAX_DEPTH
    assert len(names) == 60


def test_the_same_seed_gives_the_same() -> None:
    for make in (documents, patterns):
        first = list(islice(make(GRAMMAR, seed=3), 50))
        assert list(islice(make(random_grammar(1), seed=3), 50)) == first
        assert list(islice(make(GRAMMAR, seed=4), 50)) != first


def walks(number: int) -> list[Definition]:
    return list(islice(patterns(GRAMMAR, seed=2), number))


def test_shares_of_what_patterns_have() -> None:
    found = walks(6000)
    assert len({walk.text for walk in found}) == len(found)
    sizes = Counter(len(walk.steps) for walk in found)
    assert set(sizes) == set(range(3, MAX_DEPTH + 1))
    steps = [step for walk in found for step in walk.steps]
    assert 0.18 < sum(step.axis == "descendant" for step in steps) / len(steps) < 0.24
    assert 0.08 < sum(step.test.local is None for step in steps) / len(steps) < 0.12
    texts = [walk.text for walk in found]
    held = Counter(re.sub(r"word\d+|\d+", "0", "".join(re.findall(r"\[.*\]", text))) for text in texts)
    own = held.pop("[. = '0']")
    span = held.pop("[. < 0][. >= 0]")
    none = held.pop("")
    attribute = sum(number for text, number in held.items() if text.startswith("[./@"))
    child = sum(held.values()) - attribute
    assert 0.78 < none / len(found) < 0.82
    for number in (own, span, attribute, child):
        assert 0.04 < number / len(found) < 0.06


def test_patterns_select_something() -> None:
    """Walks in the grammar, conditions included: documents that hold a good part of them exist."""
    roots = [etree.fromstring(text) for text in islice(documents(GRAMMAR, seed=6), 400)]
    for kind in (r"\[\. = ", r"\[\. < ", r"\[\./@", r"\[\./e", r"^[^\[]*$"):
        some = [walk for walk in walks(4000) if len(walk.steps) <= 5 and re.search(kind, walk.text)][:50]
        paths = [etree.XPath(walk.text.removeprefix(CHANNEL)) for walk in some]
        matching = sum(any(path(root) for root in roots) for path in paths)
        assert matching >= len(some) / 5, kind


def test_the_compiler_makes_the_same_of_their_texts() -> None:
    for walk in walks(300):
        query = compiled(walk.text)
        assert query.specs == (block_spec(walk),)
        assert query.specs[0].definition.key == walk.key
