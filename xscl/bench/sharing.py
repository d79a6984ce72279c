"""``xscl bench w1-w2``, ``channels`` and ``hybrid``: workloads of RUMOR (thesis, ch. 5) with and without rules.

A variant is the same queries over the same rows, registered in a home of its own under other rules.  All variants of a
case have the same answers.  Rows of a first part are processed before the processor time counts: they make the plan.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from xscl.base.settings import Settings
from xscl.base.values import digest_text
from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_variant, size
from xscl.bench.engines import register, run
from xscl.bench.plot import Axes, Lines, of_value, times_line
from xscl.bench.report import Row
from xscl.engine import Engine, connect
from xscl.ingest.records import RowOptions, RowTable

__all__ = ["BENCHES", "Work", "answered", "channels_work", "hybrid_work", "pattern_work"]

_SECOND = 1_000_000
_VALUES = 1_000
"""Values of an attribute, constants and lengths of windows: the defaults of the thesis' Table 5.3."""
_ZIPF = 1.5
_GROUPS = 10
_COMPARED = 20
"""Queries, about, whose answers are compared."""


@dataclass(frozen=True)
class Work:
    """Queries over rows of channels."""

    tables: Mapping[str, pa.Table]
    """Rows of each channel by ``ts``; the first column is their id."""
    texts: Mapping[str, str]
    """Queries by name."""
    events: int
    """Events that the rows stand for, whichever channels they come by."""
    compared: tuple[str, ...] = ()
    """Queries whose answers are compared; none: some of them all."""
    values: tuple[str, ...] = ()
    """Values of an answer that are compared; none: all."""


# -- workloads -----------------------------------------------------------------------------------------------------


def pattern_work(kind: str, queries: int, events: int, seed: int) -> Work:
    """Make queries over two streams that take turns.

    Workload 1 asks for constants on both sides, workload 2 for equal values, and ``μ`` for values that rise from there.
    """
    random = np.random.default_rng(seed)
    names = {"S": "s", "T": "t"}
    tables = {name: _attributes(random, np.arange(at, events, 2), names[name]) for at, name in enumerate(names)}
    texts = {}
    for number in range(queries):
        window = _VALUES - int(_zipf(random))
        left, right = (int(_zipf(random)) for _ in range(2))
        texts[f"q{number}"] = {
            "W1": f"SELECT i AS s, j AS t FROM S[./a0 = {left}][./s->i] NEXT {{{window} s}} T[./a0 = {right}][./t->j]",
            "W2": f"SELECT i AS s, j AS t FROM S[./s->i][./a0->x] NEXT {{x = y, {window} s}} T[./t->j][./a0->y]",
            "μ": f"SELECT i AS s, j AS t FROM S[./s->i][./a0->x][./a1->p]"
            f" FOLD {{x = y, {window} s WHILE q > last(q, p)}} T[./t->j][./a0->y][./a1->q]",
        }[kind]
    return Work(tables, texts, events)


def channels_work(kind: str, capacity: int, queries: int, rounds: int, seed: int, *, tagged: bool) -> Work:
    """Make queries over so many streams of equal rows, which differ in stream and window.

    Args:
        kind: ``;``: each row with the next one of T that fits.  ``α``: averages of groups.
        capacity: number of streams.
        queries: number of queries.
        rounds: rows of each stream, and of T.
        seed: of everything random.
        tagged: whether each stream has rows of its own, with a tag, or a row is one of all streams.
    """
    random = np.random.default_rng(seed)
    ts = np.arange(rounds) * 2
    every, right = _attributes(random, ts, "s"), _attributes(random, ts + 1, "t")
    every = every.append_column("g", pa.array(random.integers(0, _GROUPS, rounds)))
    if tagged:
        copies = np.repeat(np.arange(rounds), capacity)
        stream = np.tile(np.arange(capacity), rounds)
        every = every.take(copies)
        every = every.add_column(0, "no", pa.array(np.arange(len(copies)))).append_column("m", pa.array(stream))
    else:
        every = every.append_column("m", pa.array(np.full(rounds, capacity)))
    texts = {}
    for number in range(queries):
        window, of = _VALUES - int(_zipf(random)), number % capacity
        member = f"./m = {of}" if tagged else f"./m > {of}"
        texts[f"q{number}"] = {
            ";": f"SELECT i AS s, j AS t FROM C[{member}][./s->i][./a0->x]"
            f" NEXT {{x = y, {window} s}} T[./t->j][./a0->y]",
            "α": f"SELECT x AS s, count() AS n, avg(y) AS t FROM C[{member}][./g->x][./a1->y]"
            f" WINDOW {window} s EVERY {window} s GROUP BY x",
        }[kind]
    return Work({"C": every, "T": right}, texts, rounds * (capacity + 1))


