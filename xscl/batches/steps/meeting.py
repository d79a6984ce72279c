"""Rows of both sides of NEXT or FOLD: the keys by which they meet, what left rows ask for, and what pairs make.

Queries that see other rows on the right ask for themselves.  A NEXT whose queries differ in one number is one walk:
each row of the right answers a range of the numbers, and the others go on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from xscl.base.types import LAST_TIME
from xscl.batches.steps.members import Apart, Versions
from xscl.batches.steps.own_values import own_values
from xscl.batches.steps.rows import Layout, Rows, numbered_nodes, objects, parts_in
from xscl.batches.steps.sharing import MOST_ROWS, Sharing, Tested, TooMany, satisfying, with_numbers
from xscl.batches.steps.values import Pairs
from xscl.language.steps.shapes import is_of, slots_of
from xscl.language.steps.terms import Fold, Key, Next, Without
from xscl.language.terms import Comparison
from xscl.templates.columns import Bools, Int64s, numbered_rows
from xscl.templates.sequences.lanes import FAR, Hits, Lane, Requests, advance, lane_of

__all__ = ["Meeting", "walked"]


class Meeting:
    """Rows of both sides of a step, with the keys by which they meet."""

    def __init__(
        self,
        layout: Layout,
        node: Next | Fold | Without,
        lefts: Rows,
        rights: Rows,
        sharing: Sharing,
        versions: Versions,
    ) -> None:
        self.layout, self.skip, self.given, self.rights, self.sharing = layout, node.skip, lefts, rights, sharing
        self.fold = node if isinstance(node, Fold) else None
        self.parts = parts_in(node.right)
        self._own = sharing.own_values(node)
        # Pairs are asked for what neither a row on the right nor its key has told.
        told = [each for each in node.skip.comparisons if is_of(each, self.parts)]
        told += [each for each in self._own if each.op == "="]
        self._asked = [each for each in node.skip.comparisons if each not in told]
        self._meet(node)
        self._blocks, self._names = layout.of_parts(self.parts)
        folds = [each for each in numbered_nodes(node.right) if isinstance(each, Fold)]
        self.folds = frozenset(each.number for each in folds)
        self._kept = layout.of_folds(folds)
        is_absence = isinstance(node, Without)
        self._apart = Apart(lefts, rights, versions, may_meet_itself=is_absence, has_runs=bool(folds))

    def _meet(self, node: Next | Fold | Without) -> None:
        """Put rows on the right in order, and make requests of those on the left.

        Members that see other rows on the right, or have other numbers, ask for themselves.
        """
        lefts, rights, sharing = self.given, self.rights, self.sharing
        left_key, right_key = _keys(self.layout, node.skip.keys, lefts, rights)
        seen = sharing.sets.partition(rights.base)
        asked = [each for each in node.skip.comparisons if each not in self._own]
        if isinstance(node, Fold) and node.longest:
            asked += node.conditions  # a run ends for all that have its row, or for none
        alike = sharing.alike(sharing.own(asked, node))
        mine = sharing.sets.pieces(lefts.base, seen if alike is None else sharing.sets.partition(rights.base, alike))
        others = sharing.sets.pieces(rights.base, seen)
        wide = int(seen.max(initial=0)) + 1
        rows = Pairs(self.layout, rights, np.arange(len(rights)))
        values = own_values(sharing, rows, self.parts, self._own)
        able = (right_key >= 0) & rows.satisfy([each for each in node.skip.comparisons if is_of(each, self.parts)])
        there = np.flatnonzero((able & values.asked)[others.row])
        of = others.row[there]
        rights_key = right_key[of] * wide + others.part[there]
        sets, code = np.unique(mine.base, return_inverse=True)
        part = np.array([seen[sharing.sets.of(base)[0]] for base in sets.tolist()], dtype=np.int64)[code.reshape(-1)]
        key = np.where(left_key[mine.row] < 0, -1, left_key[mine.row] * wide + part)
        if self._own:
            mine, key = values.cut(sharing, mine, key, rights_key, of)
            rights_key = values.keys(rights_key, values.code[of])
        if max(len(mine.row) - len(lefts), len(others.row) - len(rights)) > MOST_ROWS:
            raise TooMany
        self.row, self.left_key = mine.row, key
        """Row of the left that each request is of, and its key."""
        self.lefts = lefts.take(mine.row)
        self.lefts.base = mine.base
        lane = lane_of(rights_key, rights.start[of], rights.ts[of])
        self.lane: Lane = lane._replace(row=of[lane.row])

    def requests(self, rows: Rows, key: Int64s) -> Requests:
        """Return what rows ask for."""
        low, until = rows.seen, np.full(len(rows), LAST_TIME)  # nothing comes behind it
        low = np.maximum(low, rows.ts if (least := self.least(rows.base)) is None else rows.ts + least)
        if (most := self.most(rows.base)) is not None:
            until = np.minimum(until, rows.ts + most)
        duration = self.sharing.limit(self.skip.duration, self.skip.duration_slot, rows.base)
        if duration is not None:
            until = np.minimum(until, rows.start + duration)
        return Requests(np.maximum(key, 0), rows.ts, low, np.where(key < 0, -FAR, until))

    def least(self, base: Int64s) -> Int64s | None:
        """Return the least time of right sides behind the left one for rows with some sets; None: there is none."""
        skip = self.skip
        if skip.least_slot is not None and skip.least_slot == skip.most_slot:
            most = self.most(base)
            return None if most is None else -most
        return self.sharing.limit(skip.least, skip.least_slot, base)

    def most(self, base: Int64s) -> Int64s | None:
        """Return the greatest time of right sides behind the left one for rows with some sets; None: there is none."""
        return self.sharing.limit(self.skip.most, self.skip.most_slot, base)

    def pairs(self, rows: Rows, at: Int64s, of: Int64s) -> Pairs:
        """Return pairs of a row of the left and one of the right."""
        return Pairs(self.layout, rows, at, self.rights, of, self.parts, self.folds, self.fold)

    def pass_(self, rows: Rows, at: Int64s, of_lane: Int64s, but: Comparison | None = None) -> Bools:
        """Tell which pairs have no item in common and satisfy the conditions of the step, but for one, and keys and
        times.
        """
        of = self.lane.row[of_lane]
        good = self._apart.passes(rows, at, of)
        comparisons = [each for each in self._asked if each is not but]
        if not comparisons and not self.skip.between:
            return good
        slots = {slot for each in comparisons for slot in slots_of(each)}
        mine = with_numbers(self.pairs(rows, at, of), self.sharing, slots, rows.base[at])
        return good & mine.satisfy(comparisons, self.skip.between)

    def whole(self, chosen: Bools) -> Rows:
        """Return the rows of the left that some requests are of; requests of one row and one box are put together."""
        rows = self.lefts.take(chosen)
        first, which = numbered_rows([self.row[chosen], *rows.box.T])
        order = np.argsort(which, kind="stable")
        row, base = self.sharing.sets.together(which[order], rows.base[order])
        found = rows.take(first[row])
        found.base = base
        return found

    def merged(self, lefts: Rows, at: Int64s, of: Int64s) -> Rows:
        """Return the rows that pairs make together."""
        found, rights = lefts.take(at), self.rights
        found.ts = rights.ts[of]
        if len(found) and found.events[0] is not None:
            # Rows of several queries with the same events have one object, whose documents are looked for once.
            known = dict[tuple[int, int], object]()
            both = zip(found.events, rights.events[of], strict=True)
            found.events = objects([known.setdefault((id(one), id(other)), (one, other)) for one, other in both])
        found.place = np.maximum(found.place, rights.place[of])
        found.first = np.minimum(found.first, rights.first[of])
        blocks, names = self._blocks, self._names
        found.docs[:, blocks] = rights.docs[np.ix_(of, blocks)]
        found.times[:, blocks] = rights.times[np.ix_(of, blocks)]
        nodes = np.append(blocks, names + self.layout.blocks[-1])
        found.nodes[:, nodes] = rights.nodes[np.ix_(of, nodes)]
        found.texts[:, names] = rights.texts[np.ix_(of, names)]
        found.kept[:, self._kept] = rights.kept[np.ix_(of, self._kept)]
        folds = np.array(sorted(self.folds), dtype=np.int64)
        found.taken[:, folds] = rights.taken[np.ix_(of, folds)]
        return found


class _Walk(NamedTuple):
    """A number of a NEXT whose ranges rows on the right answer."""

    ends: slice
    """The columns of boxes that it cuts."""
    clipped: tuple[Int64s, Int64s]
    """Range of ranks of each row on the left."""
    tested: Callable[[Int64s, Int64s], Tested]
    """Returns a test of pairs of a row on the left and one of the lane with numbers of some ranks."""
    low: Callable[[Int64s], Int64s] | None
    """Returns the time from which on right sides are of use, by the least ranks of all rows on the left."""
    but: Comparison | None
    """The condition that it is a number of."""


def _walk(meeting: Meeting, node: Next) -> _Walk | None:
    """Return the number over which a NEXT goes over its right sides; None: there is none."""
    sharing, lefts, lane = meeting.sharing, meeting.lefts, meeting.lane
    one, least = sharing.walked(node), sharing.walked_least(node)
    if one is not None:
        slot = sharing.cut(one)
        assert slot is not None

        def compared(left: Int64s, at: Int64s) -> Tested:
            return sharing.tested(meeting.pairs(lefts, left, lane.row[at]), one)

        return _Walk(sharing.ends(slot), sharing.clipped(slot, lefts.box), compared, None, one)
    if least is None:
        return None
    times = sharing.limits[least]

    def behind(left: Int64s, at: Int64s) -> Tested:
        late = lane.ts[at] - lefts.ts[left]
        return lambda some, rank: times[np.clip(rank, 0, len(times) - 1)] <= late[some]

    def low(rank: Int64s) -> Int64s:
        return lefts.ts + times[np.clip(rank, 0, len(times) - 1)]

    return _Walk(sharing.ends(least), sharing.clipped(least, lefts.box), behind, low, None)


def walked(meeting: Meeting, node: Next, asked: Requests) -> tuple[Hits, Int64s, Int64s] | None:
    """Return the first rows for each number that a NEXT goes over, one time after another; None: there is none.

    Returns:
        Rows that requests find, the boxes of those for whom they do, and the boxes that are left of all requests.
    """
    walk = _walk(meeting, node)
    if walk is None:
        return None
    lefts, lane, ends, sets = meeting.lefts, meeting.lane, walk.ends, meeting.sharing.sets
    rest, low = lefts.box.copy(), asked.low.copy()
    rest[:, ends] = np.stack(walk.clipped, axis=1)
    active, found = np.arange(len(lefts)), list[tuple[Int64s, Int64s, Int64s]]()
    while len(active):
        if walk.low is not None:
            low = np.maximum(low, walk.low(rest[:, ends.start]))
        mine = Requests(*(column[active] for column in asked))._replace(low=low[active])

        def passes(request: Int64s, at: Int64s, of: Int64s = active) -> Bools:
            good = meeting.pass_(lefts, of[request], at, walk.but)
            some = np.flatnonzero(good)
            rows = of[request[some]]
            test = walk.tested(rows, at[some])
            # Numbers that satisfy it reach one of the ends of the range.
            every = np.arange(len(rows))
            good[some] = test(every, rest[rows, ends.start]) | test(every, rest[rows, ends.start + 1] - 1)
            return good

        hits = advance(lane, mine, passes)
        left = active[hits.request]
        box = rest[left]
        first, last = box[:, ends].T.copy()
        least, most = satisfying(walk.tested(left, hits.at), first, last)
        box[:, ends] = np.stack([least, most], axis=1)
        good = (least < most) & sets.there(lefts.base[left], box)
        found.append((left[good], hits.at[good], box[good]))
        begins, reaches = least == first, most == last
        np.maximum.at(rest[:, ends.start], left[begins], most[begins])
        np.minimum.at(rest[:, ends.start + 1], left[reaches & ~begins], least[reaches & ~begins])
        low[left] = lane.ts[hits.at] + 1
        active = np.unique(left)
        active = active[(rest[active, ends.start] < rest[active, ends.start + 1])]
        active = active[sets.there(lefts.base[active], rest[active])]
    empty = np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64), rest[:0]
    request, at, boxes = (np.concatenate(each) for each in zip(empty, *found, strict=True))
    return Hits(request, at), boxes, rest


def _keys(layout: Layout, keys: Sequence[Key], lefts: Rows, rights: Rows) -> tuple[Int64s, Int64s]:
    """Return numbers that are equal where all equalities hold; -1: one has no value."""
    count = len(lefts)
    code = np.zeros(count + len(rights), dtype=np.int64)
    for key in keys:
        one = Pairs(layout, lefts, np.arange(count)).values(key.left)
        other = Pairs(layout, rights, np.arange(len(rights))).values(key.right)
        coded = pa.array(np.concatenate([one, other]), pa.string()).dictionary_encode()
        mine = coded.indices.fill_null(-1).to_numpy().astype(np.int64)
        both = code * (len(coded.dictionary) + 1) + mine
        numbers = np.unique(both, return_inverse=True)[1].reshape(-1)
        code = np.where((code < 0) | (mine < 0), -1, numbers)
    return code[:count], code[count:]
