"""``xscl bench register``: what it costs to register queries, in bulk, one by one, and one more on top of many; and to
start over them.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, ParamSpec

import sqlalchemy as sa

from xscl.base.errors import EngineError
from xscl.base.values import digest_text
from xscl.bench.apart import peak_memory, run_apart, watched
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, Variant, by_step, size
from xscl.bench.plot import Axes
from xscl.bench.report import Row
from xscl.bench.workload import SCHEMAS, Windows, count_queries, require_all, thesis_queries
from xscl.catalog.catalog import Catalog
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.kept_groups import KeptGroups
from xscl.language.compile import compile_query
from xscl.language.compiled import CompiledQuery
from xscl.language.syntax.parser import parse_query
from xscl.planning.planner import Planner
from xscl.registry.query_list import QueryFilter, list_queries
from xscl.registry.registry import Registry
from xscl.store.home import Home, init_home, open_home
from xscl.templates.canonical import canonicalize
from xscl.templates.graph import JoinGraph, Vertex

__all__ = ["BENCH", "catalog_digest", "load", "start"]

_PAGE = 100
_MARKS = 20

P = ParamSpec("P")

_Texts = Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(100_000, 5_000)
    sample: int = size(1_000, 300)
    """Queries that are registered in bulk and one by one, at most."""
    one_more: int = size(50, 20)
    """Queries that are added one by one to all the others."""


def _texts(workload: str, windows: str, seed: int) -> Iterator[tuple[str, str]]:
    """Yield (name, text) without end."""
    return thesis_queries(SCHEMAS[workload], seed=seed, windows=Windows.parse(windows))


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Texts]]:
    asked, sizes = lab.options, lab.sizes
    texts = _texts(asked.workload, asked.windows, asked.seed)
    sample = list(islice(texts, min(sizes.queries, sizes.sample)))
    yield Case(f"{sizes.queries:,} queries, {len(sample):,} as a sample", sample)


# -- the load, in a process of its own -------------------------------------------------------------------------


def _load_apart(lab: Lab[_Sizes], _: Case[_Texts]) -> Outcome:
    asked, sizes = lab.options, lab.sizes
    settings = {"seed": asked.seed, "workload": asked.workload, "windows": asked.windows}
    loaded = run_apart(load, {"queries": sizes.queries, "one_more": sizes.one_more, **settings}, lab.say)
    if loaded.pop("spark_imported"):
        raise EngineError("XSCL_BENCH", "registration imported Spark, which it must do without")
    one_more_s = loaded.pop("one_more_s")
    return Outcome(
        rows=[
            {"queries": count, "seconds": seconds, "queries_per_s": rate}
            for count, seconds, rate in _stretches(loaded.pop("marks"))
        ],
        figures={
            **loaded,
            "queries_per_s": sizes.queries / loaded["load_s"],
            "start_us_a_group": loaded["start_cpu_s"] / loaded["groups"] * 1e6,
            "one_more_ms": statistics.median(one_more_s) * 1e3,
            "one_more_first_ms": one_more_s[0] * 1e3,
            "spark_jobs": 0,
        },
    )


def load(
    say: Callable[[str], None], *, queries: int, seed: int, workload: str, windows: str, one_more: int
) -> dict[str, Any]:
    """Load queries in bulk into a fresh home, and look at the outcome; seconds are without the making of the texts.

    The greatest memory of this process is that of the load and of nothing before it.

    Raises:
        EngineError: a query was refused.
    """
    with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
        home = init_home(Path(folder) / "home")
        source = _texts(workload, windows, seed)
        loaded = _load_all(home, list(islice(source, queries)), say)
        # Opened again, so that a query is added as by somebody who comes later: nothing is known of the others.
        home.catalog.close()
        home = open_home(home.root)
        registry = Registry(home.catalog)
        started = run_apart(start, {"home": str(home.root)}, say)
        one_more_s = [_seconds(registry.register, text, name=name) for name, text in islice(source, one_more)]
        middle = QueryFilter(after=f"q{queries // 2}", limit=_PAGE)
        some = QueryFilter(like="q*7", channel=SCHEMAS[workload].channel, limit=_PAGE)
        loaded |= {
            **home.catalog.ask(count_queries),
            **started,
            "one_more_s": one_more_s,
            "list_page_ms": _page_ms(home, middle),
            "filter_page_ms": _page_ms(home, some),
            "catalog_bytes": sum(path.stat().st_size for path in home.root.glob("catalog.db*")),
            "spark_imported": "pyspark" in sys.modules,
        }
        home.catalog.close()
    return loaded


def start(_: Callable[[str], None], *, home: str) -> dict[str, Any]:
    """Plan all queries of a home, as a process does before its first batch: what documents meet is ready then."""
    opened, began = open_home(home), time.process_time()
    place = opened.catalog.ask(read_last_places)[1]
    planner = Planner(opened.catalog, opened.folder("programs"))
    try:
        plan = planner.plan(place, place + 1)
        if plan is None:
            raise EngineError("XSCL_BENCH", "a process that starts found no queries")
        planner.reach.table(plan.program, place)
        plan.automaton()
        return {"start_cpu_s": time.process_time() - began, "start_rss_bytes": peak_memory()}
    finally:
        planner.close()
        opened.catalog.close()


def _load_all(home: Home, texts: _Texts, say: Callable[[str], None]) -> dict[str, Any]:
    """Load queries in bulk; the memory is the greatest so far."""
    marks: list[tuple[int, float]] = []
    with watched() as watch:
        registry = Registry(home.catalog, kept=KeptGroups(home.folder("programs")))
        outcomes = registry.register_many(_marked(texts, marks, say))
    rss_bytes = peak_memory()
    require_all(outcomes)
    marks.append((len(texts), watch.seconds))
    return {"load_s": watch.seconds, "cpu_s": watch.cpu_s, "rss_bytes": rss_bytes, "marks": marks}


def _seconds(work: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> float:
    began = time.perf_counter()
    work(*args, **kwargs)
    return time.perf_counter() - began


def _marked(texts: _Texts, marks: list[tuple[int, float]], say: Callable[[str], None]) -> Iterator[tuple[str, str]]:
    """Hand texts out, and note (queries taken, seconds since the start) on the way."""
    began = time.perf_counter()
    step = max(1, len(texts) // _MARKS)
    for taken, text in enumerate(texts, start=1):
        yield text
        if taken % step == 0 and taken < len(texts):
            marks.append((taken, time.perf_counter() - began))
            say(f"{taken:,} of {len(texts):,} queries in {marks[-1][1]:.1f} s")


def _page_ms(home: Home, wanted: QueryFilter) -> float:
    """Read a page of the list of queries five times: the median."""

    def read() -> None:
        assert list(list_queries(home.catalog, wanted))

    return statistics.median(_seconds(read) for _ in range(5)) * 1e3


def _stretches(marks: Sequence[tuple[int, float]]) -> list[tuple[int, float, float]]:
    """Return (queries taken, seconds since the start, queries a second since the row before).

    Texts may be taken many at a time: a stretch is as long as it needs to be for its rate to mean something.
    """
    *inner, last = marks
    kept = [(0, 0.0)]
    for count, seconds in inner:
        if min(seconds - kept[-1][1], last[1] - seconds) > last[1] / 30:
            kept.append((count, seconds))
    return [(n, s, (n - before) / (s - began)) for (before, began), (n, s) in pairwise([*kept, last])]


# -- the sample, in this process -------------------------------------------------------------------------------


def _one_by_one(lab: Lab[_Sizes], case: Case[_Texts]) -> Outcome:
    def register(registry: Registry) -> None:
        for name, text in case.data:
            registry.register(text, name=name)

    # The first run fills what later ones find filled, whichever way they go.
    _registered(lab, lambda registry: require_all(registry.register_many(case.data)))
    seconds, digest = _registered(lab, register)
    return Outcome({"one_at_a_time_per_s": len(case.data) / seconds}, digest=digest)


def _in_bulk(lab: Lab[_Sizes], case: Case[_Texts]) -> Outcome:
    runs = [_registered(lab, lambda registry: require_all(registry.register_many(case.data))) for _ in range(3)]
    bulk_s = statistics.median(seconds for seconds, _ in runs)
    digests = {digest for _, digest in runs}
    return Outcome({"bulk_sample_per_s": len(case.data) / bulk_s}, digest=runs[0][1], agrees=len(digests) == 1)


def _registered(lab: Lab[_Sizes], register: Callable[[Registry], None]) -> tuple[float, str]:
    """Register in a fresh home: seconds, and a digest of the catalogue."""
    home = init_home(lab.new_folder() / "home")
    seconds = _seconds(register, Registry(home.catalog))
    digest = catalog_digest(home.catalog)
    home.catalog.close()
    return seconds, digest


def catalog_digest(catalog: Catalog) -> str:
    """Digest everything that registration writes, but for its time: equal catalogues have equal digests."""
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


def _stages(_: Lab[_Sizes], case: Case[_Texts]) -> Outcome:
    """Time what comes before the catalogue, in microseconds a query: medians of three."""
    runs = [_stage_times(case.data) for _ in range(3)]
    return Outcome({name: statistics.median(run[name] for run in runs) / len(case.data) * 1e6 for name in runs[0]})


def _stage_times(texts: _Texts) -> dict[str, float]:
    began = time.perf_counter()
    parsed = [(parse_query(text), text) for _, text in texts]
    parsed_at = time.perf_counter()
    compiled = [compile_query(query, text) for query, text in parsed]
    compiled_at = time.perf_counter()
    graphs = [_join_graph(query) for query in compiled]
    labelling = time.perf_counter()
    for graph in graphs:
        canonicalize(graph)
    canonicalize_s = time.perf_counter() - labelling
    compile_s = compiled_at - parsed_at - canonicalize_s
    return {"parse_us": parsed_at - began, "compile_us": compile_s, "canonicalize_us": canonicalize_s}


def _join_graph(query: CompiledQuery) -> JoinGraph:
    """Make the query's join graph again, with the digests of definitions in their place."""
    template, instance = query.template, query.group.instance
    vertices = zip(template.blocks, template.parents, map(str, instance.variables), strict=True)
    return JoinGraph(tuple(Vertex(*vertex) for vertex in vertices), instance.joins)


def _figures(_: _Sizes, results: Sequence[Result[_Texts]]) -> Row:
    figures = results[0].figures
    bulk_per_s = figures["bulk_sample_per_s"]
    stages_us = sum(results[0].outcomes["stages"].figures.values())
    return {
        **figures,
        "speedup": bulk_per_s / figures["one_at_a_time_per_s"],
        "catalogue_us": max(0.0, 1e6 / bulk_per_s - stages_us),
    }


BENCH = Bench(
    name="register",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(
        Variant("load", _load_apart),
        Variant("one by one", _one_by_one),
        Variant("in bulk", _in_bulk),
        Variant("stages", _stages),
    ),
    table=by_step,
    figures=_figures,
    axes=Axes(
        "Registration of {s.queries:,} queries",
        x="queries registered",
        y="queries a second",
        over="queries",
        lines={"in bulk": "queries_per_s"},
    ),
    notes=(
        "The rates one by one and of `bulk_sample_per_s`, their ratio and the stages are those of the first "
        "{s.sample:,} queries; nothing is extrapolated.",
    ),
    spark=False,
    settings=("seed", "workload", "windows"),
)
