"""``xscl bench aggregates``: windows by three groupings, thresholds that differ in a constant, long windows.

The engine and DuckDB take the same rows, turn about, so both meet the same load of the machine.  DuckDB makes all
windows anew after each batch, from partial aggregates of each minute, once for all queries that differ in the
threshold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import sqlalchemy as sa

from xscl.base.values import digest_text
from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_case, size
from xscl.bench.engines import open_engine, register, run
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.catalog.tables import STATE_FILES
from xscl.engine import Engine
from xscl.ingest.records import RowOptions, RowTable

__all__ = ["BENCH", "Asked", "Readings", "asked_again", "told"]

_EVERY_S, _GAP_US, _LATENESS_S = 60, 10_000, 10
_GROUPINGS = (("k",), ("l",), ("k", "l"))
_FUNCTIONS = ("count()", "sum(v)", "max(v)")
_MINUTES, _LONG_MINUTES = (1, 2, 5), (10, 20, 60)
_TABLE = "readings"
_TOLD = 6
"""Queries that have answers."""
_Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Asked:
    """Windows of groups, and what is made of each."""

    grouping: tuple[str, ...]
    function: str
    minutes: int

    def text(self, least: int) -> str:
        """Return the query that tells of groups from a value on."""
        names = ", ".join(self.grouping)
        return (
            f"SELECT {names}, {self.function} AS n FROM readings[./k->k][./l->l][./v->v] "
            f"WINDOW {self.minutes} min EVERY 1 min GROUP BY {names} HAVING {self.function} >= {least}"
        )


_THREE = tuple(Asked(*each) for each in product(_GROUPINGS, _FUNCTIONS, _MINUTES))
_ONE = (Asked(("k",), "sum(v)", 1),)
_LONG = tuple(Asked(("k",), *each) for each in product(_FUNCTIONS, _LONG_MINUTES))


@dataclass(frozen=True)
class Readings:
    """So many rows of random values, and what is asked about them by so many queries."""

    rows: int
    asked: tuple[Asked, ...]
    queries: int
    seed: int
    batch: int = 0
    """Rows of a batch."""
    counted: int = 1
    """The first batch that counts."""

    @cached_property
    def table(self) -> pa.Table:
        """All rows in their order."""
        chance, numbers = np.random.default_rng(self.seed), np.arange(self.rows)
        columns = {name: chance.integers(0, most, self.rows) for name, most in (("k", 100), ("l", 1_000), ("v", 100))}
        return pa.table({"no": numbers, "ts": numbers * _GAP_US, **columns})

    @cached_property
    def thresholds(self) -> list[tuple[Asked, int]]:
        """Thresholds of the queries: the greatest value for the first ones, more for the others."""
        greatest = {asked: int(told(self.table, asked).max()) for asked in self.asked}
        of = [self.asked[number % len(self.asked)] for number in range(self.queries)]
        return [(asked, greatest[asked] + (0 if n < _TOLD else n)) for n, asked in enumerate(of)]

    def expected(self) -> dict[str, int]:
        """Return how many answers queries have, of those that have any."""
        values = {asked: np.sort(told(self.table, asked)) for asked in self.asked}
        counts = {
            f"q{number}": len(values[asked]) - int(np.searchsorted(values[asked], least))
            for number, (asked, least) in enumerate(self.thresholds)
        }
        return {name: count for name, count in counts.items() if count}


def told(rows: pa.Table, asked: Asked) -> _Int64s:
    """Return the value of each group of each window that has a row."""
    names = ["ts", "v", *asked.grouping]
    ts, values, *groups = (rows.column(name).to_numpy() for name in names)
    if asked.function == "count()":
        values = np.ones(len(values), dtype=np.int64)
    together = np.maximum if asked.function == "max(v)" else np.add
    (minute, *groups), values = _grouped([ts // (_EVERY_S * 1_000_000), *groups], values, together)
    # What is in a minute is in the windows that begin in it, and in the minutes before.
    begin = np.concatenate([minute - back for back in range(asked.minutes)])
    keys = [begin, *(np.tile(each, asked.minutes) for each in groups)]
    return _grouped(keys, np.tile(values, asked.minutes), together)[1]


def _grouped(keys: Sequence[_Int64s], values: _Int64s, together: np.ufunc) -> tuple[_Int64s, _Int64s]:
    """Return the groups of equal keys, and the values of each put together."""
    order = np.lexsort(keys)
    found = np.stack(keys)[:, order]
    begins = np.flatnonzero(np.append(True, (found[:, 1:] != found[:, :-1]).any(axis=0)))
    return found[:, begins], together.reduceat(values[order], begins)


class AskedAgain:
    """A table of all rows, and all windows made again after each batch."""

    def __init__(self, asked: Sequence[tuple[Asked, int]]) -> None:
        import duckdb

        self._database = duckdb.connect(config={"threads": 1})
        self._database.execute("create table readings (no bigint, ts bigint, k bigint, l bigint, v bigint)")
        self._least: dict[Asked, list[int]] = {}
        for each, least in asked:
            self._least.setdefault(each, []).append(least)
        self.answers = 0
        """Number of answers of all queries, after the last batch."""

    def take(self, part: pa.Table) -> None:
        """Take rows in, and make all windows."""
        self._database.register("given", part)
        self._database.execute(f"insert into {_TABLE} select * from given")
        self.answers = 0
        for each, least in self._least.items():
            found = self._database.execute(_statement(each), (min(least),)).fetchnumpy()["n"]
            self.answers += int((len(found) - np.searchsorted(np.sort(found), least)).sum())


def _statement(asked: Asked) -> str:
    names, minute = ", ".join(asked.grouping), f"ts // {_EVERY_S * 1_000_000}"
    made = asked.function.replace("count()", "count(*)")
    parts = f"select {names}, {minute} as m, {made} as part from {_TABLE} group by {names}, m"
    windows = f"select {names}, part, unnest(range(m - {asked.minutes - 1}, m + 1)) as w from ({parts})"
    together = "max" if asked.function == "max(v)" else "sum"
    return f"select {together}(part) as n from ({windows}) group by {names}, w having n >= ?"


def asked_again(asked: Sequence[tuple[Asked, int]]) -> AskedAgain | None:
    """Make the baseline on DuckDB, where that is installed."""
    return AskedAgain(asked) if find_spec("duckdb") else None


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((10, 1_000), (10, 100))
    constants: tuple[int, ...] = size((1_000, 100_000), (100, 1_000), option="-")
    items: int = size(1_000_000, 20_000)
    """Rows of the queries with three groupings."""
    constant_items: int = size(1_000_000, 20_000)
    """Rows of the queries that differ in a constant."""
    batch: int = size(100_000, 5_000)
    long_items: int = size(480_000, 20_000)
    """Rows of long windows."""
    long_batch: int = size(6_000, 1_000)
    """Rows of their batches."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[Readings]]:
    sizes = lab.sizes
    for count in sizes.queries:
        readings = Readings(sizes.items, _THREE, count, lab.seed, sizes.batch)
        yield Case(f"{count:,} queries", readings, {"queries": count, "kind": "groupings"})
    for count in sizes.constants:
        readings = Readings(min(sizes.items, sizes.constant_items), _ONE, count, lab.seed, sizes.batch)
        yield Case(f"{count:,} constants", readings, {"queries": count, "kind": "constants"})
    rows = min(sizes.items, sizes.long_items)
    half = max(1, rows // sizes.long_batch // 2)
    readings = Readings(rows, _LONG, len(_LONG), lab.seed, sizes.long_batch, half)
    yield Case("long windows", readings, {"queries": len(_LONG), "kind": "long"})


def _measure(lab: Lab[_Sizes], case: Case[Readings]) -> Outcome:
    readings, batch = case.data, case.data.batch
    duckdb = asked_again(readings.thresholds)
    spent: dict[str, list[float]] = {"engine": [], "duckdb": []}
    with open_engine(lab.new_folder() / "home", lab.spark) as engine:
        schema = "no bigint, k bigint, l bigint, v bigint"
        engine.add_channel("readings", kind="rows", schema=schema, lateness=f"{_LATENESS_S} s")
        texts = ((f"q{n}", asked.text(least)) for n, (asked, least) in enumerate(readings.thresholds))
        register_s = register(engine, texts)
        for number, start in enumerate(range(0, readings.rows, batch)):
            lab.say(f"batch {number + 1}")
            part = readings.table.slice(start, batch)
            _take(engine, part, number)
            spent["engine"].append(run(engine).cpu_s)
            if duckdb is not None:
                with watched() as watch:
                    duckdb.take(part)
                spent["duckdb"].append(watch.cpu_s)
        kept = _kept_bytes(engine)
        engine.end_input()
        last_s = run(engine).cpu_s
        found = _found(engine)
    expected, counted = readings.expected(), readings.counted
    behind = readings.rows - counted * batch
    figures: dict[str, float] = {
        "us_per_row": 1e6 * (sum(spent["engine"][counted:]) + last_s) / behind,
        "ms_per_batch": 1e3 * float(np.median(spent["engine"][counted:])),
        "kept_bytes": kept,
        "answers": sum(found.values()),
        "register_s": register_s,
    }
    agrees = found == expected
    if duckdb is not None:
        figures["us_per_row_duckdb"] = 1e6 * sum(spent["duckdb"][counted:]) / behind
        figures["ms_per_batch_duckdb"] = 1e3 * float(np.median(spent["duckdb"][counted:]))
        agrees &= duckdb.answers == sum(expected.values())
    return Outcome(figures, digest=digest_text(*map(repr, sorted(found.items()))), agrees=agrees)


def _take(engine: Engine, part: pa.Table, number: int) -> None:
    options = RowOptions(columns=("no", "k", "l", "v"), id="no", ts="ts", ts_format="us")
    report = engine.ingest([RowTable("readings", part, f"readings-{number}", options=options)])
    assert report.taken == len(part) and not report.late, report


def _kept_bytes(engine: Engine) -> int:
    """Return the size of the file with what windows keep."""
    statement = sa.select(STATE_FILES.c.bytes).where(STATE_FILES.c.kind == "windows")
    with engine.home.catalog.read() as connection:
        return sum(connection.scalars(statement))


def _found(engine: Engine) -> dict[str, int]:
    """Return how many answers queries have."""
    counts: Counter[str] = Counter(engine.sql("SELECT qid FROM matches").toArrow().column("qid").to_pylist())
    return dict(counts)


def _figures(_: _Sizes, results: Sequence[Result[Any]]) -> Row:
    """Take the costs of the most queries and of long windows, and divide those of more constants by those of fewer."""
    several, alike, (long,) = (
        [each.figures for each in results if each.figures["kind"] == kind]
        for kind in ("groupings", "constants", "long")
    )
    figures = {f"us_per_row_at_{each['queries']}": each["us_per_row"] for each in several}
    figures |= {name: several[-1][name] for name in ("us_per_row_duckdb", "answers") if name in several[-1]}
    for each in alike:
        of = {"": "us_per_row", "_duckdb": "us_per_row_duckdb"}
        figures |= {
            f"us_per_row{of_whom}_with_{each['queries']}_constants": each.get(name) for of_whom, name in of.items()
        }
    for each in alike[1:]:
        growth = each["us_per_row"] / alike[0]["us_per_row"]
        figures[f"ratio_{each['queries']}_to_{alike[0]['queries']}_constants"] = growth
    figures |= {f"long_{name}": long.get(name) for name in ("ms_per_batch", "ms_per_batch_duckdb", "kept_bytes")}
    return {name: value for name, value in figures.items() if value is not None}


BENCH = Bench(
    name="aggregates",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("driver", _measure),),
    table=by_case,
    figures=_figures,
    axes=Axes(
        "Windows of rows by three groupings, batches of {s.batch:,} rows",
        x="queries",
        y="microseconds of processor time a row",
        over="queries",
        lines={"xscl": "us_per_row", "DuckDB": "us_per_row_duckdb"},
        by="kind",
        chosen=lambda rows: [row for row in rows if row["kind"] != "long"],
        log_x=True,
        log_y=True,
    ),
    notes=(
        "The first batch, which plans, and the intake are not counted; of long windows the first half is not.",
        "DuckDB makes the windows of all queries that differ in the threshold by one statement.",
    ),
)
