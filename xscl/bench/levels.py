"""``xscl bench two-level`` and ``three-level``: the thesis' Figures 6.8 to 6.13, and batches of documents.

Every number of queries has a home of its own; driver and tasks start from copies of it, on either kind of
documents.  The baselines read the relations of the driver's home.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from xscl.bench.baselines import BASELINES, SAMPLED, Samples, measure_baselines
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, by_case, size
from xscl.bench.documents import family_parts, thesis_pair
from xscl.bench.engines import DRIVER, SPARK, Run, new_base, on_copy, run_parts
from xscl.bench.plot import Axes
from xscl.bench.relations import Relations, all_digests, digest
from xscl.bench.report import Row
from xscl.bench.workload import Schema, thesis_queries, three_level, two_level
from xscl.engine import Engine

__all__ = ["BENCHES"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((10, 100, 1_000, 10_000, 100_000), (10, 300))
    items: int = size(10_000, 1_000)
    """Documents of the state under the batch."""
    batch: int = size(1_000, 100)
    warm: int = size(5, 1)
    """Pairs, and batches, that go before those that are measured."""
    pairs: int = size(11, 2)
    batches: int = size(5, 1)
    samples: Samples = size(
        Samples(statements=None, spark_queries=10, prepared_queries=300, prepared_documents=20),
        Samples(statements=1, spark_queries=2, prepared_queries=50, prepared_documents=5),
    )
    variations: int = size(1_000, 0)
    """Queries with which N, K and Zipf's parameter are varied; 0: they are not."""


@dataclass(frozen=True, slots=True)
class _ThreeLevelSizes(_Sizes):
    """Sizes for documents that have five times as many templates."""

    queries: tuple[int, ...] = size((10, 100, 1_000, 10_000, 100_000), (100,))


@dataclass(frozen=True, slots=True)
class _Data:
    """Documents to join, and how many."""

    schema: Schema
    queries: int
    sizes: _Sizes
    documents: str
    """``pair`` or ``batch``."""


def _prepare(lab: Lab[_Sizes], levels: int) -> Iterator[Case[_Data]]:
    sizes = lab.sizes
    schema = two_level() if levels == 2 else three_level()
    for count in sizes.queries:
        yield from _cases(lab, schema, replace(sizes, queries=(count,)), ("pair", "batch"))
    if not sizes.variations:
        return
    samples = replace(sizes.samples, spark_queries=min(5, sizes.samples.spark_queries), statements=1)
    few = replace(sizes, queries=(sizes.variations,), pairs=min(5, sizes.pairs), samples=samples)
    if levels == 2:
        for leaves in (4, 6, 8, 10, 12):
            yield from _cases(lab, two_level(leaves), few, ("pair",), varied=f"N = {leaves}")
    else:
        for most in (2, 3, 4, 5):
            yield from _cases(lab, three_level(most_joins=most), few, ("pair",), varied=f"K = {most}")
    for zipf in (0.0, 0.4, 0.8, 1.2, 1.6):
        yield from _cases(lab, schema, few, ("pair",), zipf, varied=f"Zipf {zipf}")


def _cases(
    lab: Lab[_Sizes], schema: Schema, sizes: _Sizes, kinds: Sequence[str], zipf: float = 0.8, varied: str = ""
) -> Iterator[Case[_Data]]:
    (count,) = sizes.queries
    base, counts = new_base(lab, count, thesis_queries(schema, count, seed=lab.seed, zipf=zipf))
    for documents in kinds:
        name = f"{count:,} queries, {varied or documents}"
        shown = {"documents": documents, "queries": count, "varied": varied}
        yield Case(name, _Data(schema, count, sizes, documents), {**shown, **counts}, base)


def _measure(lab: Lab[_Sizes], case: Case[_Data], engine: Engine, with_baselines: bool = False) -> Outcome:
    data = case.data
    first, *measured = _runs(lab, data, engine)
    last = measured[-1]
    digests = all_digests(engine, last)
    engine_s = statistics.median(each.seconds for each in measured)
    figures = {
        "engine_s": engine_s,
        "cpu_s": statistics.median(each.cpu_s for each in measured),
        "plan_s": first.total("prepare_s"),
        "jobs": last.jobs,
    }
    if not with_baselines:
        return Outcome(figures, digest=digest(digests))
    lab.say(f"{case.name}: baselines")
    relations = Relations.of(engine, last, lab.new_folder())
    baselines, agree = measure_baselines(engine, relations, data.sizes.samples, data.queries, lab.seed)
    figures |= {f"{name}_s": baselines[name].seconds for name in BASELINES}
    figures |= {f"speedup_over_{name}": baselines[name].seconds / engine_s for name in BASELINES}
    figures |= {"pairs": int(last.total("pairs")), "rows_of_r_out": sum(count for count, _ in digests.values())}
    figures |= {"statements_run_whole": baselines["statements"].measured}
    return Outcome(figures, digest=digest(digests), agrees=agree)


def _runs(lab: Lab[_Sizes], data: _Data, engine: Engine) -> list[Run]:
    """Run pairs, every d1 in a batch and then its d2 in one; or the state in a batch and then the others.

    The very first batch comes back, and behind it those of d2, or over the state, that are measured.
    """
    sizes, channel, warm = data.sizes, data.schema.channel, data.sizes.warm
    if data.documents == "pair":
        documents = [document for number in range(warm + sizes.pairs) for document in thesis_pair(data.schema, number)]
        runs = run_parts(engine, channel, ([document] for document in enumerate(documents)))
        return runs[:1] + runs[2 * warm + 1 :: 2]
    parts = family_parts(data.schema, sizes.items, [sizes.batch] * (warm + sizes.batches), seed=lab.seed)
    runs = run_parts(engine, channel, parts)
    return runs[:1] + runs[warm + 1 :]


def _figures(_: _Sizes, results: Sequence[Result[_Data]]) -> Row:
    """Return the figures with most queries; a batch's have a prefix."""
    main = [row for row in by_case(results) if not row["varied"]]
    pair, batch = ({k: v for k, v in row.items() if k not in ("documents", "queries", "varied")} for row in main[-2:])
    return {**pair, **{f"batch_{figure}": value for figure, value in batch.items()}}


def _bench(name: str, levels: int, sizes: _Sizes) -> Bench[_Sizes, _Data]:
    return Bench(
        name=name,
        sizes=sizes,
        prepare=partial(_prepare, levels=levels),
        variants=(on_copy(SPARK, _measure), on_copy(DRIVER, partial(_measure, with_baselines=True))),
        table=by_case,
        figures=_figures,
        axes=Axes(
            f"Joining a pair and a batch of {name} documents",
            x="queries",
            y="seconds",
            over="queries",
            lines={
                "engine (driver)": "engine_s",
                "engine (spark)": "engine_spark_s",
                "a statement for each template": "statements_s",
                "sequential on Spark": "sequential_spark_s",
                "sequential, prepared in process": "sequential_prepared_s",
            },
            by="documents",
            chosen=lambda rows: [row for row in rows if not row["varied"]],
            log_x=True,
            log_y=True,
        ),
        notes=(
            SAMPLED,
            "`statements_run_whole` counts the statements that were run whole; the time of the others is that of a "
            "sample of the rows of R_T, extrapolated along a line, or that of another template with as many joins.",
            "{s.warm} pairs or batches of each engine go before those that are measured, and each statement runs once "
            "before it is measured.",
        ),
    )


BENCHES = (_bench("two-level", 2, _Sizes()), _bench("three-level", 3, _ThreeLevelSizes()))
