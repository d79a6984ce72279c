"""``xscl bench growth``: what a batch takes as the state grows, when its answer does not."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, by_variant, size, suffixed
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import Document, in_modes, new_base, open_engine, run, run_parts, take
from xscl.bench.plot import Axes
from xscl.bench.relations import all_digests, digest
from xscl.bench.report import Row, Value
from xscl.bench.workload import RSS, Windows, thesis_queries
from xscl.engine import Engine

__all__ = ["BENCH", "growing_base"]

S = TypeVar("S", bound=Sizes)


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(10_000, 300)
    items: tuple[int, ...] = size((10_000, 100_000, 1_000_000), (1_000, 4_000))
    """Items of the state."""
    batch: int = size(1_000, 200)
    warm: int = size(5, 1)
    batches: int = size(11, 3)
    load: int = size(25_000, 4_000)
    """Items of a batch in which the state is taken in."""


def growing_base(lab: Lab[S], queries: int, least: int) -> tuple[ItemFeed, Path, dict[str, Value]]:
    """Make a home whose batches find as much over any state as over the least one, of so many items.

    Returns:
        The feed of its items, its folder, and the figures of ``new_base``.
    """
    feed = ItemFeed(lab.seed, reach=least)
    window = least * feed.step_s * 1_000_000
    texts = thesis_queries(RSS, queries, seed=lab.seed, windows=Windows(window, window))
    return feed, *new_base(lab, queries, texts)


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[list[Document]]]:
    sizes = lab.sizes
    feed, base, counts = growing_base(lab, sizes.queries, sizes.items[0])
    for state in sizes.items:
        with open_engine(base, lab.spark) as engine:
            lab.say(f"taking in items up to {state:,}")
            take(engine, RSS.channel, feed.take(state - feed.made))
            run(engine, sizes.load)
        # The next items, which the base does not take in here.
        items = list(deepcopy(feed).take(sizes.batch * (sizes.warm + sizes.batches)))
        yield Case(f"{sizes.batches} batches over {state:,} items", items, {**counts, "state": state}, base)


def _measure(lab: Lab[_Sizes], case: Case[list[Document]], engine: Engine) -> Outcome:
    sizes, items = lab.sizes, case.data
    starts = range(0, len(items), sizes.batch)
    runs = run_parts(engine, RSS.channel, (items[start : start + sizes.batch] for start in starts))
    counted = runs[sizes.warm :]
    return Outcome(
        figures={
            "seconds": statistics.median(each.seconds for each in counted),
            "cpu_s": statistics.median(each.cpu_s for each in counted),
            "jobs": runs[-1].jobs,
            "pairs": int(runs[-1].total("pairs")),
        },
        digest=digest(all_digests(engine, runs[-1])),
    )


def _figures(_: _Sizes, results: Sequence[Result[list[Document]]]) -> Row:
    """Name the times by the size of the state, and divide them by that with the smallest."""
    figures = {name: results[0].figures[name] for name in ("templates", "groups", "register_s")}
    for mode, suffix in results[0].suffixes.items():
        rows = {_short(each.case.figures["state"]): each.outcomes[mode].figures for each in results}
        first, *greater = rows
        for state, row in rows.items():
            figures[suffixed(f"batch_at_{state}_s", suffix)] = row["seconds"]
            figures[suffixed(f"cpu_at_{state}_s", suffix)] = row["cpu_s"]
        for state in greater:
            figures[suffixed(f"growth_{first}_to_{state}", suffix)] = rows[state]["seconds"] / rows[first]["seconds"]
    return figures


def _short(number: int) -> str:
    """Shorten a number for names of figures.

    >>> _short(10_000), _short(1_000_000), _short(250)
    ('10k', '1m', '250')
    """
    for unit, letter in ((1_000_000, "m"), (1_000, "k")):
        if number % unit == 0:
            return f"{number // unit}{letter}"
    return str(number)


BENCH = Bench(
    name="growth",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=in_modes(_measure),
    table=by_variant,
    figures=_figures,
    axes=Axes(
        "A batch of {s.batch:,} items under {s.queries:,} queries",
        x="items of state",
        y="seconds",
        over="state",
        lines={"": "seconds"},
        by="mode",
        log_x=True,
    ),
    notes=("{s.warm} batches at each size go before those that are measured, and both grow the state.",),
)
