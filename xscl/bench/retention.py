"""``xscl bench retention``: an endless stream under queries with windows: what is kept levels off."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from xscl.bench.baselines import digest, engine_digests
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import (
    MODES,
    Mode,
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
from xscl.bench.workload import RSS, Windows, thesis_queries
from xscl.engine import Engine
from xscl.session import start_session

__all__ = ["Sizes", "measure"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    batch: int
    """Items of a batch."""
    batches: int
    window: int
    """The longest window, in items; the shortest is a tenth of it."""
    lateness: int
    """How far an event may be behind, in items."""


_FULL = Sizes(10_000, 1_000, 100, 10_000, 2_000)
_QUICK = Sizes(100, 200, 12, 600, 200)


@dataclass(frozen=True, slots=True)
class _Kept:
    """After a batch."""

    rows: int
    size: int
    """Bytes."""
    seconds: float


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Run a stream batch by batch and note what is kept after each; ``items`` is the length of the stream."""
    sizes = _QUICK if quick else _FULL
    sizes = replace(sizes, queries=queries or sizes.queries, batch=batch_docs or sizes.batch)
    sizes = replace(sizes, batches=max(2, items // sizes.batch) if items else sizes.batches)
    spark = start_session()
    kept: dict[str, list[_Kept]] = {}
    digests = []
    step_s = ItemFeed(seed).step_s
    window = sizes.window * step_s * 1_000_000
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        base = Path(folder) / "base"
        say(f"registering {sizes.queries:,} queries")
        with open_engine(base, spark) as engine:
            engine.add_channel(RSS.channel, lateness=f"{sizes.lateness * step_s} s")
            register(engine, thesis_queries(RSS, sizes.queries, seed=seed, windows=Windows(window // 10, window)))
            templates, groups = count_queries(engine)
        for mode in MODES:
            say(f"{sizes.batches} batches: {mode.name}")
            home = copy_home(base, Path(folder) / f"home{mode.suffix}")
            with open_engine(home, spark, driver_rows=mode.driver_rows) as engine:
                kept[mode.suffix], last = _stream(engine, sizes, seed)
                asked = set(queries_of_groups(engine).values())
                digests.append(digest(engine_digests(engine, engine.home.catalog.shapes(), asked, *last)))
    figures: dict[str, Value] = {}
    for mode in MODES:
        figures |= _figures(mode, kept[mode.suffix])
    figures |= {"templates": templates, "groups": groups, "digest_equal": len(set(digests)) == 1}
    return Report(
        bench="retention",
        settings={**asdict(sizes), "seed": seed},
        figures=figures,
        table=tuple(
            {
                "batch": place,
                "items": place * sizes.batch,
                **{f"state_rows{mode.suffix}": kept[mode.suffix][place - 1].rows for mode in MODES},
                **{f"state_bytes{mode.suffix}": kept[mode.suffix][place - 1].size for mode in MODES},
                **{f"seconds{mode.suffix}": rounded(kept[mode.suffix][place - 1].seconds) for mode in MODES},
            }
            for place in range(1, sizes.batches + 1)
        ),
        plot=Plot(
            title=f"State of a stream with windows up to {sizes.window:,} items",
            x="items",
            y="rows of state",
            lines={
                mode.name: tuple(
                    (place * sizes.batch, after.rows) for place, after in enumerate(kept[mode.suffix], start=1)
                )
                for mode in MODES
            },
        ),
    )


def _stream(engine: Engine, sizes: Sizes, seed: int) -> tuple[list[_Kept], tuple[int, int]]:
    """What is kept after each batch, and the places of the last batch."""
    feed = ItemFeed(seed, reach=sizes.window)
    kept: list[_Kept] = []
    for _ in range(sizes.batches):
        take(engine, RSS.channel, feed.take(sizes.batch))
        batch = run(engine)
        after = batch.reports[-1]
        kept.append(_Kept(after.state_rows, after.state_bytes, batch.seconds))
    return kept, (batch.first, batch.last)


def _figures(mode: Mode, kept: list[_Kept]) -> dict[str, Value]:
    half, end = kept[len(kept) // 2 - 1], kept[-1]
    quarter = max(1, len(kept) // 4)
    return {
        f"state_rows_at_half{mode.suffix}": half.rows,
        f"state_rows_at_end{mode.suffix}": end.rows,
        f"state_rows_ratio{mode.suffix}": rounded(end.rows / half.rows),
        f"state_bytes_at_half{mode.suffix}": half.size,
        f"state_bytes_at_end{mode.suffix}": end.size,
        f"state_bytes_ratio{mode.suffix}": rounded(end.size / half.size),
        f"most_state_rows{mode.suffix}": max(after.rows for after in kept),
        f"batch{mode.suffix}_s": rounded(sum(after.seconds for after in kept[-quarter:]) / quarter),
    }