def hybrid_work(queries: int, selectivity: float, processes: int, seconds: int, seed: int) -> Work:
    """Make queries over smoothed loads that rise, and begin with a part of all loads."""
    random = np.random.default_rng(seed)
    steps = random.normal(0, 6, (seconds, processes)).cumsum(axis=0) + random.uniform(0, 60, processes)
    load = np.round(np.abs((steps + 100) % 200 - 100), 1)
    numbers = np.arange(seconds * processes)
    columns = {
        "no": numbers,
        "ts": numbers // processes * _SECOND,
        "pid": numbers % processes,
        "load": load.reshape(-1),
    }
    smooth = "(SELECT p AS pid, avg(l) AS load FROM cpu[./pid->p][./load->l] WINDOW 60 s GROUP BY p)"
    texts = {}
    for number in range(queries):
        least = round(float(np.quantile(load, max(0.0, 1 - selectivity))) + number / 10, 2)
        texts[f"q{number}"] = (
            f"SELECT p AS s, b AS t FROM {smooth}[./load > {least}][./pid->p][./load->a]"
            f" FOLD {{p = q, 60 s WHILE b > last(b, a)}} {smooth}[./pid->q][./load->b] FILTER {{b > 10}}"
        )
    return Work({"cpu": pa.table(columns)}, texts, len(numbers))


def _attributes(random: np.random.Generator, ts: np.ndarray[Any, Any], name: str) -> pa.Table:
    values = {f"a{number}": random.integers(0, _VALUES, len(ts)) for number in range(2)}
    return pa.table({name: np.arange(len(ts)), "ts": ts * _SECOND, **values})


def _zipf(random: np.random.Generator) -> int:
    weights = 1 / np.arange(1, _VALUES + 1) ** _ZIPF
    return int(random.choice(_VALUES, p=weights / weights.sum()))


# -- variants ------------------------------------------------------------------------------------------------------


