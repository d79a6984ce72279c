"""Copies of one pattern: how much a thousand of them cost beside one, in a home, for each kind of pattern."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType

import pyarrow as pa

from xscl.base.settings import Settings
from xscl.bench.report import Row
from xscl.engine import connect

__all__ = ["PATTERNS", "Copies", "measure_copies"]

_STOCK = "stock[./price > {}][./name->s][./price->p]"
PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "next": f"SELECT s, p, q FROM {_STOCK.format(90)} NEXT {{s = t, 60 s}} stock[./name->t][./price->q]",
        "fold": f"SELECT s, p, q FROM {_STOCK.format(80)} FOLD {{s = t, 600 s WHILE q < last(q, p)}}"
        " stock[./name->t][./price->q]",
        "absence": "stock->x[./price > 95][./name->s] NOT FOLLOWED BY {s = t, 20 s} stock->y[./name->t]",
        "aggregate": f"SELECT s, count() AS n FROM {_STOCK.format(0)} WINDOW 60 s EVERY 30 s GROUP BY s"
        " HAVING max(p) > 99",
        "join": "stock->x[./price > 98][./name->s] FOLLOWED BY {s = t, 60 s} stock->y[./price > 98][./name->t]",
    }
)
"""Patterns by their kinds."""
_BATCHES = 5
"""Batches of a run; the first one reads what was registered, and does not count."""
_ROUNDS = 3
"""Homes with one query, and as many with copies, in turns; the cheapest of each counts."""


@dataclass(frozen=True, slots=True)
class Copies:
    """A pattern, and rows that it meets."""

    kind: str
    count: int
    """Copies of it."""
    rows: int
    seed: int


def measure_copies(case: Copies) -> tuple[Row, bool]:
    """Return what copies cost beside one query, and whether the plans and the answers are those of one."""
    one: list[float] = []
    many: list[float] = []
    plans: set[tuple[int, tuple[str, ...]]] = set()
    for _ in range(_ROUNDS):
        for count, found in ((1, one), (case.count, many)):
            seconds, mops, answers = _run(case, count)
            found.append(seconds)
            plans.add((mops, answers))
    figures: Row = {"one_s": min(one), "copies_s": min(many), "ratio": min(many) / min(one), "mops": min(plans)[0]}
    return figures, len(plans) == 1


def _run(case: Copies, count: int) -> tuple[float, int, tuple[str, ...]]:
    """Return processor seconds of all batches but the first, the number of m-ops, and the answers of the first copy."""
    chosen = random.Random(case.seed)
    each = case.rows // _BATCHES
    seconds = 0.0
    with TemporaryDirectory() as folder, connect(home=Path(folder, "home"), settings=Settings("driver")) as engine:
        engine.add_channel(
            "stock", kind="rows", schema="id string, t double, name string, price bigint", lateness="0 s"
        )
        engine.register_many([(f"q{number}", PATTERNS[case.kind]) for number in range(count)])
        mops = len(engine.plan().mops)
        for first in range(0, each * _BATCHES, each):
            numbers = range(first, first + each)
            table = pa.table(
                {
                    "id": [str(number) for number in numbers],
                    "t": [number / 5 for number in numbers],
                    "name": [f"n{chosen.randrange(50)}" for _ in numbers],
                    "price": [chosen.randrange(101) for _ in numbers],
                }
            )
            engine.ingest(table, channel="stock", ts="t", id="id")
            begin = time.process_time()
            engine.run_once()
            seconds += time.process_time() - begin if first else 0.0
        answers = tuple(sorted(match.document or "" for match in engine.matches("q0")))
    return seconds, mops, answers
