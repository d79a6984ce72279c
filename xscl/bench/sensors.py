"""Rows of a sensor network, standing conditions on them, and the answers that one numpy filter a query gives."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["CALIBRATIONS", "JOIN", "READINGS", "SCHEMA", "Condition", "calibrations", "conditions", "readings"]

READINGS, CALIBRATIONS = "readings", "calibrations"
SCHEMA = (
    "node int, room string, temperature double, humidity double, light double, voltage double, seq int, quality int"
)
NODES, ROOMS = 1_000, 100
PER_SECOND = 1_000
"""Readings: every node sends one a second."""
_ALL = 10_000
"""Conditions; a row meets two on average."""
_SEQS = 5_000
JOIN = f"{READINGS}/{READINGS}[./node->n] JOIN {{n = m, 10 s}} {CALIBRATIONS}/{CALIBRATIONS}[./node->m]"
START_S = 1_163_438_041

Columns = dict[str, npt.NDArray[Any]]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Condition:
    """One standing query: its brackets in XSCL, the same in SQL, and as a filter of columns."""

    text: str
    sql: str
    holds: Callable[[Columns], Mask]


def readings(seed: int, first: int, count: int) -> tuple[Columns, pa.Table]:
    """Return ``count`` rows from the one with a number on: as numpy columns, and as a table with event times (us)."""
    generator = np.random.default_rng([seed, first])
    number = np.arange(first, first + count)
    node = generator.integers(1, NODES + 1, count)
    columns: Columns = {
        "node": node,
        "temperature": np.round(generator.uniform(10, 40, count), 2),
        "humidity": np.round(generator.uniform(20, 80, count), 4),
        "light": np.round(generator.uniform(0, 1000, count), 2),
        "voltage": np.round(generator.uniform(2, 3, count), 5),
        "seq": generator.integers(0, _SEQS, count),
        "quality": generator.integers(0, 4, count),
    }
    rooms = pa.array([f"room-{room}" for room in range(ROOMS)])
    room = (node - 1) // (NODES // ROOMS)
    texts = pa.DictionaryArray.from_arrays(pa.array(room.astype(np.int32)), rooms).cast(pa.string())
    # Now and then a sensor says nothing.
    silent = pa.array(generator.random(count) < 0.001)
    arrays = {name: pa.array(column) for name, column in columns.items()}
    arrays["quality"] = pa.array(columns["quality"], mask=silent.to_numpy(zero_copy_only=False))
    table = pa.table(
        {
            "ts": pa.array(START_S * 1_000_000 + number * (1_000_000 // PER_SECOND)),
            "node": arrays["node"],
            "room": texts,
            **{name: arrays[name] for name in ("temperature", "humidity", "light", "voltage", "seq", "quality")},
        }
    )
    return {**columns, "room": room}, table


def calibrations(seed: int, first: int, count: int) -> pa.Table:
    """Make the rows of the other channel in the time of so many readings: one for a thousand of these."""
    generator = np.random.default_rng([seed, first, 1])
    number = np.arange(first, first + count, 1_000)
    return pa.table(
        {
            "ts": pa.array(START_S * 1_000_000 + number * (1_000_000 // PER_SECOND)),
            "node": pa.array(generator.integers(1, NODES + 1, len(number))),
            "offset": pa.array(np.round(generator.normal(0, 1, len(number)), 2)),
        }
    )


def conditions(seed: int) -> Iterator[Condition]:
    """Yield conditions of five kinds by turns, each met by one row of 5,000, without end."""
    generator = random.Random(seed)
    while True:
        yield _equal(generator.randrange(_SEQS))
        yield _span("humidity", generator, 20, 80, 2 / _ALL, 4)
        yield _node_and_span(generator.randint(1, NODES), generator)
        yield _either(generator)
        yield _room_and_spans(generator.randrange(ROOMS), generator)


def _equal(seq: int) -> Condition:
    return Condition(f"[./seq = {seq}]", f"seq = {seq}", lambda rows: rows["seq"] == seq)


def _ends(generator: random.Random, low: float, high: float, part: float, digits: int) -> tuple[float, float]:
    width = (high - low) * part
    start = round(generator.uniform(low, high - width), digits)
    return start, round(start + width, digits)


def _span(column: str, generator: random.Random, low: float, high: float, part: float, digits: int) -> Condition:
    least, greatest = _ends(generator, low, high, part, digits)
    return Condition(
        f"[./{column} > {least} and ./{column} <= {greatest}]",
        f"({column} > {least}d and {column} <= {greatest}d)",
        lambda rows: (rows[column] > least) & (rows[column] <= greatest),
    )


def _node_and_span(node: int, generator: random.Random) -> Condition:
    span = _span("temperature", generator, 10, 40, NODES * 2 / _ALL, 2)
    return Condition(
        f"[./node = {node}]{span.text}",
        f"node = {node} and {span.sql}",
        lambda rows: (rows["node"] == node) & span.holds(rows),
    )


def _either(generator: random.Random) -> Condition:
    one, other = _span("voltage", generator, 2, 3, 1 / _ALL, 5), _span("light", generator, 0, 1000, 1 / _ALL, 2)
    return Condition(
        f"[({one.text[1:-1]}) or ({other.text[1:-1]})]",
        f"({one.sql} or {other.sql})",
        lambda rows: one.holds(rows) | other.holds(rows),
    )


def _room_and_spans(room: int, generator: random.Random) -> Condition:
    one, other = _span("temperature", generator, 10, 40, 0.2, 2), _span("light", generator, 0, 1000, 0.1, 2)
    return Condition(
        f"[./room = 'room-{room}']{one.text}{other.text}",
        f"room = 'room-{room}' and {one.sql} and {other.sql}",
        lambda rows: (rows["room"] == room) & one.holds(rows) & other.holds(rows),
    )