def answered(lab: Lab[Any], work: Work, rules: str, parts: int = 3) -> Outcome:
    """Answer queries under some rules, and measure all parts of the rows but the first, which plans."""
    spent = 0.0
    with connect(home=lab.new_folder() / "home", settings=Settings("driver", rules)) as engine:
        for name, table in work.tables.items():
            kinds = {"int64": "bigint", "double": "double"}
            columns = [f"{field.name} {kinds[str(field.type)]}" for field in table.schema if field.name != "ts"]
            engine.add_channel(name, kind="rows", schema=", ".join(columns), lateness="0 s")
        register(engine, work.texts.items())
        last = max(int(table.column("ts")[-1].as_py()) for table in work.tables.values())
        bounds = [last * part // parts for part in range(parts)] + [last + 1]
        for number, (low, high) in enumerate(zip(bounds, bounds[1:], strict=False)):
            lab.say(f"part {number + 1}")
            for name, table in work.tables.items():
                ts = table.column("ts").to_numpy()
                _take(engine, name, table.filter(pa.array((ts >= low) & (ts < high))), number)
            with watched() as watch:
                run(engine)
            spent += watch.cpu_s if number else 0.0
        engine.end_input()
        run(engine)
        compared = work.compared or tuple(work.texts)[:: max(1, len(work.texts) // _COMPARED)]
        changes = [(name, match) for name in compared for match in engine.changes(name)]
        assert not any(match.retracted for _, match in changes)
        found = sorted(
            (name, match.ts, *(match.values[each] for each in work.values or match.values)) for name, match in changes
        )
        mops = len(engine.plan(rules=rules).mops)
    measured = work.events * (parts - 1) / parts
    figures: Row = {"mops": mops, "matches": len(found), "us_per_event": 1e6 * spent / measured}
    return Outcome(figures, digest=digest_text(*map(repr, found)))


def _take(engine: Engine, name: str, part: pa.Table, number: int) -> None:
    columns = [each for each in part.column_names if each != "ts"]
    options = RowOptions(columns=tuple(columns), id=columns[0], ts="ts", ts_format="us")
    report = engine.ingest([RowTable(name, part, f"{name}-{number}", options=options)])
    assert report.taken == len(part) and not report.late, report


@dataclass(frozen=True, slots=True)
class _Patterns(Sizes):
    queries: tuple[int, ...] = size((10, 100), (5, 20))
    items: int = size(4_000, 1_000)
    """Events of both streams."""


@dataclass(frozen=True, slots=True)
class _Channels(Sizes):
    capacities: tuple[int, ...] = size((1, 5, 10, 20), (1, 5))
    queries: int = size(40, 10)
    items: int = size(1_000, 200)
    """Rows of each stream."""


@dataclass(frozen=True, slots=True)
class _Hybrid(Sizes):
    queries: tuple[int, ...] = size((1, 3, 5), (1, 3))
    selectivities: tuple[float, ...] = size((0.0, 0.2, 0.5, 1.0), (0.5,), option="-")
    processes: int = size(10, 5)
    items: int = size(60, 40)
    """Seconds; each process has a row in each."""


def _patterns(lab: Lab[_Patterns]) -> Iterator[Case[Work]]:
    for kind in ("W1", "W2", "μ"):
        for count in lab.sizes.queries:
            work = pattern_work(kind, count, lab.sizes.items, lab.seed)
            yield Case(f"{kind}, {count:,} queries", work, {"workload": kind, "queries": count})


def _channels(lab: Lab[_Channels]) -> Iterator[Case[dict[bool, Work]]]:
    sizes = lab.sizes
    for kind in ("α", ";"):
        for count in sizes.capacities:
            works = {
                tagged: channels_work(kind, count, sizes.queries, sizes.items, lab.seed, tagged=tagged)
                for tagged in (False, True)
            }
            yield Case(f"{kind}, {count} streams", works, {"workload": kind, "capacity": count})


def _hybrid(lab: Lab[_Hybrid]) -> Iterator[Case[Work]]:
    sizes = lab.sizes
    asked = [(count, 0.5) for count in sizes.queries]
    asked += [(sizes.queries[-1], part) for part in sizes.selectivities if part != 0.5]
    for count, part in asked:
        work = hybrid_work(count, part, sizes.processes, sizes.items, lab.seed)
        yield Case(f"{count} queries, {part:.0%}", work, {"queries": count, "selectivity": part})


def _under(rules: str) -> Callable[[Lab[Any], Case[Work]], Outcome]:
    def measure(lab: Lab[Any], case: Case[Work]) -> Outcome:
        return answered(lab, case.data, rules)

    return measure


def _streams(rules: str, *, tagged: bool) -> Callable[[Lab[Any], Case[dict[bool, Work]]], Outcome]:
    def measure(lab: Lab[Any], case: Case[dict[bool, Work]]) -> Outcome:
        return answered(lab, case.data[tagged], rules)

    return measure


def _ratios(_: Sizes, results: Sequence[Result[Any]]) -> Row:
    """Take the last case, and divide what the other variants take by what the first one takes."""
    figures = dict(results[-1].figures)
    ours, *others = (name for name in figures if name.startswith("us_per_event"))
    for name in others:
        figures[f"speedup_over{name.removeprefix('us_per_event')}"] = figures[name] / figures[ours]
    return {name: value for name, value in figures.items() if name not in ("results_digest", "workload")}


def _axes(title: str, x: str, over: str | None = None) -> Axes:
    y = "microseconds of processor time an event"
    return Axes(title, x=x, y=y, over=over or x, lines={"": "us_per_event"}, by="mode", log_y=True)


def _of_workloads(axes: Axes, *workloads: str) -> tuple[Axes, ...]:
    """Return a plot of each workload."""
    return tuple(replace(axes, title=f"{each}: {axes.title}", chosen=of_value("workload", each)) for each in workloads)


def _most_queries(rows: Sequence[Row]) -> list[Row]:
    most = max(row["queries"] for row in rows)
    return sorted((row for row in rows if row["queries"] == most), key=lambda row: float(row["selectivity"]))


def _stays(lines: Lines) -> Lines:
    """Tell of a line that stays as it is with 20 % of the loads."""
    ours = lines.get("all rules", ())
    level = [cost for part, cost in ours if part == 0.2]
    return {"thesis: channels, from 20 % on": tuple((part, level[0]) for part, _ in ours if level and part >= 0.2)}


_WITHOUT = tuple(
    Variant(name, _under(rules), suffix)
    for name, rules, suffix in (("all rules", "all", ""), ("rules with s", "s", "_s"), ("no rules", "none", "_none"))
)


def _bench(
    name: str, sizes: Sizes, prepare: Any, variants: tuple[Variant[Any, Any], ...], plots: Sequence[Axes]
) -> Bench[Any, Any]:
    notes = ("The first third of the rows, which plans, is not counted, nor is the intake.",)
    return Bench(
        name=name,
        sizes=sizes,
        prepare=prepare,
        variants=variants,
        table=by_variant,
        figures=_ratios,
        axes=plots[0],
        beside=tuple(plots[1:]),
        notes=notes,
        spark=False,
    )


_AVERAGES, _NEXTS = _of_workloads(_axes("{s.queries} queries over equal rows", "streams", "capacity"), "α", ";")
_CHANNELS = (_AVERAGES, replace(_NEXTS, told=times_line("thesis: channels", "one by one", 0.1)))


BENCHES: tuple[Bench[Any, Any], ...] = (
    _bench(
        "w1-w2",
        _Patterns(),
        _patterns,
        _WITHOUT,
        _of_workloads(_axes("two streams, {s.items:,} events", "queries"), "W1", "W2", "μ"),
    ),
    _bench(
        "channels",
        _Channels(),
        _channels,
        (
            Variant("membership", _streams("all", tagged=False)),
            Variant("tagged union", _streams("all", tagged=True), "_tagged"),
            Variant("one by one", _streams("none", tagged=True), "_one_by_one"),
        ),
        _CHANNELS,
    ),
    _bench(
        "hybrid",
        _Hybrid(),
        _hybrid,
        _WITHOUT,
        [
            replace(
                _axes("Half of the loads of {s.processes} processes", "queries"), chosen=of_value("selectivity", 0.5)
            ),
            replace(
                _axes("The most queries, by part of the loads", "part of the loads", "selectivity"),
                chosen=_most_queries,
                told=_stays,
            ),
        ],
    ),
)
