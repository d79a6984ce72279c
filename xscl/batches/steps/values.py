"""Values of rows of steps, and conditions over pairs of a row on the left and a row on the right, exactly.

Numbers are compared as doubles.  Where these are too close to tell, or are no whole numbers, the exact ones are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from xscl.base.values import COMPARISONS
from xscl.batches.function_failures import apply_to_match
from xscl.batches.steps.rows import Layout, Objects, Rows, Taking, double_of, objects
from xscl.batches.windows.values import Value, holds, number_of
from xscl.language.steps.terms import Between, Computed, Fold
from xscl.language.steps.terms import Value as Asked
from xscl.language.terms import Comparison, Term
from xscl.templates.columns import Bools, Int64s

__all__ = ["Given", "Pairs", "begun", "kept_behind"]

_Floats = npt.NDArray[np.float64]
_CLOSE = 1e-13


class _Doubles(NamedTuple):
    """Values as doubles; NaN is no number."""

    values: _Floats
    sizes: _Floats
    """Bounds of the size of all that was added to make each value; rounding loses a small part of these."""
    exact: Bools

    @classmethod
    def of(cls, values: _Floats, exact: Bools) -> _Doubles:
        """Return values as they are."""
        return cls(values, np.abs(values), exact)

    def moved(self, factor: _Numbers, constant: _Numbers) -> _Doubles:
        """Return the values of a term that computes with these."""
        with np.errstate(invalid="ignore", over="ignore"):
            values = factor.values * self.values + constant.values
            sizes = np.abs(factor.values) * self.sizes + np.abs(constant.values)
        return _Doubles(values, sizes, self.exact & (sizes < 1 << 50) & factor.exact & constant.exact)


class Given(NamedTuple):
    """Numbers, or texts, in place of one that was taken out of steps: each pair has one of them."""

    numbers: Objects
    """The different ones, ascending."""
    doubles: _Floats
    exact: Bools
    which: Int64s
    """Place of the number that each pair has."""

    @classmethod
    def of(cls, numbers: Objects, which: Int64s) -> Given:
        """Return numbers for pairs."""
        known = [double_of(None if isinstance(each, str) else each) for each in numbers]
        found = np.array(known, dtype=np.float64).reshape(-1, 2)
        return cls(numbers, found[:, 0], found[:, 1] == 1.0, which)


class _Numbers(NamedTuple):
    """A number of a condition, or one for each pair."""

    values: float | _Floats
    exact: bool | Bools


@dataclass
class Pairs:
    """Pairs of rows for which conditions are asked; without a right side these are rows by themselves."""

    layout: Layout
    left: Rows
    at: Int64s
    right: Rows | None = None
    of: Int64s | None = None
    parts: frozenset[int] = frozenset()
    """Parts whose values the right side has."""
    folds: frozenset[int] = frozenset()
    """FOLDs that the right side has."""
    fold: Fold | None = None
    """The FOLD whose braces ask."""
    given: Mapping[int, Given] = field(default_factory=dict)
    """Numbers that were taken out of the steps, by their places."""

    def where(self, chosen: Int64s) -> Pairs:
        """Return some of them."""
        given = {slot: each._replace(which=each.which[chosen]) for slot, each in self.given.items()}
        return replace(self, at=self.at[chosen], of=None if self.of is None else self.of[chosen], given=given)

    # -- conditions --------------------------------------------------------------------------------------------

    def satisfy(self, comparisons: Sequence[Comparison], between: Sequence[Between] = ()) -> Bools:
        """Tell which satisfy all conditions."""
        good = np.ones(len(self.at), dtype=np.bool_)
        for limits in between:
            distance = self._time(limits.later) - self._time(limits.earlier)
            if limits.low is not None:
                good &= distance >= limits.low
            if limits.high is not None:
                good &= distance <= limits.high
        for each in comparisons:
            some = np.flatnonzero(good)
            if len(some):
                good[some] = self.where(some).compared(each)
        return good

    def _time(self, block: tuple[int, int]) -> Int64s:
        rows, at = self._side(block[0] in self.parts)
        found: Int64s = rows.times[at, self.layout.block(*block)]
        return found

    def compared(self, each: Comparison) -> Bools:
        """Tell which satisfy a condition."""
        left, right = self._doubles(each.left), self._doubles(each.right)
        is_text = each.op in ("=", "!=") and not (_numeric(each.left) or _numeric(each.right))
        if left is None or right is None or is_text:
            return self._exactly(each)
        good: Bools = np.asarray(COMPARISONS[each.op](left.values, right.values), dtype=np.bool_)
        there = ~(np.isnan(left.values) | np.isnan(right.values))
        with np.errstate(invalid="ignore", over="ignore"):
            sizes = left.sizes + right.sizes
            far = np.abs(left.values - right.values) > _CLOSE * sizes
        sure = far & np.isfinite(sizes) | left.exact & right.exact
        good &= there
        unsure = np.flatnonzero(there & ~sure)
        if len(unsure):
            good[unsure] = self.where(unsure)._exactly(each)
        return good

    def _exactly(self, each: Comparison) -> Bools:
        left, right = self.values(each.left), self.values(each.right)
        found = (holds(one, each.op, other) for one, other in zip(left, right, strict=True))
        return np.fromiter(found, dtype=np.bool_, count=len(self.at))

    def _doubles(self, term: Term) -> _Doubles | None:
        """Return values as doubles; None: these are no plain variables and numbers."""
        if term.functions:
            return None
        match term.kind:
            case "number":
                value, exact = self._number(term, behind=True)
                count = len(self.at)
                return _Doubles.of(np.broadcast_to(value, count), np.broadcast_to(exact, count))
            case "variable":
                found = self._variable_doubles(term)
            case "duration":
                times = self._durations().astype(np.float64)
                found = _Doubles.of(times, times < 1 << 50)
            case "last" if term.first is not None:
                first = self._doubles(term.first)
                if first is None:
                    return None
                found, begins = self._variable_doubles(term, last=True), self._begins()
                found = _Doubles(*(np.where(begins, one, other) for one, other in zip(first, found, strict=True)))
            case _:
                return None
        return found.moved(self._number(term), self._number(term, behind=True)) if term.is_number else found

    def _number(self, term: Term, *, behind: bool = False) -> _Numbers:
        """Return the factor of a term, or the constant behind it."""
        given = None if term.slot is None else self.given[term.slot + behind]
        if given is None:
            return _Numbers(*double_of(term.constant if behind else term.factor))
        return _Numbers(given.doubles[given.which], given.exact[given.which])

    def _exact_number(self, term: Term, *, behind: bool = False) -> Objects:
        given = None if term.slot is None else self.given[term.slot + behind]
        if given is None:
            return objects([term.constant if behind else term.factor] * len(self.at))
        found: Objects = given.numbers[given.which]
        return found

    def _durations(self) -> Int64s:
        found: Int64s = (self.left.ts - self.left.start)[self.at]
        return found

    def _variable_doubles(self, term: Term, *, last: bool = False) -> _Doubles:
        place = self.layout.variable(term.part, term.place)
        rows, at = self._side(not last and term.part in self.parts)
        values, exact = rows.numbers(place)
        return _Doubles.of(values[at], exact[at])

    # -- values ------------------------------------------------------------------------------------------------

    def values(self, asked: Asked) -> Objects:
        """Return the value of each."""
        if isinstance(asked, Computed):
            left, right = self.values(asked.left), self.values(asked.right)
            return objects([_computed(asked.op, a, b) for a, b in zip(left, right, strict=True)])
        found = self._plain(asked)
        if asked.functions:
            found = objects([_applied(asked, value) for value in found])
        if asked.is_number and asked.kind != "number":
            both = self._exact_number(asked), self._exact_number(asked, behind=True)
            found = objects([_moved(*each) for each in zip(found, *both, strict=True)])
        return found

    def _plain(self, term: Term) -> Objects:
        match term.kind:
            case "text" if term.slot is not None:
                texts: Objects = self.given[term.slot].numbers[self.given[term.slot].which]
                return texts
            case "text":
                return objects([term.text] * len(self.at))
            case "number":
                return self._exact_number(term, behind=True)
            case "variable":
                rows, at = self._side(term.part in self.parts)
                found: Objects = rows.texts[at, self.layout.variable(term.part, term.place)]
                return found
            case "duration":
                return objects(self._durations().tolist())
            case "last":
                return self._first_or(term, self.left.texts[self.at, self.layout.variable(term.part, term.place)])
            case "accumulator":
                return self._first_or(term, self._kept(term, self.layout.kept))
        return objects([each.value for each in self._kept(term, self.layout.taken)])

    def _kept(self, term: Term, places: Mapping[int, int]) -> Objects:
        """Return a value that a FOLD keeps."""
        rows, at = self._side(term.part in self.folds)
        found: Objects = rows.kept[at, places[term.part] + term.place]
        return found

    def _side(self, is_right: bool) -> tuple[Rows, Int64s]:
        """Return the rows of a side, and which of them the pairs have."""
        if is_right and self.right is not None and self.of is not None:
            return self.right, self.of
        return self.left, self.at

    def _begins(self) -> Bools:
        """Tell where an instance has taken nothing yet."""
        assert self.fold is not None
        begins: Bools = self.left.taken[self.at, self.fold.number] == 0
        return begins

    def _first_or(self, term: Term, found: Objects) -> Objects:
        if term.first is None or self.fold is None:
            return found
        begins = self._begins()
        return np.where(begins, self.values(term.first), found) if begins.any() else found


def _numeric(term: Term) -> bool:
    return term.is_number or term.kind == "number"


def _applied(term: Term, value: Value) -> Value:
    for name in reversed(term.functions):
        value = apply_to_match(name, value) if isinstance(value, str) else None
    return value


def _moved(value: Value, factor: Fraction, constant: Fraction) -> Value:
    number = number_of(value)
    if number is None:
        return None
    # Fractions are slow: most terms have one of the two alone.
    moved = number if factor == 1 else factor * number
    return moved + constant if constant else moved


def _computed(op: str, left: Value, right: Value) -> Value:
    one, other = number_of(left), number_of(right)
    if one is None or other is None:
        return None
    match op:
        case "+":
            return one + other
        case "-":
            return one - other
        case "*":
            return one * other
    return one / other if other else None


# -- what FOLDs keep -----------------------------------------------------------------------------------------------


def begun(layout: Layout, fold: Fold, lefts: Rows) -> Rows:
    """Return the instances that begin with some lefts: nothing is taken yet."""
    rows = lefts.take(np.arange(len(lefts)))
    rows.taken[:, fold.number] = 0
    pairs = Pairs(layout, lefts, np.arange(len(lefts)))
    for place, each in enumerate(fold.taken):
        firsts = [None] * len(lefts) if each.first is None else pairs.values(each.first)
        nothing = Taking(each.function)
        rows.kept[:, layout.taken[fold.number] + place] = objects([nothing.add(one, itself=False) for one in firsts])
    return rows


def kept_behind(pairs: Pairs) -> Objects:
    """Return what a FOLD keeps behind an iteration, made of what it kept before."""
    fold, layout = pairs.fold, pairs.layout
    assert fold is not None
    kept = pairs.left.kept[pairs.at].copy()
    for place, accumulator in enumerate(fold.accumulators):
        kept[:, layout.kept[fold.number] + place] = pairs.values(accumulator.value)
    for place, each in enumerate(fold.taken):
        column = layout.taken[fold.number] + place
        values = [None] * len(pairs.at) if each.term is None else pairs.values(each.term)
        before, itself = pairs.left.kept[pairs.at, column], each.term is None
        added = [taken.add(value, itself=itself) for taken, value in zip(before, values, strict=True)]
        kept[:, column] = objects(added)
    return kept
