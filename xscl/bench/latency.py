"""``xscl bench latency``: how long a small batch takes over a large state, and how many Spark jobs a large one."""

from __future__ import annotations

import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache
from itertools import permutations
from pathlib import Path
from typing import TYPE_CHECKING

from xscl.bench.baselines import Digests, digest, engine_digests
from xscl.bench.documents import ItemFeed
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
from xscl.bench.workload import RSS
from xscl.engine import Engine
from xscl.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sizes", "measure", "shaped_queries"]

_TEMPLATES = 20
_MOST_JOINS = 4


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    state: int
    """Items before the first batch that is measured."""
    batch: int
    warm: int
    """Batches that are not counted."""
    batches: int
    large: int
    """Items of the one large batch; also those in which the state is taken in."""


_FULL = Sizes(10_000, 100_000, 100, 20, 100, 25_000)
_QUICK = Sizes(500, 2_000, 100, 3, 8, 2_000)


@dataclass(frozen=True, slots=True)
class _Latency:
    seconds: list[float]
    empty_s: list[float]
    jobs: list[int | None]
    plan_s: float
    large: Run
    digests: Digests
    """Of all batches that are measured."""

    def figures(self, suffix: str) -> dict[str, Value]:
        p50, empty = statistics.median(self.seconds), statistics.median(self.empty_s)
        return {
            f"p50{suffix}_s": rounded(p50),
            f"p95{suffix}_s": rounded(_percentile(self.seconds, 95)),
            f"empty_job{suffix}_s": rounded(empty),
            f"ratio_to_empty_job{suffix}": rounded(p50 / empty),
            f"jobs{suffix}_per_batch": max((count for count in self.jobs if count is not None), default=None),
            f"large_batch{suffix}_s": rounded(self.large.seconds),
            f"large_batch{suffix}_jobs": self.large.jobs,
            f"plan{suffix}_s": rounded(self.plan_s),
        }


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Time small batches over a state, in turns with the cheapest Spark job; ``items`` is the size of the state."""
    sizes = _QUICK if quick else _FULL
    sizes = replace(
        sizes, queries=queries or sizes.queries, state=items or sizes.state, batch=batch_docs or sizes.batch
    )
    spark = start_session()
    found: dict[str, _Latency] = {}
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        base = Path(folder) / "base"
        say(f"registering {sizes.queries:,} queries and taking in {sizes.state:,} items")
        feed = ItemFeed(seed)
        with open_engine(base, spark) as engine:
            register(engine, shaped_queries(sizes.queries, seed))
            templates, groups = count_queries(engine)
            take(engine, RSS.channel, feed.take(sizes.state))
            run(engine, sizes.large)
        rest = list(feed.take(sizes.batch * (sizes.warm + sizes.batches) + sizes.large))
        for mode in MODES:
            say(f"{sizes.batches} batches of {sizes.batch} items: {mode.name}")
            home = copy_home(base, Path(folder) / f"home{mode.suffix}")
            with open_engine(home, spark, driver_rows=mode.driver_rows) as engine:
                found[mode.suffix] = _latency(engine, rest, sizes, spark)
    figures: dict[str, Value] = {}
    for mode in MODES:
        figures |= found[mode.suffix].figures(mode.suffix)
    first = found[""]
    figures |= {
        "templates": templates,
        "groups": groups,
        "results_digest": digest(first.digests),
        "digest_equal": len({digest(latency.digests) for latency in found.values()}) == 1,
    }
    return Report(
        bench="latency",
        settings={**asdict(sizes), "seed": seed},
        figures=figures,
        table=tuple(
            {
                "batch": place,
                **{f"seconds{mode.suffix}": rounded(found[mode.suffix].seconds[place - 1]) for mode in MODES},
                **{f"empty_job{mode.suffix}_s": rounded(found[mode.suffix].empty_s[place - 1]) for mode in MODES},
                **{f"jobs{mode.suffix}": found[mode.suffix].jobs[place - 1] for mode in MODES},
            }
            for place in range(1, sizes.batches + 1)
        ),
        plot=Plot(
            title=f"Batches of {sizes.batch} items, {sizes.queries:,} queries, {sizes.state:,} items of state",
            x="batch",
            y="seconds",
            lines={
                **{mode.name: tuple(enumerate(found[mode.suffix].seconds, start=1)) for mode in MODES},
                "cheapest Spark job": tuple(enumerate(first.empty_s, start=1)),
            },
        ),
        notes=(
            f"{sizes.warm} batches of each mode go before those that are measured. The cheapest Spark job is "
            "`spark.range(1).collect()`, once before every batch; its figure is the median.",
        ),
    )


def _latency(engine: Engine, items: list[tuple[int, str]], sizes: Sizes, spark: SparkSession) -> _Latency:
    seconds, empty_s, jobs = [], [], []
    runs = []
    for number in range(sizes.warm + sizes.batches):
        take(engine, RSS.channel, items[number * sizes.batch : (number + 1) * sizes.batch])
        began = time.perf_counter()
        spark.range(1).collect()
        empty = time.perf_counter() - began
        runs.append(run(engine))
        if number >= sizes.warm:
            seconds.append(runs[-1].seconds)
            empty_s.append(empty)
            jobs.append(runs[-1].jobs)
    asked = set(queries_of_groups(engine).values())
    shapes = engine.home.catalog.shapes()
    digests = engine_digests(engine, shapes, asked, runs[sizes.warm].first, runs[-1].last)
    take(engine, RSS.channel, items[(sizes.warm + sizes.batches) * sizes.batch :])
    return _Latency(seconds, empty_s, jobs, runs[0].prepare_s, run(engine), digests)


def _percentile(values: list[float], percent: int) -> float:
    """The least value that at least so many percent of the values do not exceed."""
    return sorted(values)[max(0, -(-len(values) * percent // 100) - 1)]


# -- queries of many shapes -----------------------------------------------------------------------------------------


def shaped_queries(number: int, seed: int, templates: int = _TEMPLATES) -> Iterator[tuple[str, str]]:
    """Queries over feed items whose value joins make at most so many different shapes; none has a window.

    A query draws one to four joins by Zipf's law with parameter 0.8, each a different pair of fields, uniformly from
    all 25; a field may be joined more than once.  A query of a shape beyond the first ``templates`` is drawn again.
    """
    generator = random.Random(seed)
    sizes = range(1, _MOST_JOINS + 1)
    weights = [k**-0.8 for k in sizes]
    fields = [path[0] for path in RSS.leaves]
    pairs = [(left, right) for left in range(len(fields)) for right in range(len(fields))]
    shapes: set[tuple[tuple[int, int], ...]] = set()
    made = 0
    while made < number:
        (joins,) = generator.choices(sizes, weights)
        drawn = tuple(generator.sample(pairs, joins))
        shape = _shape(tuple(sorted(drawn)))
        if shape not in shapes and len(shapes) >= templates:
            continue
        shapes.add(shape)
        made += 1
        lefts, rights = (sorted({pair[side] for pair in drawn}) for side in (0, 1))
        left = "".join(f"[./{fields[place]}->v{place + 1}]" for place in lefts)
        right = "".join(f"[./{fields[place]}->w{place + 1}]" for place in rights)
        atoms = " AND ".join(f"v{one + 1} = w{other + 1}" for one, other in drawn)
        block = f"{RSS.channel}//{RSS.root}"
        yield f"q{made}", f"{block}->v0{left} FOLLOWED BY {{{atoms}}} {block}->w0{right}"


@cache
def _shape(pairs: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    """Of all ways to number the left and the right fields from 0, the least set of joins."""
    lefts, rights = (sorted({pair[side] for pair in pairs}) for side in (0, 1))
    return min(
        tuple(sorted((left.index(one), right.index(other)) for one, other in pairs))
        for left in permutations(lefts)
        for right in permutations(rights)
    )
