"""NEXT and FOLD over lanes: the kernel against the declarative meaning, whole and as batches of settled times."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import pytest

from tests.budget import examples
from xscl.templates.sequences import fold_rounds
from xscl.templates.sequences.fold_rounds import folded
from xscl.templates.sequences.lanes import FAR, Lane, Requests, advance, lane_of, reached
from xscl.templates.sequences.longest import undominated


class Event(NamedTuple):
    key: int
    start: int
    ts: int
    value: int
    place: int


Found = set[tuple[Event, ...]]


FAR_APART = 1 << 61


def stream(random_: random.Random, count: int) -> list[Event]:
    """Events with ties and intervals, in the order in which they come, which is not that of their times."""
    found = []
    for place in range(count):
        ts = random_.randrange(count)
        start = ts - random_.choice([0, 0, 0, 1, 3])
        found.append(Event(random_.randrange(2), start, ts, random_.randrange(5), place))
    return found


class Shape(NamedTuple):
    """A pattern: numbers as a random test chooses them."""

    skip: int
    """The value may fall by so much from the row before, else a row is skipped."""
    rise: int
    """WHILE: the value exceeds that of the row before by so much at least."""
    low: int
    high: int
    at_most: int | None

    def qualifies(self, before: Event, row: Event) -> bool:
        """Tell whether the condition of the step holds."""
        return (
            before.key == row.key
            and row.value >= before.value - self.skip
            and self.low <= row.ts - before.ts <= self.high
        )


def shape(random_: random.Random) -> Shape:
    return Shape(
        random_.randrange(4),
        random_.randrange(-2, 2),
        random_.choice([0, 0, 2]),
        random_.choice([FAR, 5, 9]),
        random_.choice([None, None, 1, 2]),
    )


# -- the declarative meaning ---------------------------------------------------------------------------------------


def nexts(pattern: Shape, before: Event, rows: Iterable[Event]) -> list[Event]:
    """B's that follow: none that also qualifies has an earlier time."""
    may = [row for row in rows if before.ts < row.start and pattern.qualifies(before, row)]
    return [row for row in may if not any(other.ts < row.ts for other in may)]


def mu(pattern: Shape, lefts: Iterable[Event], rows: list[Event]) -> Found:
    found: Found = set()
    level: Found = {(left,) for left in lefts}
    while level:
        level = {
            (*run, row)
            for run in level
            for row in nexts(pattern, run[-1], rows)
            if row.value >= run[-1].value + pattern.rise and (pattern.at_most is None or len(run) <= pattern.at_most)
        }
        found |= level
    return found


# -- the kernel ----------------------------------------------------------------------------------------------------


class Runs:
    """Instances as rows, as ``fold_rounds`` wants them."""

    def __init__(self, pattern: Shape, lane: Lane, events: list[Event], runs: list[tuple[Event, ...]]) -> None:
        self.pattern, self.runs = pattern, runs
        self.events = [events[row] for row in lane.row.tolist()]
        self.values = np.array([event.value for event in self.events], dtype=np.int64)

    def _last(self, name: str, instance: np.ndarray) -> np.ndarray:
        return np.array([getattr(self.runs[i][-1], name) for i in instance.tolist()], dtype=np.int64)

    def passes(self, instance: np.ndarray, at: np.ndarray) -> np.ndarray:
        return self.values[at] >= self._last("value", instance) - self.pattern.skip

    def holds(self, instance: np.ndarray, at: np.ndarray) -> np.ndarray:
        return self.values[at] >= self._last("value", instance) + self.pattern.rise

    def go_on(self, instance: np.ndarray, at: np.ndarray) -> None:
        self.runs += [(*self.runs[i], self.events[row]) for i, row in zip(instance.tolist(), at.tolist(), strict=True)]

    def requests(self, instance: np.ndarray) -> Requests:
        ts = self._last("ts", instance)
        return Requests(self._last("key", instance), ts, ts + self.pattern.low, ts + min(self.pattern.high, FAR >> 1))


def lane_over(events: list[Event]) -> Lane:
    columns = np.array([(each.key, each.start, each.ts) for each in events], dtype=np.int64).reshape(-1, 3).T
    return lane_of(*columns)


def run(pattern: Shape, open_: list[tuple[Event, ...]], rows: list[Event], settled: int) -> tuple[Found, list, dict]:
    """Run the kernel; return what it finds, what waits, and when runs have ended."""
    lane = lane_over(rows)
    runs = Runs(pattern, lane, rows, list(open_))
    taken = np.array([len(each) - 1 for each in open_], dtype=np.int64)
    most = None if pattern.at_most is None else np.full(len(open_), pattern.at_most)
    out = folded(lane, len(open_), taken, np.arange(len(open_)), runs, settled, most)
    ends = dict(zip([runs.runs[i] for i in out.ended.tolist()], out.end.tolist(), strict=True))
    return set(runs.runs[len(open_) :]), [runs.runs[i] for i in out.waiting.tolist()], ends


def kept_rows(pattern: Shape, rows: list[Event], waiting: list[tuple[Event, ...]], floor: int) -> list[Event]:
    """Rows that later batches may need."""
    lane = lane_over(rows)
    mask = reached(lane, Runs(pattern, lane, rows, waiting).requests(np.arange(len(waiting))), floor)
    return [rows[row] for row in lane.row[mask].tolist()]


