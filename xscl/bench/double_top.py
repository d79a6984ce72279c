"""``xscl bench double-top``: the double top of prices in four formulations and by a loop (the thesis' Figure 4.17).

A double top is a low A, a high B of at least 1.2 A, a low C within 10 % of A, a high D within 10 % of B and a low E
below A, with no others between them.  FOLDs say so in one query.  Two other queries publish lows and highs, and a
series of NEXT reads these.  DuckDB makes lows and highs by looking at both neighbours of a price, or by joining the
table with itself twice, and joins them with the four that follow.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
import pyarrow as pa

from xscl.base.values import digest_text
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_variant, size
from xscl.bench.plot import Axes, times_line
from xscl.bench.report import Row
from xscl.bench.sharing import Work, answered

__all__ = ["BENCH", "Top", "new_prices", "tops", "tops_of_duckdb"]

Top = tuple[int, int, int, int, int, int, int]
"""Time at which a double top is certain, the name, and its five prices."""
_SECOND, _DAY_S = 1_000_000, 86_400
_CHANGE, _TREND, _PULL = 0.06, 0.6, 0.9
"""Random part of a day's change, share of the change before that goes on, and share of the level that stays."""
_FOLDS = "SELECT n, a, b, c, d, e FROM stock[./name->n][./price->p]" + "".join(
    (
        " NEXT {n = n1} stock[./name->n1][./price->a] FILTER {a < p}",
        " FOLD {n = n2 WHILE b > last(b, a)} stock[./name->n2][./price->b] FILTER {b >= 1.2 * a}",
        " FOLD {n = n3 WHILE c < last(c, b)} stock[./name->n3][./price->c] FILTER {c >= 0.9 * a AND c <= 1.1 * a}",
        " FOLD {n = n4 WHILE d > last(d, c)} stock[./name->n4][./price->d] FILTER {d >= 0.9 * b AND d <= 1.1 * b}",
        " FOLD {n = n5 WHILE e < last(e, d)} stock[./name->n5][./price->e] FILTER {e < a}",
        " NEXT {n = n6} stock[./name->n6][./price->f] FILTER {f > e}",
    )
)
_EXTREMES = {
    name: "SELECT n, q AS v FROM stock[./name->n][./price->p]"
    f" NEXT {{n = n1}} stock[./name->n1][./price->q] FILTER {{q {op} p}}"
    f" NEXT {{n = n2}} stock[./name->n2][./price->r] FILTER {{q {op} r}} PUBLISH extremes"
    for name, op in (("lows", "<"), ("highs", ">"))
}
_SERIES = "SELECT n, a, b, c, d, e FROM extremes[.//name->n][.//v->a]" + "".join(
    f" NEXT {{n = n{number}}} extremes[.//name->n{number}][.//v->{name}] FILTER {{{condition}}}"
    for number, (name, condition) in enumerate(
        (
            ("b", "b >= 1.2 * a"),
            ("c", "c >= 0.9 * a AND c <= 1.1 * a"),
            ("d", "d >= 0.9 * b AND d <= 1.1 * b"),
            ("e", "e < a"),
        )
    )
)
_NEIGHBOURS = """
    select name, no, price, lag(price) over w as p, lead(price) over w as r, lead(ts) over w as ts
    from stock window w as (partition by name order by ts)
"""
_JOINED = """
    select q.name, q.no, q.price, p.price as p, r.price as r, r.ts
    from numbered q join numbered p on p.name = q.name and p.place = q.place - 1
    join numbered r on r.name = q.name and r.place = q.place + 1
"""
_TOPS = """
    with numbered as (select *, row_number() over (partition by name order by ts) as place from stock),
    extremes as (
        select name, price, ts, row_number() over (partition by name order by ts) as place
        from ({}) where (price < p and price < r) or (price > p and price > r)
    )
    select e.ts, a.name, a.price, b.price, c.price, d.price, e.price from extremes a
    join extremes b on b.name = a.name and b.place = a.place + 1 and 10 * b.price >= 12 * a.price
    join extremes c on c.name = a.name and c.place = a.place + 2
        and 10 * c.price between 9 * a.price and 11 * a.price
    join extremes d on d.name = a.name and d.place = a.place + 3
        and 10 * d.price between 9 * b.price and 11 * b.price
    join extremes e on e.name = a.name and e.place = a.place + 4 and e.price < a.price
"""


def new_prices(names: int, days: int, smoothing: int, seed: int) -> pa.Table:
    """Make a price of each name for each day, summed over some days; one that is as before is left out."""
    random = np.random.default_rng(seed)
    change, level, levels = np.zeros(names), np.zeros(names), []
    for chance in random.normal(0, _CHANGE, (days + smoothing - 1, names)):
        change = _TREND * change + chance
        level = _PULL * level + change
        levels.append(level)
    sums = np.round(10_000 * np.exp(levels)).astype(np.int64).cumsum(axis=0)
    sums[smoothing:] -= sums[:-smoothing].copy()
    price = sums[smoothing - 1 :]
    others = np.append(np.ones((1, names), dtype=np.bool_), price[1:] != price[:-1], axis=0)
    day, name = np.nonzero(others)
    ts = (day * _DAY_S + name) * _SECOND
    return pa.table({"no": np.arange(len(day)), "ts": ts, "name": name, "price": price[others]})


