"""``xscl bench people``: queries with selections and a join over news items, from text to stored matches.

The engine and the baselines take the same items, turn about, so all meet the same load of the machine.  Costs are
processor time of all processes.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import pyarrow as pa

from xscl.base.values import digest_text
from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.engines import open_engine, register, take
from xscl.bench.news import CHANNEL, Item, News, Question, questions
from xscl.bench.news_joins import Found, Way, ways
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.engine import Engine

__all__ = ["BENCH", "engine_pairs", "pairs_digest"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((1, 5, 100, 1_000, 10_000), (1, 5, 100))
    items: int = size(25_000, 1_000)
    """Items of state before the first batch that is measured."""
    batches: tuple[int, ...] = size((100, 5_000), (100, 500))
    """Items of a batch, by size."""
    rounds: int = size(3, 2)
    """Batches of each size; the first one of a size is not counted."""
    statements: int = size(100)
    """Queries up to which DuckDB also has a statement for each."""


@dataclass(frozen=True, slots=True)
class _Data:
    """Queries, and the items of the state and of each batch."""

    asked: Sequence[Question]
    parts: Sequence[Sequence[Item]]


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Data]]:
    sizes = lab.sizes
    news = News(lab.seed)
    parts = [
        news.take(count) for count in (sizes.items, *(each for each in sizes.batches for _ in range(sizes.rounds)))
    ]
    for count in sizes.queries:
        asked = list(islice(questions(lab.seed, news.feeds()), count))
        yield Case(f"{count:,} queries", _Data(asked, parts))


@dataclass(slots=True)
class _Spent:
    """Seconds of processor time of one way, by the size of the batch; the first batch of a size is left out."""

    of_size: dict[int, list[float]] = field(default_factory=dict)

    def us_per_item(self, items: int) -> float:
        """Return the median batch's microseconds an item."""
        return 1e6 * statistics.median(self.of_size[items][1:] or self.of_size[items]) / items


def _measure(lab: Lab[_Sizes], case: Case[_Data]) -> Outcome:
    sizes, data = lab.sizes, case.data
    others = ways(data.asked, sizes.statements, lab.new_folder())
    spent = {name: _Spent() for name in ("", *others)}
    witnesses: dict[int, list[float]] = {}
    with open_engine(lab.new_folder() / "home", lab.spark) as engine:
        register_s = register(engine, ((f"q{number}", asked.text) for number, asked in enumerate(data.asked)))
        for place, part in enumerate(data.parts):
            if place == 1:
                # What the others keep is no load of the engine's collector.
                gc.collect()
                gc.freeze()
            lab.say(f"{len(part):,} items")
            texts = [(item.number, item.at, item.xml()) for item in part]
            counted = place > 0
            with watched() as watch:
                take(engine, CHANNEL, ((at, text) for _, at, text in texts))
                reports = engine.run_once(batch_docs=len(part))
            if counted:
                spent[""].of_size.setdefault(len(part), []).append(watch.cpu_s)
                witnesses.setdefault(len(part), []).append(sum(report.witnesses for report in reports) / len(part))
            for name, way in others.items():
                with watched() as watch:
                    way.take(texts)
                if counted:
                    spent[name].of_size.setdefault(len(part), []).append(watch.cpu_s)
        gc.unfreeze()
        found = engine_pairs(engine)
    agrees = [_same(way, found) for way in others.values()]
    rows = [
        {"queries": len(data.asked), "batch": items, **_row(spent, items), "witness_rows_per_item": max(rows)}
        for items, rows in witnesses.items()
    ]
    figures = {"register_s": register_s, "pairs": len(found)}
    return Outcome(figures, rows=rows, digest=pairs_digest(found), agrees=all(agrees))


def _row(spent: dict[str, _Spent], items: int) -> Row:
    """Return the costs of all ways for batches of a size, and what the engine gets through."""
    of_way = {name: each.us_per_item(items) for name, each in spent.items()}
    return {
        "items_per_cpu_s": 1e6 / of_way[""],
        "batch_ms": of_way[""] * items / 1e3,
        **{f"us_per_item{'_' if name else ''}{name}": us for name, us in of_way.items()},
    }


def _same(way: Way, found: Found) -> bool:
    return way.found() == found


def pairs_digest(found: Found) -> str:
    """Digest pairs."""
    return digest_text(*(repr(pair) for pair in sorted(found)))


def engine_pairs(engine: Engine) -> Found:
    """Return all pairs that an engine has found, by the numbers of queries and items.

    Items are the only documents, and their numbers, from 1 on, are in the order of intake.
    """
    docids: list[int] = sorted(engine.sql("SELECT docid FROM events").toArrow()["docid"].to_pylist())
    number = {docid: place for place, docid in enumerate(docids, start=1)}
    rows: pa.Table = engine.sql("SELECT qid, docids[0] AS one, docids[1] AS other FROM matches").toArrow()
    columns = (rows[name].to_pylist() for name in ("qid", "one", "other"))
    return {
        (int(qid.removeprefix("q")), min(number[one], number[other]), max(number[one], number[other]))
        for qid, one, other in zip(*columns, strict=True)
    }


def _figures(sizes: _Sizes, results: Sequence[Result[_Data]]) -> Row:
    """Name what the goals speak of by the number of queries: large batches, small batches, witness rows."""
    figures = dict(results[-1].figures)
    for result in results:
        (outcome,) = result.outcomes.values()
        rows = {row["batch"]: row for row in outcome.rows}
        small, large = rows[sizes.batches[0]], rows[sizes.batches[-1]]
        count = large["queries"]
        figures[f"items_per_cpu_s_at_{count}"] = large["items_per_cpu_s"]
        figures[f"small_batch_ms_at_{count}"] = small["batch_ms"]
        figures[f"witness_rows_per_item_at_{count}"] = large["witness_rows_per_item"]
        for name in ("duckdb", "duckdb_each", "python"):
            if f"us_per_item_{name}" in large:
                figures[f"speedup_over_{name}_at_{count}"] = large[f"us_per_item_{name}"] / large["us_per_item"]
    return figures


BENCH = Bench(
    name="people",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("", _measure),),
    table=by_step,
    figures=_figures,
    axes=Axes(
        "Queries of people over news, {s.items:,} items of state",
        x="queries",
        y="microseconds of processor time an item",
        over="queries",
        lines={
            "driver": "us_per_item",
            "DuckDB, a statement a shape": "us_per_item_duckdb",
            "DuckDB, a statement a query": "us_per_item_duckdb_each",
            "by hand": "us_per_item_python",
        },
        by="batch",
        log_x=True,
        log_y=True,
    ),
    notes=(
        "Every way begins with the texts of items, which baselines parse with lxml, and ends with stored pairs. "
        "The engine's time has its intake in it. DuckDB has its database on disk, and takes a batch in a transaction: "
        "ids and digests, texts, columns and pairs. The program by hand keeps all in memory.",
        "Figures are medians of {s.rounds} batches of each size without the first. DuckDB has one thread, and where it "
        "is not installed its figures are missing.",
    ),
)
