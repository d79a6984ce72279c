"""Answers of windows: matches that were found, put together by windows and groups, as far as times are settled.

A window with an end of its own is answered at the first place of the intake order at which all times before the end
are settled, and a match that ends a window at the first place at which its time is.  No event in time comes into it
then.  So answers and their places do not depend on how the intake is cut into batches.

Queries that were registered at different places see different matches.  A window is answered once for all of them if
each sees all of its matches, and else once for those that see the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import repeat
from operator import itemgetter

import numpy as np

from xscl.base.types import FIRST_TIME, LAST_TIME
from xscl.base.values import digest_text
from xscl.batches.failing_queries import Failing, FailingQueriesError, evaluating
from xscl.batches.windows.families import Family, Kind, Member
from xscl.batches.windows.groups import Matches, Runs
from xscl.batches.windows.parts import LastOfParts, last_of_parts
from xscl.batches.windows.spans import Spans
from xscl.batches.windows.tops import first_of, may_be_first
from xscl.batches.windows.values import GroupValues, compared
from xscl.language.aggregates import Definition
from xscl.templates.columns import Bools, Int64s

__all__ = ["MAX_LOOKED_BACK", "Answer", "Frontier", "Told", "answers", "begun", "last_of", "least_needed", "reach_of"]

_LEAST = -(1 << 62)
MAX_LOOKED_BACK = 1_000_000
"""Matches of a query, of all groups together, among which the last n of a group are looked for."""
_MOST = 1 << 20
"""Windows of groups that are looked at together."""
_Which = tuple[tuple[str, ...], int, int, int]
Told = dict[tuple[int, str], int]
"""Time of the last answer by the place after which a query sees matches, and by the digest of the group."""


@dataclass(frozen=True, slots=True)
class Frontier:
    """Times up to which windows are answered, by places of a batch."""

    before: int
    """Time up to which they were answered before."""
    places: Int64s
    """Places at which it grows, ascending."""
    times: Int64s

    @property
    def now(self) -> int:
        """Time up to which windows are answered by the end of the batch."""
        return max(self.before, int(self.times[-1])) if len(self.times) else self.before

    def beyond(self, time: int) -> int:
        """Return the first place at which a time is settled that is by the end of the batch."""
        return int(self.places[np.searchsorted(self.times, time, side="right")])


@dataclass(frozen=True, slots=True)
class Answer:
    """Values of a group of matches, told at a time."""

    values: GroupValues
    ts: int
    place: int
    received: int
    name: str
    """Mark of answers of equal values: the end of the window, or the members of the match that ends it."""
    sees: tuple[int, ...]
    """Places after which the queries see matches that have it."""


def reach_of(kind: Kind, now: int, matches: Matches) -> slice:
    """Return the matches that windows of a length may have which are not answered up to a time."""
    return slice(int(np.searchsorted(matches.ts, least_needed(kind, now), "left")), None)


def last_of(families: Sequence[Family], now: int, matches: Matches) -> Int64s:
    """Return the matches that windows of the last ones may have which are not answered up to a time.

    Families of the same groups need what the one needs that looks farthest back.
    """
    kept, count = [matches.numbers[:0]], int(np.searchsorted(matches.ts, now))
    count = int(matches.order[count - 1]) + 1 if count else 0
    alike: dict[tuple[int, int], list[Family]] = {}
    for family in families:
        alike.setdefault((id(family.kind.group), id(family.kind.per)), []).append(family)
    for same in alike.values():
        group = same[0].kind.group + same[0].kind.per
        lasts = np.repeat([family.kind.last or 0 for family in same], [len(family.sees) for family in same])
        views, which = np.unique(matches.unseen(np.concatenate([of.sees for of in same])), return_inverse=True)
        farthest = np.zeros(len(views), dtype=np.int64)
        np.maximum.at(farthest, which.reshape(-1), lasts)
        for unseen, last in zip(views.tolist(), farthest.tolist(), strict=True):
            view = matches.without(unseen)
            runs = view.runs(group)
            settled = runs.first_at(runs.codes, np.full(len(runs), now))
            near = view.order[runs.rows] > count - MAX_LOOKED_BACK
            kept.append(view.numbers[runs.rows[near & (np.arange(len(runs)) >= settled - last)]])
    return np.searchsorted(matches.numbers, np.unique(np.concatenate(kept)))


def least_needed(kind: Kind, now: int) -> int:
    """Return the least time of a match in a window that is not answered, when they are answered up to a time."""
    assert kind.window is not None
    least = now - kind.window if kind.every is None else ((now - kind.window) // kind.every + 1) * kind.every
    return max(least, _LEAST)


def answers(
    family: Family, matches: Matches, frontier: Frontier, told: Mapping[int, Told], failing: Failing
) -> Iterator[tuple[Member, Answer]]:
    """Yield what is answered in a batch.

    Args:
        family: what is told.
        matches: all that windows may have.
        frontier: how far times are settled.
        told: answers of before, for ``ONCE PER``, by group of queries; they are brought up to date.
        failing: notes the groups whose evaluation fails, as nobody foresaw; they have no answers.
    """
    if frontier.now <= frontier.before or not len(matches) or not _numbers(family.kind, matches, frontier):
        return
    if not family.reaches(matches):
        return
    views, several = family.by_view(matches)
    for unseen, members in views.items():
        for windows in _windows(family.kind, family.candidates(matches.without(unseen)), frontier):
            for member, which in family.asked(windows.spans, members):
                for at, values in _chosen(member, windows, which, failing):
                    sees = _once(member, member.sees, values.group, int(windows.times[at]), told)
                    if sees:
                        yield member, windows.answer(at, values, sees)
    for place in several:
        yield from _of_several(family, place, matches, frontier, told, failing)


def _of_several(
    family: Family, place: int, matches: Matches, frontier: Frontier, told: Mapping[int, Told], failing: Failing
) -> Iterator[tuple[Member, Answer]]:
    """Yield the answers of a member whose queries do not see the same; each is told once to those who see the same."""
    member = family.members[place]
    found: dict[_Which, tuple[_Windows, int, GroupValues, list[int]]] = {}
    unseen = matches.unseen(np.array(member.sees, dtype=np.int64))
    for view in np.unique(unseen).tolist():
        sees = [since for since, of in zip(member.sees, unseen.tolist(), strict=True) if of == view]
        for windows in _windows(family.kind, family.candidates(matches.without(view)), frontier):
            for _, which in family.asked(windows.spans, np.array([place])):
                for at, values in _chosen(member, windows, which, failing):
                    found.setdefault(windows.which(at, values.group), (windows, at, values, []))[3].extend(sees)
    # Whoever is told once sees windows in the order of their times.
    for _, (windows, at, values, all_) in sorted(found.items(), key=itemgetter(0)):
        free = _once(member, tuple(all_), values.group, int(windows.times[at]), told)
        if free:
            yield member, windows.answer(at, values, free)


# -- windows -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Windows:
    """Windows that are answered in a batch, by groups and times."""

    spans: Spans | LastOfParts
    ends: Int64s
    """Matches that end them, or the ends that they have of their own."""
    times: Int64s
    frontier: Frontier
    by_match: bool
    """Whether matches end them."""

    def which(self, at: int, group: tuple[str, ...]) -> _Which:
        """Return what tells a window of some matches from others, whoever else sees fewer or more matches."""
        numbers = self.spans.runs.matches.numbers
        end = int(numbers[self.ends[at]]) if self.by_match else int(self.ends[at])
        return group, end, *self.spans.key(at)

    def answer(self, at: int, values: GroupValues, sees: tuple[int, ...]) -> Answer:
        """Return an answer to queries that see matches after some places."""
        end, time, runs = int(self.ends[at]), int(self.times[at]), self.spans.runs
        received = self.spans.latest(at)
        name = runs.matches.name(end) if self.by_match else str(end)
        place = self.frontier.beyond(time if self.by_match else end - 1)
        return Answer(values, time, place, received, name, sees)


def _windows(kind: Kind, matches: Matches, frontier: Frontier) -> Iterator[_Windows]:
    if not len(matches):
        return
    runs = matches.runs(kind.group, kind.per)
    if kind.every is None:
        yield _ended_by_matches(kind, runs, frontier)
        return
    assert kind.window is not None
    ended = _numbers(kind, matches, frontier)
    for codes, numbers, low in begun(runs, kind.every, kind.window, ended.start, ended.stop - 1):
        ends = numbers * kind.every + kind.window
        yield _Windows(Spans(runs, low, runs.first_at(codes, ends)), ends, np.minimum(ends, LAST_TIME), frontier, False)


def _numbers(kind: Kind, matches: Matches, frontier: Frontier) -> range:
    """Return the numbers of the windows that end in a batch; windows that matches end have none of their own."""
    if kind.every is None:
        return range(1)
    assert kind.window is not None
    before = max(max(frontier.before, _LEAST), int(matches.ts[0]))
    most = min((frontier.now - kind.window) // kind.every, int(matches.ts[-1]) // kind.every)
    return range((before - kind.window) // kind.every + 1, most + 1)


def _ended_by_matches(kind: Kind, runs: Runs, frontier: Frontier) -> _Windows:
    settled = np.flatnonzero((runs.ts >= frontier.before) & (runs.ts < frontier.now))
    codes, times = runs.codes[settled], runs.ts[settled]
    if kind.per:
        assert kind.last is not None
        parts = last_of_parts(runs, kind.last, MAX_LOOKED_BACK, settled)
        return _Windows(parts, runs.rows[settled], times, frontier, True)
    high = settled + 1 if kind.ordered else runs.first_at(codes, times + 1)
    if kind.window is not None:
        low = runs.first_at(codes, times - min(kind.window, LAST_TIME - FIRST_TIME))
    else:
        assert kind.last is not None
        numbers = runs.matches.order[runs.rows[settled]]
        low = np.maximum(runs.first_numbered(codes, numbers - (MAX_LOOKED_BACK - 1)), high - kind.last)
    return _Windows(Spans(runs, low, high), runs.rows[settled], times, frontier, True)


def begun(runs: Runs, every: int, window: int, least: int, most: int) -> Iterator[tuple[Int64s, Int64s, Int64s]]:
    """Yield the windows of groups that have matches, from one number to another, some at a time.

    Each has the group, the number and the place of its first match, by groups and numbers.
    """
    if least > most or not len(runs):
        return
    first = np.maximum((runs.ts - window) // every + 1, least)
    last = np.minimum(runs.ts // every, most)
    # Both ascend with the times of a group, so each match begins the windows behind those of the match before.
    np.maximum(first[1:], last[:-1] + 1, out=first[1:], where=runs.codes[1:] == runs.codes[:-1])
    counts = np.maximum(last - first + 1, 0)
    if least < most and int(counts.sum()) > _MOST:
        half = (least + most) // 2
        yield from begun(runs, every, window, least, half)
        yield from begun(runs, every, window, half + 1, most)
        return
    low = np.repeat(np.arange(len(runs)), counts)
    numbers = np.repeat(first - np.cumsum(counts) + counts, counts) + np.arange(len(low))
    yield runs.codes[low], numbers, low


# -- what is told --------------------------------------------------------------------------------------------------


def _chosen(member: Member, windows: _Windows, which: Int64s | None, failing: Failing) -> list[tuple[int, GroupValues]]:
    """Return the places and values of the windows that satisfy all conditions of a member; none if that fails."""
    try:
        with evaluating({member.gid}):
            return _told(member.definition, windows, which)
    except FailingQueriesError as error:
        failing.note(error)
        return []


def _told(definition: Definition, windows: _Windows, which: Int64s | None) -> list[tuple[int, GroupValues]]:
    """Return the places and values of the windows that satisfy all conditions."""
    spans = windows.spans.some(which)
    may, all_told = _compared(definition, spans)
    if definition.crossing:
        chosen = np.flatnonzero(may)
        which, spans = chosen if which is None else which[chosen], spans.some(chosen)
        held, all_known = _compared(definition, spans.without_last())
        may, all_told = ~held | (not all_known), all_told and all_known
    if definition.top is not None and all_told:
        may &= may_be_first(definition, spans, windows.ends if which is None else windows.ends[which], may)
    places = np.flatnonzero(may)
    values = _values(definition, spans, places)
    if not all_told:
        told = _satisfying(definition, spans, places, values)
        places, values = places[told], [values[at] for at in told.tolist()]
    found = list(zip((places if which is None else which[places]).tolist(), values, strict=True))
    return first_of(definition, windows.ends, found)


def _compared(definition: Definition, spans: Spans | LastOfParts) -> tuple[Bools, bool]:
    """Tell which spans may satisfy the conditions, and whether those that may do."""
    asked = {each.place for one in definition.having for each in (one.left, one.right) if each.kind == "aggregate"}
    known = [spans.aggregates(each) if n in asked else None for n, each in enumerate(definition.aggregates)]
    return compared(definition.having, known, len(spans))


def _values(definition: Definition, spans: Spans | LastOfParts, places: Int64s) -> list[GroupValues]:
    """Return the values of the spans at some places."""
    columns = [spans.aggregates(each).values(places) for each in definition.aggregates]
    rows = zip(*columns, strict=True) if columns else repeat((), len(places))
    return [GroupValues(spans.group(at), row) for at, row in zip(places.tolist(), rows, strict=True)]


def _satisfying(
    definition: Definition, spans: Spans | LastOfParts, places: Int64s, values: Sequence[GroupValues]
) -> Int64s:
    """Return which of some spans with these values satisfy all conditions, and did not before their last matches."""
    told = np.array([at for at, each in enumerate(values) if each.satisfies(definition.having)], dtype=np.int64)
    if not definition.crossing:
        return told
    before = _values(definition, spans.without_last(), places[told])
    return told[[not each.satisfies(definition.having) for each in before]]


def _once(
    member: Member, sees: tuple[int, ...], group: tuple[str, ...], ts: int, told: Mapping[int, Told]
) -> tuple[int, ...]:
    """Return the places whose queries were not told of a group shortly before, and note that they are."""
    once_per = member.definition.once_per
    if once_per is None:
        return sees
    mine, key = told[member.gid], digest_text(*group)
    free = tuple(since for since in sees if (since, key) not in mine or ts - mine[since, key] > once_per)
    mine.update({(since, key): ts for since in free})
    return free
