"""Families of inequalities: edges that compare the same two values, and differ in one constant.

``q >= 1.02 * p`` and ``q >= 1.03 * p`` are two of a family.  One search among the constants tells which of its edges
two values satisfy, however many there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from xscl.templates.columns import Bools, Floats, Int32s, Int64s
from xscl.templates.plans import Edge

__all__ = ["CLOSE", "TINY", "Families", "Family", "candidates", "families_of", "is_line"]

CLOSE = 1e-9
"""Doubles that differ by no more than this part of what they were made of are compared exactly."""
TINY = 1e-290
"""Doubles below this are, too: they may be less precise."""


class Family(NamedTuple):
    """Edges ``left op f * right + add`` on the same two values, with one factor or with one addend."""

    like: Edge
    """One of them."""
    varies: Literal["f", "add"]
    edges: Int32s
    """Numbers of the edges, by rising constant."""
    f: Floats
    add: Floats


class Families(NamedTuple):
    """Families among some edges, and the edges in none."""

    families: tuple[Family, ...]
    others: tuple[int, ...]


def families_of(edges: Mapping[int, Edge], some: Collection[int]) -> Families:
    """Return the families among some edges, and the edges in none.

    Args:
        edges: all edges by their numbers.
        some: numbers of those in question.
    """
    alike = _grouped(
        (edges[number] for number in some if is_line(edges[number])),
        lambda edge: (edge.key.lvar, edge.key.lfn, edge.key.rvar, edge.key.rfn, edge.key.op),
    )
    families: list[Family] = []
    for members in alike:
        by_add = _grouped(members, lambda edge: edge.key.add)
        by_f = _grouped(members, lambda edge: edge.key.f)
        if len(by_add) <= len(by_f):
            families += [_family(part, "f") for part in by_add if len(part) > 1]
        else:
            families += [_family(part, "add") for part in by_f if len(part) > 1]
    taken = {number for family in families for number in family.edges.tolist()}
    return Families(tuple(families), tuple(sorted(set(some) - taken)))


def is_line(edge: Edge) -> bool:
    """Tell whether an edge compares numbers, and one search finds the constants of such edges."""
    return edge.key.kind == "BAND" and (edge.key.lfn or "").startswith("number") and edge.key.op != "!="


def _grouped(edges: Iterable[Edge], of: Callable[[Edge], Hashable]) -> list[list[Edge]]:
    groups: defaultdict[Hashable, list[Edge]] = defaultdict(list)
    for edge in edges:
        groups[of(edge)].append(edge)
    return list(groups.values())


def _family(members: list[Edge], varies: Literal["f", "add"]) -> Family:
    ordered = sorted(members, key=lambda edge: edge.key.f if varies == "f" else edge.key.add)
    f, add = (np.array([float(getattr(edge.key, name)) for edge in ordered]) for name in ("f", "add"))
    return Family(members[0], varies, np.array([edge.number for edge in ordered], np.int32), f, add)


def candidates(family: Family, left: Floats, right: Floats) -> tuple[Int64s, Int64s]:
    """Return the edges of a family that two values may satisfy: for each two the first place, and how many.

    No edge that they do satisfy is left out.  The others are few: doubles hardly tell them from those.
    """
    with np.errstate(all="ignore"):
        if family.varies == "f":
            size = np.abs(right)
            value = (left - family.add[0]) / right
            room = (CLOSE * (np.abs(left) + abs(family.add[0])) + 2 * TINY) / size
            sure = np.isfinite(value) & np.isfinite(room) & (size >= TINY)
        else:
            line = family.f[0] * right
            value, room = left - line, CLOSE * (np.abs(left) + np.abs(line)) + 2 * TINY
            sure = np.isfinite(value)
        constants = family.f if family.varies == "f" else family.add
        first = np.searchsorted(constants, value - room, side="left")
        last = np.searchsorted(constants, value + room, side="right")
    op = family.like.key.op
    rises = right > 0 if family.varies == "f" else np.ones(len(right), np.bool_)
    return _span(op, rises, sure, first, last, len(constants))


def _span(op: str, rises: Bools, sure: Bools, first: Int64s, last: Int64s, count: int) -> tuple[Int64s, Int64s]:
    """Return where spans of constants begin, and how many each has.

    Args:
        op: the comparison.
        rises: whether the right side rises with the constant.
        sure: whether a value could be told; all constants are in question where none could.
        first: the first constant that is not below the value, as far as doubles tell.
        last: the first constant that is beyond it.
        count: the number of constants.
    """
    if op == "=":
        below, above = np.zeros(len(first), np.bool_), np.zeros(len(first), np.bool_)
    else:
        below = rises == (op in (">", ">="))
        above = ~below
    begin = np.where(sure & ~below, first, 0)
    end = np.where(sure & ~above, last, count)
    return begin, end - begin
