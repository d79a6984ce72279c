"""``xscl bench rss``: a stream of feed items under many queries, from text to matches (the thesis' Figure 6.16)."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from xscl.bench.baselines import SAMPLED, Samples, measure_baselines
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, by_variant, size, suffixed
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import DRIVER, SPARK, Run, new_base, on_copy, queries_of_groups, run, run_parts, take
from xscl.bench.plot import Axes
from xscl.bench.relations import Relations, digest, engine_digests
from xscl.bench.report import Row, Value
from xscl.bench.workload import RSS, thesis_queries
from xscl.catalog.groups import read_templates
from xscl.engine import Engine

__all__ = ["BENCH"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: tuple[int, ...] = size((10_000, 100_000, 1_000_000), (1_000,))
    items: int = size(225_000, 4_000)
    batch: int = size(25_000, 2_000)
    warm: int = size(2_000, 200)
    """Items of the first batch, which plans, and is not counted."""
    compared: int = size(100, 1_000)
    """Groups whose rows of the last batch are compared between the modes; few of a thousand queries have any."""
    samples: Samples = size(
        Samples(statements=1, spark_queries=5, prepared_queries=300, prepared_documents=20),
        Samples(statements=1, spark_queries=1, prepared_queries=50, prepared_documents=10),
    )

    @property
    def baselines(self) -> int:
        """Number of queries with which baselines are measured: 100,000, as in the figure, or the most."""
        return 100_000 if 100_000 in self.queries else self.queries[-1]


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[int]]:
    for count in lab.sizes.queries:
        base, counts = new_base(lab, count, thesis_queries(RSS, count, seed=lab.seed))
        counts["distinct_queries"] = counts.pop("groups")
        yield Case(f"{count:,} queries", count, {"queries": count, **counts}, base)


def _driver(lab: Lab[_Sizes], case: Case[int], engine: Engine) -> Outcome:
    sizes = lab.sizes
    outcome, whole = _stream(lab, engine)
    if case.data != sizes.baselines:
        return outcome
    lab.say("baselines")
    last_s = outcome.figures["last_batch_s"]
    relations = Relations.of(engine, Run(0.0, whole.reports[-1:]), lab.new_folder())
    baselines, agree = measure_baselines(engine, relations, sizes.samples, case.data, lab.seed)
    figures: dict[str, Value] = {}
    for name, estimate in baselines.items():
        figures |= {f"{name}_batch_s": estimate.seconds, f"speedup_over_{name}": estimate.seconds / last_s}
    figures |= {name: int(whole.total(name)) for name in ("pairs", "matches")}
    return replace(outcome, figures={**outcome.figures, **figures}, agrees=agree)


def _spark(lab: Lab[_Sizes], _: Case[int], engine: Engine) -> Outcome:
    return _stream(lab, engine)[0]


def _stream(lab: Lab[_Sizes], engine: Engine) -> tuple[Outcome, Run]:
    """Run the stream; seconds are sums over batches, and the digest is of the last batch."""
    sizes, feed = lab.sizes, ItemFeed(lab.seed)
    items = sizes.items
    (warm,) = run_parts(engine, RSS.channel, [feed.take(sizes.warm)])
    intake_s = take(engine, RSS.channel, list(feed.take(items)))
    whole = run(engine, sizes.batch)
    lab.say(f"{items / whole.seconds:,.0f} items a second")
    last = whole.reports[-1]
    groups = sorted(set(queries_of_groups(engine).values()))
    asked = random.Random(lab.seed).sample(groups, min(len(groups), sizes.compared))
    digests = engine_digests(engine, engine.home.catalog.ask(read_templates), asked, last.first, last.last)
    parts = {name: whole.total(name) for name in ("stage1_s", "join_s", "prepare_s")}
    figures = {
        "items": items,
        "seconds": whole.seconds,
        "items_per_s": items / whole.seconds,
        **parts,
        "output_s": max(0.0, whole.seconds - sum(parts.values())),
        "last_batch_s": sum(getattr(last, part) for part in ("prepare_s", "stage1_s", "join_s", "commit_s")),
        "intake_s": intake_s,
        "plan_s": warm.total("prepare_s"),
        "cpu_s": whole.cpu_s,
        "jobs_per_batch": whole.jobs,
        "compared_rows": sum(count for count, _ in digests.values()),
    }
    return Outcome(figures, digest=digest(digests)), whole


def _figures(sizes: _Sizes, results: Sequence[Result[int]]) -> Row:
    """Return the figures with as many queries as baselines have, and divide times with most and fewest queries."""
    (result,) = (each for each in results if each.case.data == sizes.baselines)
    growth = {}
    for mode, suffix in result.suffixes.items():
        seconds = {each.case.data: each.outcomes[mode].figures["seconds"] for each in results}
        known = {10_000, 1_000_000} <= set(seconds)
        growth[suffixed("growth_10k_to_1m_queries", suffix)] = seconds[1_000_000] / seconds[10_000] if known else None
    return {**result.figures, **growth}


BENCH = Bench(
    name="rss",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(on_copy(SPARK, _spark), on_copy(DRIVER, _driver)),
    table=by_variant,
    figures=_figures,
    axes=Axes(
        "A stream of {s.items:,} feed items",
        x="queries",
        y="items a second",
        over="queries",
        lines={"": "items_per_s"},
        by="mode",
        log_x=True,
    ),
    notes=(
        "Baselines are for {s.baselines:,} queries on the last batch of the stream, with all of it as state, and "
        "their times are compared with that batch's.",
        SAMPLED,
        "A statement reads as many rows of R_T as fit a stated amount of work, and its time is extrapolated along a "
        "line.",
        "A batch of {s.warm:,} other items goes before each stream; it plans, and is not counted.",
    ),
)
