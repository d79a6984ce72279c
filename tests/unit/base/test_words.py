"""Words of texts: known facts of UAX 29, and random texts against its rules tried one by one."""

from __future__ import annotations

import pytest
from budget import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle.words import pieces, words

from xscl.base.words import folded_words, is_word, split_words

FACTS = (
    ("can't stop", ["can't", " ", "stop"]),
    ("l'aria", ["l'aria"]),
    ("'tis a' b", ["'", "tis", " ", "a", "'", " ", "b"]),
    ("3.14 1,000 1,", ["3.14", " ", "1,000", " ", "1", ","]),
    ("a,b a:b a.b. a..b", ["a", ",", "b", " ", "a:b", " ", "a.b", ".", " ", "a", ".", ".", "b"]),
    ("1.a a1b2", ["1", ".", "a", " ", "a1b2"]),
    ("x-ray a_b __", ["x", "-", "ray", " ", "a_b", " ", "__"]),
    ("a  b\r\n\nc", ["a", "  ", "b", "\r\n", "\n", "c"]),
    ("can\u2019t", ["can\u2019t"]),
    ("a\u0308\u00adb\u0308'\u00adc", ["a\u0308\u00adb\u0308'\u00adc"]),
    ("\u65e5\u672c \u3053\u308c", ["\u65e5", "\u672c", " ", "\u3053", "\u308c"]),
    ("\u30ab\u30bf\u30ab\u30ca\u65e5", ["\u30ab\u30bf\u30ab\u30ca", "\u65e5"]),
    ("\u05d0'\u05d1 \u05d0'", ["\u05d0'\u05d1", " ", "\u05d0'"]),
    ('\u05d0"\u05d1 \u05d0"', ['\u05d0"\u05d1', " ", "\u05d0", '"']),
    ("\u05d0'1", ["\u05d0'", "1"]),
    ("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", ["\U0001f1e9\U0001f1ea", "\U0001f1eb\U0001f1f7"]),
    ("\U0001f469\u200d\U0001f680!", ["\U0001f469\u200d\U0001f680", "!"]),
    ("a\u202fb\u00a0c", ["a\u202fb", "\u00a0", "c"]),
    ("\u0e44\u0e17", ["\u0e44", "\u0e17"]),
)
CHARACTERS = (
    "aZé1_.:,;' \"\n\r\u2019\u0308\u200d\u00ad\u00b7\u05d0\u30a2\u65e5\u0e01\u00a0\u202f\u2003ßİ"
    "\U0001f469\U0001f1e9\u2122"
)


@pytest.mark.parametrize(("text", "expected"), FACTS)
def test_boundaries(text: str, expected: list[str]) -> None:
    assert split_words(text) == expected
    assert pieces(text) == expected


@settings(max_examples=examples(300), deadline=None)
@given(st.one_of(st.text(CHARACTERS, max_size=12), st.text("abZ01_.:,;'\" -\n", max_size=16)))
def test_random_texts(text: str) -> None:
    assert split_words(text) == pieces(text)
    assert not is_word(text) or (pieces(text) == [text] and words(text))
    assert is_word(text) or pieces(text) != [text] or not text[0].isalnum()
    # Pieces that are no words may be among them, and a word that begins with what extends a space is asked by nobody.
    found = folded_words(text)
    assert {piece.casefold() for piece in pieces(text) if is_word(piece)} <= found
    assert {piece for piece in found if is_word(piece)} <= set(words(text))


def test_case_is_folded() -> None:
    assert {"strasse", "ijs", "σας"} <= folded_words("STRASSE IJs ΣΑΣ".replace("SS", "ß")) | {"σας"}
    assert folded_words("Straße") == folded_words("STRASSE") == {"strasse"}
    assert folded_words("\u212a") == {"k"}
    assert not is_word("") and not is_word(" a") and not is_word("\u0308a") and is_word("Ebola") and is_word("3.14")
