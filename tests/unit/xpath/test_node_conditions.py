"""Conditions of nodes in columns, against lxml's XPath."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pytest
from budget import examples
from chunk_oracle import shredded
from hypothesis import given, settings
from hypothesis import strategies as st
from lxml import etree
from patterns import Patterns, documents, family, family_document
from patterns import document as random_document
from strategies import Choices, Dice
from xpath_oracle import Numbered, condition_text

from xscl.base.safe_xml import parse_xml, serialize
from xscl.xpath.columns.steps import ChunkSteps, Kind
from xscl.xpath.moves import conditions as node_conditions
from xscl.xpath.moves.conditions import Asked, NodeConditions
from xscl.xpath.pattern import (
    AllOf,
    AnyOf,
    Call,
    Comparison,
    Condition,
    Constant,
    Here,
    Negation,
    NodeTest,
    OfColumns,
    Step,
    Truth,
)
from xscl.xpath.spans import crossings as span_crossings

KINDS: tuple[tuple[Kind, str], ...] = (("element", "//*"), ("attribute", "//@*"), ("text", "//text()"))


def child(name: str) -> Step:
    return Step("child", NodeTest("element", "", name))


def name_test(name: str) -> str:
    """Write that a node has a name in Clark's form."""
    uri, _, local = name.rpartition("}")
    return f"local-name() = '{local}' and namespace-uri() = '{uri[1:]}'"


def is_plain(text: str) -> bool:
    return "<!" not in text and "<?" not in text


def check(texts: Sequence[str], sets: Sequence[tuple[Condition, ...]], names: Sequence[str | None] = ()) -> int:
    """Compare all nodes of all documents; how many pairs of a node and a set there are.

    ``names`` are those that the nodes of each set must have; then only elements and attributes are compared.
    """
    chunk = shredded(texts)
    assert len(chunk.places) == len(texts)
    named = names or [None] * len(sets)
    asked, steps = NodeConditions(dict(enumerate(map(Asked, sets, named)))), ChunkSteps(chunk)
    paths = ["".join(f"[{condition_text(part)}]" for part in conditions) for conditions in sets]
    tests = ["" if name is None else f"[{name_test(name)}]" for name in named]
    roots = [Numbered(parse_xml(text)) for text in texts]
    total = 0
    of_kind = {
        "element": (chunk.document, chunk.numbers(np.arange(len(chunk.path)))),
        "attribute": (chunk.document[chunk.attributes.owner], chunk.attribute_numbers),
        "text": (chunk.document[chunk.texts.owner], chunk.text_numbers),
    }
    for kind, every in KINDS[: 2 if names else 3]:
        document, number = of_kind[kind]
        found = defaultdict(set)
        places, numbers = asked.holding(steps, kind, np.arange(len(document)))
        for place, asker in zip(places.tolist(), numbers.tolist(), strict=True):
            found[int(document[place]), asker].add(int(number[place]))
        for place, root in enumerate(roots):
            for asker, (test, path) in enumerate(zip(tests, paths, strict=True)):
                assert found[place, asker] == root.select(f"{every}{test}{path}"), (
                    f"{every}{test}{path} in {texts[place]}"
                )
        total += len(places)
    if names:
        return total
    places, numbers = asked.holding(steps, "document", np.arange(len(texts)))
    held = set(zip(places.tolist(), numbers.tolist(), strict=True))
    for place, root in enumerate(roots):
        for asker, path in enumerate(paths):
            assert ((place, asker) in held) == root.is_true(f"/self::node(){path}"), path
    return total


@st.composite
def condition_sets(draw: st.DrawFn) -> list[tuple[Condition, ...]]:
    patterns = Patterns(Choices(draw))
    return [
        tuple(patterns.condition(patterns.choose.count(0, 3)) for _ in range(patterns.choose.one(1, 1, 2, 0)))
        for _ in range(patterns.choose.count(1, 5))
    ]


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(documents().map(lambda text: serialize(parse_xml(text))).filter(is_plain), min_size=1, max_size=3),
    condition_sets(),
)
def test_random_conditions(texts: list[str], sets: list[tuple[Condition, ...]]) -> None:
    check(texts, sets)


