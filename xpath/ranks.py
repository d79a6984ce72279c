"""Texts ranked among the constants of one reading.

Constants are prepared once; ranking costs the texts, and a binary search or a look-up for each.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from xscl.base.values import apply_functions, number_text, to_number
from xscl.xpath.conditions.intervals import Key, Reading
from xscl.xpath.runs import Int64s

__all__ = ["FIRST_VALUE", "NO_VALUE", "Constants", "xpath_numbers"]

_PLAIN = r"^-?[0-9]{1,15}(\.[0-9]{1,15})?$"
"""Numbers that Arrow reads as Python does."""
_NUMBER = r"^[ \t\r\n]*-?([0-9]+(\.[0-9]*)?|\.[0-9]+)[ \t\r\n]*$"
"""Texts that ``to_number`` may take; that function decides."""
_DIGITS = 15
"""Decimals of so many digits are equal if their doubles are."""
_SHORT = rf"^-?[0-9]{{1,8}}(\.[0-9]{{1,{_DIGITS - 8}}})?$"

_OF_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789.-", dtype=np.uint8))
"""Bytes that plain numbers consist of."""
_BEGIN_NUMBERS = np.isin(np.arange(256), np.frombuffer(b"0123456789.- \t\r\n", dtype=np.uint8))
"""Bytes that numbers begin with, or the space before them."""

NO_VALUE, FIRST_VALUE = 1, 2
"""Ranks of a text that is no value of a reading, and of one below all constants; 0 is that of NULL."""


class Constants:
    """Constants of one reading, which rise: constant i has the rank 3 + 2i, texts below it 2 + 2i."""

    def __init__(self, reading: Reading, keys: Iterable[Key]) -> None:
        self.reading = reading
        self.keys: Sequence[Key] = sorted(keys)

    def __len__(self) -> int:
        return len(self.keys)

    def ranks(self, texts: pa.StringArray) -> Int64s:
        """Rank texts among the constants."""
        functions = self.reading.functions
        if self.reading.number:
            if functions is None:
                return _number_ranks(xpath_numbers(texts), self._doubles)
            if functions not in ("", "number"):
                texts = _applied(functions, texts)
            return self._exact_ranks(texts)
        if functions:
            texts = _applied(functions, texts)
            if functions.startswith("time"):
                return self._time_ranks(texts)
        return self._text_ranks(texts)

    @cached_property
    def _places(self) -> dict[Key | None, int]:
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def _doubles(self) -> npt.NDArray[np.float64]:
        return np.array([_double(key) for key in self.keys], dtype=np.float64)

    @cached_property
    def _short(self) -> npt.NDArray[np.bool_]:
        """True for each constant that a double tells from all other short ones."""
        return np.array([isinstance(key, Fraction) and _is_short(key) for key in self.keys], dtype=np.bool_)

    @cached_property
    def _texts(self) -> npt.NDArray[np.str_]:
        return np.array(list(map(str, self.keys)), dtype=np.str_)

    def _text_ranks(self, texts: pa.StringArray) -> Int64s:
        # Texts are equal to a constant or not; their order is never asked for.
        if len(self) > len(texts):
            known = self._places
            at = np.array([known.get(text, -1) for text in texts.to_pylist()], dtype=np.int64)
        else:
            found = pc.index_in(texts, value_set=pa.array(self.keys, pa.string())).fill_null(-1)
            at = found.to_numpy(zero_copy_only=False).astype(np.int64)
        return np.where(
            texts.is_null().to_numpy(zero_copy_only=False), NO_VALUE, np.where(at >= 0, 3 + 2 * at, FIRST_VALUE)
        )

    def _time_ranks(self, keys: pa.StringArray) -> Int64s:
        """Return the ranks of texts of ``time_key``, which are of ASCII and so in the order of times."""
        wanted = np.array(keys.fill_null("").to_pylist(), dtype=np.str_)
        at = np.searchsorted(self._texts, wanted)
        equal = np.zeros(len(wanted), dtype=np.bool_)
        if len(self):
            equal = self._texts[np.minimum(at, len(self) - 1)] == wanted
        return np.where(keys.is_null().to_numpy(zero_copy_only=False), NO_VALUE, FIRST_VALUE + 2 * at + equal)

    def _exact_ranks(self, texts: pa.StringArray) -> Int64s:
        """Return the ranks of texts that are numbers.

        Doubles tell most numbers from the constants; numbers that equal a constant as doubles are looked at exactly.
        """
        doubles, constants = self._doubles, self.keys
        plain = pc.match_substring_regex(texts, _SHORT).fill_null(False)
        simple = plain.to_numpy(zero_copy_only=False)
        found = np.full(len(texts), NO_VALUE, dtype=np.int64)
        numbers = texts.filter(plain).cast(pa.float64()).to_numpy(zero_copy_only=False)
        found[simple] = _number_ranks(numbers, doubles)
        # Several constants may have one double.
        first, behind = np.searchsorted(doubles, numbers), np.searchsorted(doubles, numbers, side="right")
        unsure = np.zeros(len(texts), dtype=np.bool_)
        if len(self):
            short = self._short[np.minimum(first, len(self) - 1)]
            unsure[simple] = (first < behind) & ((behind - first > 1) | ~short)
        for place in np.flatnonzero(unsure | ~simple).tolist():
            text = texts[place].as_py()
            exact = None if text is None else number_text(text)
            if exact is not None:
                number = Fraction(exact)
                at = bisect_left(constants, number)
                found[place] = FIRST_VALUE + 2 * at + (at < len(self) and constants[at] == number)
        return found


def _applied(functions: str, texts: pa.StringArray) -> pa.StringArray:
    if functions == "string-length":
        return pc.utf8_length(texts).cast(pa.string())
    return pa.array([apply_functions(functions, text) for text in texts.to_pylist()], pa.string())


def _number_ranks(numbers: npt.NDArray[np.float64], constants: npt.NDArray[np.float64]) -> Int64s:
    at = np.searchsorted(constants, numbers)
    equal = np.zeros(len(numbers), dtype=np.bool_)
    if len(constants):
        equal = constants[np.minimum(at, len(constants) - 1)] == numbers
    return np.where(np.isnan(numbers), NO_VALUE, FIRST_VALUE + 2 * at + equal)


def _double(number: Key) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf  # type: ignore[operator]


def _is_short(number: Fraction) -> bool:
    double = _double(number)
    if not math.isfinite(double) or Fraction(repr(double)) != number:
        return False
    return len(repr(double).partition("e")[0].strip("-").replace(".", "")) <= _DIGITS


def xpath_numbers(texts: pa.StringArray) -> npt.NDArray[np.float64]:
    """Return XPath ``number()`` of each text; NaN where it is none."""
    numbers = _all_plain(texts)
    if numbers is not None:
        return numbers
    found = np.full(len(texts), np.nan)
    likely = _begin_like_numbers(texts)
    if 2 * len(likely) < len(texts):
        if len(likely):
            found[likely] = xpath_numbers(texts.take(pa.array(likely)))
        return found
    plain = pc.match_substring_regex(texts, _PLAIN).fill_null(False)
    simple = plain.to_numpy(zero_copy_only=False)
    found[simple] = texts.filter(plain).cast(pa.float64()).to_numpy(zero_copy_only=False)
    likely = pc.match_substring_regex(texts, _NUMBER).fill_null(False).to_numpy(zero_copy_only=False)
    for place in np.flatnonzero(likely & ~simple).tolist():
        number = to_number(texts[place].as_py())
        found[place] = np.nan if number is None else number
    return found


def _begin_like_numbers(texts: pa.StringArray) -> Int64s:
    """Return the places of texts whose first byte may begin a number."""
    _, offsets, data = texts.buffers()
    if not len(texts) or data is None or not data.size:
        return np.empty(0, dtype=np.int64)
    places = np.frombuffer(offsets, dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    first = np.frombuffer(data, dtype=np.uint8)[np.minimum(places[:-1], data.size - 1)]
    return np.flatnonzero(_BEGIN_NUMBERS[first] & (places[1:] > places[:-1]))


def _all_plain(texts: pa.StringArray) -> npt.NDArray[np.float64] | None:
    """Return the numbers of texts of digits, points and signs, which are numbers if Arrow reads them; None: not all
    texts are such.
    """
    if not len(texts) or texts.null_count:
        return None
    offsets = np.frombuffer(texts.buffers()[1], dtype=np.int32)[texts.offset : texts.offset + len(texts) + 1]
    lengths = np.diff(offsets)
    if lengths.max() > _DIGITS + 1 or not lengths.min():
        return None
    letters = np.frombuffer(texts.buffers()[2], dtype=np.uint8)[offsets[0] : offsets[-1]]
    if not _OF_NUMBERS[letters].all():
        return None
    try:
        found: npt.NDArray[np.float64] = texts.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        return None
    return found
