"""Absence above steps: rows of a left side that a document accompanies, and how long such documents are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xscl.base.types import LAST_TIME
from xscl.batches.steps.meeting import Meeting
from xscl.batches.steps.rows import Layout, Rows, parts_in
from xscl.language.steps.terms import Node, Without
from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.lanes import FAR, Requests, advance

__all__ = ["forbidden", "reach_back"]


def forbidden(meeting: Meeting, node: Without) -> tuple[Bools, Int64s]:
    """Tell which rows of the left a document accompanies, and until when documents count for each."""
    layout, lefts = meeting.layout, meeting.lefts
    times = lefts.times[:, _blocks(layout, node.left)]
    last = times.max(axis=1, initial=-FAR)
    low, until = np.full(len(lefts), -FAR), np.full(len(lefts), LAST_TIME)  # nothing comes behind it
    for bound, is_low in _bounds(layout, node, lefts, last, times.min(axis=1, initial=FAR)):
        if is_low:
            low = np.maximum(low, bound)
        else:
            until = np.minimum(until, bound)
    key = np.maximum(meeting.left_key, 0)
    asked = Requests(key, np.full(len(lefts), -FAR), low, np.where(meeting.left_key < 0, -FAR, until))
    hit = np.zeros(len(lefts), dtype=np.bool_)
    hit[advance(meeting.lane, asked, lambda request, at: meeting.pass_(lefts, request, at)).request] = True
    return hit, until


def _bounds(layout: Layout, node: Without, lefts: Rows, last: Int64s, first: Int64s) -> Iterator[tuple[Int64s, bool]]:
    """Yield the least and the greatest times of documents for each row, and whether these are the least ones."""
    skip, right = node.skip, node.right.number
    if skip.least is not None:
        yield last + skip.least, True
    if skip.most is not None:
        yield last + skip.most, False
    if node.is_inside:
        yield first + 1, True
        yield last - 1, False
    for each in skip.between:
        if each.later[0] == right:
            of = lefts.times[:, layout.block(*each.earlier)]
            limits = (each.low, True), (each.high, False)
        elif each.earlier[0] == right:
            of = lefts.times[:, layout.block(*each.later)]
            limits = (None if each.high is None else -each.high, True), (None if each.low is None else -each.low, False)
        else:
            continue
        yield from ((of + offset, is_low) for offset, is_low in limits if offset is not None)


def reach_back(layout: Layout, node: Without, floor: int, oldest: Callable[[Node, int], int]) -> int:
    """Return the least time of the documents that may still forbid what comes from the left.

    Args:
        layout: places of rows.
        node: the step.
        floor: least time of the last member of what comes.
        oldest: gives the least time of a block of what comes.
    """
    skip, right = node.skip, node.right.number
    found = [-FAR] if skip.least is None else [floor + skip.least]
    if node.is_inside:
        found.append(min(oldest(node.left, block) for block in _blocks(layout, node.left).tolist()) + 1)
    for each in skip.between:
        if each.later[0] == right and each.low is not None:
            found.append(oldest(node.left, layout.block(*each.earlier)) + each.low)
        if each.earlier[0] == right and each.high is not None:
            found.append(oldest(node.left, layout.block(*each.later)) - each.high)
    return max(found)


def _blocks(layout: Layout, node: Node) -> Int64s:
    """Return the places of the blocks of members."""
    while isinstance(node, Without):
        node = node.left
    return layout.of_parts(parts_in(node))[0]