@pytest.mark.parametrize("most", [1, 10_000, 1 << 23])
def test_many_conditions(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(node_conditions, "_MOST_PAIRS", most)
    monkeypatch.setattr(span_crossings, "_FEW", 0)
    choose = Dice(5)
    patterns = Patterns(choose)
    sets = [(patterns.condition(3), *([patterns.condition(2)] if choose.chance(30) else [])) for _ in range(150)]
    texts = [serialize(parse_xml(random_document(choose, depth=choose.count(2, 6)))) for _ in range(12)]
    assert check([text for text in texts if is_plain(text)], sets) > 1_000


def test_conditions_of_nodes_with_a_name() -> None:
    choose = Dice(4)
    patterns = Patterns(choose)
    texts = [serialize(parse_xml(random_document(choose, depth=choose.count(2, 6)))) for _ in range(40)]
    texts = [text for text in texts if is_plain(text)]
    roots = [parse_xml(text) for text in texts]
    every = sorted(
        {str(name) for root in roots for each in root.iter(etree.Element) for name in (each.tag, *each.attrib)}
    )
    assert any("}" in name for name in every)
    names = [choose.one(*every, None, "nobody") for _ in range(150)]
    sets = [(patterns.condition(2),) if choose.chance(80) else () for _ in names]
    assert check(texts, sets, names) > 1_000


def test_sets_that_come_and_go() -> None:
    choose = Dice(7)
    patterns = Patterns(choose)
    sets = {number: (patterns.condition(3),) for number in range(400)}
    texts = [serialize(parse_xml(random_document(choose, depth=4))) for _ in range(8)]
    chunk = shredded([text for text in texts if is_plain(text)])
    steps, every = ChunkSteps(chunk), np.arange(len(chunk.path))
    kept, present, total = NodeConditions(), set[int](), 0
    for some in (50, 400, 3, 60, 0, 200, 30, 30):
        # Few changes are filed beside what is there; many make the index anew.
        present = set(list(present)[: some // 2]) | {choose.count(0, len(sets) - 1) for _ in range(some)}
        asked = {number: Asked(sets[number], "a" if number % 3 == 0 else None) for number in present}
        kept.keep(asked)
        found, fresh = (each.holding(steps, "element", every) for each in (kept, NodeConditions(asked)))
        pairs, wanted = (set(zip(*map(np.ndarray.tolist, each), strict=True)) for each in (found, fresh))
        assert pairs == wanted
        assert len(pairs) == len(found[0])
        total += len(pairs)
    assert total > 1_000


def test_families() -> None:
    choose = Dice(6)
    sets = [step.conditions for definition in family(choose, 60) for step in definition.steps if step.conditions]
    texts = [serialize(parse_xml(family_document(choose, 60))) for _ in range(3)]
    assert check(texts, sets) > 500


def test_nothing() -> None:
    chunk = shredded([])
    found = NodeConditions({0: Asked(()), 1: Asked((Comparison(Here(), "=", Constant("x", False)),))})
    assert [part.tolist() for part in found.holding(ChunkSteps(chunk), "element", np.arange(0))] == [[], []]
    assert len(found) == 2


WORDED = [
    Truth(Call(name, (Here(), *(Constant(word, False) for word in words))))
    for name, words in (
        ("contains", ["x"]),
        ("contains", [""]),
        ("starts-with", ["ab"]),
        ("contains-word", ["ab", "x"]),
    )
]


def test_words_of_a_text() -> None:
    texts = [f"<a>{text}</a>" for text in ("x", "ab x", "", "abx", "ab x", "c")]
    sets = [(worded,) for worded in WORDED]
    sets += [(Negation(worded),) for worded in WORDED]
    sets += [(AnyOf((worded, Negation(worded))),) for worded in WORDED]
    # An empty element has no text node.
    assert check(texts, sets) == 2 * len(WORDED) * (2 * len(texts) - 1)


def test_more_alternatives_than_one_index_takes() -> None:
    def is_one_of(names: str, count: int) -> Condition:
        return AnyOf(
            tuple(
                Comparison(Here((child(name),)), "=", Constant(str(value), False))
                for name in names
                for value in range(count)
            )
        )

    texts = [f"<r><a>{one}</a><b>{other}</b><c>{one}</c></r>" for one in range(0, 70, 9) for other in range(0, 70, 11)]
    many = is_one_of("ab", 70)
    sets: list[tuple[Condition, ...]] = [
        (is_one_of("ab", 60), is_one_of("bc", 50), is_one_of("ac", 40)),
        (many,),
        (Negation(many),),
        (AllOf((many, Negation(is_one_of("c", 30)))),),
        (Negation(AllOf((many, is_one_of("bc", 20)))),),
        (OfColumns(("a", "c"), many, Negation(is_one_of("abc", 40))),),
    ]
    assert check(texts, sets) > 100
