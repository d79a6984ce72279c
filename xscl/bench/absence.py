"""``xscl bench absence``: orders that nobody pays within half an hour, beside orders with their payments.

The engine and DuckDB take the same parts, turn about, so all meet the same load of the machine.  Costs are processor
time of all processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace

import numpy as np

from xscl.base.values import digest_text
from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_case, size
from xscl.bench.engines import open_engine, register, run
from xscl.bench.orders import LATENESS_S, ORDERS, PAYMENTS, SCHEMAS, Part, Trade, joined_text, unpaid_text
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.unpaid import Streams, asked_again
from xscl.engine import Engine
from xscl.ingest.records import RowOptions, RowTable

__all__ = ["BENCH", "take_part"]

Found = list[tuple[int, int]]
"""Number of the query and of the order, sorted."""


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((1, 1_000, 100_000), (1, 20))
    """One asks for all orders; of several, each asks for one shop's, and there are as many shops."""
    items: int = size(1_000_000, 6_000)
    """Orders of the one query."""
    growth_items: int = size(50_000, 4_000)
    """Orders of several queries."""
    batch: int = size(40_000, 2_000)
    """Events of a batch, about."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[Trade]]:
    sizes = lab.sizes
    for count in sizes.queries:
        orders = sizes.items if count == 1 else min(sizes.growth_items, sizes.items)
        yield Case(f"{count:,} queries", Trade(orders, count, lab.seed), {"queries": count, "orders": orders})


def _measure(lab: Lab[_Sizes], case: Case[Trade]) -> Outcome:
    trade = case.data
    # Absence of one query is measured beside the plain join and the baselines.
    if trade.shops == 1:
        return _beside_others(lab, trade)
    fewest = min(count for count in lab.sizes.queries if count > 1)
    trades = [trade] if trade.shops == fewest else [trade, Trade(trade.orders, fewest, lab.seed)]
    with ExitStack() as opened:
        shops = [_Shops(opened.enter_context(_engine(lab)), each) for each in trades]
        # Homes of both sizes meet the same load of the machine, and neither always comes first.
        for number, parts in enumerate(zip(*(each.trade.parts(lab.sizes.batch) for each in shops), strict=True)):
            lab.say(f"batch {number + 1}")
            for each, part in [*zip(shops, parts, strict=True)][:: 1 if number % 2 else -1]:
                each.costs.append(_cost(each.engine, part, number))
        outcomes = [each.end(lab.sizes.batch) for each in shops]
    own, *others = outcomes
    figures = {**own.figures}
    for other in others:
        figures["us_per_order_beside"] = other.figures["us_per_order"]
        figures["ratio"] = own.figures["us_per_order"] / other.figures["us_per_order"]
    return replace(own, figures=figures, agrees=all(each.agrees for each in outcomes))


@dataclass
class _Shops:
    """A home with a query for each of some shops."""

    engine: Engine
    trade: Trade
    costs: list[float] = field(default_factory=list)
    """Seconds of processor time of each batch."""
    register_s: float = field(init=False)

    def __post_init__(self) -> None:
        shops = range(self.trade.shops)
        self.register_s = register(self.engine, ((f"q{shop}", unpaid_text(shop)) for shop in shops))

    def end(self, batch: int) -> Outcome:
        """Answer all that waits, and compare with what the orders say."""
        end_s = _end(self.engine)
        found, shops = _found(self.engine), self.trade.shop_of()
        expected = sorted((int(shops[order]), order) for order in self.trade.unpaid().tolist())
        figures = {
            "us_per_order": 1e6 * (sum(self.costs[1:]) + end_s) / _orders_behind(self.trade, batch),
            "unpaid": len(found),
            "register_s": self.register_s,
        }
        return Outcome(figures, digest=_digest(found), agrees=found == expected)


def _beside_others(lab: Lab[_Sizes], trade: Trade) -> Outcome:
    duckdb, streams = asked_again(), Streams(lab.spark, lab.new_folder())
    spent = dict.fromkeys(("absence", "join", "duckdb"), 0.0)
    with _engine(lab) as absence, _engine(lab) as join:
        register(absence, [("q0", unpaid_text())])
        register(join, [("q0", joined_text())])
        pairs = 0.0
        for number, part in enumerate(trade.parts(lab.sizes.batch)):
            lab.say(f"batch {number + 1}")
            spent["absence"] += _cost(absence, part, number)
            with watched() as watch:
                take_part(join, part, number)
                pairs += run(join).total("matches")
            spent["join"] += watch.cpu_s
            if duckdb is not None:
                with watched() as watch:
                    duckdb.take(part)
                spent["duckdb"] += watch.cpu_s
            streams.take(part)
        spent["absence"] += _end(absence)
        found = _found(absence)
    lab.say("Spark's outer join")
    streams.end()
    with watched() as watch:
        streams.run()
    spent["spark"] = watch.cpu_s
    expected = trade.unpaid().tolist()
    ways = [[order for _, order in found], streams.found()]
    if duckdb is None:
        del spent["duckdb"]
    else:
        ways.append(duckdb.found())
    agrees = all(way == expected for way in ways) and pairs == trade.orders - len(expected)
    figures = {**_figures_of_ways(spent, trade.orders), "unpaid": len(found)}
    return Outcome(figures, digest=_digest(found), agrees=agrees)


def _figures_of_ways(spent: Mapping[str, float], orders: int) -> dict[str, float]:
    """Return what each way has spent, seconds, as figures of one order and of one way beside another."""
    figures = {
        f"us_per_order{'' if name == 'absence' else f'_{name}'}": 1e6 * seconds / orders
        for name, seconds in spent.items()
    }
    figures["ratio_to_join"] = spent["absence"] / spent["join"]
    for name in ("duckdb", "spark"):
        if name in spent:
            figures[f"speedup_over_{name}"] = spent[name] / spent["absence"]
    return figures


def _engine(lab: Lab[_Sizes]) -> Engine:
    engine = open_engine(lab.new_folder() / "home", lab.spark)
    for channel, schema in SCHEMAS.items():
        engine.add_channel(channel, kind="rows", schema=schema, lateness=f"{LATENESS_S} s")
    return engine


def _cost(engine: Engine, part: Part, number: int) -> float:
    """Take a part in and process it; seconds of processor time."""
    with watched() as watch:
        take_part(engine, part, number)
        run(engine)
    return watch.cpu_s


def _end(engine: Engine) -> float:
    """Answer all that waits; seconds of processor time."""
    with watched() as watch:
        engine.end_input()
        run(engine)
    return watch.cpu_s


def take_part(engine: Engine, part: Part, number: int) -> None:
    """Take the events of a part in."""
    tables = ((ORDERS, part.orders, ("no", "shop")), (PAYMENTS, part.payments, ("no",)))
    report = engine.ingest(
        RowTable(
            channel,
            table,
            f"{channel}-{number}",
            options=RowOptions(columns=columns, id="no", ts="ts", ts_format="us"),
        )
        for channel, table, columns in tables
    )
    assert report.taken == len(part.orders) + len(part.payments) and not report.late, report


def _orders_behind(trade: Trade, batch: int) -> int:
    """Return the number of orders behind the first batch, which is not counted because it plans."""
    first = next(trade.parts(batch))
    return trade.orders - len(first.orders)


def _found(engine: Engine) -> Found:
    """Return what the queries about absence have found."""
    rows = engine.sql("SELECT qid, docids[0] AS docid FROM matches").toArrow()
    events = engine.sql(f"SELECT docid, id FROM events WHERE channel = '{ORDERS}'").toArrow()
    docids, ids = events.column("docid").to_numpy(), events.column("id").to_pylist()
    order = np.argsort(docids)
    places = order[np.searchsorted(docids, rows.column("docid").to_numpy(), sorter=order)].tolist()
    queries = rows.column("qid").to_pylist()
    return sorted((int(name[1:]), int(ids[at])) for name, at in zip(queries, places, strict=True))


def _digest(found: Found) -> str:
    return digest_text(*map(repr, found))


def _figures(_: _Sizes, results: Sequence[Result[Trade]]) -> Row:
    """Take the one query's costs, and those of many beside those of few."""
    figures = {name: value for name, value in results[0].figures.items() if name != "queries"}
    several = [result.figures for result in results[1:]]
    for each in several:
        figures[f"us_per_order_at_{each['queries']}"] = each["us_per_order"]
        if "ratio" in each:
            figures[f"ratio_{each['queries']}_to_{several[0]['queries']}"] = each["ratio"]
    return figures


BENCH = Bench(
    name="absence",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("driver", _measure),),
    table=by_case,
    figures=_figures,
    axes=Axes(
        "Orders that nobody pays, batches of {s.batch:,} events",
        x="queries",
        y="microseconds of processor time an order",
        over="queries",
        lines={"driver": "us_per_order"},
        log_x=True,
    ),
    notes=(
        "The engine's time has its intake in it. Baselines begin with columns in memory or in files.",
        "Of several queries the first batch, which plans, is not counted.",
        "A home with many queries takes its batches in turns with one with few.",
    ),
)
