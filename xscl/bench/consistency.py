"""``xscl bench consistency``: one question about absence at each level of consistency, over more and more disorder.

All levels answer side by side in one home.  The right answers, and those that a query with so much memory has, are told
from the made-up events by a loop in Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from xscl.answers.consistency import pending_bindings
from xscl.base.settings import Settings
from xscl.base.values import digest_text
from xscl.bench.absence import take_part
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.engines import register
from xscl.bench.orders import LATENESS_S, ORDERS, PAYMENTS, SCHEMAS, WINDOW_S, Part, Trade, unpaid_text
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.engine import Engine, connect

__all__ = ["BENCH", "remembered_unpaid"]

LEVELS: dict[str, tuple[int, int]] = {
    "STRONG": (LATENESS_S, LATENESS_S),
    "BLOCKING 2 min MEMORY 10 min": (120, LATENESS_S),
    "MIDDLE": (0, LATENESS_S),
    "BLOCKING 2 min MEMORY 2 min": (120, 120),
    "WEAK": (0, 0),
}
"""Levels, each with the seconds behind clocks that it blocks and remembers."""
_GAP_US = 2_000_000
_SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    items: int = size(5_000, 300)
    """Orders."""
    disorder: tuple[float, ...] = size((0.0, 0.1, 0.2, 0.3, 0.4, 0.5), (0.0, 0.3))
    """Parts of the events that come after newer ones."""
    batch: int = size(100, 60)
    """Events of a batch, about."""


@dataclass(slots=True)
class _Measured:
    """Figures of a level so far."""

    cursor: str = "start"
    net: set[int] = field(default_factory=set)
    """Orders that nobody pays, as the change log tells."""
    inserts: int = 0
    retractions: int = 0
    blocked_s: float = 0.0
    """Sum of the seconds by which the clock was beyond answers that were not there."""
    state: int = 0
    """Most pending bindings behind a batch."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[Trade]]:
    for part in lab.sizes.disorder:
        trade = Trade(lab.sizes.items, 1, lab.seed, _GAP_US, part)
        yield Case(f"{part:.0%} disorder", trade, {"disorder": part, "orders": trade.orders})


def _measure(lab: Lab[_Sizes], case: Case[Trade]) -> Outcome:
    trade = case.data
    found = {level: _Measured() for level in LEVELS}
    clock = 0
    with connect(home=lab.new_folder() / "home", settings=Settings("driver")) as engine:
        for channel, schema in SCHEMAS.items():
            engine.add_channel(channel, kind="rows", schema=schema, lateness=f"{LATENESS_S} s")
        names = {level: f"q{number}" for number, level in enumerate(LEVELS)}
        register(engine, ((names[level], f"{unpaid_text()} CONSISTENCY {level}") for level in LEVELS))
        for number, part in enumerate(trade.parts(lab.sizes.batch)):
            take_part(engine, part, number)
            _look(engine, names, found, clock)
            clock = max([clock, *part.payments.column("ts").to_pylist()])
        engine.end_input()
        _look(engine, names, found, clock)
        late_for = {info.name: info.late_for for info in engine.queries()}
    true = set(trade.unpaid().tolist())
    rows, right = [], True
    for level, (blocking, memory) in LEVELS.items():
        one = found[level]
        remembered, forgotten = remembered_unpaid(trade.parts(lab.sizes.batch), memory)
        row: Row = {
            **case.figures,
            "level": level,
            "quality": len(one.net & true) / len(one.net | true) if one.net | true else 1.0,
            "inserts": one.inserts,
            "retractions": one.retractions,
            "blocking_s": one.blocked_s / max(1, one.inserts),
            "state_rows": one.state,
            "late_for": late_for[names[level]],
        }
        right &= one.net == remembered and late_for[names[level]] == forgotten
        right &= (row["quality"] == 1 or memory < LATENESS_S) and bool(one.retractions == 0 or memory > blocking)
        right &= blocking > 0 or one.blocked_s == 0
        rows.append(row)
    return Outcome({}, rows, digest_text(*(repr(sorted(found[level].net)) for level in LEVELS)), right)


def _look(engine: Engine, names: dict[str, str], found: dict[str, _Measured], clock: int) -> None:
    """Process what came, and note what each level tells of it; the clock of payments showed ``clock`` before."""
    engine.run_once()
    with engine.home.catalog.read() as connection:
        waiting, correctable = pending_bindings(engine.home, connection)
    groups = {info.name: info.gid for info in engine.queries()}
    for level, one in found.items():
        listing = engine.changes(names[level], after=one.cursor)
        for match in listing:
            order = int(match.events[0].id)
            if match.retracted is None:
                one.net.add(order)
                one.inserts += 1
                one.blocked_s += max(0, clock - match.ts) / _SECOND
            else:
                one.net.remove(order)
                one.retractions += 1
        one.cursor = listing.cursor
        gid = groups[names[level]]
        one.state = max(one.state, waiting[gid] + correctable[gid])


def remembered_unpaid(parts: Iterator[Part], memory: int) -> tuple[set[int], int]:
    """Return the orders that nobody pays, by the events that come at most so many seconds behind their clocks; and how
    many events come later.
    """
    ordered: dict[int, int] = {}
    paid: dict[int, int] = {}
    clocks, forgotten = {ORDERS: 0, PAYMENTS: 0}, 0
    for part in parts:
        for channel, table, kept in ((ORDERS, part.orders, ordered), (PAYMENTS, part.payments, paid)):
            for number, ts in zip(table.column("no").to_pylist(), table.column("ts").to_pylist(), strict=True):
                if ts < clocks[channel] - memory * _SECOND:
                    forgotten += 1
                else:
                    kept[number] = ts
                clocks[channel] = max(clocks[channel], ts)
    window = WINDOW_S * _SECOND
    unpaid = {number for number, ts in ordered.items() if not 0 < paid.get(number, -1) - ts <= window}
    return unpaid, forgotten


def _figures(_: _Sizes, results: Sequence[Result[Trade]]) -> Row:
    """Take the least quality and the sums of each level."""
    rows = by_step(results)
    figures: dict[str, float] = {}
    for level in ("STRONG", "MIDDLE", "WEAK"):
        mine = [row for row in rows if row["level"] == level]
        figures[f"least_quality_{level.lower()}"] = min(row["quality"] for row in mine)
        figures[f"retractions_{level.lower()}"] = sum(row["retractions"] for row in mine)
    return figures


BENCH = Bench(
    name="consistency",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("driver", _measure),),
    table=by_step,
    figures=_figures,
    axes=Axes(
        "Levels of consistency, {s.items:,} orders",
        x="part of the events that come out of order",
        y="quality: right answers of all that are right or told",
        over="disorder",
        lines={"": "quality"},
        by="level",
    ),
    notes=(
        "An answer is blocked by the seconds that the clock of payments was beyond it before the batch that told it.",
    ),
    spark=False,
)
