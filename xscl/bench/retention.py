"""``xscl bench retention``: an endless stream under queries with windows: what is kept levels off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from xscl.bench.bench import Bench, Case, Lab, Outcome, Sizes, side_by_side, size
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import in_modes, new_base, run_parts
from xscl.bench.plot import Axes
from xscl.bench.relations import all_digests, digest
from xscl.bench.report import Row
from xscl.bench.workload import RSS, Windows, thesis_queries
from xscl.engine import Engine

__all__ = ["BENCH"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(10_000, 100)
    items: int = size(100_000, 2_400)
    """Items of the whole stream."""
    batch: int = size(1_000, 200)
    window: int = size(10_000, 600)
    """The longest window, in items; the shortest is a tenth of it."""
    lateness: int = size(2_000, 200)
    """Items by which an event may be behind."""


def _feed(lab: Lab[_Sizes]) -> ItemFeed:
    return ItemFeed(lab.seed, reach=lab.sizes.window)


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[None]]:
    sizes, step_s = lab.sizes, _feed(lab).step_s
    window = sizes.window * step_s * 1_000_000
    texts = thesis_queries(RSS, sizes.queries, seed=lab.seed, windows=Windows(window // 10, window))
    base, counts = new_base(lab, sizes.queries, texts, lateness=f"{sizes.lateness * step_s} s")
    yield Case(f"{sizes.items:,} items", None, counts, base)


def _measure(lab: Lab[_Sizes], _: Case[None], engine: Engine) -> Outcome:
    sizes, feed = lab.sizes, _feed(lab)
    batches = max(2, sizes.items // sizes.batch)
    runs = run_parts(engine, RSS.channel, (feed.take(sizes.batch) for _ in range(batches)))
    rows = [
        {
            "batch": number,
            "items": number * sizes.batch,
            "state_rows": each.reports[-1].state_rows,
            "state_bytes": each.reports[-1].state_bytes,
            "seconds": each.seconds,
            "cpu_s": each.cpu_s,
        }
        for number, each in enumerate(runs, start=1)
    ]
    return Outcome(_figures(rows), rows, digest(all_digests(engine, runs[-1])))


def _figures(rows: Sequence[Row]) -> Row:
    """Compare the state after half of the batches and after all, and average the last quarter's time."""
    half, end, last = rows[len(rows) // 2 - 1], rows[-1], rows[-max(1, len(rows) // 4) :]
    figures = {"most_state_rows": max(row["state_rows"] for row in rows)}
    for name in ("state_rows", "state_bytes"):
        figures[f"{name}_at_half"] = half[name]
        figures[f"{name}_at_end"] = end[name]
        figures[f"{name}_ratio"] = end[name] / half[name]
    return {**figures, "batch_s": fmean(row["seconds"] for row in last), "cpu_s": fmean(row["cpu_s"] for row in last)}


BENCH = Bench(
    name="retention",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=in_modes(_measure),
    table=side_by_side,
    axes=Axes(
        "State of a stream with windows up to {s.window:,} items",
        x="items",
        y="rows of state",
        over="items",
        lines={"driver": "state_rows", "spark": "state_rows_spark"},
    ),
)
