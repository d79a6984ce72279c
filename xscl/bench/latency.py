"""``xscl bench latency``: how long a small batch takes over a large state, and how many Spark jobs a large one."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xscl.bench.apart import watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Sizes, side_by_side, size
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import Document, in_modes, new_base, open_engine, run, run_parts, take
from xscl.bench.plot import Axes
from xscl.bench.relations import all_digests, digest
from xscl.bench.workload import RSS, shaped_queries
from xscl.engine import Engine

__all__ = ["BENCH"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(10_000, 500)
    items: int = size(100_000, 2_000)
    """Items of state before the first batch that is measured."""
    batch: int = size(100)
    warm: int = size(20, 3)
    """Batches that are not counted."""
    batches: int = size(100, 8)
    large: int = size(25_000, 2_000)
    """Items of the one large batch, and of the batches that make the state."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[list[Document]]]:
    sizes = lab.sizes
    base, counts = new_base(lab, sizes.queries, shaped_queries(sizes.queries, lab.seed))
    feed = ItemFeed(lab.seed)
    lab.say(f"taking in {sizes.items:,} items")
    with open_engine(base, lab.spark) as engine:
        take(engine, RSS.channel, feed.take(sizes.items))
        run(engine, sizes.large)
    items = list(feed.take(sizes.batch * (sizes.warm + sizes.batches) + sizes.large))
    yield Case(f"{sizes.batches} batches of {sizes.batch} items", items, counts, base)


def _measure(lab: Lab[_Sizes], case: Case[list[Document]], engine: Engine) -> Outcome:
    sizes, items = lab.sizes, case.data
    runs, empty_s = [], []
    small = sizes.batch * (sizes.warm + sizes.batches)
    for start in range(0, small, sizes.batch):
        with watched() as empty:
            lab.spark.range(1).collect()
        empty_s.append(empty.seconds)
        runs += run_parts(engine, RSS.channel, [items[start : start + sizes.batch]])
    counted = runs[sizes.warm :]
    digests = all_digests(engine, *counted)
    (large,) = run_parts(engine, RSS.channel, [items[small:]])
    seconds = [each.seconds for each in counted]
    p50, empty_job_s = statistics.median(seconds), statistics.median(empty_s[sizes.warm :])
    return Outcome(
        figures={
            "p50_s": p50,
            "p95_s": _percentile(seconds, 95),
            "cpu_s": statistics.median(each.cpu_s for each in counted),
            "empty_job_s": empty_job_s,
            "ratio_to_empty_job": p50 / empty_job_s,
            "jobs_per_batch": max((each.jobs for each in counted if each.jobs is not None), default=None),
            "large_batch_s": large.seconds,
            "large_batch_jobs": large.jobs,
            "plan_s": runs[0].total("prepare_s"),
        },
        rows=[
            {"batch": number, "seconds": each.seconds, "empty_job_s": empty, "jobs": each.jobs}
            for number, (each, empty) in enumerate(zip(counted, empty_s[sizes.warm :], strict=True), start=1)
        ],
        digest=digest(digests),
    )


def _percentile(values: Sequence[float], percent: int) -> float:
    """Return the least value that at least so many percent of the values do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


BENCH = Bench(
    name="latency",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=in_modes(_measure),
    table=side_by_side,
    axes=Axes(
        "Batches of {s.batch} items, {s.queries:,} queries, {s.items:,} items of state",
        x="batch",
        y="seconds",
        over="batch",
        lines={"driver": "seconds", "spark": "seconds_spark", "cheapest Spark job": "empty_job_s"},
    ),
    notes=(
        "{s.warm} batches of each mode go before those that are measured. The cheapest Spark job is "
        "`spark.range(1).collect()`, once before every batch; its figure is the median.",
    ),
)
