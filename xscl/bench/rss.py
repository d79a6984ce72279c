"""``xscl bench rss``: a stream of feed items under many queries, from text to matches (the thesis' Figure 6.16)."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xscl.bench.baselines import (
    Digests,
    Estimate,
    Prepared,
    Relations,
    SparkRelations,
    digest,
    engine_digests,
    sample_queries,
)
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import (
    MODES,
    Mode,
    Run,
    copy_home,
    count_queries,
    open_engine,
    queries_of_groups,
    register,
    run,
    take,
)
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.bench.workload import RSS, thesis_queries
from xscl.engine import Engine
from xscl.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sizes", "measure"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: tuple[int, ...]
    items: int
    executors: int
    """Items of the stream when executors do every step."""
    batch: int
    warm: int
    """Items of the first batch, which plans, and is not counted."""
    compared: int
    """Groups whose rows of the last batch are compared between the modes."""
    statements: int
    """Templates of as many joins whose statement is measured."""
    spark_sample: int
    prepared_queries: int
    prepared_documents: int


_FULL = Sizes((10_000, 100_000, 1_000_000), 225_000, 50_000, 25_000, 2_000, 100, 1, 5, 300, 20)
_QUICK = Sizes((1_000,), 4_000, 4_000, 2_000, 200, 20, 1, 1, 50, 10)


@dataclass(frozen=True, slots=True)
class _Stream:
    """The whole stream in one mode; seconds are sums over batches."""

    plan_s: float
    intake_s: float
    whole: Run
    items: int
    digests: Digests
    """Of the last batch that both modes have."""

    @property
    def items_per_s(self) -> float:
        """From the call of ``run_once`` to its return."""
        return self.items / self.whole.seconds

    def total(self, name: str) -> float:
        return float(sum(getattr(report, name) for report in self.whole.reports))

    @property
    def output_s(self) -> float:
        """All that is not planning, stage 1 and join: results told apart, written and committed."""
        return max(0.0, self.whole.seconds - sum(map(self.total, ("prepare_s", "stage1_s", "join_s"))))

    @property
    def last_s(self) -> float:
        """The last batch alone."""
        report = self.whole.reports[-1]
        return report.prepare_s + report.stage1_s + report.join_s + report.commit_s


@dataclass(frozen=True, slots=True)
class _Level:
    """So many queries."""

    queries: int
    register_s: float
    templates: int
    groups: int
    streams: Mapping[str, _Stream]
    """By the suffix of their figures."""


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Run the stream under growing numbers of queries.

    ``queries`` is the greatest number of them, ``items`` the length of the stream.
    """
    sizes = _QUICK if quick else _FULL
    counts = sizes.queries if queries is None else (*(n for n in sizes.queries if n < queries), queries)
    sizes = replace(sizes, queries=counts, items=items or sizes.items, batch=batch_docs or sizes.batch)
    sizes = replace(sizes, executors=min(sizes.executors, sizes.items))
    spark = start_session()
    levels: list[_Level] = []
    # Baselines are measured where there are 100,000 queries, as in the figure, or with the most.
    compared = 100_000 if 100_000 in counts else counts[-1]
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        for count in counts:
            level, relations = _level(count, sizes, seed, spark, Path(folder), count == compared, say)
            levels.append(level)
            if relations is not None:
                found = _baselines(level, relations, Path(folder) / f"{count}", sizes, seed, spark, say)
    level = next(level for level in levels if level.queries == compared)
    figures = _figures(level, levels, found[0], sizes)
    same = all(len({digest(stream.digests) for stream in level.streams.values()}) == 1 for level in levels)
    figures["digest_equal"] = same and found[1]
    return Report(
        bench="rss",
        settings={**asdict(sizes), "queries": ", ".join(map(str, counts)), "seed": seed},
        figures=figures,
        table=tuple(row for level in levels for row in _rows(level, sizes)),
        plot=_plot(levels, sizes),
        notes=(
            f"Baselines are for {compared:,} queries on the last batch of the stream, with all of it as state, and "
            "their times are compared with that batch's.",
            f"Sequential on Spark is a sample of {sizes.spark_sample} queries, sequential prepared one of "
            f"{sizes.prepared_queries} queries on {sizes.prepared_documents} items; both are multiplied up. A "
            "statement reads as many rows of R_T as fit a stated amount of work, and its time is "
            "extrapolated along a line.",
            f"Where executors do every step the stream has {sizes.executors:,} items.",
            f"A batch of {sizes.warm:,} other items goes before each stream; it plans, and is not counted.",
        ),
    )


def _level(
    count: int,
    sizes: Sizes,
    seed: int,
    spark: SparkSession,
    folder: Path,
    with_baselines: bool,
    say: Callable[[str], None],
) -> tuple[_Level, Relations | None]:
    base = folder / f"{count}-base"
    say(f"registering {count:,} queries")
    with open_engine(base, spark) as engine:
        register_s = register(engine, thesis_queries(RSS, count, seed=seed))
        templates, groups = count_queries(engine)
        asked = random.Random(seed).sample(sorted(set(queries_of_groups(engine).values())), min(groups, sizes.compared))
    streams: dict[str, _Stream] = {}
    relations = None
    for mode in reversed(MODES):
        items = sizes.executors if mode.suffix else sizes.items
        say(f"{count:,} queries: {items:,} items, {mode.name}")
        # The driver comes last, because baselines read the relations of its home.
        home = copy_home(base, folder / f"{count}{mode.suffix}")
        with open_engine(home, spark, driver_rows=mode.driver_rows) as engine:
            streams[mode.suffix] = _stream(engine, mode, asked, items, sizes, seed, say)
            if with_baselines and not mode.suffix:
                relations = Relations.of(engine, _last(streams[""].whole), folder / f"{count}-relations")
    return _Level(count, register_s, templates, groups, streams), relations


