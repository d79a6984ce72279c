"""The last matches of each part of a group, against lists of them."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pyarrow as pa

from xscl.batches.windows.groups import Matches
from xscl.batches.windows.parts import last_of_parts
from xscl.batches.windows.rows import ROW_SCHEMA
from xscl.language.aggregates import Counted
from xscl.language.terms import Term

K, X, V = (Term("variable", place) for place in range(3))
FUNCTIONS = [Counted(name, V, False) for name in ("count", "sum", "avg", "min", "max", "first", "last")]
FUNCTIONS += [Counted("count", None, False), Counted("count", V, True)]
_Row = tuple[int, tuple[str, str, str]]


def table(rows: list[_Row], chance: random.Random) -> pa.Table:
    count = len(rows)
    columns = {
        "ts": [ts for ts, _ in rows],
        "key": [b"%08d" % number for number in range(count)],
        "first": range(count),
        "came": range(count),
        "received": [chance.randrange(100) for _ in rows],
        "name": [str(number) for number in range(count)],
        "texts": [list(texts) for _, texts in rows],
    }
    return pa.table({name: list(values) for name, values in columns.items()}, schema=ROW_SCHEMA)


def value_of(counted: Counted, window: list[str]) -> object:
    numbers = [Fraction(value) for value in window if value != "x"]
    if counted.function == "count":
        return Fraction(len(set(window)) if counted.distinct else len(window))
    if counted.function in ("first", "last"):
        return (window[0] if counted.function == "first" else window[-1]) if window else None
    if not numbers:
        return None
    total = sum(numbers, Fraction(0))
    found = {"sum": total, "avg": total / len(numbers), "min": min(numbers), "max": max(numbers)}
    return found[counted.function]


def test_windows_are_those_of_lists() -> None:
    chance = random.Random(5)
    for _ in range(40):
        count, last, back = chance.randrange(1, 30), chance.randrange(1, 5), chance.choice([3, 8, 1_000])
        great = chance.choice([1, 1, 10**25])
        rows = [
            (
                n // 2,
                (
                    chance.choice("ab"),
                    chance.choice("xyz"),
                    chance.choice(["x", "0.5", *map(str, (great, 2 * great, -3))]),
                ),
            )
            for n in range(count)
        ]
        rows_table = table(rows, chance)
        runs = Matches(rows_table).runs((K,), (X,))
        found = last_of_parts(runs, last, back, np.arange(len(runs)))
        for windows, without in ((found, 0), (found.without_last(), 1)):
            keys = set()
            for place in range(len(runs)):
                end = int(runs.rows[place])
                group = rows[end][1][0]
                mine = [n for n in range(max(0, end - back + 1), end + 1) if rows[n][1][0] == group]
                kept = [n for n in mine if sum(rows[m][1][1] == rows[n][1][1] for m in mine if m > n) < last]
                kept = [n for n in kept if n != end or not without]
                values = [rows[n][1][2] for n in kept]
                for counted in FUNCTIONS:
                    assert windows.aggregates(counted).values(np.array([place])) == [value_of(counted, values)], (
                        counted,
                        values,
                    )
                if not without:
                    received = rows_table.column("received").to_pylist()
                    assert windows.latest(place) == max(received[n] for n in kept)
                    assert windows.group(place) == (group,)
                    keys.add((tuple(kept), windows.key(place)))
            assert len({which for which, _ in keys}) == len({key for _, key in keys}) == len(keys)
