"""Bounds of values, by which pairs of rows are left out before they are written down.

Where every plan of a pass needs an inequality, most pairs that an equality finds satisfy none: prices rarely rise by
two per cent.  A document's left number has a bound, and so has the line of its right number, for all constants
together.  So one comparison of two doubles rules a pair out.  The bounds are wide enough for what doubles do not tell,
and pairs that are kept are compared exactly later on.  So bounds never change an answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from xscl.templates.columns import Bools, Floats, Int64s, gather
from xscl.templates.joins.families import CLOSE, TINY
from xscl.templates.plans import Edge
from xscl.templates.runs.run import KEY_BITS, Key
from xscl.templates.runs.view import RunView

__all__ = ["Bounds", "bounds_of"]


class _Lines(NamedTuple):
    """Inequalities on the same two values: ends of their factors and addends."""

    left: Key
    right: Key
    op: str
    f: tuple[float, float]
    add: tuple[float, float]


class _Sides(NamedTuple):
    """Numbers of the documents of a run: a pair is possible only where the left one is no less than the right one."""

    left: Floats
    right: Floats


class Bounds:
    """Bounds of the documents of runs: a pair of documents has to satisfy one of some inequalities."""

    def __init__(self, lines: Sequence[_Lines], number: Callable[[Key], int]) -> None:
        self._lines = lines
        self._number = number
        self._known: dict[int, list[list[_Sides]]] = {}
        """Bounds by the identity of a run: for each of the lines those that must hold together."""

    def possible_spans(
        self, new: RunView, rows: Int64s, other: RunView, spans: tuple[Int64s, Int64s], *, new_left: bool
    ) -> Bools:
        """Tell which spans of another run's rows may have a row that fits the new row of each."""
        found = np.zeros(len(rows), np.bool_)
        mine, others = new.run.doc[rows], other.run.doc
        for own, theirs in zip(self._of(new), self._of(other), strict=True):
            held = np.ones(len(rows), np.bool_)
            for one, two in zip(own, theirs, strict=True):
                if new_left:
                    held &= one.left[mine] >= _ends(np.minimum, two.right[others], spans)
                else:
                    held &= one.right[mine] <= _ends(np.maximum, two.left[others], spans)
            found |= held
        return found

    def possible(self, new: RunView, rows: Int64s, other: RunView, old: Int64s, *, new_left: bool) -> Bools:
        """Tell which pairs of a new row and a row of another run may satisfy an inequality."""
        found = np.zeros(len(rows), np.bool_)
        mine, others = new.run.doc[rows], other.run.doc[old]
        for own, theirs in zip(self._of(new), self._of(other), strict=True):
            held = np.ones(len(rows), np.bool_)
            for one, two in zip(own, theirs, strict=True):
                left, right = (one.left[mine], two.right[others]) if new_left else (two.left[others], one.right[mine])
                held &= left >= right
            found |= held
        return found

    def _of(self, view: RunView) -> list[list[_Sides]]:
        known = self._known.get(id(view.run))
        if known is None:
            known = self._known[id(view.run)] = [list(self._sides(view, lines)) for lines in self._lines]
        return known

    def _sides(self, view: RunView, lines: _Lines) -> Iterable[_Sides]:
        left, right = (_numbers(view, self._number(key)) for key in (lines.left, lines.right))
        if lines.op in (">", ">=", "="):
            yield _Sides(_greatest(left), -_greatest_line(right, lines, least=True))
        if lines.op in ("<", "<=", "="):
            yield _Sides(_greatest(left._replace(number=-left.number)), -_greatest_line(right, lines, least=False))


def bounds_of(edges: Mapping[int, Edge], some: Iterable[int], number: Callable[[Key], int]) -> Bounds:
    """Return the bounds for some inequalities.

    Args:
        edges: all edges by their numbers.
        some: numbers of inequalities on numbers (``families.is_line``).
        number: gives the numbers of keys.
    """
    alike: defaultdict[tuple[Key, Key, str], list[Edge]] = defaultdict(list)
    for edge in (edges[each] for each in some):
        alike[(edge.key.lvar, edge.key.lfn), (edge.key.rvar, edge.key.rfn), edge.key.op].append(edge)
    lines = []
    for (left, right, op), members in alike.items():
        f, add = ([float(getattr(edge.key, name)) for edge in members] for name in ("f", "add"))
        lines.append(_Lines(left, right, op, (min(f), max(f)), (min(add), max(add))))
    return Bounds(lines, number)


class _Numbers(NamedTuple):
    """The numbers of a key in the documents of a run."""

    many: Int64s
    """Number of them in each document."""
    number: Floats
    """The number of each document that has one."""


def _numbers(view: RunView, key: int) -> _Numbers:
    run = view.run
    many, number = np.zeros(len(run.docs), np.int64), np.zeros(len(run.docs))
    local = int(view.local(np.array([key]))[0])
    if local >= 0:
        slices = np.flatnonzero(run.slice_codes & ((1 << KEY_BITS) - 1) == local)
        begin = run.slice_starts[slices]
        rows, of = gather(begin, run.slice_starts[slices + 1] - begin)
        many = np.bincount(run.doc[rows], minlength=len(run.docs))
        number[run.doc[rows]] = run.numbers[slices][of]
    return _Numbers(many, number)


def _greatest(left: _Numbers) -> Floats:
    """Return a bound that no left number of a document is beyond; documents with several numbers have none."""
    with np.errstate(all="ignore"):
        found = left.number + CLOSE * np.abs(left.number) + TINY
    found[np.isnan(found) | (left.many > 1)] = np.inf
    found[left.many == 0] = -np.inf
    return found


def _greatest_line(right: _Numbers, lines: _Lines, *, least: bool) -> Floats:
    """Return a bound of all lines over the right number of a document: minus the ``least``, or the greatest one."""
    (low, high), (begin, end) = lines.f, lines.add
    with np.errstate(all="ignore"):
        if least:
            line = -(np.where(right.number >= 0, low, high) * right.number + begin)
        else:
            line = np.where(right.number >= 0, high, low) * right.number + end
        size = max(abs(low), abs(high)) * np.abs(right.number) + max(abs(begin), abs(end))
        found: Floats = line + CLOSE * size + TINY
    found[np.isnan(found) | (right.many > 1)] = np.inf
    found[right.many == 0] = -np.inf
    return found


def _ends(of: np.ufunc, numbers: Floats, spans: tuple[Int64s, Int64s]) -> Floats:
    """Return the least or the greatest number of each span; no span is empty."""
    order = np.argsort(spans[0], kind="stable")
    # What lies between two spans is looked at, too, which is little in the order of their begins.
    cuts = np.stack([each[order] for each in spans], axis=1).ravel()
    found = np.empty(len(order))
    found[order] = of.reduceat(np.append(numbers, 0.0), cuts)[::2]
    return found
