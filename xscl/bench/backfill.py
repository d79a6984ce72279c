"""``xscl bench backfill``: new queries answered from what is held, against batches of the same documents."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xscl.bench.documents import ItemFeed
from xscl.bench.engines import Run, count_queries, open_engine, register, run, take
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.bench.workload import RSS, Windows, thesis_queries
from xscl.catalog import QueryInfo
from xscl.engine import Engine
from xscl.places import place_of
from xscl.session import start_session
from xscl.stored_matches import stored_matches
from xscl.tables import BATCHES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sizes", "measure"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    """New ones."""
    others: int
    """Those that are there before the documents."""
    items: int
    batch: int
    """Items of a batch where all queries are run again."""
    window: int
    """The window of all queries, in items."""


_FULL = Sizes(100, 10_000, 100_000, 10_000, 10_000)
_QUICK = Sizes(20, 300, 4_000, 1_000, 1_000)
_COMPARED = 5_000
"""The last items whose matches are compared."""


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    items: int | None = None,
    batch_docs: int | None = None,
    seed: int = 1,
) -> Report:
    """Time the back-fill of new queries; ``queries`` is their number, ``items`` that of the documents held."""
    sizes = _QUICK if quick else _FULL
    sizes = replace(
        sizes, queries=queries or sizes.queries, items=items or sizes.items, batch=batch_docs or sizes.batch
    )
    spark = start_session()
    window = sizes.window * ItemFeed(seed).step_s * 1_000_000
    windows = Windows(window, window)
    new = [(f"n{name}", text) for name, text in thesis_queries(RSS, sizes.queries, seed=seed + 1, windows=windows)]
    others = list(thesis_queries(RSS, sizes.others, seed=seed, windows=windows))
    starting = [(name, f"{text} STARTING ALL") for name, text in new]
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        say(f"{sizes.items:,} items under {sizes.others:,} queries, then {sizes.queries:,} new ones")
        with open_engine(Path(folder) / "filled", spark) as engine:
            register(engine, others)
            first = _take(engine, sizes, seed)
            run(engine, sizes.batch)
            register(engine, starting)
            filled = run(engine)
            templates, groups = count_queries(engine)
            found = _digest(engine, [name for name, _ in new], first, sizes)
            _take(engine, replace(sizes, items=sizes.batch), seed + 2)
            after = run(engine)
            _take(engine, replace(sizes, items=sizes.batch), seed + 3)
            later = run(engine)
        say(f"one batch of {sizes.items:,} items under the new queries")
        batch, same = _fresh(Path(folder) / "batch", spark, new, [name for name, _ in new], sizes, sizes.items, seed)
        say(f"all items again under all {sizes.queries + sizes.others:,} queries")
        again, also = _fresh(
            Path(folder) / "again", spark, [*others, *new], [name for name, _ in new], sizes, sizes.batch, seed
        )
    figures: dict[str, Value] = {
        "backfill_s": rounded(filled.seconds),
        "batch_s": rounded(batch.seconds),
        "again_s": rounded(again.seconds),
        "ratio_to_batch": rounded(filled.seconds / batch.seconds),
        "speedup_over_again": rounded(again.seconds / filled.seconds),
        "next_batch_s": rounded(after.seconds),
        "later_batch_s": rounded(later.seconds),
        "backfill_jobs": filled.jobs,
        "pairs": sum(report.pairs for report in filled.reports),
        "matches": sum(report.matches for report in filled.reports),
        "templates": templates,
        "groups": groups,
        "digest_equal": found == same == also,
    }
    rows = (("back-fill", filled), ("one batch", batch), ("all again", again), ("next batch", after))
    return Report(
        bench="backfill",
        settings={**asdict(sizes), "window_s": window // 1_000_000, "seed": seed},
        figures=figures,
        table=tuple(
            {
                "work": name,
                "seconds": rounded(of.seconds),
                "batches": len(of.reports),
                "stage1_s": rounded(sum(report.stage1_s for report in of.reports)),
                "join_s": rounded(sum(report.join_s for report in of.reports)),
                "commit_s": rounded(sum(report.commit_s for report in of.reports)),
                "pairs": sum(report.pairs for report in of.reports),
            }
            for name, of in rows
        ),
        plot=Plot(
            title=f"{sizes.queries:,} new queries over {sizes.items:,} items",
            x="work",
            y="seconds",
            lines={name: ((place, of.seconds),) for place, (name, of) in enumerate(rows, start=1)},
        ),
        notes=(f"Compared are the new queries' matches that have one of the last {_COMPARED:,} items.",),
    )


def _take(engine: Engine, sizes: Sizes, seed: int) -> int:
    """Take in items; the place of the first."""
    first = engine.home.catalog.processed()[1] + 1
    take(engine, RSS.channel, ItemFeed(seed, reach=sizes.window).take(sizes.items))
    return first


def _fresh(
    home: Path,
    spark: SparkSession,
    texts: Sequence[tuple[str, str]],
    compared: Sequence[str],
    sizes: Sizes,
    batch_docs: int,
    seed: int,
) -> tuple[Run, str]:
    """A home whose queries are there before the documents: the run, and what the compared ones have."""
    with open_engine(home, spark) as engine:
        register(engine, texts)
        first = _take(engine, sizes, seed)
        whole = run(engine, batch_docs)
        return whole, _digest(engine, compared, first, sizes)


def _digest(engine: Engine, names: Sequence[str], first: int, sizes: Sizes) -> str:
    """A digest of the matches that some queries have with the last items, told by places counted from ``first``."""
    infos = {info.name: info for name in names for info in engine.home.catalog.queries(name=name)}
    paths = [report["result_path"] for report in engine.home.catalog.rows(BATCHES) if report["result_path"]]
    rows: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {name: [] for name in names}
    by_group: dict[int, list[QueryInfo]] = {}
    for info in infos.values():
        for gid in info.groups:
            by_group.setdefault(gid, []).append(info)
    for path in paths:
        for match in stored_matches(engine.home.results([str(path)]), by_group):
            docids = tuple(place_of(docid) - first for docid in match.docids)
            if max(docids) < sizes.items - _COMPARED:
                continue
            seeing = {info.name: info for gid in match.groups for info in by_group.get(gid, ())}
            for info in seeing.values():
                if match.is_seen_by(info):
                    rows[info.name].append((docids, match.nodes))
    told = [(name, sorted(found)) for name, found in sorted(rows.items())]
    return hashlib.sha256(repr(told).encode()).hexdigest()