@pytest.mark.parametrize("seed", range(examples(30)))
def test_folds_are_what_is_declared(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(20):
        pattern, rows = shape(random_), stream(random_, random_.randrange(1, 22))
        lefts = [event for event in rows if event.value < 3]
        found, waiting, _ = run(pattern, [(left,) for left in lefts], rows, FAR)
        assert found == mu(pattern, lefts, rows)
        assert all(pattern.high >= FAR >> 1 for _ in waiting)


@pytest.mark.parametrize("seed", range(examples(30)))
def test_batches_cut_anywhere_find_the_same(seed: int) -> None:
    random_ = random.Random(seed)
    for _ in range(10):
        pattern, come = shape(random_), stream(random_, random_.randrange(1, 22))
        lateness = random_.randrange(12)
        clocks = np.maximum.accumulate([event.ts for event in come]) - lateness
        in_time = [event for event, clock in zip(come, np.append(-FAR, clocks[:-1]), strict=True) if event.ts >= clock]
        found: Found = set()
        rows: list[Event] = []
        waiting: list[tuple[Event, ...]] = []
        cuts = sorted({*random_.sample(range(len(come) + 1), min(len(come), 3)), len(come)})
        for first, last in zip([0, *cuts], cuts, strict=False):
            new = [event for event in in_time if first <= event.place < last]
            settled = FAR if last == len(come) else int(clocks[last - 1]) if last else -FAR
            rows += new
            waiting += [(event,) for event in new if event.value < 3]
            more, waiting, _ = run(pattern, waiting, rows, settled)
            assert not more & found
            found |= more
            rows = kept_rows(pattern, rows, waiting, settled)
        assert found == mu(pattern, [event for event in in_time if event.value < 3], in_time)


@pytest.mark.parametrize("seed", range(examples(20)))
def test_the_longest_are_part_of_no_other(seed: int) -> None:
    random_ = random.Random(seed)
    pattern, rows = shape(random_), stream(random_, 16)
    found, _, ends = run(pattern, [(event,) for event in rows], rows, FAR)
    matches = sorted(found)
    events = [frozenset(event.place for event in match) for match in matches]
    longest, when = undominated(
        np.zeros(len(matches), np.int64), events, np.array([ends.get(match, FAR) for match in matches], np.int64)
    )
    assert [matches[i] for i in np.flatnonzero(longest)] == [
        match for match, mine in zip(matches, events, strict=True) if not any(mine < other for other in events)
    ]
    assert all(when[i] >= matches[i][-1].ts for i in np.flatnonzero(longest))


def test_an_end_is_the_time_of_the_row_that_fails() -> None:
    rows = [Event(0, ts, ts, value, ts) for ts, value in enumerate([3, 2, 1, 5, 0])]
    pattern = Shape(9, -9, 0, FAR, None)
    falling = Runs(pattern, lane_over(rows), rows, [(rows[0],)])
    falling.holds = lambda instance, at: falling.values[at] < falling._last("value", instance)  # type: ignore[method-assign]
    out = folded(lane_over(rows), 1, np.zeros(1, np.int64), np.zeros(1, np.int64), falling, FAR)
    assert [[event.value for event in each] for each in falling.runs[1:]] == [[3, 2], [3, 2, 1]]
    assert dict(zip(out.ended.tolist(), out.end.tolist(), strict=True)) == {2: 3}


def test_runs_that_are_too_long_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_rounds, "MOST_ROUNDS", 50)
    count = 55
    rows = [Event(0, ts, ts, 0, ts) for ts in range(count)]
    lane = lane_over(rows)

    class Counted:
        def __init__(self) -> None:
            self.at = np.array([0])

        def passes(self, instance: np.ndarray, at: np.ndarray) -> np.ndarray:
            return np.ones(len(at), dtype=np.bool_)

        holds = passes

        def go_on(self, instance: np.ndarray, at: np.ndarray) -> None:
            self.at = np.append(self.at, at)

        def requests(self, instance: np.ndarray) -> Requests:
            ts = self.at[instance]
            return Requests(np.zeros_like(ts), ts, ts, np.full_like(ts, FAR))

    out = folded(lane, 1, np.zeros(1, np.int64), np.array([7]), Counted(), FAR)
    assert out.too_long.tolist() == [50] and len(out.at) == 50
    out = folded(lane, 1, np.zeros(1, np.int64), np.array([7]), Counted(), FAR, at_most=np.array([3]))
    assert not len(out.too_long) and len(out.at) == 3


def test_runs_that_make_too_much_at_once_are_cut_off() -> None:
    rows = [Event(0, ts, ts, 0, ts) for ts in range(40)]
    lane, pattern = lane_over(rows), Shape(9, 0, 0, FAR, None)
    runs = Runs(pattern, lane, rows, [(row,) for row in rows])
    out = folded(lane, len(rows), np.zeros(len(rows), np.int64), np.arange(len(rows)), runs, FAR, most=100)
    # Rounds of 39, 38 and 37 make more; the last one of them is kept.
    assert len(out.at) == 39 + 38 + 37 and len(out.too_long) == 37


def test_times_may_be_as_far_apart_as_numbers_go() -> None:
    ts = np.array([-FAR_APART, 5, FAR_APART, 5])
    lane = lane_of(np.array([0, 3, 3, 0]), ts, ts)
    asked = Requests(*np.array([[0, -FAR, -FAR, FAR], [3, 4, -FAR, FAR], [3, 5, -FAR, FAR], [0, 5, -FAR, FAR]]).T)
    assert [lane.row[at] for at in advance(lane, asked).at.tolist()] == [0, 1, 2]


def test_a_row_far_away_takes_few_rounds() -> None:
    ts = np.arange(100_000)
    lane = lane_of(np.zeros_like(ts), ts, ts)
    rounds = 0

    def last(request: np.ndarray, at: np.ndarray) -> np.ndarray:
        nonlocal rounds
        rounds += 1
        return at == 99_999

    asked = Requests(*np.array([[0], [-1], [-FAR], [FAR]]))
    assert advance(lane, asked, last).at.tolist() == [99_999]
    assert rounds < 20
