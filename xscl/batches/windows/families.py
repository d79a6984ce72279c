"""Families of definitions with the same windows of the same groups, which differ in conditions and in what they tell.

A family asks which of its members may have something to tell, all of them at once: a constant that no value reaches
costs nothing for itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from xscl.base.number_order import each_once
from xscl.batches.windows.bounds import Condition, Seen, Subject, conditions, reach, seen_of
from xscl.batches.windows.buckets import Shape, shape_of
from xscl.batches.windows.groups import Doubles, Groups, Matches
from xscl.batches.windows.parts import LastOfParts
from xscl.batches.windows.spans import Spans
from xscl.batches.windows.values import TURNED
from xscl.language.aggregates import Counted, Definition
from xscl.language.terms import Term
from xscl.templates.columns import Bools, Int64s

__all__ = ["Family", "Kind", "Member", "families", "identity", "kind_of"]

_FEW = 8
"""Members that are compared one by one; for more of them the values are sorted."""
_PART = 0.5
"""Share of matches from which on all are looked at, as other families do."""


@dataclass(frozen=True, slots=True)
class Kind:
    """Windows of groups."""

    group: tuple[Term, ...]
    window: int | None
    every: int | None
    last: int | None
    per: tuple[Term, ...]
    """Operands whose values have so many matches each."""
    ordered: bool
    """Whether a window has no match behind the one that ends it, of those of the same time."""
    shape: Shape | None
    """Shape of buckets that serve it; None: none do."""


@dataclass(frozen=True, slots=True)
class Member:
    """A definition, and who asks for it."""

    gid: int
    definition: Definition
    sees: tuple[int, ...]
    """Places after which its queries see matches, each once, ascending."""


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Members with a condition on the same subject, and between which doubles it may hold."""

    members: Int64s
    low: Doubles
    high: Doubles
    turned: tuple[Doubles, Doubles]
    """The same ends where the operator is turned."""
    texts: Mapping[str, int]
    """Texts among the constants, with the numbers that stand for them."""

    @property
    def least(self) -> float:
        """Return the least number for which a condition may hold."""
        return float(self.low.min())


def kind_of(definition: Definition) -> Kind:
    """Return the windows of a definition."""
    ordered = definition.every is None and (definition.crossing or definition.window is None)
    of = definition
    return Kind(of.group, of.window, of.every, of.last, of.per, ordered, shape_of(of))


def families(members: Iterable[Member]) -> list[Family]:
    """Return the families of some members."""
    found: dict[Kind, list[Member]] = {}
    # Definitions that differ in constants alone have the same terms, to which it is long to compare equal ones.
    known: dict[tuple[object, ...], list[Member]] = {}
    for member in members:
        of = member.definition
        same = (*identity(of), of.window, of.every, of.last, of.crossing)
        if same not in known:
            known[same] = found.setdefault(kind_of(of), [])
        known[same].append(member)
    return [Family(kind, of) for kind, of in found.items()]


def identity(definition: Definition) -> tuple[int, int, int]:
    """Return what tells the terms of a definition from those of others that are in use, but for some equal ones."""
    return id(definition.group), id(definition.per), id(definition.aggregates)


class Family:
    """Members with the same windows."""

    def __init__(self, kind: Kind, members: Sequence[Member]) -> None:
        self.kind = kind
        self.members = tuple(members)
        counts = np.array([len(member.sees) for member in members], dtype=np.int64)
        self.sees = np.array([place for member in members for place in member.sees], dtype=np.int64)
        """Places after which its queries see matches, member by member."""
        self._starts = np.cumsum(counts) - counts
        self._bounds, self._free = _sorted_out(members)

    def by_view(self, matches: Matches) -> tuple[Mapping[int, Int64s], list[int]]:
        """Return the members whose queries all see the same, by how many matches they do not see, and the others."""
        unseen = matches.unseen(self.sees)
        least, most = np.minimum.reduceat(unseen, self._starts), np.maximum.reduceat(unseen, self._starts)
        same = least == most
        views = {int(of): np.flatnonzero(same & (most == of)) for of in each_once(most[same])}
        return views, np.flatnonzero(~same).tolist()

    def reaches(self, matches: Matches) -> bool:
        """Tell whether a group of some matches may reach a bound of a member."""
        if len(self._free) or not len(matches) or matches.merged:
            return True
        groups = matches.groups(self.kind.group)
        for subject, bounds in self._bounds.items():
            most = _most(groups, subject, bounds)
            if most is None or most.max(initial=-np.inf) >= bounds.least:
                return True
        return False

    def candidates(self, matches: Matches) -> Matches:
        """Return the matches of those groups that may reach a bound of a member, or all matches."""
        if len(self._free) or not len(matches) or matches.merged:
            return matches
        groups, may = matches.groups(self.kind.group), None
        for subject, bounds in self._bounds.items():
            most = _most(groups, subject, bounds)
            if most is None:
                return matches
            reached = most >= bounds.least
            if reached.all():
                return matches
            may = reached if may is None else may | reached
        assert may is not None
        rows = np.flatnonzero(may[groups.codes] & groups.there)
        return matches.some(rows) if len(rows) < _PART * len(matches) else matches

    def asked(self, spans: Spans | LastOfParts, members: Int64s) -> Iterator[tuple[Member, Int64s | None]]:
        """Yield the members that may have something to tell, each with its spans; None: all spans."""
        if not len(spans):
            return
        wanted = np.zeros(len(self.members), dtype=np.bool_)
        wanted[members] = True
        yield from ((self.members[at], None) for at in self._free[wanted[self._free]].tolist())
        for subject, bounds in self._bounds.items():
            seen = seen_of(subject, spans, bounds.texts)
            mine = wanted[bounds.members]
            if seen is None:
                yield from ((self.members[at], None) for at in bounds.members[mine].tolist())
            else:
                for at, which in _within(seen, bounds, mine):
                    yield self.members[at], which


