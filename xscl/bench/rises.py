"""``xscl bench rises``: each query asks for a rise of a price by a factor of its own, within ten minutes.

The baseline is one join in DuckDB with the factors in a table.  Prices and factors are whole numbers there, so
comparisons are exact on both sides.
"""

from __future__ import annotations

import random
import statistics
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import pyarrow as pa

from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_case, size
from xscl.bench.engines import open_engine, register, run
from xscl.bench.news_joins import Found
from xscl.bench.people import engine_pairs, pairs_digest
from xscl.bench.plot import Axes
from xscl.bench.report import Row

__all__ = ["BENCH"]

_WINDOW_S = 600
_PER_UNIT = 1_000_000
"""Factors are whole numbers of millionths."""

Tick = tuple[int, int, int]
"""Number from 1 on, which is also its time in seconds; its symbol; and its price in cents."""


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((1, 100, 10_000), (1, 100))
    items: int = size(10_000, 2_000)
    """Prices of the state before the first batch that is measured."""
    symbols: int = size(20, 10)
    batch: int = size(5_000, 200)
    """Prices of a batch."""
    rounds: int = size(4, 3)
    """Batches; the first one is not counted."""


@dataclass(frozen=True, slots=True)
class _Data:
    factors: Sequence[int]
    """Least rise of each query, in millionths of the earlier price."""
    parts: Sequence[Sequence[Tick]]
    """Prices of the state, and of each batch."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Data]]:
    sizes, chance = lab.sizes, random.Random(lab.seed)
    prices = [10_000.0] * sizes.symbols
    ticks = []
    for number in range(1, sizes.items + sizes.rounds * sizes.batch + 1):
        symbol = chance.randrange(sizes.symbols)
        prices[symbol] *= 1 + chance.gauss(0, 0.0005)
        ticks.append((number, symbol, round(prices[symbol])))
    cuts = [0, *range(sizes.items, len(ticks) + 1, sizes.batch)]
    parts = [ticks[begin:end] for begin, end in zip(cuts, cuts[1:], strict=False)]
    for count in sizes.queries:
        factors = random.Random(lab.seed + 1).sample(range(1_010_000, 1_200_000), count)
        yield Case(f"{count:,} queries", _Data(factors, parts), {"queries": count})


def _text(factor: int) -> str:
    return (
        f"ticks[./symbol->s][./price->p] FOLLOWED BY {{s = t AND q >= {factor / _PER_UNIT:.6f} * p, 10 min}} "
        "ticks[./symbol->t][./price->q]"
    )


def _table(ticks: Sequence[Tick]) -> pa.Table:
    at, symbols, prices = zip(*ticks, strict=True)
    columns = {"symbol": [f"S{symbol}" for symbol in symbols], "price": prices}
    return pa.table({"id": [f"t{number}" for number in at], "at": at, **columns})


class _OneJoin:
    """One join in DuckDB, in memory and with one thread: new prices, earlier ones in the window, and all factors."""

    def __init__(self, factors: Sequence[int]) -> None:
        import duckdb

        self._database = duckdb.connect(config={"threads": 1})
        for table in ("ticks", "fresh"):
            self._database.execute(f"create table {table} (number bigint, symbol bigint, price bigint)")
        self._database.execute("create table found (query bigint, older bigint, newer bigint)")
        self._database.register("given", pa.table({"query": range(len(factors)), "factor": list(factors)}))
        self._database.execute("create table factors as select * from given")

    def take(self, ticks: Sequence[Tick]) -> None:
        """Take new prices in, and keep the pairs that they complete."""
        columns = zip(*ticks, strict=True)
        self._database.register(
            "given", pa.table(dict(zip(("number", "symbol", "price"), map(pa.array, columns), strict=True)))
        )
        self._database.execute("begin")
        self._database.execute("delete from fresh")
        self._database.execute("insert into fresh select * from given")
        self._database.execute("insert into ticks select * from fresh")
        self._database.execute(
            "insert into found with p as materialized (select a.number as older, b.number as newer, a.price as p, "
            "b.price as q from ticks a join fresh b on a.symbol = b.symbol where a.number < b.number "
            f"and b.number - a.number <= {_WINDOW_S} and b.price * {_PER_UNIT} >= a.price * 1010000) "
            f"select f.query, p.older, p.newer from p join factors f on p.q * {_PER_UNIT} >= f.factor * p.p"
        )
        self._database.execute("commit")

    def found(self) -> Found:
        """Return all pairs that were found."""
        return set(self._database.execute("select * from found").fetchall())


def _measure(lab: Lab[_Sizes], case: Case[_Data]) -> Outcome:
    sizes, data = lab.sizes, case.data
    other = _OneJoin(data.factors) if find_spec("duckdb") else None
    spent: dict[str, list[float]] = {"engine": [], "duckdb": []}
    with open_engine(lab.new_folder() / "home", lab.spark) as engine:
        engine.add_channel(
            "ticks", kind="rows", schema="id string, at bigint, symbol string, price bigint", lateness="0 s"
        )
        register_s = register(engine, ((f"q{number}", _text(factor)) for number, factor in enumerate(data.factors)))
        for number, part in enumerate(data.parts):
            lab.say(f"batch {number}")
            with watched() as watch:
                report = engine.ingest(_table(part), channel="ticks", ts="at", id="id")
                run(engine)
            assert report.taken == len(part), report
            spent["engine"].append(watch.cpu_s)
            if other is not None:
                with watched() as watch:
                    other.take(part)
                spent["duckdb"].append(watch.cpu_s)
        found = engine_pairs(engine)
    us = {name: 1e6 * statistics.median(each[2:]) / sizes.batch for name, each in spent.items() if each}
    figures = {"us_per_event": us["engine"], **({"us_per_event_duckdb": us["duckdb"]} if "duckdb" in us else {})}
    figures = {**figures, "pairs": len(found), "register_s": register_s}
    agrees = found == _expected(data) and (other is None or other.found() == found)
    return Outcome(figures, digest=pairs_digest(found), agrees=agrees)


def _expected(data: _Data) -> Found:
    """Answer all queries by hand."""
    numbers = sorted(range(len(data.factors)), key=data.factors.__getitem__)
    factors = [data.factors[number] for number in numbers]
    earlier: dict[int, list[Tick]] = defaultdict(list)
    found: Found = set()
    for at, symbol, price in (tick for part in data.parts for tick in part):
        earlier[symbol] = [tick for tick in earlier[symbol] if at - tick[0] <= _WINDOW_S]
        for older, _, before in earlier[symbol]:
            satisfied = bisect_right(factors, price * _PER_UNIT // before)
            found.update((number, older, at) for number in numbers[:satisfied])
        earlier[symbol].append((at, symbol, price))
    return found


def _figures(_: _Sizes, results: Sequence[Result[_Data]]) -> Row:
    """Divide costs by those of the fewest queries."""
    first = results[0].figures
    figures = dict(results[-1].figures)
    for each in results[1:]:
        count = each.figures["queries"]
        figures[f"growth_{first['queries']}_to_{count}"] = each.figures["us_per_event"] / first["us_per_event"]
    for each in results:
        if "us_per_event_duckdb" in each.figures:
            ratio = each.figures["us_per_event_duckdb"] / each.figures["us_per_event"]
            figures[f"speedup_over_duckdb_at_{each.figures['queries']}"] = ratio
    return figures


BENCH = Bench(
    name="rises",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("driver", _measure),),
    table=by_case,
    figures=_figures,
    axes=Axes(
        "Queries for rises by a factor of their own, batches of {s.batch:,} prices",
        x="queries",
        y="microseconds of processor time an event",
        over="queries",
        lines={"driver": "us_per_event", "DuckDB, one join": "us_per_event_duckdb"},
        log_x=True,
        log_y=True,
    ),
    notes=("Costs are those of the median batch without the first, intake included.",),
)
