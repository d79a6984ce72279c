"""Words that sets of conditions seek in columns, and the values that have them.

All words of a column, each with the functions applied before, are sought together (``word_index``), in every distinct
text once.  So an entry that asks for words has exact counts, as one that asks for values.  Some columns tell by
themselves which of their values have something; that is asked for under a number, as words are.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from xscl.base.number_order import each_once, order_of
from xscl.base.values import apply_functions
from xscl.xpath.columns.conditions import Dimension, Sought
from xscl.xpath.columns.formulas import Told
from xscl.xpath.conditions.word_index import WordIndex
from xscl.xpath.runs import Int64s, gather

__all__ = ["Columns", "TextsWithWords", "WordsOfColumns"]


class Columns(Protocol):
    """Columns of some rows, by number; each has distinct values, numbered from 0."""

    count: int
    """Number of rows."""

    def size(self, column: int) -> int:
        """Count the distinct values of a column."""

    def texts(self, column: int) -> pa.StringArray:
        """Return the distinct values of a column of texts."""

    def codes(self, column: int) -> Int64s:
        """Return each row's value in a column of one value; the number behind the last one for rows without a value."""

    def pairs(self, column: int) -> tuple[Int64s, Int64s] | None:
        """Return the rows and values of a column of several values, by row; None: it has one value."""

    def told(self, column: int) -> tuple[Int64s, Int64s]:
        """Return what a column tells of its values by itself: values, and the numbers of what they have."""


class WordsOfColumns:
    """Words of all dimensions that seek some."""

    def __init__(self) -> None:
        self._indexes: dict[tuple[int, str], WordIndex] = {}
        self._asked: dict[tuple[int, str], tuple[array[int], array[int]]] = {}
        """Words by number, and the dimension that asks for each, by column and functions."""
        self._told: dict[int, tuple[array[int], array[int]]] = {}
        """Numbers that columns tell, and the dimension that asks for each, by column."""
        self._rising: dict[tuple[int, str] | int, tuple[Int64s, Int64s]] = {}
        """Places where the dimensions of each word begin, by its number, and these; made when texts are looked at."""

    def __len__(self) -> int:
        return len(self._indexes) + len(self._told)

    def add(self, number: int, dimension: Dimension) -> None:
        """Seek the words of a dimension, which was never here."""
        sought = dimension.reading
        if isinstance(sought, Told):
            told, dimensions = self._told.setdefault(dimension.column, (array("q"), array("q")))
            told.append(sought.number)
            dimensions.append(number)
            self._rising.pop(dimension.column, None)
            return
        assert isinstance(sought, Sought)
        key = dimension.column, sought.functions
        index = self._indexes.setdefault(key, WordIndex())
        words, dimensions = self._asked.setdefault(key, (array("q"), array("q")))
        self._rising.pop(key, None)
        for word in sought.words:
            words.append(index.add(sought.name, word))
            dimensions.append(number)

    def texts(self, columns: Columns, rows_of_texts: dict[int, Int64s], dimensions: int) -> TextsWithWords:
        """Return the texts of a batch that have the words of each of ``dimensions``."""
        width = max((len(rows) for rows in rows_of_texts.values()), default=1)
        keys = [np.empty(0, dtype=np.int64)]
        for (column, functions), index in self._indexes.items():
            known = columns.texts(column).to_pylist()
            if functions:
                known = [apply_functions(functions, text) or "" for text in known]
            text, word = index.holding(known)
            keys.append(self._keys((column, functions), text, word, width))
        keys += (self._keys(column, *columns.told(column), width) for column in self._told)
        return TextsWithWords(each_once(np.concatenate(keys)), width, dimensions)

    def _keys(self, key: tuple[int, str] | int, text: Int64s, word: Int64s, width: int) -> Int64s:
        """Return dimension * width + text for all dimensions that ask for the words of texts."""
        rising = self._rising.get(key)
        if rising is None:
            asked = self._told[key] if isinstance(key, int) else self._asked[key]
            words, askers = (np.array(part, dtype=np.int64) for part in asked)
            order = order_of(words)
            begin = np.searchsorted(words[order], np.arange(int(words.max(initial=-1)) + 3))
            rising = self._rising[key] = begin, askers[order]
        begin, askers = rising
        # Of words that nobody asks for any longer the first place behind all others.
        word = np.minimum(word, len(begin) - 2)
        at, of = gather(begin[word], begin[word + 1] - begin[word])
        return askers[at] * width + text[of]


class TextsWithWords:
    """The texts of one batch that have the words of each dimension; a text is named by its number in its column."""

    def __init__(self, keys: Int64s, width: int, dimensions: int) -> None:
        """``keys`` are dimension * width + text, rising."""
        self._keys = keys
        self._width = width
        self._begin = np.searchsorted(keys, np.arange(dimensions + 1) * width)

    def of(self, dimensions: Int64s) -> tuple[Int64s, Int64s]:
        """Return the texts of some dimensions, and the place of each one's dimension among these."""
        at, of = gather(self._begin[dimensions], self._begin[dimensions + 1] - self._begin[dimensions])
        return self._keys[at] % self._width, of

    def rows(self, columns: Sequence[int] | Int64s, rows_of_texts: dict[int, Int64s]) -> Int64s:
        """Count for each dimension the rows whose text has its words; ``columns`` are those of the dimensions."""
        found = np.zeros(len(self._begin) - 1, dtype=np.int64)
        dimension, text = self._keys // self._width, self._keys % self._width
        column = np.asarray(columns, dtype=np.int64)[dimension]
        for number, rows in rows_of_texts.items():
            of = column == number
            found += np.bincount(dimension[of], weights=rows[text[of]], minlength=len(found)).astype(np.int64)
        return found

    def holds(self, dimensions: Int64s, texts: Int64s) -> npt.NDArray[np.bool_]:
        """Whether each text has the words of the dimension beside it."""
        if not len(self._keys):
            return np.zeros(len(texts), dtype=np.bool_)
        keys = dimensions * self._width + texts
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        found: npt.NDArray[np.bool_] = self._keys[at] == keys
        return found
