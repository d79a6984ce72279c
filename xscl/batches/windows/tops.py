"""Groups of a window that ``TOP`` tells of: those of the greatest values, and of equal ones in their order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from xscl.batches.windows.parts import LastOfParts
from xscl.batches.windows.spans import Spans
from xscl.batches.windows.values import GroupValues, Numbers, Value
from xscl.language.aggregates import Definition
from xscl.templates.columns import Bools, Int64s

__all__ = ["first_of", "may_be_first"]

_NEAR = 1e-12
"""Doubles that are so near may be in another order."""


def first_of(
    definition: Definition, ends: Int64s, found: list[tuple[int, GroupValues]]
) -> list[tuple[int, GroupValues]]:
    """Return the groups of each window that are told; without ``TOP`` all.

    Args:
        definition: what is told.
        ends: of all windows of groups.
        found: places of some of them, with the values of their groups.
    """
    if definition.top is None or definition.by is None:
        return found
    by = definition.by
    found = sorted(found, key=lambda each: each[1].group)
    found.sort(key=lambda each: _rank(each[1].value(by)), reverse=True)
    told: dict[int, int] = {}
    chosen = []
    for at, values in found:
        end = int(ends[at])
        told[end] = told.get(end, 0) + 1
        if told[end] <= definition.top:
            chosen.append((at, values))
    return chosen


def _rank(value: Value) -> tuple[int, Fraction, str]:
    """Return what values are ordered by: none, then texts, then numbers."""
    if isinstance(value, str):
        return 1, Fraction(0), value
    return (0, Fraction(0), "") if value is None else (2, value, "")


def may_be_first(definition: Definition, spans: Spans | LastOfParts, ends: Int64s, told: Bools) -> Bools:
    """Tell which groups may be among the first of their window, of those that would be told."""
    by, top = definition.by, definition.top
    if by is None or top is None or by.kind != "aggregate" or by.functions or not by.factor:
        return told
    numbers = spans.aggregates(definition.aggregates[by.place])
    values = numbers.doubles() if isinstance(numbers, Numbers) else None
    if values is None:
        return told
    which = np.flatnonzero(told)
    mine = np.nan_to_num(values[which] * np.sign(float(by.factor)), nan=-np.inf)
    order = np.lexsort((-mine, ends[which]))
    of = ends[which][order]
    begins = np.flatnonzero(np.diff(of, prepend=of[:1] - 1))
    sizes = np.diff(np.append(begins, len(of)))
    least = mine[order][begins + np.minimum(sizes, top) - 1]
    found = np.zeros(len(told), dtype=np.bool_)
    # A window that has no more groups than are asked for has all of them told.
    near = np.abs(least, where=np.isfinite(least), out=np.zeros(len(least))) * _NEAR + 1e-300
    found[which[order]] = mine[order] >= np.repeat(least - near, sizes)
    return found
