"""The Filter workload of Cayuga (Table 4.1 of the thesis): many subscriptions to three events in a row.

Each event has four discrete and four continuous attributes.  A subscription asks for an event with two values and two
ranges, then for the next event with the same first attribute, within a time, and for another one behind that; both have
to have two values and two ranges of their own.  One index tells which subscriptions each event satisfies, for all three
at once, and one lane by the first attribute moves all instances.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from xscl.bench.report import Row
from xscl.templates.columns import Bools, Int64s
from xscl.templates.sequences.lanes import Lane, Requests, advance, lane_of
from xscl.xpath.columns.conditions import Alternative, Dimension, Values
from xscl.xpath.conditions.intervals import Key, Reading
from xscl.xpath.row_columns import RowColumns
from xscl.xpath.spans.index import SpanIndex

__all__ = [
    "DURATION",
    "STEPS",
    "WIDTH",
    "Subscriptions",
    "alone",
    "columns_of",
    "index_of",
    "measure_subscriptions",
    "moved",
    "new_subscriptions",
]

STEPS = 3
_DISCRETE, _CONTINUOUS = 4, 4
_DOMAIN = 100
"""Values of a discrete attribute."""
_WIDE = 10_000
"""Values of a continuous one."""
_RANGES = 25
_SELECTIVITY = 0.7
"""Part of the values that a range has."""
WIDTH = int(_WIDE * _SELECTIVITY)
"""Values that a range has."""
_ZIPF = (1.0, 1.0, 0.8)
DURATION = 20
"""Time from the first event to the others; an event comes in each unit."""
_NUMBER = Reading(None, number=True)


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """Subscriptions, and events for them."""

    events: Int64s
    """Attributes of each."""
    equal: Int64s
    """Value of the first attribute, and attribute and value of the second one, by subscription and step."""
    ranges: Int64s
    """Attribute and least value of two ranges, by subscription and step."""

    def __len__(self) -> int:
        return len(self.equal)


def new_subscriptions(count: int, events: int, seed: int) -> Subscriptions:
    """Make subscriptions, whose values are chosen by Zipf, and events, whose values are all as frequent."""
    random = np.random.default_rng(seed)
    equal = np.empty((count, STEPS, 3), dtype=np.int64)
    ranges = np.empty((count, STEPS, 2, 2), dtype=np.int64)
    first = _zipf(random, _ZIPF[0], count)
    for step, skew in enumerate(_ZIPF):
        equal[:, step, 0] = first
        equal[:, step, 1] = random.integers(1, _DISCRETE, count)
        equal[:, step, 2] = _zipf(random, skew, count)
        attribute = random.integers(0, _CONTINUOUS, count)
        ranges[:, step, 0, 0] = attribute
        ranges[:, step, 1, 0] = (attribute + random.integers(1, _CONTINUOUS, count)) % _CONTINUOUS
        least = np.linspace(0, _WIDE * (1 - _SELECTIVITY), _RANGES).astype(np.int64)
        ranges[:, step, :, 1] = least[random.integers(0, _RANGES, (count, 2))]
    ranges[:, :, :, 0] += _DISCRETE
    discrete = random.integers(0, _DOMAIN, (events, _DISCRETE))
    return Subscriptions(np.hstack([discrete, random.integers(0, _WIDE, (events, _CONTINUOUS))]), equal, ranges)


def _zipf(random: np.random.Generator, skew: float, count: int) -> Int64s:
    weights = 1 / np.arange(1, _DOMAIN + 1) ** skew
    return random.choice(_DOMAIN, count, p=weights / weights.sum()).astype(np.int64)


def measure_subscriptions(data: Subscriptions, sample: int, seed: int) -> tuple[Row, bool]:
    """Return the events a second that index and steps take, and whether some subscriptions match the same alone."""
    index = index_of(data)
    columns = columns_of(data.events)
    for _ in index.satisfied(columns_of(data.events[:10])):
        pass  # what is compiled once for all batches does not count
    begin = time.process_time()
    found = [*index.satisfied(columns)]
    row, number = (np.concatenate(each) for each in zip(*found, strict=True))
    told = time.process_time()
    matches = moved(data, row, number)
    ended = time.process_time()
    figures: Row = {
        "found_per_event": len(row) / len(data.events),
        "index_us": 1e6 * (told - begin) / len(data.events),
        "steps_us": 1e6 * (ended - told) / len(data.events),
        "events_per_s": len(data.events) / (ended - begin),
        "pairs": len(matches[0]),
        "matches": len(matches[1]),
    }
    chosen = np.random.default_rng(seed).integers(0, len(data), sample)
    chosen = np.concatenate([chosen, *(np.unique(each[:, 0])[:sample] for each in matches)])
    mine = {tuple(match) for each in matches for match in each.tolist()}
    agrees = all({match for match in mine if match[0] == one} == set(alone(data, one)) for one in chosen.tolist())
    return figures, agrees


def columns_of(events: Int64s) -> RowColumns:
    """Return events as the index reads rows."""
    rows = [[str(value) for value in event] for event in events.tolist()]
    return RowColumns(pa.array(rows, pa.list_(pa.string())), events.shape[1])


def index_of(data: Subscriptions) -> SpanIndex:
    """File the conditions of each step of each subscription as a set."""
    index = SpanIndex()
    dimensions = [Dimension(column + 1, _NUMBER) for column in range(data.events.shape[1])]
    keys: Mapping[int, Key | None] = {value: _NUMBER.key(str(value)) for value in range(_WIDE + 1)}
    both = zip(data.equal.reshape(-1, 3).tolist(), data.ranges.reshape(-1, 4).tolist(), strict=True)
    for number, ((first, attribute, second), (one, low, other, least)) in enumerate(both):
        alternative: Alternative = {
            dimensions[0]: _span(keys, first, first),
            dimensions[attribute]: _span(keys, second, second),
            dimensions[one]: _span(keys, low, low + WIDTH),
            dimensions[other]: _span(keys, least, least + WIDTH),
        }
        index.add(number, [alternative])
    return index


def _span(keys: Mapping[int, Key | None], least: int, greatest: int) -> Values:
    low, high = keys[least], keys[greatest]
    assert low is not None and high is not None
    return (((3, low, 0), (3, high, 1)),)


def moved(data: Subscriptions, row: Int64s, number: Int64s, *, in_lanes: bool = True) -> list[Int64s]:
    """Return rows of a subscription and its first two events, and of one and its three events, which are matches.

    Without lanes each instance looks at all events that follow, and asks each for its first attribute.
    """
    count = len(data.events)
    ts = np.arange(count)
    lane = lane_of(data.events[:, 0] if in_lanes else np.zeros(count, dtype=np.int64), ts, ts)
    begins = number % STEPS == 0
    query, last = number[begins] // STEPS, row[begins]
    members, found = [last], []
    for step in range(1, STEPS):
        key = data.equal[query, step, 0]
        until = members[0] + DURATION
        if in_lanes:
            hits = advance(lane, Requests(key, last, last, until))
        else:
            hits = advance(lane, Requests(np.zeros_like(key), last, last, until), partial(_of_key, lane, data, key))
        query, last = query[hits.request], lane.row[hits.at]
        satisfied = number % STEPS == step
        good = _among((number[satisfied] // STEPS) * count + row[satisfied], query * count + last)
        query, last = query[good], last[good]
        members = [*(each[hits.request[good]] for each in members), last]
        found.append(np.column_stack([query, *members]))
    return found


def _of_key(lane: Lane, data: Subscriptions, key: Int64s, request: Int64s, at: Int64s) -> Bools:
    found: Bools = data.events[lane.row[at], 0] == key[request]
    return found


def _among(known: Int64s, asked: Int64s) -> Bools:
    """Tell which numbers are among some; those that are asked for are fewer."""
    order = np.sort(asked)
    at = np.minimum(np.searchsorted(order, known), max(0, len(order) - 1))
    there = known[order[at] == known] if len(order) else known[:0]
    found: Bools = np.isin(asked, there)
    return found


def alone(data: Subscriptions, query: int) -> Iterator[tuple[int, ...]]:
    """Yield the pairs and matches of one subscription, event by event."""
    events = data.events

    def holds(step: int, event: int) -> bool:
        first, attribute, second = data.equal[query, step].tolist()
        here = events[event]
        in_ranges = all(low <= here[column] <= low + WIDTH for column, low in data.ranges[query, step].tolist())
        return bool(here[0] == first and here[attribute] == second and in_ranges)

    def behind(event: int, begin: int) -> int | None:
        first = int(data.equal[query, 0, 0])
        until = min(len(events), begin + DURATION + 1)
        return next((at for at in range(event + 1, until) if events[at, 0] == first), None)

    for begin in np.flatnonzero(events[:, 0] == data.equal[query, 0, 0]).tolist():
        if holds(0, begin):
            middle = behind(begin, begin)
            if middle is not None and holds(1, middle):
                yield query, begin, middle
                end = behind(middle, begin)
                if end is not None and holds(2, end):
                    yield query, begin, middle, end