def _most(groups: Groups, subject: Subject, bounds: _Bounds) -> Doubles | None:
    """Return what a subject is at most in each group; None: that is not known, or says nothing."""
    counted = subject.left if subject.kind == "number" and bounds.least > -np.inf else None
    return groups.most(counted) if isinstance(counted, Counted) else None


@dataclass(slots=True)
class _Gathered:
    """Members with a condition on the same subject, while they are gathered."""

    members: list[int] = field(default_factory=list)
    ends: list[tuple[float, float, float, float]] = field(default_factory=list)
    texts: dict[str, int] = field(default_factory=dict)

    def add(self, member: int, condition: Condition) -> None:
        """Add a member."""
        constant, op = condition.constant, condition.op
        number: Fraction | int = (
            self.texts.setdefault(constant, len(self.texts)) if isinstance(constant, str) else constant
        )
        self.members.append(member)
        self.ends.append((*reach(op, number), *reach(TURNED.get(op, op), number)))

    def bounds(self) -> _Bounds:
        """Return the bounds of all of them."""
        low, high, *turned = (np.array(column) for column in zip(*self.ends, strict=True))
        return _Bounds(np.array(self.members, dtype=np.int64), low, high, (turned[0], turned[1]), self.texts)


def _sorted_out(members: Sequence[Member]) -> tuple[dict[Subject, _Bounds], Int64s]:
    """Return members by a subject that their conditions bound, and those without."""
    found: dict[Subject, _Gathered] = {}
    # Equal subjects of definitions that differ in constants alone are the same, and long to compare.
    known: dict[Hashable, _Gathered] = {}
    free = []
    for place, member in enumerate(members):
        condition = next(iter(conditions(member.definition)), None)
        if condition is None:
            free.append(place)
            continue
        if condition.key not in known:
            known[condition.key] = found.setdefault(condition.subject, _Gathered())
        known[condition.key].add(place, condition)
    # Counts are made soonest, and where each group reaches one, nobody asks for the rest.
    in_order = sorted(found.items(), key=lambda each: not _is_count(each[0]))
    return {subject: of.bounds() for subject, of in in_order}, np.array(free, dtype=np.int64)


def _is_count(subject: Subject) -> bool:
    return isinstance(subject.left, Counted) and subject.kind == "number" and subject.left.function == "count"


def _within(seen: Seen, bounds: _Bounds, mine: Bools) -> Iterator[tuple[int, Int64s]]:
    """Yield the members that have values between their bounds, with the places of these values."""
    found: defaultdict[int, list[Int64s]] = defaultdict(list)
    for part in seen.parts:
        low, high = bounds.turned if part.turned else (bounds.low, bounds.high)
        for at, which in _between(part.values, low - seen.room, high + seen.room, mine):
            found[at].append(which)
    if seen.unsure is not None:
        for at in np.flatnonzero(mine).tolist():
            found[at].append(seen.unsure)
    for at, parts in found.items():
        yield int(bounds.members[at]), parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def _between(values: Doubles, low: Doubles, high: Doubles, mine: Bools) -> Iterator[tuple[int, Int64s]]:
    """Yield the bounds that have values between them, with the places of these values."""
    known = values[~np.isnan(values)]
    if not len(known):
        return
    may = np.flatnonzero(mine & (low <= known.max()) & (high >= known.min()))
    if len(may) <= _FEW:
        for each in may.tolist():
            which = np.flatnonzero((values >= low[each]) & (values <= high[each]))
            if len(which):
                yield each, which
        return
    order = np.argsort(values)  # what is no number comes last
    ascending = values[order[: len(known)]]
    begins, ends = np.searchsorted(ascending, low[may], "left"), np.searchsorted(ascending, high[may], "right")
    some = np.flatnonzero(begins < ends)
    for at, begin, end in zip(may[some].tolist(), begins[some].tolist(), ends[some].tolist(), strict=True):
        yield at, np.sort(order[begin:end])
