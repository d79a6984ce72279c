"""``xscl bench backfill``: new queries answered from what is held, against batches of the same documents."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import sqlalchemy as sa

from xscl.base.docids import place_of
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.documents import ItemFeed
from xscl.bench.engines import Run, open_engine, register, run, take
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.workload import RSS, Windows, count_queries, thesis_queries
from xscl.catalog.queries import read_queries
from xscl.catalog.records import QueryInfo
from xscl.catalog.tables import BATCHES, INTAKE_FILES
from xscl.engine import Engine
from xscl.store.results import stored_matches

__all__ = ["BENCH"]

_COMPARED = 5_000
"""Number of the last items whose matches are compared."""


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(100, 20)
    """New queries."""
    others: int = size(10_000, 300)
    """Queries that are there before the documents."""
    items: int = size(100_000, 4_000)
    batch: int = size(10_000, 1_000)
    """Items of a batch where all queries are run again."""
    window: int = size(10_000, 1_000)
    """Window of all queries, in items."""


@dataclass(frozen=True, slots=True)
class _Data:
    """Texts of queries, by name."""

    new: Sequence[tuple[str, str]]
    others: Sequence[tuple[str, str]]


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Data]]:
    sizes, seed = lab.sizes, lab.seed
    window = sizes.window * ItemFeed(seed).step_s * 1_000_000
    windows = Windows(window, window)
    new = [(f"n{name}", text) for name, text in thesis_queries(RSS, sizes.queries, seed=seed + 1, windows=windows)]
    others = list(thesis_queries(RSS, sizes.others, seed=seed, windows=windows))
    name = f"{sizes.queries:,} new queries over {sizes.items:,} items, and {sizes.others:,} others"
    yield Case(name, _Data(new, others))


def _filled(lab: Lab[_Sizes], case: Case[_Data]) -> Outcome:
    """Answer the new queries from items that were processed under the others, then process two batches more."""
    sizes, new = lab.sizes, case.data.new
    with open_engine(lab.new_folder() / "home", lab.spark) as engine:
        register(engine, case.data.others)
        _take(engine, sizes, sizes.items, lab.seed)
        run(engine, sizes.batch)
        register(engine, [(name, f"{text} STARTING ALL") for name, text in new])
        filled = run(engine)
        counts = engine.home.catalog.ask(count_queries)
        digest = _digest(engine, new, sizes)
        after = []
        for seed in (lab.seed + 2, lab.seed + 3):
            _take(engine, sizes, sizes.batch, seed)
            after.append(run(engine))
    figures = {
        **counts,
        "backfill_s": filled.seconds,
        "backfill_cpu_s": filled.cpu_s,
        "backfill_jobs": filled.jobs,
        "pairs": int(filled.total("pairs")),
        "matches": int(filled.total("matches")),
        "next_batch_s": after[0].seconds,
        "later_batch_s": after[1].seconds,
    }
    return Outcome(figures, [_row(1, "back-fill", filled), _row(4, "next batch", after[0])], digest)


def _one_batch(lab: Lab[_Sizes], case: Case[_Data]) -> Outcome:
    """Process all items in one batch of a fresh home that has the new queries alone."""
    whole, digest = _fresh(lab, case.data.new, case, lab.sizes.items)
    return Outcome({"batch_s": whole.seconds, "batch_cpu_s": whole.cpu_s}, [_row(2, "one batch", whole)], digest)


def _all_again(lab: Lab[_Sizes], case: Case[_Data]) -> Outcome:
    """Process all items in batches of a fresh home that has all queries."""
    whole, digest = _fresh(lab, [*case.data.others, *case.data.new], case, lab.sizes.batch)
    return Outcome({"again_s": whole.seconds, "again_cpu_s": whole.cpu_s}, [_row(3, "all again", whole)], digest)


def _fresh(lab: Lab[_Sizes], texts: Sequence[tuple[str, str]], case: Case[_Data], batch_docs: int) -> tuple[Run, str]:
    with open_engine(lab.new_folder() / "home", lab.spark) as engine:
        register(engine, texts)
        _take(engine, lab.sizes, lab.sizes.items, lab.seed)
        whole = run(engine, batch_docs)
        return whole, _digest(engine, case.data.new, lab.sizes)


def _take(engine: Engine, sizes: _Sizes, items: int, seed: int) -> None:
    take(engine, RSS.channel, ItemFeed(seed, reach=sizes.window).take(items))


def _row(place: int, work: str, of: Run) -> Row:
    parts = {name: of.total(name) for name in ("stage1_s", "join_s", "commit_s")}
    counts = {"batches": len(of.reports), "pairs": int(of.total("pairs"))}
    return {"place": place, "work": work, "seconds": of.seconds, "cpu_s": of.cpu_s, **parts, **counts}


def _digest(engine: Engine, queries: Sequence[tuple[str, str]], sizes: _Sizes) -> str:
    """Digest the matches that some queries have with the last items of a home, told by places counted from 0."""
    rows: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {name: [] for name, _ in queries}
    by_group: dict[int, list[QueryInfo]] = defaultdict(list)
    for name in rows:
        for info in engine.home.catalog.ask(read_queries, name=name):
            for gid in info.groups:
                by_group[gid].append(info)
    # Registrations have places, too, and homes begin with as many as they have queries.
    first = engine.home.catalog.ask(lambda connection: connection.scalar(sa.select(sa.func.min(INTAKE_FILES.c.first))))
    paths = [str(report["result_path"]) for report in engine.home.catalog.rows(BATCHES) if report["result_path"]]
    for path in paths:
        for match in stored_matches(engine.home.results([path]), by_group):
            docids = tuple(place_of(docid) - first for docid in match.docids)
            if max(docids) < sizes.items - _COMPARED:
                continue
            seeing = {info.name: info for gid in match.groups for info in by_group.get(gid, ())}
            for name, info in seeing.items():
                if match.is_seen_by(info):
                    rows[name].append((docids, match.nodes))
    return hashlib.sha256(repr([(name, sorted(of)) for name, of in sorted(rows.items())]).encode()).hexdigest()


def _figures(_: _Sizes, results: Sequence[Result[_Data]]) -> Row:
    figures = results[0].figures
    ratio = figures["backfill_s"] / figures["batch_s"]
    return {**figures, "ratio_to_batch": ratio, "speedup_over_again": figures["again_s"] / figures["backfill_s"]}


BENCH = Bench(
    name="backfill",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(Variant("back-fill", _filled), Variant("one batch", _one_batch), Variant("all again", _all_again)),
    table=by_step,
    figures=_figures,
    axes=Axes(
        "{s.queries:,} new queries over {s.items:,} items",
        x="work",
        y="seconds",
        over="place",
        lines={"": "seconds"},
        by="work",
    ),
    notes=(f"Compared are the new queries' matches that have one of the last {_COMPARED:,} items.",),
)
