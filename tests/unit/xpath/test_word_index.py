"""Words among many that a text has, against each word tried by itself; one text at a time and many at once."""

from __future__ import annotations

from functools import lru_cache

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.words import words
from strategies import Choices

from xscl.xpath.conditions import word_index
from xscl.xpath.conditions.word_index import WordIndex

words_of = lru_cache(words)
FUNCTIONS = ("contains", "starts-with", "contains-word")


def holds(function: str, word: str, text: str) -> bool:
    match function:
        case "contains":
            return word in text
        case "starts-with":
            return text.startswith(word)
    return word in words_of(text)


def check(index: WordIndex, present: dict[int, tuple[str, str]], texts: list[str]) -> None:
    expected = [{number for number, key in present.items() if holds(*key, text)} for text in texts]
    assert [index.held(text) for text in texts] == expected
    places, numbers = index.holding(texts)
    found = list(zip(places.tolist(), numbers.tolist(), strict=True))
    assert sorted(found) == sorted((place, number) for place, held in enumerate(expected) for number in held)


@settings(max_examples=examples(60), deadline=None)
@given(st.data())
def test_words_that_come_and_go(data: st.DataObject) -> None:
    choose = Choices(data.draw)
    index, present = WordIndex(), dict[int, tuple[str, str]]()
    texts = st.lists(st.text("abB c\0", max_size=10), max_size=4)
    for _ in range(choose.count(1, 12)):
        if present and choose.chance(30):
            number = choose.one(*present)
            index.remove(number)
            del present[number]
        else:
            function = choose.one(*FUNCTIONS)
            word = data.draw(st.text("ab", min_size=1, max_size=3))
            if function != "contains-word":
                word = choose.one(word, word, word * 130, f"{word}\0", " ")
            present[index.add(function, word)] = function, word
        if choose.chance(50):
            check(index, present, data.draw(texts))
    assert len(index) == len(present)
    check(index, present, ["ab" * 150, "a b", "", "\0a", *data.draw(texts)])


def test_many_words_move_to_the_large_automaton(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(word_index, "_NEW", 5)
    index = WordIndex()
    present = {}
    for number in range(40):
        key = FUNCTIONS[number % 2], f"w{number}."
        present[index.add(*key)] = key
        check(index, present, [f"w{number}. w{number - 1}. w3.", "w2."])
    for number in list(present)[::2]:
        index.remove(number)
        del present[number]
    check(index, present, ["w1. w2. w3. w38. w39.", "w39."])


def test_words_inside_words_cost_no_hit_each() -> None:
    index = WordIndex()
    numbers = [index.add("contains", "a" * length) for length in range(1, 250)]
    text = "a" * 10_000  # two million hits
    assert index.held(text) == set(numbers)
    places, found = index.holding([text, "b", "a"])
    assert (places.tolist(), found.tolist()) == ([0] * len(numbers) + [2], [*numbers, numbers[0]])
