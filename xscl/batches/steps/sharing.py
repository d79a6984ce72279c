"""Queries that share steps and differ in numbers: which of them have a row, and which still do behind a condition.

Conditions of WHILE and FILTER with one number of a query's own cut the rows to a range of these numbers.  Others are
asked once for each combination of numbers that there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace

import numpy as np

from xscl.batches.steps.rows import Objects, Rows, numbered_nodes, objects, parts_in
from xscl.batches.steps.values import Given, Pairs
from xscl.language.steps.shapes import Number, filled, kept_slots, limits_in, own_value, slots_of, with_widest
from xscl.language.steps.terms import Filter, Fold, Next, Node, Part, Skip, Without
from xscl.language.terms import Comparison
from xscl.templates.columns import Bools, Int64s, numbered_rows
from xscl.templates.sequences.member_sets import MemberSets

__all__ = [
    "MOST_ROWS",
    "TooMany",
    "Narrowed",
    "Sharing",
    "Tested",
    "narrowed",
    "satisfying",
    "sharing_of",
    "with_numbers",
]

MOST_ROWS = 2_000_000
"""Rows of a side, or of a condition, that are added where queries ask for themselves; behind them half of the queries
are moved at a time.
"""
Tested = Callable[[Int64s, Int64s], Bools]


class TooMany(Exception):
    """Runs of steps that several queries share are longer than those of one may be, or rows are too many."""


@dataclass(frozen=True, slots=True)
class Sharing:
    """Queries that share steps, as members that are numbered from 0 on."""

    sets: MemberSets = field(default_factory=lambda: MemberSets(1))
    numbers: Mapping[int, Given] = field(default_factory=dict)
    """Numbers that are taken out of the steps by their places, with the rank of each member's own."""
    dimension: Mapping[int, int] = field(default_factory=dict)
    """Dimension of a number by whose ranges rows are cut."""

    ranks: Mapping[int, Mapping[str, int]] = field(default_factory=dict)
    """Ranks of the texts that are taken out of the steps, by their places."""
    limits: Mapping[int, Int64s] = field(default_factory=dict)
    """Windows in microseconds, and numbers of iterations, by whose ranges rows are cut: by their places, ascending."""
    own_limits: Mapping[int, Int64s] = field(default_factory=dict)
    """The same for which members ask for themselves: by their places, that of each member."""
    _known: dict[int, Mapping[Number, int]] = field(default_factory=dict)
    """Ranks of numbers and texts that were asked for, by their places."""

    def anew(self) -> Sharing:
        """Return it without sets of members but that of all."""
        return replace(self, sets=MemberSets(self.sets.count, self.sets.ranks))

    def own(self, comparisons: Sequence[Comparison], node: Node | None = None) -> list[int]:
        """Return the places of the numbers of conditions, and of a step's limits and what it keeps, that are not cut by
        ranges.
        """
        slots = {slot for each in comparisons for slot in slots_of(each)}
        slots |= set() if node is None else self.own_limits.keys() & limits_in(node)
        slots |= {*kept_slots(node.accumulators)} if isinstance(node, Fold) else set()
        return sorted(slot for slot in slots if slot not in self.dimension and len(self.numbers[slot].numbers) > 1)

    def limit(self, value: int | None, slot: int | None, base: Int64s) -> Int64s | None:
        """Return a limit for rows with some sets; the members of each have the same one, or are cut by it."""
        if slot is not None and slot in self.own_limits:
            sets, code = np.unique(base, return_inverse=True)
            member = np.array([self.sets.of(each)[0] for each in sets.tolist()], dtype=np.int64)
            return self.own_limits[slot][member][code.reshape(-1)]
        return None if value is None else np.full(len(base), value)

    def ranks_of(self, slot: int) -> Mapping[Number, int]:
        """Return the ranks of the numbers, or texts, at a place."""
        if slot not in self._known:
            self._known[slot] = {number: rank for rank, number in enumerate(self.numbers[slot].numbers.tolist())}
        return self._known[slot]

    def own_values(self, node: Next | Fold | Without) -> list[Comparison]:
        """Return the conditions of a step's braces that compare its right side with members' own values."""
        walked = self.walked(node) if isinstance(node, Next) else None
        parts = parts_in(node.right)
        return [each for each in node.skip.comparisons if each is not walked and own_value(each, parts) is not None]

    def walked(self, node: Next) -> Comparison | None:
        """Return the condition of a NEXT whose numbers rows answer by ranges; None: there is none."""
        one = _walked(node)
        return one if one is not None and self.cut(one) is not None else None

    def walked_least(self, node: Next) -> int | None:
        """Return the place of the least times of a NEXT if rows answer ranges of these; None: they do not."""
        slot = node.skip.least_slot
        return slot if slot in self.dimension else None

    def cut(self, one: Comparison) -> int | None:
        """Return the place of the number of a condition by which rows are cut."""
        return next((slot for slot in slots_of(one) if slot in self.dimension), None)

    def ends(self, slot: int) -> slice:
        """Return the two columns of boxes that a number cuts, by its place."""
        return slice(2 * self.dimension[slot], 2 * self.dimension[slot] + 2)

    def tested(self, pairs: Pairs, one: Comparison) -> Tested:
        """Return a test of some of the pairs with numbers of some ranks."""
        slot = self.cut(one)
        assert slot is not None
        first = np.zeros(len(pairs.at), dtype=np.int64)
        given = {other: self.numbers[other]._replace(which=first) for other in slots_of(one)}

        def satisfied(some: Int64s, rank: Int64s) -> Bools:
            mine = replace(pairs, given=given).where(some)
            return replace(mine, given={**mine.given, slot: self.numbers[slot]._replace(which=rank)}).compared(one)

        return satisfied

    def ranks_between(self, slot: int, rows: Rows, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
        """Return the ranks of members of rows between two, each with its row, of the number at a place."""
        return self.sets.ranks_between(self.dimension[slot], rows.base, low, high)

    def clipped(self, slot: int, box: Int64s) -> tuple[Int64s, Int64s]:
        """Return the range of ranks of each row that a number cuts, by its place."""
        low, high = np.clip(box[:, self.ends(slot)], 0, len(self.numbers[slot].numbers)).T
        return low.copy(), high.copy()

    def in_time(self, skip: Skip, rows: Rows, late: Int64s, length: Int64s) -> Bools:
        """Cut rows to those whose windows a right side is in.

        Args:
            skip: the windows.
            rows: the rows.
            late: times from the end of the left side to that of the right one.
            length: times from the start of the left side on.

        Returns:
            Which rows are left.
        """
        return self._within(skip.most_slot, rows, late) & self._within(skip.duration_slot, rows, length)

    def in_turn(self, fold: Fold, rows: Rows) -> Bools:
        """Cut rows to those who take one more iteration.

        Returns:
            Which rows are left.
        """
        return self._within(fold.at_most_slot, rows, rows.taken[:, fold.number] + 1)

    def _within(self, slot: int | None, rows: Rows, values: Int64s) -> Bools:
        """Cut rows to those whose limit values are within, and tell which are left."""
        if slot is None or slot in self.own_limits:
            return np.ones(len(rows), dtype=np.bool_)
        low = 2 * self.dimension[slot]
        rows.box[:, low] = np.maximum(rows.box[:, low], np.searchsorted(self.limits[slot], values))
        return (rows.box[:, low] < rows.box[:, low + 1]) & self.sets.there(rows.base, rows.box)

    def alike(self, slots: Sequence[int]) -> Int64s | None:
        """Return numbers in which members are alike that have the same numbers; None: all have."""
        if not slots:
            return None
        columns = np.stack([self.numbers[slot].which for slot in slots], axis=1)
        return np.unique(columns, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64)

    def given(self, slots: AbstractSet[int], base: Int64s) -> dict[int, Given]:
        """Return the numbers at some places, as the members of sets have them; those of a set have the same."""
        if not slots:
            return {}
        sets, code = np.unique(base, return_inverse=True)
        member = np.array([self.sets.of(each)[0] for each in sets.tolist()], dtype=np.int64)[code.reshape(-1)]
        return {slot: self.numbers[slot]._replace(which=self.numbers[slot].which[member]) for slot in slots}


def sharing_of(root: Node, numbers: Sequence[Sequence[Number]]) -> tuple[Sharing, Node]:
    """Return how members with some numbers share the steps of a shape, and these with all numbers that are alike."""
    ranked = [_ranked(column) for column in zip(*numbers, strict=True)]
    same = [each.numbers[0] if len(each.numbers) == 1 else None for each in ranked]
    mine = filled(root, same)
    dimension: dict[int, int] = {}
    limits: dict[int, Int64s] = {}
    ranks = {
        slot: {text: rank for rank, text in enumerate(each.numbers.tolist())}
        for slot, each in enumerate(ranked)
        if isinstance(each.numbers[0], str)
    }

    def cut(each: Comparison) -> None:
        own = [slot for slot in slots_of(each) if same[slot] is None]
        if len(own) == 1 and each.op != "!=" and own[0] not in ranks:
            dimension[own[0]] = len(dimension)

    for node in _leftmost(mine):
        match node:
            case Filter():
                list(map(cut, node.comparisons))
            case Fold():
                list(map(cut, node.conditions))
            case Next() if (one := _walked(node)) is not None:
                cut(one)
        for slot in _ranged(node, dimension):
            dimension[slot] = len(dimension)
            limits[slot] = _whole(ranked[slot].numbers)
    sets = MemberSets(len(numbers), [ranked[slot].which for slot in dimension])
    own = {slot: ranked[slot] for node in numbered_nodes(mine) for slot in limits_in(node) if slot not in limits}
    own_limits = {slot: _whole(each.numbers)[each.which] for slot, each in own.items()}
    sharing = Sharing(sets, dict(enumerate(ranked)), dimension, ranks, limits, own_limits)
    return sharing, with_widest(mine, numbers)


def _whole(numbers: Objects) -> Int64s:
    return np.array([int(each) for each in numbers.tolist()], dtype=np.int64)


def _ranged(node: Node, dimension: Mapping[int, int]) -> list[int]:
    """Return the places of a step's limits that cut rows to ranges.

    A NEXT goes over its right sides for the least time that they are behind, or for a number: not for both.  A document
    that must not be there forbids all whose window is as long as its distance, if it may be at any lesser one.
    """
    if isinstance(node, Part | Filter):
        return []
    least, most = node.skip.least_slot, node.skip.most_slot
    ways = _walked(node) if isinstance(node, Next) else None
    may_walk = isinstance(node, Next) and not (ways is not None and any(slot in dimension for slot in slots_of(ways)))
    is_own = least is not None and not may_walk and not (isinstance(node, Without) and least == most)
    return [slot for slot in limits_in(node) if not (is_own and slot == least)]


def _ranked(column: Sequence[Number]) -> Given:
    # Hashes of fractions take most of the time, so each number is looked up once.
    first: dict[Number, int] = {}
    seen = np.array([first.setdefault(value, len(first)) for value in column], dtype=np.int64)
    values = sorted(first)  # numbers alone, or texts alone
    rank = np.empty(len(values), dtype=np.int64)
    rank[[first[value] for value in values]] = np.arange(len(values))
    return Given.of(objects(values), rank[seen])


def _leftmost(node: Node) -> Iterator[Node]:
    """Yield the steps whose rows compete with no others: they stand to the right of none, and in no LONGEST."""
    if isinstance(node, Fold) and node.longest:
        return
    yield node
    match node:
        case Filter():
            yield from _leftmost(node.of)
        case Fold() | Next() | Without():
            yield from _leftmost(node.left)


def _walked(node: Next) -> Comparison | None:
    """Return the one condition of a NEXT with numbers of queries' own, if rows answer ranges of them.

    Other comparisons of the right side with own values set members apart before (``own_values``).
    """
    parts = parts_in(node.right)
    own = [each for each in node.skip.comparisons if slots_of(each)]
    own = [each for each in own if each.op not in ("=", "!=") or own_value(each, parts) is None]
    if len(own) > 1:
        own = [each for each in own if own_value(each, parts) is None]
    return own[0] if len(own) == 1 and own[0].op not in ("=", "!=") else None


def with_numbers(pairs: Pairs, sharing: Sharing, slots: AbstractSet[int], base: Int64s) -> Pairs:
    """Return pairs with the numbers at some places; the members of a set have the same."""
    given = sharing.given(slots, base)
    return replace(pairs, given=given) if given else pairs


# -- conditions that cut -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Narrowed:
    """Pairs that satisfy conditions for some members."""

    pair: Int64s
    base: Int64s
    """Set of the members that have it."""
    box: Int64s

    def put(self, rows: Rows) -> Rows:
        """Note in the rows of the pairs who has them."""
        rows.base, rows.box = self.base, self.box
        return rows


def narrowed(sharing: Sharing, pairs: Pairs, comparisons: Sequence[Comparison], rows: Rows) -> Narrowed:
    """Return the pairs that satisfy conditions, and for whom; ``rows`` have the members of each."""
    found = Narrowed(np.arange(len(pairs.at)), rows.base, rows.box)
    # Conditions that are alike for all come first, so that fewer are left.
    for each in sorted(comparisons, key=lambda one: len(slots_of(one))):
        mine = pairs.where(found.pair)
        cut = [slot for slot in slots_of(each) if slot in sharing.dimension]
        if not slots_of(each):
            found = _kept(found, mine.compared(each))
        elif cut:
            found = _cut(sharing, mine, each, found)
        elif (named := _named(sharing, mine, each, found)) is not None:
            found = named
        else:
            found = _asked(sharing, mine, each, found)
    return found


def _kept(found: Narrowed, good: Bools) -> Narrowed:
    return Narrowed(found.pair[good], found.base[good], found.box[good])


def _asked(sharing: Sharing, pairs: Pairs, each: Comparison, found: Narrowed) -> Narrowed:
    """Ask a condition for each combination of numbers."""
    same = sharing.alike(sharing.own([each]))
    part = np.zeros(sharing.sets.count, dtype=np.int64) if same is None else same
    if sharing.sets.count > 1 and len(found.base) * (int(part.max(initial=0)) + 1) > MOST_ROWS:
        raise TooMany
    pieces = sharing.sets.pieces(found.base, part)
    good = with_numbers(pairs.where(pieces.row), sharing, {*slots_of(each)}, pieces.base).compared(each)
    row, base = sharing.sets.together(pieces.row[good], pieces.base[good])
    return Narrowed(found.pair[row], base, found.box[row])


def _named(sharing: Sharing, pairs: Pairs, each: Comparison, found: Narrowed) -> Narrowed | None:
    """Look texts up among those that queries ask for; None: the condition is no such equality."""
    sides = [side for side in (each.left, each.right) if side.slot in sharing.ranks]
    if each.op != "=" or len(sides) != 1 or len(slots_of(each)) != 1:
        return None
    slot = sides[0].slot
    assert slot is not None
    values = pairs.values(each.right if sides[0] is each.left else each.left).tolist()
    if not all(value is None or isinstance(value, str) for value in values):
        return None
    known, which = sharing.ranks[slot], sharing.numbers[slot].which
    rank = np.array([-1 if value is None else known.get(value, -1) for value in values], dtype=np.int64)
    good = np.flatnonzero(rank >= 0)
    first, code = numbered_rows([found.base[good], rank[good]])
    bases = []
    for base, own in zip(found.base[good[first]].tolist(), rank[good[first]].tolist(), strict=True):
        members = sharing.sets.of(base)
        mine = members[which[members] == own]
        bases.append(sharing.sets.add(mine) if len(mine) else -1)
    base = np.array(bases, dtype=np.int64)[code]
    there = base >= 0
    there[there] = sharing.sets.there(base[there], found.box[good[there]])
    good, base = good[there], base[there]
    return Narrowed(found.pair[good], base, found.box[good])


def _cut(sharing: Sharing, pairs: Pairs, each: Comparison, found: Narrowed) -> Narrowed:
    """Cut rows to the numbers that satisfy a condition: they are all between two, since it is linear in them."""
    box, slot = found.box.copy(), sharing.cut(each)
    assert slot is not None
    low, high = sharing.clipped(slot, box)
    for op in ("<=", ">=") if each.op == "=" else (each.op,):
        one = Comparison(each.left, op, each.right)
        low, high = satisfying(sharing.tested(pairs, one), low, high)
    box[:, sharing.ends(slot)] = np.stack([low, high], axis=1)
    good = (low < high) & sharing.sets.there(found.base, box)
    return Narrowed(found.pair[good], found.base[good], box[good])


def satisfying(satisfied: Tested, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s]:
    """Return the ranges of ranks that satisfy a condition, within others; they reach one of the ends."""
    low, high = low.copy(), np.maximum(low, high)
    there = np.flatnonzero(low < high)
    first, last = satisfied(there, low[there]), satisfied(there, high[there] - 1)
    high[there[~first & ~last]] = low[there[~first & ~last]]
    mixed = first != last
    rows, begins = there[mixed], first[mixed]
    near, far = low[rows], high[rows] - 1
    while len(rows):
        waits = np.flatnonzero(far - near > 1)
        if not len(waits):
            break
        middle = (near[waits] + far[waits]) // 2
        as_near = satisfied(rows[waits], middle) == begins[waits]
        near[waits] = np.where(as_near, middle, near[waits])
        far[waits] = np.where(as_near, far[waits], middle)
    high[rows[begins]] = far[begins]
    low[rows[~begins]] = far[~begins]
    return low, high
