"""Conditions on one text: which of many hold of each of many texts.

Each distinct text is looked at once: it is ranked among all constants of a reading, all words are sought in one pass,
and only other conditions are asked one by one.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.values import number_text, to_number
from xscl.xpath.column_chunk import Bools
from xscl.xpath.condition import Memo, holds, text_of
from xscl.xpath.intervals import Key, Reading
from xscl.xpath.nodes import TextNode
from xscl.xpath.pattern import Call, Compared, Comparison, Condition, Constant, Here, Truth
from xscl.xpath.row_columns import ranks
from xscl.xpath.runs import Int64s
from xscl.xpath.word_index import WordIndex

__all__ = ["TextConditions", "compare", "on_text"]

_WORDS = ("contains", "starts-with", "contains-word")
_OF_LENGTH = (Call("string-length", ()), Call("string-length", (Here(),)))
_ABOVE_ALL = 1 << 60


def on_text(text: str) -> TextNode:
    """Return a node that has this text and nothing around it."""
    return TextNode(None, 1, text)  # type: ignore[arg-type]


class TextConditions:
    """Conditions that look at nothing but the text of their node."""

    def __init__(self, conditions: Sequence[Condition]) -> None:
        self.conditions = conditions
        self._compared: dict[Reading, list[tuple[int, str, Key]]] = {}
        self._lengths: list[tuple[int, str, float]] = []
        self._words = WordIndex()
        self._of_words: list[tuple[int, int]] = []
        """(condition, word)."""
        self._others: list[int] = []
        self._always: list[int] = []
        for place, condition in enumerate(conditions):
            self._file(place, condition)

    def __len__(self) -> int:
        return len(self.conditions)

    def _file(self, place: int, condition: Condition) -> None:
        match condition:
            case Comparison(Here(()), "=" | "!=" as op, Constant(value, False)):
                self._compare(place, Reading(None, number=False), op, value)
            case Comparison(Here(()), op, Constant(value)):
                number = to_number(value)
                if number is not None:
                    self._compare(place, Reading(None, number=True), op, number)
                elif op == "!=":
                    self._always.append(place)
            case Comparison(Call("string-length") as call, op, Constant(value)) if call in _OF_LENGTH:
                number = to_number(value)
                if number is not None:
                    self._lengths.append((place, op, number))
                elif op == "!=":
                    self._always.append(place)
            case Truth(Call(name, (Here(()), *words))) if name in _WORDS and _are_words(words):
                self._of_words += [(place, self._words.add(name, text_of(word))) for word in words]  # type: ignore[arg-type]
            case Compared(functions, op, right) if condition.of_numbers:
                exact = right.value if right.is_number else number_text(right.value)
                if exact is not None:
                    self._compare(place, Reading(functions, number=True), op, Fraction(exact))
            case Compared(functions, op, right):
                self._compare(place, Reading(functions, number=False), op, right.value)
            case _:
                self._others.append(place)

    def _compare(self, place: int, reading: Reading, op: str, constant: Key) -> None:
        self._compared.setdefault(reading, []).append((place, op, constant))

    def holding(self, texts: pa.StringArray) -> Bools:
        """(condition, text): whether it holds."""
        encoded = texts.dictionary_encode()
        distinct: pa.StringArray = encoded.dictionary
        found = np.zeros((len(self), len(distinct)), dtype=np.bool_)
        found[self._always] = True
        for reading, comparisons in self._compared.items():
            _compare_ranks(found, reading, comparisons, distinct)
        if self._lengths:
            lengths = pc.utf8_length(distinct).to_numpy(zero_copy_only=False)
            places, ops, numbers = zip(*self._lengths, strict=True)
            found[list(places)] = compare(lengths, ops, numbers)
        strings = distinct.to_pylist() if self._of_words or self._others else []
        if self._of_words:
            text, word = self._words.holding(strings)
            has = np.zeros((max(number for _, number in self._of_words) + 1, len(distinct)), dtype=np.bool_)
            has[word, text] = True
            asking, words = np.array(self._of_words, dtype=np.int64).T
            # A condition may have several words, which stand together.
            first = np.flatnonzero(np.diff(asking, prepend=-1))
            found[asking[first]] = np.logical_or.reduceat(has[words], first, axis=0)
        for place in self._others:
            condition = self.conditions[place]
            found[place] = [holds(condition, on_text(text), Memo()) for text in strings]
        codes = encoded.indices.to_numpy()
        return found if len(codes) == len(distinct) and (codes == np.arange(len(codes))).all() else found[:, codes]


def compare(numbers: Int64s, ops: Sequence[str], constants: Sequence[float]) -> Bools:
    """(comparison, number): whether it holds; no number is NaN."""
    found = np.zeros((len(ops), len(numbers)), dtype=np.bool_)
    by_op: dict[str, list[int]] = {}
    for place, op in enumerate(ops):
        by_op.setdefault(op, []).append(place)
    right = np.array(constants, dtype=np.float64)[:, np.newaxis]
    for op, places in by_op.items():
        found[places] = _FUNCTIONS[op](numbers[np.newaxis, :], right[places])
    return found


_FUNCTIONS: dict[str, Any] = {
    "=": np.equal,
    "!=": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}


def _compare_ranks(
    found: Bools, reading: Reading, comparisons: Sequence[tuple[int, str, Key]], texts: pa.StringArray
) -> None:
    """Fill in the rows of comparisons of one reading."""
    constants = sorted({constant for _, _, constant in comparisons})
    number = {constant: place for place, constant in enumerate(constants)}
    rank = ranks(reading, texts, constants)
    places = np.array([place for place, _, _ in comparisons])
    ops = np.array([op for _, op, _ in comparisons])
    at = np.array([3 + 2 * number[constant] for _, _, constant in comparisons])
    equal = np.isin(ops, ("=", "!="))
    if equal.any():
        # At most one constant is equal to a text.
        of_constant = np.zeros((len(constants), len(texts)), dtype=np.bool_)
        hit = np.flatnonzero((rank >= 3) & (rank & 1 == 1))
        of_constant[(rank[hit] - 3) >> 1, hit] = True
        found[places[equal]] = of_constant[(at[equal] - 3) >> 1]
        unequal = places[ops == "!="]
        # XPath's comparison holds of what is no number, that of atoms does not.
        found[unequal] = ~found[unequal] & ((rank >= 2) | (reading.functions is None))
    low = np.where(ops == ">", at + 1, np.where(ops == ">=", at, 2))[~equal, np.newaxis]
    high = np.where(ops == "<", at - 1, np.where(ops == "<=", at, _ABOVE_ALL))[~equal, np.newaxis]
    if len(low):
        found[places[~equal]] = (rank >= low) & (rank <= high)


def _are_words(words: Sequence[object]) -> bool:
    return bool(words) and all(isinstance(word, Constant) and text_of(word) != "" for word in words)
