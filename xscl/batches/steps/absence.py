"""Absence above steps: rows of a left side that a document accompanies, and how long such documents are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from xscl.base.types import LAST_TIME
from xscl.batches.steps.meeting import Meeting
from xscl.batches.steps.rows import Layout, Rows, parts_in
from xscl.language.steps.terms import Node, Without
from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.lanes import FAR, Hits, Requests, advance

__all__ = ["reach_back", "unaccompanied"]


def unaccompanied(meeting: Meeting, node: Without, settled: int) -> tuple[Rows, Int64s, Bools]:
    """Tell which rows of the left no document accompanies, and until when documents count for each.

    Where members differ in windows, a document accompanies a row for all whose windows it is in.

    Args:
        meeting: rows of both sides.
        node: the step.
        settled: time before which all documents are there.

    Returns:
        Rows that are certain; these times; and which rows wait for more documents.
    """
    lefts = meeting.lefts
    last = lefts.times[:, _blocks(meeting.layout, node.left)].max(axis=1, initial=-FAR)
    low, until = _limits(meeting, node, last)
    slot = node.skip.most_slot
    times = None if slot is None else meeting.sharing.limits.get(slot)
    if slot is None or times is None:
        if (most := meeting.most(lefts.base)) is not None:
            until = np.minimum(until, last + most)
        if (least := meeting.least(lefts.base)) is not None:
            low = np.maximum(low, last + least)
        alone = np.ones(len(lefts), dtype=np.bool_)
        alone[_first(meeting, low, until).request] = False
        told = alone & (until < settled)
        return lefts.take(told), until[told], alone & ~told
    ends = meeting.sharing.ends(slot)
    high = _lone(meeting, node, times, last, (low, until))
    lefts.box[:, ends] = np.stack([meeting.sharing.clipped(slot, lefts.box)[0], high], axis=1)
    certain = np.searchsorted(times, settled - last)
    certain = np.where(until < settled, high, np.minimum(certain, high))
    row, rank = meeting.sharing.ranks_between(slot, lefts, lefts.box[:, ends.start], certain)
    found = lefts.take(row)
    found.box[:, ends] = np.stack([rank, rank + 1], axis=1)
    lefts.box[:, ends.start] = np.maximum(lefts.box[:, ends.start], certain)
    waits = (lefts.box[:, ends.start] < high) & meeting.sharing.sets.there(lefts.base, lefts.box)
    return found, np.minimum(until[row], last[row] + times[rank]), waits


def _lone(meeting: Meeting, node: Without, times: Int64s, last: Int64s, limits: tuple[Int64s, Int64s]) -> Int64s:
    """Return the rank of the first window of each row that a document is in, for all members.

    Args:
        meeting: rows of both sides.
        node: the step.
        times: windows of the members, ascending.
        last: time from which windows are reckoned.
        limits: the least and the greatest time of documents, but for windows.
    """
    low, until = limits
    slot = node.skip.most_slot
    assert slot is not None
    high = meeting.sharing.clipped(slot, meeting.lefts.box)[1]
    is_around = node.skip.least_slot == slot
    if not is_around and (least := meeting.least(meeting.lefts.base)) is not None:
        low = np.maximum(low, last + least)
    active = np.flatnonzero(high > 0)
    while len(active):
        longest = times[np.maximum(high - 1, 0)]
        since = np.maximum(low, last - longest) if is_around else low
        hits = _first(meeting, since, np.minimum(until, last + longest), active)
        row, first = np.unique(active[hits.request], return_index=True)
        late = meeting.lane.ts[hits.at[first]] - last[row]
        high[row] = np.minimum(high[row], np.searchsorted(times, np.abs(late) if is_around else late))
        # The first document behind the last member is the nearest one; those before it come nearer and nearer.
        active = row[is_around & (late < 0) & (high[row] > 0)]
    return high


def _first(meeting: Meeting, low: Int64s, until: Int64s, some: Int64s | None = None) -> Hits:
    """Return the first documents between two times for some rows of the left."""
    lefts, keys = meeting.lefts, meeting.left_key
    some = np.arange(len(lefts)) if some is None else some
    before = np.full(len(some), -FAR)
    asked = Requests(np.maximum(keys, 0)[some], before, low[some], np.where(keys < 0, -FAR, until)[some])
    return advance(meeting.lane, asked, lambda request, at: meeting.pass_(lefts, some[request], at))


def _limits(meeting: Meeting, node: Without, last: Int64s) -> tuple[Int64s, Int64s]:
    """Return the least and the greatest time of documents that count for each row, but for windows."""
    lefts = meeting.lefts
    low, until = lefts.seen.copy(), np.full(len(lefts), LAST_TIME)  # nothing comes behind it
    first = lefts.times[:, _blocks(meeting.layout, node.left)].min(axis=1, initial=FAR)
    for bound, is_low in _bounds(meeting.layout, node, lefts, last, first):
        if is_low:
            low = np.maximum(low, bound)
        else:
            until = np.minimum(until, bound)
    return low, until


def _bounds(layout: Layout, node: Without, lefts: Rows, last: Int64s, first: Int64s) -> Iterator[tuple[Int64s, bool]]:
    """Yield the least and the greatest times of documents for each row, and whether these are the least ones."""
    skip, right = node.skip, node.right.number
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
