"""``xscl bench two-level`` and ``three-level``: the thesis' Figures 6.8 to 6.13, on Spark, and a batch of documents.

Every number of queries has a home of its own, and each mode of the engine starts from a copy of it, so that all see the
same documents by the same numbers.
"""

from __future__ import annotations

import random
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
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
from xscl.bench.documents import FAMILY, family_documents, thesis_pair
from xscl.bench.engines import (
    MODES,
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
from xscl.bench.workload import Schema, thesis_queries, three_level, two_level
from xscl.engine import Engine
from xscl.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sizes", "measure"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: tuple[int, ...]
    state: int
    """Documents of the state under the batch."""
    batch: int
    """Documents of a batch."""
    warm: int
    """Pairs, and batches, that go before those that are measured."""
    pairs: int
    batches: int
    statements: int | None
    """Templates of as many joins whose statement is measured; None: all."""
    repetitions: int
    """Of a statement."""
    spark_sample: int
    """Queries that are measured one after another on Spark."""
    prepared_queries: int
    prepared_documents: int
    variations: int
    """Queries with which N, K and Zipf's parameter are varied; 0: they are not."""


_FULL = Sizes((10, 100, 1_000, 10_000, 100_000), 10_000, 1_000, 5, 11, 5, None, 1, 10, 300, 20, 1_000)
_QUICK = Sizes((10, 300), 1_000, 100, 1, 2, 1, 1, 1, 2, 50, 5, 0)
_QUICK_THREE_LEVEL = replace(_QUICK, queries=(100,))
"""These have five times as many templates."""
_BASELINES = ("statements", "sequential_spark", "sequential_prepared")


@dataclass(frozen=True, slots=True)
class _Workload:
    """A schema and how queries over it are drawn."""

    schema: Schema
    zipf: float = 0.8
    most_joins: int | None = None

    def queries(self, number: int, seed: int) -> Iterator[tuple[str, str]]:
        return thesis_queries(self.schema, number, seed=seed, zipf=self.zipf, most_joins=self.most_joins)


@dataclass(frozen=True, slots=True)
class _Engine:
    """What one mode took; seconds are medians of ``run_once``."""

    seconds: float
    plan_s: float
    jobs: int | None
    pairs: int
    """Candidate pairs of the last batch."""
    digests: Digests


@dataclass(frozen=True, slots=True)
class _Level:
    """What so many queries cost on one kind of documents."""

    setting: str
    queries: int
    templates: int
    groups: int
    register_s: float
    engines: dict[str, _Engine]
    """By the suffix of their figures."""
    baselines: dict[str, Estimate]
    equal: bool

    def figures(self) -> dict[str, Value]:
        """By the names of docs/benchmarks.md."""
        engine_s = self.engines[""].seconds
        found: dict[str, Value] = {}
        for suffix, engine in self.engines.items():
            found[f"engine{suffix}_s"] = rounded(engine.seconds)
        for name in _BASELINES:
            found[f"{name}_s"] = rounded(self.baselines[name].seconds) if name in self.baselines else None
        for name in _BASELINES:
            known = name in self.baselines
            found[f"speedup_over_{name}"] = rounded(self.baselines[name].seconds / engine_s) if known else None
        for suffix, engine in self.engines.items():
            found[f"plan{suffix}_s"] = rounded(engine.plan_s)
            found[f"jobs{suffix}"] = engine.jobs
        matched = sum(count for count, _ in self.engines[""].digests.values())
        return found | {
            "templates": self.templates,
            "groups": self.groups,
            "pairs": self.engines[""].pairs,
            "rows_of_r_out": matched,
            "register_s": rounded(self.register_s),
            "results_digest": digest(self.engines[""].digests),
            "digest_equal": self.equal,
        }


def measure(
    say: Callable[[str], None],
    *,
    levels: int,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Join the thesis' pair of documents, and batches of documents, for growing numbers of queries.

    ``levels`` is 2 or 3; ``queries`` the greatest number of them, ``items`` the documents of the state.
    """
    default = (_QUICK if levels == 2 else _QUICK_THREE_LEVEL) if quick else _FULL
    sizes = _sized(default, queries, items, batch_docs)
    workload = _Workload(two_level() if levels == 2 else three_level())
    name = "two-level" if levels == 2 else "three-level"
    spark = start_session()
    found: list[_Level] = []
    for count in sizes.queries:
        found += _measured(workload, count, sizes, seed, spark, say)
    rows = [_row(level) for level in found]
    rows += _variations(levels, sizes, seed, spark, say)
    most = {level.setting: level for level in found}
    figures = dict(most["pair"].figures())
    figures |= {f"batch_{key}": value for key, value in most["batch"].figures().items() if key not in _COMMON}
    figures["digest_equal"] = all(level.equal for level in found)
    return Report(
        bench=name,
        settings={**asdict(replace(sizes, queries=())), "queries": ", ".join(map(str, sizes.queries)), "seed": seed},
        figures=figures,
        table=tuple(rows),
        plot=_plot(name, found),
        notes=_notes(sizes, most),
    )


_COMMON = ("templates", "groups", "register_s", "digest_equal")


def _sized(sizes: Sizes, queries: int | None, items: int | None, batch_docs: int | None) -> Sizes:
    counts = sizes.queries if queries is None else (*(n for n in sizes.queries if n < queries), queries)
    return replace(sizes, queries=counts, state=items or sizes.state, batch=batch_docs or sizes.batch)


# -- one number of queries ------------------------------------------------------------------------------------------


def _measured(
    workload: _Workload,
    count: int,
    sizes: Sizes,
    seed: int,
    spark: SparkSession,
    say: Callable[[str], None],
    settings: Sequence[str] = ("pair", "batch"),
) -> list[_Level]:
    """What so many queries cost on each kind of documents."""
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        base = Path(folder) / "base"
        say(f"registering {count:,} queries")
        with open_engine(base, spark) as engine:
            register_s = register(engine, workload.queries(count, seed))
            templates, groups = count_queries(engine)
        found = []
        for setting in settings:
            engines = {}
            # The driver comes last, because baselines read the relations of its home.
            for mode in reversed(MODES):
                say(f"{count:,} queries, {setting}: {mode.name}")
                home = copy_home(base, Path(folder) / f"{setting}{mode.suffix}")
                with open_engine(home, spark, driver_rows=mode.driver_rows) as engine:
                    runs = _SETTINGS[setting](engine, workload.schema, sizes, seed)
                    engines[mode.suffix] = _engine(engine, runs)
                    if not mode.suffix:
                        relations = Relations.of(engine, runs[-1], Path(folder) / f"{setting}-relations")
                        say(f"{count:,} queries, {setting}: baselines")
                        baselines, equal = _baselines(engine, relations, engines[""].digests, count, sizes, seed)
            same = len({digest(engine.digests) for engine in engines.values()}) == 1
            found.append(_Level(setting, count, templates, groups, register_s, engines, baselines, same and equal))
    return found


def _pairs(engine: Engine, schema: Schema, sizes: Sizes, seed: int) -> list[Run]:
    """Every d1 in a batch and then its d2 in one; the very first batch, and the measured ones of d2."""
    runs = []
    for number in range(sizes.warm + sizes.pairs):
        for part, document in enumerate(thesis_pair(schema, number)):
            take(engine, schema.channel, [(2 * number + part, document)])
            runs.append(run(engine))
    return runs[:1] + runs[2 * sizes.warm + 1 :: 2]


def _batches(engine: Engine, schema: Schema, sizes: Sizes, seed: int) -> list[Run]:
    """The state in a batch, and then the others; the state's, and the measured ones."""
    runs = []
    families = max(1, sizes.state // FAMILY)
    begin = 0
    for number, count in enumerate([sizes.state, *[sizes.batch] * (sizes.warm + sizes.batches)]):
        documents = family_documents(schema, count, families=families, seed=seed + number, run=f"run {number}")
        take(engine, schema.channel, enumerate(documents, start=begin))
        begin += count
        runs.append(run(engine))
    return runs[:1] + runs[1 + sizes.warm :]


_SETTINGS = {"pair": _pairs, "batch": _batches}


def _engine(engine: Engine, runs: Sequence[Run]) -> _Engine:
    """The first run has planned; the others are measured, and the last one is compared."""
    first, *measured = runs
    last = measured[-1]
    asked = set(queries_of_groups(engine).values())
    return _Engine(
        seconds=statistics.median(one.seconds for one in measured),
        plan_s=first.prepare_s,
        jobs=last.jobs,
        pairs=sum(report.pairs for report in last.reports),
        digests=engine_digests(engine, engine.home.catalog.shapes(), asked, last.first, last.last),
    )


def _baselines(
    engine: Engine, relations: Relations, digests: Digests, count: int, sizes: Sizes, seed: int
) -> tuple[dict[str, Estimate], bool]:
    """The baselines for so many queries on the last batch, and whether they give what the engine gave."""
    spark = SparkRelations(engine.spark, relations)
    statements = spark.plain_statements(repetitions=sizes.repetitions, most=sizes.statements)
    on_spark = spark.one_by_one(sample_queries(relations, sizes.spark_sample, seed), count)
    spark.close()
    documents = relations.batch()
    some = random.Random(seed).sample(documents, min(sizes.prepared_documents, len(documents)))
    asked = sample_queries(relations, sizes.prepared_queries, seed)
    database = Prepared(relations)
    prepared = database.one_by_one(asked, some, count, len(documents))
    database.close()
    expected = engine_digests(engine, relations.templates, asked, relations.first, relations.last, some)
    equal = statements.agrees(digests) and on_spark.agrees(digests) and prepared.agrees(expected)
    return {"statements": statements, "sequential_spark": on_spark, "sequential_prepared": prepared}, equal


# -- other schemas and laws -----------------------------------------------------------------------------------------


def _variations(
    levels: int, sizes: Sizes, seed: int, spark: SparkSession, say: Callable[[str], None]
) -> list[dict[str, Value]]:
    """Other numbers of leaves (N) or of value joins (K), and other laws for the number of joins; on pairs."""
    if not sizes.variations:
        return []
    schema = two_level() if levels == 2 else three_level()
    if levels == 2:
        others = [(f"N = {leaves}", _Workload(two_level(leaves))) for leaves in (4, 6, 8, 10, 12)]
    else:
        others = [(f"K = {most}", _Workload(schema, most_joins=most)) for most in (2, 3, 4, 5)]
    others += [(f"Zipf {zipf}", _Workload(schema, zipf=zipf)) for zipf in (0.0, 0.4, 0.8, 1.2, 1.6)]
    rows = []
    few = replace(sizes, pairs=min(5, sizes.pairs), spark_sample=min(5, sizes.spark_sample), statements=1)
    for name, workload in others:
        say(f"varying: {name}")
        rows.append(_row(_measured(workload, few.variations, few, seed, spark, say, ("pair",))[0], name))
    return rows


# -- what is shown --------------------------------------------------------------------------------------------------


def _row(level: _Level, varied: str = "") -> dict[str, Value]:
    return {"documents": level.setting, "queries": level.queries, "varied": varied, **level.figures()}


def _plot(name: str, levels: Sequence[_Level]) -> Plot:
    lines: dict[str, list[tuple[float, float]]] = {}
    for level in levels:
        shown = {f"engine ({mode.name})": level.engines[mode.suffix].seconds for mode in MODES}
        shown |= {_NAMES[key]: estimate.seconds for key, estimate in level.baselines.items()}
        for label, seconds in shown.items():
            lines.setdefault(f"{level.setting}: {label}", []).append((level.queries, seconds))
    return Plot(
        title=f"Joining a pair and a batch of {name} documents",
        x="queries",
        y="seconds",
        lines={label: tuple(points) for label, points in lines.items()},
        log_x=True,
        log_y=True,
    )


_NAMES = {
    "statements": "a statement for each template",
    "sequential_spark": "sequential on Spark",
    "sequential_prepared": "sequential, prepared in process",
}


def _notes(sizes: Sizes, most: Mapping[str, _Level]) -> tuple[str, ...]:
    """What was sampled."""
    estimates = {setting: level.baselines["statements"] for setting, level in most.items()}
    whole = "; ".join(
        f"{setting}: {found.measured} of {found.measured + found.sampled}" for setting, found in estimates.items()
    )
    return (
        f"Sequential on Spark is a sample of {sizes.spark_sample} queries, drawn uniformly, times the number of "
        f"queries; sequential prepared one of {sizes.prepared_queries} queries on {sizes.prepared_documents} of the "
        "batch's documents, times queries and documents.",
        f"Statements that were run whole with most queries: {whole}; the time of the others is that of a sample of "
        "the rows of R_T, extrapolated along a line, or that of another template with as many joins.",
        f"{sizes.warm} pairs or batches of each engine go before those that are measured, and each statement runs once "
        "before it is measured.",
    )
