"""The cells of many rows as columns: each column's distinct texts, and which of them each row has.

Whatever is computed of a text is computed once for each distinct one.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.values import apply_functions, number_text, to_number
from xscl.xpath.intervals import Key, Reading

__all__ = ["RowColumns", "ranks", "xpath_numbers"]

_PLAIN = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
"""Numbers that Arrow reads as Python does."""
_NUMBER = r"^[ \t\r\n]*-?([0-9]+(\.[0-9]*)?|\.[0-9]+)[ \t\r\n]*$"
"""Texts that ``to_number`` may take; that function decides."""
_DIGITS = 15
"""Decimals of so many digits are equal if their doubles are."""

NO_VALUE, FIRST_VALUE = 1, 2
"""Ranks of a text that is no value of a reading, and of one below all constants; 0 is that of NULL."""


class RowColumns:
    """Columns of some rows, from 1; column 0 is the text of the whole row."""

    def __init__(self, cells: pa.ListArray, width: int) -> None:
        """``cells`` has the texts of ``width`` columns for each row; of columns that came later perhaps not yet."""
        self.count = len(cells)
        self.width = width
        self._cells = cells
        self._columns: dict[int, tuple[pa.StringArray, npt.NDArray[np.int64]]] = {}
        self._missing: npt.NDArray[np.int32] | None = None
        lengths = cells.value_lengths()
        whole = self.count > 0 and pc.min_max(lengths).equals(
            pa.scalar({"min": width, "max": width}, pc.min_max(lengths).type)
        )
        self._flat = cells.flatten() if whole else None

    @property
    def gaps(self) -> bool:
        """Whether a cell is NULL."""
        return self._flat is None or self._flat.null_count > 0

    def texts(self, column: int) -> pa.StringArray:
        """Return the distinct texts of a column."""
        return self._column(column)[0]

    def codes(self, column: int) -> npt.NDArray[np.int64]:
        """Return the number of each row's text, and the number behind the last one for rows without a text."""
        return self._column(column)[1]

    def missing(self) -> npt.NDArray[np.int32]:
        """(row, column): how many of the columns up to this one are NULL."""
        if self._missing is None:
            null = np.zeros((self.count, self.width + 1), dtype=np.int32)
            for column in range(1, self.width + 1):
                null[:, column] = self._raw(column).is_null().to_numpy(zero_copy_only=False)
            self._missing = np.cumsum(null, axis=1, dtype=np.int32)
        return self._missing

    def _column(self, column: int) -> tuple[pa.StringArray, npt.NDArray[np.int64]]:
        if column not in self._columns:
            encoded = self._raw(column).dictionary_encode()
            texts = encoded.dictionary
            codes = encoded.indices.fill_null(len(texts)).to_numpy(zero_copy_only=False).astype(np.int64)
            self._columns[column] = texts, codes
        return self._columns[column]

    def _raw(self, column: int) -> pa.StringArray:
        if column == 0:
            parts = [self._raw(number) for number in range(1, self.width + 1)]
            return pc.binary_join_element_wise(*(part.fill_null("") for part in parts), "")
        if self._flat is not None:
            return self._flat.take(pa.array(np.arange(column - 1, self.count * self.width, self.width)))
        starts = self._cells.offsets.to_numpy()[:-1] - self._cells.offsets[0].as_py()
        short = self._cells.value_lengths().fill_null(0).to_numpy(zero_copy_only=False) < column
        at = pa.array(np.where(short, 0, starts + column - 1), mask=short)
        return self._cells.flatten().take(at)


# -- texts among constants -----------------------------------------------------------------------------------------


def ranks(reading: Reading, texts: pa.StringArray, constants: Sequence[Key]) -> npt.NDArray[np.int64]:
    """Rank texts among constants, which rise: constant i has the rank 3 + 2i, texts below it 2 + 2i."""
    if not reading.number:
        return _text_ranks(reading.functions, texts, constants)
    if reading.functions is None:
        return _number_ranks(xpath_numbers(texts), np.array(constants, dtype=np.float64))
    if reading.functions not in ("", "number"):
        texts = pa.array([apply_functions(reading.functions, text) for text in texts.to_pylist()], pa.string())
    return _exact_ranks(texts, [constant for constant in constants if isinstance(constant, Fraction)])


