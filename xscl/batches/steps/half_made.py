"""Right sides that are half made: with them, what a FOLD with LONGEST has on its left may come to a longer match."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from xscl.batches.steps.members import documents_of
from xscl.batches.steps.rows import Rows
from xscl.language.steps.terms import Filter, Fold, Next, Node, Part, Without
from xscl.templates.columns import Int64s
from xscl.templates.sequences.member_sets import MemberSets

__all__ = ["HalfMade", "halves_below", "halves_of", "has_step_right", "last_events", "left_spine"]


class HalfMade(NamedTuple):
    """Row of a step that waits for a right side, or waited for one in this batch."""

    docs: frozenset[int]
    start: int
    end: int
    """Time of its last event."""
    until: int
    """Time at which it ended; ``FAR``: it has not."""
    part: int
    """Part of a partition of members that has it."""


Found = Callable[[Node], Sequence[HalfMade]]
"""Gives the rows of a step that wait, or waited in this batch."""


def left_spine(node: Node) -> list[Node]:
    """Return a node, what is on its left, what is on the left of that, and so on."""
    match node:
        case Part():
            return [node]
        case Filter():
            return [node, *left_spine(node.of)]
    return [node, *left_spine(node.left)]


def has_step_right(node: Fold) -> bool:
    """Tell whether a step stands on the right side of a FOLD, or of a step to its left."""
    return any(isinstance(each, (Next, Fold)) and not isinstance(each.right, Part) for each in left_spine(node))


def halves_of(sets: MemberSets, parts: Int64s, rows: Rows) -> list[HalfMade]:
    """Return rows of a step, each for every part of the members that has it."""
    pieces, docs = sets.pieces(rows.base, parts), documents_of(rows)
    return [
        HalfMade(docs[row], int(rows.start[row]), int(rows.ts[row]), int(rows.end[row]), part)
        for row, part in zip(pieces.row.tolist(), pieces.part.tolist(), strict=True)
    ]


def halves_below(node: Fold, found: Found, last: Collection[int]) -> list[HalfMade]:
    """Return the rows that may come to a longer match of a FOLD, if they have one of some events."""
    return [*half_made(node.left, found, last), *with_half_made(node, found, last)]


def half_made(node: Node, found: Found, last: Collection[int]) -> Iterator[HalfMade]:
    """Yield the rows from which a node may come to others, if they have one of some events."""
    match node:
        case Filter():
            yield from half_made(node.of, found, last)
        case Next() | Fold():
            yield from (each for each in found(node) if not each.docs.isdisjoint(last))
            yield from half_made(node.left, found, last)
            yield from with_half_made(node, found, last)
        case Part() | Without():
            return


def with_half_made(node: Next | Fold, found: Found, last: Collection[int]) -> Iterator[HalfMade]:
    """Yield the rows of a step with the right sides behind them that are half made."""
    for right in half_made(node.right, found, last):
        for left in found(node):
            if left.part == right.part and left.end < right.start:
                until = min(left.until, right.until)
                yield HalfMade(left.docs | right.docs, left.start, right.end, until, left.part)


def last_events(rows: Rows) -> frozenset[int]:
    """Return the events at which some rows end."""
    return frozenset(rows.docs[rows.times == rows.ts[:, np.newaxis]].tolist())
