"""``xscl bench register``: what it costs to register queries, in bulk, one by one, and one more on top of many."""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict
from itertools import islice, pairwise
from pathlib import Path

import sqlalchemy as sa

from xscl.bench.apart import run_apart
from xscl.bench.load import Loaded, LoadSettings, require_all
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.catalog import Catalog
from xscl.compile import CompiledQuery, compile_query
from xscl.errors import EngineError
from xscl.home import init_home
from xscl.parser import parse_query
from xscl.registry import Registry
from xscl.templates.canonical import canonicalize
from xscl.templates.graph import JoinGraph, Vertex
from xscl.values import digest_text

__all__ = ["catalog_digest", "measure"]

_QUERIES = (100_000, 5_000)
_SAMPLE = (1_000, 300)
_ONE_MORE = (50, 20)

_Texts = list[tuple[str, str]]


def measure(
    say: Callable[[str], None],
    *,
    quick: bool = False,
    queries: int | None = None,
    seed: int = 1,
    workload: str = "two-level",
    windows: str = "unbounded",
) -> Report:
    """Load so many queries in bulk in a process of its own, and a sample in bulk and one by one in this one.

    Raises:
        EngineError: a query was refused, or the loading process failed.
    """
    settings = LoadSettings(queries or _QUERIES[quick], seed, workload, windows, _ONE_MORE[quick])
    sample = list(islice(settings.texts(), min(settings.queries, _SAMPLE[quick])))
    say(f"loading {settings.queries:,} queries in a process of its own")
    loaded = _load_apart(settings, say)
    say(f"registering {len(sample):,} of them in bulk and one by one")
    # The first run fills what later ones find filled, whichever way they go.
    _in_bulk(sample)
    alone_s, alone_digest = _one_by_one(sample)
    bulk = [_in_bulk(sample) for _ in range(3)]
    bulk_s = statistics.median(seconds for seconds, _ in bulk)
    say("timing the stages")
    stages = _stages(sample)
    stages["catalogue_us"] = max(0.0, bulk_s / len(sample) * 1e6 - sum(stages.values()))
    figures: dict[str, Value] = {
        "queries_per_s": rounded(settings.queries / loaded.load_s),
        "one_more_ms": rounded(statistics.median(loaded.one_more_s) * 1e3),
        "one_more_first_ms": rounded(loaded.one_more_s[0] * 1e3),
        "rss_bytes": loaded.rss_bytes,
        "one_at_a_time_per_s": rounded(len(sample) / alone_s),
        "bulk_sample_per_s": rounded(len(sample) / bulk_s),
        "speedup": rounded(alone_s / bulk_s),
        "digest_equal": all(digest == alone_digest for _, digest in bulk),
        "templates": loaded.templates,
        "groups": loaded.groups,
        "list_page_ms": rounded(statistics.median(loaded.list_page_s) * 1e3),
        "filter_page_ms": rounded(statistics.median(loaded.filter_page_s) * 1e3),
        "spark_jobs": 0,
        **{name: rounded(value) for name, value in stages.items()},
        "load_s": rounded(loaded.load_s),
        "cpu_s": rounded(loaded.cpu_s),
        "catalog_bytes": loaded.catalog_bytes,
    }
    return Report(
        bench="register",
        settings={**asdict(settings), "sample": len(sample)},
        figures=figures,
        table=tuple(
            {"queries": count, "seconds": rounded(seconds), "queries_per_s": rounded(rate)}
            for count, seconds, rate in _stretches(loaded)
        ),
        plot=Plot(
            title=f"Registration of {settings.queries:,} {workload} queries",
            x="queries registered",
            y="queries a second",
            lines={
                "in bulk": tuple((count, rate) for count, _, rate in _stretches(loaded)),
                "one by one (sample)": tuple((n, len(sample) / alone_s) for n in (0, settings.queries)),
            },
        ),
        notes=(
            f"The rates one by one and of `bulk_sample_per_s`, their ratio and the stages are those of the first "
            f"{len(sample):,} queries; nothing is extrapolated.",
        ),
        spark=False,
    )


def _load_apart(settings: LoadSettings, say: Callable[[str], None]) -> Loaded:
    loaded = Loaded.from_json(run_apart("xscl.bench.load", asdict(settings), say))
    if loaded.spark_imported:
        raise EngineError("XSCL_BENCH", "registration imported Spark, which it must do without")
    return loaded


def _in_bulk(texts: _Texts) -> tuple[float, str]:
    """(seconds, digest of the catalogue)."""
    return _registered(lambda registry: require_all(registry.register_many(texts)))


def _one_by_one(texts: _Texts) -> tuple[float, str]:
    def register(registry: Registry) -> None:
        for name, text in texts:
            registry.register(text, name=name)

    return _registered(register)


def _registered(register: Callable[[Registry], None]) -> tuple[float, str]:
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        home = init_home(Path(folder) / "home")
        began = time.perf_counter()
        register(Registry(home.catalog))
        seconds = time.perf_counter() - began
        digest = catalog_digest(home.catalog)
        home.catalog.close()
    return seconds, digest


def catalog_digest(catalog: Catalog) -> str:
    """A digest of all that registration writes, but for the time at which it did: equal for equal catalogues."""
    tables = sa.MetaData()
    with catalog.read() as connection:
        tables.reflect(connection)
        parts = []
        for name, table in sorted(tables.tables.items()):
            if name in ("queries", "groups", "instances", "templates", "variables") or name.startswith("rt_"):
                columns = sorted((c for c in table.c if c.name != "received"), key=lambda column: column.name)
                rows = sorted(repr(tuple(row)) for row in connection.execute(sa.select(*columns)))
                parts += [name, *(column.name for column in columns), *rows]
    return digest_text(*parts)


def _stages(texts: _Texts) -> dict[str, float]:
    """Microseconds a query of what comes before the catalogue: medians of three."""
    runs = [_stage_times(texts) for _ in range(3)]
    return {name: statistics.median(run[name] for run in runs) / len(texts) * 1e6 for name in runs[0]}


def _stage_times(texts: _Texts) -> dict[str, float]:
    began = time.perf_counter()
    parsed = [(parse_query(text), text) for _, text in texts]
    parse_s = time.perf_counter() - began
    began = time.perf_counter()
    compiled = [compile_query(query, text) for query, text in parsed]
    compile_s = time.perf_counter() - began
    graphs = [_join_graph(query) for query in compiled]
    began = time.perf_counter()
    for graph in graphs:
        canonicalize(graph)
    canonicalize_s = time.perf_counter() - began
    return {
        "parse_us": parse_s,
        "compile_us": compile_s - canonicalize_s,
        "canonicalize_us": canonicalize_s,
    }


def _join_graph(query: CompiledQuery) -> JoinGraph:
    """The query's join graph again, with the digests of definitions in their place."""
    template, instance = query.template, query.group.instance
    vertices = zip(template.blocks, template.parents, map(str, instance.variables), strict=True)
    return JoinGraph(tuple(Vertex(*vertex) for vertex in vertices), instance.joins)


def _stretches(loaded: Loaded) -> list[tuple[int, float, float]]:
    """(queries taken, seconds since the start, queries a second since the row before).

    Texts may be taken many at a time: a stretch is as long as it needs to be for its rate to mean something.
    """
    kept = [(0, 0.0)]
    for count, seconds in loaded.marks[:-1]:
        if min(seconds - kept[-1][1], loaded.load_s - seconds) > loaded.load_s / 30:
            kept.append((count, seconds))
    kept.append(loaded.marks[-1])
    return [(n, s, (n - before) / (s - began)) for (before, began), (n, s) in pairwise(kept)]
