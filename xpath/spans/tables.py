"""Sets of spans in arrays, compiled for searches (``index``)."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.xpath.columns.conditions import Boundary, Dimension, Sought
from xscl.xpath.columns.formulas import Single, Told
from xscl.xpath.conditions.intervals import Key, Reading
from xscl.xpath.ranks import Constants
from xscl.xpath.runs import Int64s
from xscl.xpath.spans.words import WordsOfColumns

__all__ = ["Compiled", "Ends", "Ranked", "in_parts", "number_array"]

_CANDIDATES = 500_000
"""Rows that are checked at a time, which should stay in the processor's memory."""
_LAST = 1 << 40
"""A rank behind all."""


class Ends:
    """Boundaries of spans in columns."""

    def __init__(self) -> None:
        self.fixed = array("q")
        """A rank, where there is no constant; before or behind the constant."""
        self.constant = array("q")
        """Its number; -1: none."""

    def append(self, boundary: Boundary, constants: dict[Key, int]) -> None:
        """Add a boundary; ``constants`` numbers the constants of its dimension."""
        if len(boundary) == 1:
            self.fixed.append(_LAST if boundary[0] > 2 else boundary[0])
            self.constant.append(-1)
        else:
            self.fixed.append(boundary[2])
            self.constant.append(constants.setdefault(boundary[1], len(constants)))

    def ranks(self, places: Int64s, offsets: Int64s) -> Int64s:
        """Return the first rank behind each boundary; ``places`` are those of the constants of all dimensions, and each
        boundary's dimension begins at its offset.
        """
        constant, found = number_array(self.constant), number_array(self.fixed)
        of = np.flatnonzero(constant >= 0)
        found[of] += 3 + 2 * places[offsets[of] + constant[of]]
        return found


def number_array(column: array[int]) -> Int64s:
    """Copy a column into an array of numpy."""
    return np.array(column, dtype=np.int64)


def _starts(owners: Int64s, count: int) -> Int64s:
    """Return the begin of the rows of each of ``count`` owners, which stand together and rise, and the end."""
    return np.concatenate([[0], np.cumsum(np.bincount(owners, minlength=count))]).astype(np.int64)


@dataclass
class Compiled:
    """All sets in arrays; alternatives, entries and spans stand in one order."""

    dimensions: Sequence[Dimension]
    constants: Sequence[Constants]
    """Constants of each dimension; none where it has no reading as a key."""
    column: Int64s
    """Column of each dimension."""
    told: npt.NDArray[np.bool_]
    """True for each dimension whose ranks are counted; a row's rank in the others is computed when asked for."""
    sought: npt.NDArray[np.bool_]
    """True for each dimension that seeks words, or that its column tells."""
    words: WordsOfColumns
    """Words of all these dimensions."""
    set_: Int64s
    """Set of each alternative; -1: gone."""
    several: npt.NDArray[np.bool_]
    """True for each alternative whose set has others."""
    entries: Int64s
    """Begin of each alternative's entries, and the end."""
    dimension: Int64s
    """Dimension of each entry."""
    negated: npt.NDArray[np.bool_]
    """True for each entry that holds where no value of its column lies in its spans."""
    spans: Int64s
    """Begin of each entry's spans, and the end."""
    low: Int64s
    """First rank in each span."""
    high: Int64s
    """The first rank behind it."""

    @classmethod
    def of(
        cls,
        dimensions: Sequence[Dimension],
        constants: Sequence[dict[Key, int]],
        set_: Int64s,
        entry_alternative: Int64s,
        dimension: Int64s,
        negated: Int64s,
        span_entry: Int64s,
        ends: tuple[Ends, Ends],
        live: set[int],
        words: WordsOfColumns,
    ) -> Compiled:
        """Compile columns of sets; ``live`` are the numbers of the sets that are still there."""
        rising = []
        places = []
        for of, numbered in zip(dimensions, constants, strict=True):
            reading = of.reading if isinstance(of.reading, Reading) else Reading(None, number=False)
            rising.append(Constants(reading, numbered))
            place = np.empty(len(numbered), dtype=np.int64)
            place[np.array([numbered[key] for key in rising[-1].keys], dtype=np.int64)] = np.arange(len(numbered))
            places.append(place)
        offsets = np.concatenate([[0], np.cumsum([len(place) for place in places])]).astype(np.int64)
        all_places = np.concatenate([np.zeros(0, dtype=np.int64), *places])
        of_span = dimension[span_entry]
        low, high = (each.ranks(all_places, offsets[of_span]) for each in ends)
        distinct, which, counts = np.unique(set_, return_inverse=True, return_counts=True)
        gone = np.isin(distinct, np.fromiter(live, np.int64, len(live)), invert=True)[which] if len(set_) else set_ < 0
        return cls(
            dimensions=dimensions,
            constants=rising,
            column=np.array([each.column for each in dimensions], dtype=np.int64),
            told=np.array(
                [not isinstance(each.reading, Single | Sought | Told) for each in dimensions], dtype=np.bool_
            ),
            sought=np.array([isinstance(each.reading, Sought | Told) for each in dimensions], dtype=np.bool_),
            words=words,
            set_=np.where(gone, -1, set_),
            several=counts[which] > 1 if len(set_) else set_ > 0,
            entries=_starts(entry_alternative, len(set_)),
            dimension=dimension,
            negated=negated > 0,
            spans=_starts(span_entry, len(dimension)),
            low=low,
            high=high,
        )

    def drop(self, number: int) -> None:
        """Remove a set."""
        self.set_[self.set_ == number] = -1


class Ranked(NamedTuple):
    """The texts of a column, and NULL behind them, in one reading."""

    rank: Int64s
    """Rank of each text."""
    order: Int64s
    """Texts in order of their ranks."""
    begin: Int64s
    """Begin of each rank's texts in that order, and the end."""
    below: Int64s
    """Number of rows with a lower rank, for each rank and behind the last."""


def in_parts(wanted: Int64s, counts: Int64s, sets: Int64s) -> Iterator[Int64s]:
    """Yield some alternatives at a time, whose counts are together about ``_CANDIDATES``; a set's stay together."""
    if not len(wanted):
        return
    number = (np.cumsum(counts) - counts) // _CANDIDATES
    cuts = (np.diff(number) > 0) & (np.diff(sets) != 0)
    yield from np.split(wanted, np.flatnonzero(cuts) + 1)
