"""Steps of a query over the matches of its parts, as far as times are settled.

Each step takes the rows that the steps below it have decided, gives those that it decides itself, and keeps the rows
that later ones may need.  A row is decided at the first place at which its events are in, and at which the times of all
that might come between them are settled.  So rows and their places do not depend on how the intake is cut into batches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from xscl.base.number_order import each_once
from xscl.batches.steps.absence import reach_back, unaccompanied
from xscl.batches.steps.half_made import halves_below, halves_of, has_step_right, last_events, left_spine
from xscl.batches.steps.meeting import Meeting, walked
from xscl.batches.steps.members import Versions, documents_of, with_events
from xscl.batches.steps.rows import Layout, Rows, State, joined_rows, numbered_nodes, parts_in
from xscl.batches.steps.sharing import Narrowed, Sharing, TooMany, narrowed, with_numbers
from xscl.batches.steps.values import Pairs, begun, kept_behind
from xscl.batches.windows.answers import Frontier
from xscl.language.steps.shapes import kept_slots
from xscl.language.steps.terms import Filter, Fold, Next, Node, Part, Without
from xscl.store.results import NO_DOC
from xscl.templates.columns import Bools, Int64s, numbered_rows
from xscl.templates.sequences.fold_rounds import MOST_INSTANCES, folded
from xscl.templates.sequences.lanes import FAR, Requests, advance, reached
from xscl.templates.sequences.longest import last_of_supersets, undominated

__all__ = ["Tree"]


@dataclass
class Tree:
    """The steps that queries share, in one batch."""

    layout: Layout
    root: Node
    frontiers: Sequence[Frontier]
    """Times up to which each part is settled, at the same places."""
    state: State
    """Rows that are kept before the batch; ``move`` puts those in their place that are kept behind it."""
    sharing: Sharing = field(default_factory=Sharing)
    most: int = MOST_INSTANCES
    """Instances that a FOLD makes."""
    too_long: list[Rows] = field(default_factory=list)
    """Lefts whose runs were cut off, each by the documents of the left alone, at the place of the first cut."""
    versions: Versions = field(default_factory=dict)
    """Versions among the documents of rows."""
    _numbers: Mapping[int, str] = field(default_factory=dict)
    _growing: dict[int, list[Rows]] = field(default_factory=dict)
    """Rows of steps that may become longer, by the FOLD with LONGEST above (``_grows``)."""
    _waiting: dict[int, list[Rows]] = field(default_factory=dict)
    """Rows of steps that wait, or waited in this batch, by their step, below a FOLD with LONGEST over steps."""

    def move(self, new: Sequence[Rows]) -> Rows:
        """Return the rows that the batch decides; ``new`` are the matches of each part."""
        self._numbers = {id(node): str(number) for number, node in enumerate(numbered_nodes(self.root))}
        before, self.state = self.state, {}
        self._growing, self._waiting = {}, {}
        if any(isinstance(node, Fold) for node in numbered_nodes(self.root)):
            new = [replace(rows, events=with_events(rows)) for rows in new]
        return self._move(self.root, new, before)

    def _move(self, node: Node, new: Sequence[Rows], before: State) -> Rows:
        match node:
            case Part(number):
                return new[number]
            case Filter():
                rows = self._move(node.of, new, before)
                rows = rows.take(Pairs(self.layout, rows, np.arange(len(rows))).satisfy((), node.between))
                pairs = Pairs(self.layout, rows, np.arange(len(rows)))
                mine = narrowed(self.sharing, pairs, node.comparisons, rows)
                return mine.put(rows.take(mine.pair))
            case Next():
                found = self._next(node, self._sides(node, new, before))
            case Without():
                found = self._without(node, self._sides(node, new, before))
            case Fold():
                found = self._fold(node, self._sides(node, new, before), before)
        found.seen[:] = -FAR  # the step above has looked at nothing
        return found

    def _sides(self, node: Next | Fold | Without, new: Sequence[Rows], before: State) -> tuple[Rows, Rows]:
        """Return the rows of both sides, those that were kept first."""
        left, right = self._move(node.left, new, before), self._move(node.right, new, before)
        kept = [before.get(f"{self._numbers[id(node)]} {side}") for side in ("left", "right")]
        lefts = [rows for rows in (kept[0], left) if rows is not None and len(rows)]
        rights = [rows for rows in (kept[1], right) if rows is not None and len(rows)]
        return joined_rows(lefts or [left]), joined_rows(rights or [right])

    def _keep(self, node: Node, what: str, rows: Rows) -> None:
        if len(rows):
            self.state[f"{self._numbers[id(node)]} {what}"] = rows

    def repeated(self, decided: Rows) -> Rows:
        """Return decided rows that others of the same documents may follow: a FOLD with LONGEST still holds those.

        Runs from one left to one last row may take other rows between, and end at other times.
        """
        found = np.zeros(len(decided), dtype=np.bool_)
        for node in numbered_nodes(self.root):
            held = self.state.get(f"{self._numbers[id(node)]} held")
            if held is not None:
                blocks = self.layout.of_parts(parts_in(node))[0]
                code = numbered_rows([*np.concatenate([decided.docs, held.docs])[:, blocks].T])[1]
                found |= np.isin(code[: len(decided)], code[len(decided) :])
        return decided.take(found)

    # -- times -------------------------------------------------------------------------------------------------

    def _frontier(self, node: Node) -> Frontier:
        """Return how far the times of all parts of a node are settled."""
        each = [self.frontiers[part] for part in sorted(parts_in(node))]
        return Frontier(min(e.before for e in each), each[0].places, np.minimum.reduce([e.times for e in each]))

    def _floor(self, node: Node) -> int:
        """Return the least time of what a node may still give."""
        times = [self._frontier(node).now]
        for inner in numbered_nodes(node):
            held = self.state.get(f"{self._numbers[id(inner)]} held")
            times += [] if held is None else [int(held.ts.min())]
            waits = self.state.get(f"{self._numbers[id(inner)]} left") if isinstance(inner, Without) else None
            times += [] if waits is None else [int(waits.times.max(axis=1).min())]
        return min(times)

    def _decided(self, rows: Rows, frontier: Frontier, times: Int64s) -> None:
        """Note the places from which rows are certain, that wait for some times."""
        rows.place = np.maximum(rows.place, frontier.places[np.searchsorted(frontier.times, times, side="right")])

    # -- steps -------------------------------------------------------------------------------------------------

    def _next(self, node: Next, sides: tuple[Rows, Rows]) -> Rows:
        lefts, rights = sides
        frontier = self._frontier(node.right)
        meeting = Meeting(self.layout, node, lefts, rights, self.sharing, self.versions)
        lefts = meeting.lefts
        asked = meeting.requests(lefts, meeting.left_key)
        seen = asked._replace(until=np.minimum(asked.until, frontier.now - 1))
        open_ = np.ones(len(lefts), dtype=np.bool_)
        walk = walked(meeting, node, seen)
        if walk is None:
            hits = advance(meeting.lane, seen, lambda request, at: meeting.pass_(lefts, request, at))
            open_[hits.request] = False
        else:
            hits, boxes, rest = walk
            lefts.box = rest
            open_ = self.sharing.sets.there(lefts.base, rest)
        of = meeting.lane.row[hits.at]
        self._grows(node, lefts, open_, np.where(asked.until < frontier.now, asked.until, FAR)[open_])
        self._went_on(node, lefts, hits.request, meeting.lane.ts[hits.at])
        found = meeting.merged(lefts, hits.request, of)
        if walk is not None:
            found.box = boxes
        late, length = found.ts - lefts.ts[hits.request], found.ts - found.start
        in_time = self.sharing.in_time(node.skip, found, late, length)
        found, of = found.take(in_time), of[in_time]
        self._decided(found, frontier, rights.ts[of])
        waits = (asked.until >= frontier.now) & open_ & (meeting.left_key >= 0)
        kept = meeting.whole(waits)
        kept.seen[:] = frontier.now
        self._keep(node, "left", kept)
        self._keep_rights(node, meeting, Requests(*(column[waits] for column in asked)), frontier.now)
        return found

    def _without(self, node: Without, sides: tuple[Rows, Rows]) -> Rows:
        lefts, rights = sides
        frontier = self._frontier(node.right)
        meeting = Meeting(self.layout, node, lefts, rights, self.sharing, self.versions)
        found, end, waits = unaccompanied(meeting, node, frontier.now)
        self._decided(found, frontier, end)
        found.ts = np.maximum(found.ts, end)
        kept = meeting.whole(waits)
        kept.seen[:] = frontier.now
        self._keep(node, "left", kept)
        least = reach_back(self.layout, node, self._floor(node.left), self._oldest)
        self._keep(node, "right", rights.take(rights.ts >= least))
        return found

    def _oldest(self, node: Node, block: int) -> int:
        """Return the least time of a block in what a node may still give."""
        part = next(number for number in parts_in(node) if block in self.layout.of_parts(frozenset([number]))[0])
        alone = self.layout.blocks[part + 1] - self.layout.blocks[part] == 1
        times = [self.frontiers[part].now if alone else -FAR]
        for inner in numbered_nodes(node):
            for what in ("left", "right", "held", "passed"):
                kept = self.state.get(f"{self._numbers[id(inner)]} {what}")
                there = None if kept is None else kept.times[kept.docs[:, block] != NO_DOC, block]
                times += [int(there.min())] if there is not None and len(there) else []
        return min(times)

    def _keep_rights(self, node: Next | Fold, meeting: Meeting, waiting: Requests, seen: int) -> None:
        """Keep the rows of the right that are still to be looked at; lefts that wait have seen those before a time."""
        waiting = waiting._replace(after=np.maximum(waiting.after, seen - 1))
        kept = reached(meeting.lane, waiting, self._floor(node.left))
        self._keep(node, "right", meeting.rights.take(each_once(meeting.lane.row[kept])))

    def _fold(self, node: Fold, sides: tuple[Rows, Rows], before: State) -> Rows:
        lefts, rights = sides
        frontier = self._frontier(node.right)
        held = before.get(f"{self._numbers[id(node)]} held", Rows.empty(self.layout))
        # Lefts of before have begun already: an instance that waits is one of them.
        known = before.get(f"{self._numbers[id(node)]} left", Rows.empty(self.layout))
        fresh = lefts.take(np.arange(len(known), len(lefts)))
        passed = before.get(f"{self._numbers[id(node)]} passed", Rows.empty(self.layout))
        begin = joined_rows([known, begun(self.layout, node, fresh), held.take(held.end == FAR), passed])
        is_passed = np.arange(len(begin)) >= len(begin) - len(passed)
        meeting = Meeting(self.layout, node, begin, rights, self.sharing, self.versions)
        begin, is_passed = meeting.lefts, is_passed[meeting.row]
        rules = _Rules(self, node, meeting, begin, frontier)
        count, taken = len(begin), begin.taken[:, node.number]
        at_most = self.sharing.limit(node.at_most, node.at_most_slot, begin.base)
        out = folded(meeting.lane, count, taken, np.arange(count), rules, frontier.now, at_most, self.most)
        if self.sharing.sets.count > 1 and len(out.too_long):
            raise TooMany
        rows = joined_rows(rules.chunks)
        keys = np.concatenate(rules.keys)
        self._grows(node, rows, out.ended, out.end)
        self._grows(node, rows, out.waiting, np.full(len(out.waiting), FAR))
        self._went_on(node, rows, out.parent, meeting.lane.ts[out.at])
        rows.seen[out.waiting] = frontier.now
        asked = meeting.requests(rows.take(out.waiting), keys[out.waiting])
        self._keep_rights(node, meeting, asked, frontier.now)
        self.too_long.append(self._lefts(node, rows.take(out.too_long)))
        if not node.longest:
            waits = np.zeros(len(rows), dtype=np.bool_)
            waits[out.waiting] = keys[out.waiting] >= 0
            goes_on = waits & (np.arange(len(rows)) >= count)
            kept = joined_rows([meeting.whole(waits[:count]), rows.take(goes_on)])
            self._keep(node, "left", kept.take(self.sharing.in_turn(node, kept)))
            return rows.take(np.arange(count, len(rows)))
        closed = held.take(held.end != FAR)
        is_passed = np.append(is_passed, np.zeros(len(rows) - count, dtype=np.bool_))
        return self._longest(node, meeting, rows, is_passed, out.waiting, (out.ended, out.end), closed)

    def _lefts(self, node: Fold, rows: Rows) -> Rows:
        """Return the lefts of instances, each once, with the least place of its instances."""
        rows = rows.take(np.argsort(rows.place, kind="stable"))
        rows.docs[:, self.layout.of_parts(parts_in(node.right))[0]] = NO_DOC
        return rows.take(numbered_rows([*rows.docs.T])[0])

    def _longest(
        self,
        node: Fold,
        meeting: Meeting,
        rows: Rows,
        is_passed: Bools,
        waiting: Int64s,
        ended: tuple[Int64s, Int64s],
        closed: Rows,
    ) -> Rows:
        """Return the longest matches that are certain, and keep the others that may be, and those that go on.

        Instances that are parts of longer matches are none themselves (``is_passed``), but may go on where these end.
        """
        rows.end[:] = FAR
        rows.end[ended[0]] = ended[1]
        is_match = (rows.taken[:, node.number] > 0) & ~is_passed
        open_ = np.zeros(len(rows), dtype=np.bool_)
        open_[waiting] = True
        # Rows without an iteration are those of the beginning.
        self._keep(node, "left", meeting.whole((open_ & ~is_match & ~is_passed)[: len(meeting.lefts)]))
        stays = open_.copy()
        stays[ended[0]] = True
        # No left without a FOLD has all events of a match.
        growing = [rows.take(stays & ~is_match & ~is_passed), *below] if (below := self._growing.get(id(node))) else []
        held, part, until = self._compared(node, joined_rows([closed, rows.take(stays & is_match)]), growing)
        best, end = undominated(part, documents_of(held), held.end)
        held.end = np.where((held.end < FAR) & (until < FAR), np.maximum(held.end, until), held.end)
        end = np.maximum(end, until)
        frontier = self._frontier(node)
        told = best & (end < frontier.now)
        self._grows(node, held, best, np.where(told, end, FAR)[best])
        found = held.take(told)
        self._decided(found, frontier, end[told])
        self._keep(node, "held", held.take(best & ~told))
        passed = [rows.take(open_ & is_passed), held.take(~best & (held.end == FAR))]
        self._keep(node, "passed", joined_rows(passed))
        return found

    def _grows(self, node: Node, rows: Rows, some: Int64s | Bools, ends: Int64s) -> None:
        """Note some rows to the left of a FOLD with LONGEST, and the time at which each ended; ``FAR``: it has not.

        Such a row may come to a longer match.  Where it is a run of another FOLD, it may have all events of a match of
        the upper one already.
        """
        for each in numbered_nodes(self.root):
            if isinstance(each, Fold) and each.longest and any(node is inner for inner in left_spine(each.left)):
                chosen = rows.take(some)
                chosen.end = ends
                self._growing.setdefault(id(each), []).append(chosen)
        self._went_on(node, rows, some, ends)

    def _went_on(self, node: Node, rows: Rows, some: Int64s | Bools, ends: Int64s) -> None:
        """Note rows that wait for a right side, or have come to one, and the times at which they did no longer.

        Until then, a right side that is half made may have been the next one.
        """
        longest = [each for each in numbered_nodes(self.root) if isinstance(each, Fold) and each.longest]
        below = [inner for each in longest if has_step_right(each) for inner in numbered_nodes(each)]
        if any(node is inner for inner in below):
            chosen = rows.take(some)
            chosen.end = ends
            self._waiting.setdefault(id(node), []).append(chosen)

    def _compared(self, node: Fold, held: Rows, others: Sequence[Rows]) -> tuple[Rows, Int64s, Int64s]:
        """Cut rows up, so that each is compared with what the same members have.

        Returns:
            The rows; their parts; and the time up to which a row that has all events of each was growing, also with a
            right side that was half made.
        """
        sets, growing = self.sharing.sets, joined_rows([Rows.empty(self.layout), *others])
        waiting = {of: joined_rows(rows) for of, rows in self._waiting.items()} if has_step_right(node) else {}
        parts = sets.partition(np.concatenate([held.base, growing.base, *(rows.base for rows in waiting.values())]))
        pieces, of = sets.pieces(held.base, parts), sets.pieces(growing.base, parts)
        held, growing = held.take(pieces.row), growing.take(of.row)
        held.base = pieces.base
        docs = documents_of(held)
        until = last_of_supersets(pieces.part, docs, of.part, documents_of(growing), growing.end)
        if waiting:
            found = {of: halves_of(sets, parts, rows) for of, rows in waiting.items()}
            more = halves_below(node, lambda each: found.get(id(each), ()), last_events(held))
            keys, ends = (
                np.array(column, dtype=np.int64) for column in ([m.part for m in more], [m.until for m in more])
            )
            until = np.maximum(until, last_of_supersets(pieces.part, docs, keys, [m.docs for m in more], ends))
        return held, pieces.part, until


class _Rules:
    """Instances of a FOLD, as its rounds ask for them; those of one round are one chunk of rows."""

    def __init__(self, tree: Tree, node: Fold, meeting: Meeting, begin: Rows, frontier: Frontier) -> None:
        self.tree, self.node, self.meeting, self.frontier = tree, node, meeting, frontier
        self.chunks, self.keys = [begin], [meeting.left_key]
        self._base = 0
        self._narrowed: Narrowed | None = None
        """Members that have what the last pairs make."""

    def passes(self, instance: Int64s, at: Int64s) -> Bools:
        """Tell which rows of the lane are those that instances wait for."""
        return self.meeting.pass_(self.chunks[-1], instance - self._base, at)

    def holds(self, instance: Int64s, at: Int64s) -> Bools:
        """Tell which rows satisfy WHILE."""
        mine, of = instance - self._base, self.meeting.lane.row[at]
        rows, sharing = self.chunks[-1].take(mine), self.tree.sharing
        ends = self.meeting.rights.ts[of]
        in_time = sharing.in_time(self.node.skip, rows, ends - rows.ts, ends - rows.start)
        there = np.flatnonzero(in_time & sharing.in_turn(self.node, rows))
        pairs = self.meeting.pairs(self.chunks[-1], mine[there], of[there])
        found = narrowed(sharing, pairs, self.node.conditions, rows.take(there))
        found = replace(found, pair=there[found.pair])
        self._narrowed = found
        good = np.zeros(len(at), dtype=np.bool_)
        good[found.pair] = True
        return good

    def go_on(self, instance: Int64s, at: Int64s) -> None:
        """Add the instances that have taken these rows, which are those that satisfy WHILE."""
        before, mine, of = self.chunks[-1], instance - self._base, self.meeting.lane.row[at]
        rows = self.meeting.merged(before, mine, of)
        slots = {*kept_slots(self.node.accumulators)}
        rows.kept = kept_behind(
            with_numbers(self.meeting.pairs(before, mine, of), self.tree.sharing, slots, before.base[mine])
        )
        rows.taken[:, self.node.number] += 1
        assert self._narrowed is not None
        self._narrowed.put(rows)
        self.tree._decided(rows, self.frontier, rows.ts)
        self._base += len(before)
        self.chunks.append(rows)
        self.keys.append(self.keys[-1][mine])

    def requests(self, instance: Int64s) -> Requests:
        """Return what instances ask for."""
        mine = instance - self._base
        return self.meeting.requests(self.chunks[-1].take(mine), self.keys[-1][mine])
