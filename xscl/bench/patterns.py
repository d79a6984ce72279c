"""``xscl bench patterns``: the kernels of NEXT and FOLD, for as many queries as differ in a constant.

FOLDs differ in the range of values that they start with.  A run is the same for whoever starts it, so a row is moved
once, however many queries have it.  NEXTs differ in the least ratio of two values, and one walk answers all of them.
A sample of the queries is answered one by one, row by row, and has to have the same answers.  The last cases are the
Filter workload of the thesis' Table 4.1 (``subscriptions``), what its parts are worth (``ablation``), and what copies
of one pattern cost in a home (``copies``).
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from xscl.bench.ablation import Ablated, measure_ablated
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_case, size
from xscl.bench.copies import PATTERNS, Copies, measure_copies
from xscl.bench.plot import Axes
from xscl.bench.report import Row, Value
from xscl.bench.subscriptions import Subscriptions, measure_subscriptions, new_subscriptions
from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.fold_rounds import Folded, folded
from xscl.templates.sequences.lanes import FAR, Lane, Requests, lane_of
from xscl.templates.sequences.thresholds import Answered, answer_constants, records_of

__all__ = ["BENCH"]

_DAY = 86_400_000_000
_MOST = 10_000
"""Values are from 1 to this."""


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    rows: tuple[int, ...] = size((10_000, 100_000, 1_000_000), (1_000, 10_000))
    keys: int = size(1_000, 20)
    queries: int = size(100_000)
    window_rows: int = size(200, 20)
    """Rows of a key in the window of a NEXT, about."""
    sample: int = size(2, 2)
    """Queries that are answered one by one."""
    subscriptions: tuple[int, ...] = size((100_000, 400_000))
    events: int = size(100_000, 20_000)
    """Events for the subscriptions."""
    ablated: tuple[int, ...] = size((1_000, 10_000), (100, 1_000), option="-")
    """Subscriptions that are answered again without what they share."""
    ablated_events: int = size(20_000, 5_000)
    copies: int = size(1_000, 100)
    """Copies of a pattern, for each kind of pattern."""
    copied_rows: int = size(20_000, 2_000)
    """Rows that they meet."""


@dataclass(frozen=True, slots=True)
class _Data:
    key: Int64s
    ts: Int64s
    value: Int64s
    ranges: Int64s
    """Least and greatest value at the start of each FOLD."""
    ratios: Int64s
    """Least ratio of each NEXT in thousandths, ascending."""
    window: int


class _Rising:
    """Instances of FOLDs whose values rise."""

    def __init__(self, lane: Lane, value: Int64s) -> None:
        self.lane, self.of_lane = lane, value
        self.key, self.ts, self.value, self.base = lane.key, lane.ts, value, 0

    def passes(self, instance: Int64s, at: Int64s) -> Bools:
        """Take the very next row."""
        return np.ones(len(at), dtype=np.bool_)

    def holds(self, instance: Int64s, at: Int64s) -> Bools:
        """Tell where a value rises."""
        good: Bools = self.of_lane[at] > self.value[instance - self.base]
        return good

    def go_on(self, instance: Int64s, at: Int64s) -> None:
        """Keep what the last round has made, which is all that the next one asks of."""
        count, mine = len(self.key), instance - self.base
        self.key, self.ts, self.value = self.key[mine], self.lane.ts[at], self.of_lane[at]
        self.base += count

    def requests(self, instance: Int64s) -> Requests:
        """Ask for later rows of the key."""
        ts = self.ts[instance - self.base]
        return Requests(self.key[instance - self.base], ts, ts, np.full(len(ts), FAR))


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Data | Subscriptions | Ablated | Copies]]:
    sizes = lab.sizes
    random = np.random.default_rng(lab.seed)
    for count in sizes.rows:
        ends = np.sort(random.integers(1, _MOST + 1, (sizes.queries, 2)), axis=1)
        window = sizes.window_rows * sizes.keys * _DAY // count
        data = _Data(
            random.integers(0, sizes.keys, count),
            np.sort(random.integers(0, _DAY, count)),
            random.integers(1, _MOST + 1, count),
            ends,
            np.sort(random.integers(1_000, 5_000, sizes.queries)),
            window,
        )
        yield Case(f"{count:,} rows", data, {"rows": count, "queries": sizes.queries})
    for count in sizes.subscriptions:
        made = new_subscriptions(count, sizes.events, lab.seed)
        yield Case(f"{count:,} subscriptions", made, {"rows": sizes.events, "queries": count})
    for count in sizes.ablated:
        made = new_subscriptions(count, sizes.ablated_events, lab.seed)
        yield Case(f"{count:,} ablated", Ablated(made), {"rows": sizes.ablated_events, "queries": count})
    for kind in PATTERNS:
        copies = Copies(kind, sizes.copies, sizes.copied_rows, lab.seed)
        yield Case(f"copies of {kind}", copies, {"rows": sizes.copied_rows, "queries": sizes.copies})


def _measure(lab: Lab[_Sizes], case: Case[_Data | Subscriptions | Ablated | Copies]) -> Outcome:
    data = case.data
    if isinstance(data, Subscriptions):
        found, agrees = measure_subscriptions(data, lab.sizes.sample, lab.seed)
        return Outcome(found, agrees=agrees)
    if isinstance(data, Ablated):
        found, agrees = measure_ablated(data, lab.sizes.sample)
        return Outcome(found, agrees=agrees)
    if isinstance(data, Copies):
        found, agrees = measure_copies(data)
        return Outcome(found, agrees=agrees)
    begin = time.process_time()
    lane = lane_of(data.key, data.ts, data.ts)
    value = data.value[lane.row]
    made = time.process_time()
    runs = _fold(lane, value)
    moved = time.process_time()
    answers = _next(data, lane, value)
    answered = time.process_time()
    count = len(data.ts)
    # Queries that have a value in their range: as many as begin up to it, less those that have ended before.
    low, high = np.sort(data.ranges, axis=0).T
    having = np.searchsorted(low, value, "right") - np.searchsorted(high, value, "left")
    figures: Row = {
        "lane_us": 1e6 * (made - begin) / count,
        "fold_us": 1e6 * (moved - made) / count,
        "next_us": 1e6 * (answered - moved) / count,
        "fold_rows": len(runs.at),
        "fold_matches": int(having[_lefts(runs, count)].sum()),
        "next_rows": len(answers.at),
        "next_matches": int((answers.high - answers.low).sum()),
    }
    return Outcome(figures, agrees=_agrees(lab, data, lane, value, runs, answers))


def _fold(lane: Lane, value: Int64s) -> Folded:
    count = len(value)
    taken = np.zeros(count, dtype=np.int64)
    # All rows are moved at once here, and no batch has so many: no run is cut off.
    found = folded(lane, count, taken, np.arange(count), _Rising(lane, value), FAR, most=FAR)
    assert not len(found.too_long)
    return found


def _next(data: _Data, lane: Lane, value: Int64s) -> Answered:
    asked = Requests(lane.key, lane.ts, lane.ts, lane.ts + data.window)

    def satisfied(request: Int64s, at: Int64s) -> Int64s:
        found: Int64s = np.searchsorted(data.ratios, 1_000 * value[at] // value[request], "right")
        return found

    return answer_constants(lane, records_of(lane, value), asked, satisfied, len(data.ratios))


def _lefts(runs: Folded, count: int) -> Int64s:
    """Return the row that each match of a FOLD begins with."""
    left = np.arange(count + len(runs.at))
    for number, parent in enumerate(runs.parent.tolist(), start=count):
        left[number] = left[parent]
    return left[count:]


def _agrees(lab: Lab[_Sizes], data: _Data, lane: Lane, value: Int64s, runs: Folded, answers: Answered) -> bool:
    """Answer some queries over the first rows one by one, and compare."""
    few = int(np.searchsorted(lane.key, 3))
    lefts = _lefts(runs, len(value))
    told = set(zip(lefts.tolist(), runs.at.tolist(), strict=True))
    random = np.random.default_rng(lab.seed)
    for number in random.integers(0, len(data.ratios), lab.sizes.sample).tolist():
        least, most = data.ranges[number].tolist()
        wanted = {(a, b) for a in range(few) if least <= value[a] <= most for b in _run(lane, value, a)}
        mine = {(a, b) for a, b in told if a < few and least <= value[a] <= most}
        ratio = int(data.ratios[number])
        having = (answers.low <= number) & (number < answers.high) & (answers.request < few)
        firsts = {(a, b) for a in range(few) for b in _first(data, lane, value, a, ratio)}
        found = set(zip(answers.request[having].tolist(), answers.at[having].tolist(), strict=True))
        # Queries of one ratio are answered alike.
        if wanted != mine or firsts != found:
            return False
    return True


def _run(lane: Lane, value: Int64s, left: int) -> Iterator[int]:
    """Yield the rows of a run, as one that looks at each row finds them; ties are rare and branch."""
    waiting = [left]
    while waiting:
        last = waiting.pop()
        at = int(lane.ties[last])
        if at >= len(lane.key) or lane.key[at] != lane.key[last]:
            continue
        for row in range(at, int(lane.ties[at])):
            if value[row] > value[last]:
                yield row
                waiting.append(row)


def _first(data: _Data, lane: Lane, value: Int64s, left: int, ratio: int) -> list[int]:
    at = int(lane.ties[left])
    while at < len(lane.key) and lane.key[at] == lane.key[left] and lane.ts[at] <= lane.ts[left] + data.window:
        rows = range(at, int(lane.ties[at]))
        found = [row for row in rows if 1_000 * value[row] // value[left] >= ratio]
        if found:
            return found
        at = rows.stop
    return []


def _figures(_sizes: _Sizes, results: Sequence[Result[_Data | Subscriptions | Ablated | Copies]]) -> Row:
    """Return the figures of the most rows, of each number of subscriptions, and of what they share."""
    figures: dict[str, Value] = {}
    for each in results:
        number = short_number(int(each.figures["queries"]))
        match each.case.data:
            case Subscriptions():
                figures[f"events_per_s_{number}"] = each.figures["events_per_s"]
            case Ablated():
                names = [name for name in each.figures if name.startswith("slowdown")]
                figures |= {f"{name}_{number}": each.figures[name] for name in names}
            case Copies(kind):
                figures[f"copies_{kind}"] = each.figures["ratio"]
            case _:
                figures |= {f"us_per_row_{name}_{number}": each.figures[f"{name}_us"] for name in ("fold", "next")}
    return figures


def short_number(number: int) -> str:
    """Return a number as names of figures have it.

    >>> short_number(400_000), short_number(150)
    ('400k', '150')
    """
    return f"{number // 1_000}k" if number % 1_000 == 0 else str(number)


BENCH = Bench(
    name="patterns",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=[Variant("kernel", _measure)],
    table=by_case,
    figures=_figures,
    axes=Axes(
        "NEXT and FOLD of {s.queries:,} queries in one kernel",
        x="rows",
        y="µs a row",
        over="rows",
        lines={"lanes": "lane_us", "FOLD": "fold_us", "NEXT": "next_us"},
    ),
    beside=(
        Axes(
            "Filter workload, three events in a row",
            x="subscriptions",
            y="events a second",
            over="queries",
            lines={"index and lanes": "events_per_s"},
            chosen=lambda rows: [row for row in rows if row.get("slowdown_of_loops") is None],
            told=lambda _: {"thesis: well above": ((400_000, 1_000),)},
            log_x=True,
            log_y=True,
        ),
        Axes(
            "Filter workload without parts",
            x="subscriptions",
            y="times as long as with all parts",
            over="queries",
            lines={
                "without the index": "slowdown_without_index",
                "without lanes": "slowdown_without_lanes",
                "without both": "slowdown_without_both",
                "a loop for each": "slowdown_of_loops",
            },
            told=lambda _: {"thesis: two orders of magnitude or more": ((10_000, 100), (40_000, 100))},
            log_x=True,
            log_y=True,
        ),
    ),
    spark=False,
)