def tops(prices: pa.Table) -> Iterator[Top]:
    """Yield the double tops, price by price: the last price and direction of each name, and its last extremes."""
    last: dict[int, tuple[int, int]] = {}
    extremes: dict[int, list[int]] = {}
    columns = (prices.column(name).to_pylist() for name in ("ts", "name", "price"))
    for ts, name, price in zip(*columns, strict=True):
        before, direction = last.get(name, (price, 0))
        now = (price > before) - (price < before)
        if direction and now != direction:
            found = extremes[name] = [*extremes.get(name, ()), before][-5:]
            if len(found) == 5:
                a, b, c, d, e = found
                if e < a and 10 * b >= 12 * a and 9 * a <= 10 * c <= 11 * a and 9 * b <= 10 * d <= 11 * b:
                    yield ts, name, a, b, c, d, e
        last[name] = price, now


def tops_of_duckdb(prices: pa.Table, *, joined: bool) -> list[Top]:
    """Return the double tops as DuckDB finds them, where lows and highs come of joins or of looking at neighbours."""
    import duckdb

    with duckdb.connect(config={"threads": 1}) as database:
        database.register("given", prices)
        database.execute("create table stock as select * from given")
        return database.execute(_TOPS.format(_JOINED if joined else _NEIGHBOURS)).fetchall()


# -- the bench -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    smoothing: tuple[int, ...] = size((1, 2, 5, 10), (1, 3), option="-")
    """Days that a price is summed over."""
    names: int = size(24, 4)
    items: int = size(112_635, 2_000)
    """Prices of all names, about."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[pa.Table]]:
    sizes = lab.sizes
    for smoothing in sizes.smoothing:
        prices = new_prices(sizes.names, sizes.items // sizes.names, smoothing, lab.seed)
        yield Case(f"{smoothing} days", prices, {"smoothing": smoothing, "prices": len(prices)})


def _engine(texts: dict[str, str]) -> Callable[[Lab[_Sizes], Case[pa.Table]], Outcome]:
    def measure(lab: Lab[_Sizes], case: Case[pa.Table]) -> Outcome:
        return answered(lab, Work({"stock": case.data}, texts, len(case.data), ("top",), tuple("nabcde")), "all")

    return measure


def _other(answer: Callable[[pa.Table], Sequence[Top]]) -> Callable[[Lab[_Sizes], Case[pa.Table]], Outcome]:
    def measure(_: Lab[_Sizes], case: Case[pa.Table]) -> Outcome:
        begin = time.process_time()
        found = answer(case.data)
        us = 1e6 * (time.process_time() - begin) / len(case.data)
        rows = sorted(("top", ts, *map(str, values)) for ts, *values in found)
        return Outcome({"matches": len(found), "us_per_event": us}, digest=digest_text(*map(repr, rows)))

    return measure


def _variants() -> Iterator[Variant[_Sizes, pa.Table]]:
    yield Variant("FOLD", _engine({"top": _FOLDS}))
    yield Variant("lows and highs", _engine({**_EXTREMES, "top": _SERIES}), "_extremes")
    yield Variant("loop", _other(lambda prices: list(tops(prices))), "_loop")
    if find_spec("duckdb"):
        yield Variant("DuckDB, neighbours", _other(lambda prices: tops_of_duckdb(prices, joined=False)), "_neighbours")
        yield Variant("DuckDB, joins", _other(lambda prices: tops_of_duckdb(prices, joined=True)), "_joins")


def _figures(_: _Sizes, results: Sequence[Result[pa.Table]]) -> Row:
    """Take the figures of the prices as they are, and of those that are smoothed most."""
    costs = {name: value for name, value in results[-1].figures.items() if name.startswith("us_per_event")}
    smoothed = {f"{name}_smoothed": value for name, value in costs.items()}
    first = {name: value for name, value in results[0].figures.items() if name == "matches" or name in costs}
    return {**first, **smoothed}


BENCH = Bench(
    name="double-top",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=tuple(_variants()),
    table=by_variant,
    figures=_figures,
    axes=Axes(
        "Double tops of {s.names} names, {s.items:,} prices",
        x="days that a price is summed over",
        y="microseconds of processor time a price",
        over="smoothing",
        lines={"": "us_per_event"},
        by="mode",
        log_y=True,
        told=lambda lines: {
            **times_line("thesis: neighbours and resubscription, at most", "FOLD", 2)(lines),
            **times_line("thesis: self-joins", "FOLD", 4)(lines),
        },
    ),
    notes=(
        "The first third of the prices, which plans, is not counted for the engine, nor is the intake.",
        "The loop and DuckDB take all prices at once, and store no answers.",
    ),
    spark=False,
)