def _last(whole: Run) -> Run:
    return Run(0.0, whole.reports[-1:])


def _stream(
    engine: Engine,
    mode: Mode,
    asked: Sequence[str],
    number: int,
    sizes: Sizes,
    seed: int,
    say: Callable[[str], None],
) -> _Stream:
    feed = ItemFeed(seed)
    take(engine, RSS.channel, feed.take(sizes.warm))
    warm = run(engine)
    items = list(feed.take(number))
    intake_s = take(engine, RSS.channel, items)
    whole = run(engine, sizes.batch)
    say(f"{mode.name}: {number / whole.seconds:,.0f} items a second")
    shared = whole.reports[-(-sizes.executors // sizes.batch) - 1]
    digests = engine_digests(engine, engine.home.catalog.shapes(), asked, shared.first, shared.last)
    return _Stream(warm.prepare_s, intake_s, whole, number, digests)


def _baselines(
    level: _Level,
    relations: Relations,
    home: Path,
    sizes: Sizes,
    seed: int,
    spark: SparkSession,
    say: Callable[[str], None],
) -> tuple[dict[str, Estimate], bool]:
    """The baselines on the last batch, and whether they give what the engine gave."""
    say("baselines on Spark")
    tables = SparkRelations(spark, relations)
    statements = tables.plain_statements(repetitions=1, most=sizes.statements)
    on_spark = tables.one_by_one(sample_queries(relations, sizes.spark_sample, seed), level.queries)
    tables.close()
    say("baselines in this process")
    documents = relations.batch()
    some = random.Random(seed).sample(documents, min(sizes.prepared_documents, len(documents)))
    asked = sample_queries(relations, sizes.prepared_queries, seed)
    database = Prepared(relations)
    prepared = database.one_by_one(asked, some, level.queries, len(documents))
    database.close()
    span = relations.first, relations.last
    with open_engine(home, spark) as engine:
        whole = engine_digests(engine, relations.templates, statements.asked | on_spark.asked, *span)
        part = engine_digests(engine, relations.templates, asked, *span, some)
    equal = statements.agrees(whole) and on_spark.agrees(whole) and prepared.agrees(part)
    return {"statements": statements, "sequential_spark": on_spark, "sequential_prepared": prepared}, equal


# -- what is shown --------------------------------------------------------------------------------------------------


def _figures(
    level: _Level, levels: Sequence[_Level], baselines: Mapping[str, Estimate], sizes: Sizes
) -> dict[str, Value]:
    figures: dict[str, Value] = {}
    for mode in MODES:
        stream = level.streams[mode.suffix]
        figures[f"items{mode.suffix}_per_s"] = rounded(stream.items_per_s)
        for name, seconds in _parts(stream).items():
            figures[name.replace("_s", f"{mode.suffix}_s")] = rounded(seconds)
        figures[f"jobs{mode.suffix}_per_batch"] = stream.whole.jobs
        figures[f"growth_10k_to_1m_queries{mode.suffix}"] = _growth(levels, mode)
    for name, estimate in baselines.items():
        figures[f"{name}_batch_s"] = rounded(estimate.seconds)
        figures[f"speedup_over_{name}"] = rounded(estimate.seconds / level.streams[""].last_s)
    stream = level.streams[""]
    return figures | {
        "last_batch_s": rounded(stream.last_s),
        "queries": level.queries,
        "templates": level.templates,
        "distinct_queries": level.groups,
        "pairs": sum(report.pairs for report in stream.whole.reports),
        "matches": sum(report.matches for report in stream.whole.reports),
        "register_s": rounded(level.register_s),
        "compared_rows": sum(count for count, _ in stream.digests.values()),
        "results_digest": digest(stream.digests),
    }


def _parts(stream: _Stream) -> dict[str, float]:
    return {
        "stage1_s": stream.total("stage1_s"),
        "join_s": stream.total("join_s"),
        "output_s": stream.output_s,
        "prepare_s": stream.total("prepare_s"),
        "intake_s": stream.intake_s,
        "plan_s": stream.plan_s,
    }


def _growth(levels: Sequence[_Level], mode: Mode) -> float | None:
    """The time with a million queries by that with ten thousand; None where one of them was not measured."""
    seconds = {level.queries: level.streams[mode.suffix].whole.seconds for level in levels}
    return rounded(seconds[1_000_000] / seconds[10_000]) if {10_000, 1_000_000} <= set(seconds) else None


def _rows(level: _Level, sizes: Sizes) -> list[dict[str, Value]]:
    return [
        {
            "queries": level.queries,
            "mode": mode.name,
            "items": level.streams[mode.suffix].items,
            "distinct_queries": level.groups,
            "templates": level.templates,
            "seconds": rounded(level.streams[mode.suffix].whole.seconds),
            "items_per_s": rounded(level.streams[mode.suffix].items_per_s),
            **{name: rounded(seconds) for name, seconds in _parts(level.streams[mode.suffix]).items()},
            "jobs_per_batch": level.streams[mode.suffix].whole.jobs,
            "register_s": rounded(level.register_s),
        }
        for mode in MODES
    ]


def _plot(levels: Sequence[_Level], sizes: Sizes) -> Plot:
    return Plot(
        title=f"A stream of {sizes.items:,} feed items",
        x="queries",
        y="items a second",
        lines={
            mode.name: tuple((level.queries, level.streams[mode.suffix].items_per_s) for level in levels)
            for mode in MODES
        },
        log_x=True,
    )