def _text_ranks(functions: str | None, texts: pa.StringArray, constants: Sequence[Key]) -> npt.NDArray[np.int64]:
    if functions:
        texts = pa.array([apply_functions(functions, text) for text in texts.to_pylist()], pa.string())
    if functions and functions.startswith("time"):
        return _time_ranks(texts, constants)
    # Texts are equal to a constant or not; their order is never asked for.
    at = pc.index_in(texts, value_set=pa.array(constants, pa.string())).fill_null(-1).to_numpy(zero_copy_only=False)
    found = np.where(at >= 0, 3 + 2 * at.astype(np.int64), FIRST_VALUE)
    found[texts.is_null().to_numpy(zero_copy_only=False)] = NO_VALUE
    return found


def _time_ranks(keys: pa.StringArray, constants: Sequence[Key]) -> npt.NDArray[np.int64]:
    """Return the ranks of texts of ``time_key``, which are of ASCII and so in the order of times."""
    known = np.array([str(constant) for constant in constants], dtype=np.str_)
    wanted = np.array(keys.fill_null("").to_pylist(), dtype=np.str_)
    at = np.searchsorted(known, wanted)
    equal = np.zeros(len(wanted), dtype=np.bool_)
    if len(known):
        equal = known[np.minimum(at, len(known) - 1)] == wanted
    return np.where(keys.is_null().to_numpy(zero_copy_only=False), NO_VALUE, FIRST_VALUE + 2 * at + equal)


def _number_ranks(numbers: npt.NDArray[np.float64], constants: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    at = np.searchsorted(constants, numbers)
    equal = np.zeros(len(numbers), dtype=np.bool_)
    if len(constants):
        equal = constants[np.minimum(at, len(constants) - 1)] == numbers
    return np.where(np.isnan(numbers), NO_VALUE, FIRST_VALUE + 2 * at + equal)


def _exact_ranks(texts: pa.StringArray, constants: Sequence[Fraction]) -> npt.NDArray[np.int64]:
    """Doubles tell most numbers from the constants; those that are equal to one of these as doubles are looked at."""
    doubles = np.array([_double(constant) for constant in constants], dtype=np.float64)
    short = np.array([_is_short(constant) for constant in constants], dtype=np.bool_)
    plain = pc.match_substring_regex(texts, rf"^-?[0-9]{{1,8}}(\.[0-9]{{1,{_DIGITS - 8}}})?$").fill_null(False)
    simple = plain.to_numpy(zero_copy_only=False)
    found = np.full(len(texts), NO_VALUE, dtype=np.int64)
    numbers = texts.filter(plain).cast(pa.float64()).to_numpy(zero_copy_only=False)
    found[simple] = _number_ranks(numbers, doubles)
    # Several constants may have one double.
    first, behind = np.searchsorted(doubles, numbers), np.searchsorted(doubles, numbers, side="right")
    unsure = np.zeros(len(texts), dtype=np.bool_)
    if len(constants):
        unsure[simple] = (first < behind) & ((behind - first > 1) | ~short[np.minimum(first, len(short) - 1)])
    for place in np.flatnonzero(unsure | ~simple).tolist():
        text = texts[place].as_py()
        exact = None if text is None else number_text(text)
        if exact is not None:
            number = Fraction(exact)
            at = bisect_left(constants, number)
            found[place] = FIRST_VALUE + 2 * at + (at < len(constants) and constants[at] == number)
    return found


def _double(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _is_short(number: Fraction) -> bool:
    double = _double(number)
    if not math.isfinite(double) or Fraction(repr(double)) != number:
        return False
    return len(repr(double).partition("e")[0].strip("-").replace(".", "")) <= _DIGITS


def xpath_numbers(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    """XPath ``number()`` of each text; NaN where it is none."""
    found = np.full(len(texts), np.nan)
    plain = pc.match_substring_regex(texts, _PLAIN).fill_null(False)
    simple = plain.to_numpy(zero_copy_only=False)
    found[simple] = texts.filter(plain).cast(pa.float64()).to_numpy(zero_copy_only=False)
    likely = pc.match_substring_regex(texts, _NUMBER).fill_null(False).to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(likely & ~simple).tolist():
        number = to_number(texts[place].as_py())
        found[place] = np.nan if number is None else number
    return found
