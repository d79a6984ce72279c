"""``xscl bench views``: the thesis' materialised views R_vj, R_L, R_R against plain statements (Figures 6.14, 6.15).

R_vj has the pairs of nodes of a batch's documents (right) and of all documents (left) with equal values, R_L and R_R
the facts of R_bin on the left and on the right that end in such a node, with its value.  Then each statement reads
these instead of R_doc, and R_bin only for edges between inner nodes.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from xscl.bench.baselines import Estimate, Relations, SparkRelations, digest, engine_digests
from xscl.bench.documents import FAMILY, family_documents, thesis_pair
from xscl.bench.engines import Run, copy_home, count_queries, open_engine, queries_of_groups, register, run, take
from xscl.bench.plot import Plot
from xscl.bench.report import Report, Value, rounded
from xscl.bench.workload import Schema, thesis_queries, three_level, two_level
from xscl.engine import Engine
from xscl.session import start_session
from xscl.templates.template import Template

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Sizes", "measure", "views_text"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    queries: int
    state: int
    batch: int
    statements: int | None
    """Templates of as many joins whose statement is measured; None: all."""
    repetitions: int


_FULL = Sizes(100_000, 10_000, 1_000, None, 3)
_QUICK = Sizes(300, 500, 50, 1, 1)


@dataclass(frozen=True, slots=True)
class _Level:
    """One schema and one kind of documents."""

    schema: str
    documents: str
    templates: int
    groups: int
    engine_s: float
    engine_uncached_s: float
    hit_rate: float | None
    """Of the engine's own cache of slices in the batch; None if nothing was looked up."""
    plain: Estimate
    materialise_s: float
    views: Estimate
    rows: Mapping[str, int]
    """Of the views."""
    digest: str
    equal: bool

    @property
    def views_s(self) -> float:
        return self.materialise_s + self.views.seconds

    def row(self) -> dict[str, Value]:
        return {
            "schema": self.schema,
            "documents": self.documents,
            "templates": self.templates,
            "groups": self.groups,
            "plain_s": rounded(self.plain.seconds),
            "views_s": rounded(self.views_s),
            "speedup": rounded(self.plain.seconds / self.views_s),
            "materialise_s": rounded(self.materialise_s),
            "engine_s": rounded(self.engine_s),
            "engine_uncached_s": rounded(self.engine_uncached_s),
            "cache_hit_rate": None if self.hit_rate is None else rounded(self.hit_rate),
            **{f"rows_of_{name}": rows for name, rows in self.rows.items()},
            "statements_run_whole": self.plain.measured,
            "results_digest": self.digest,
        }


_LINES: dict[str, Callable[[_Level], float]] = {
    "plain": lambda level: level.plain.seconds,
    "views": lambda level: level.views_s,
    "engine": lambda level: level.engine_s,
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
    """Evaluate the statements of both schemas with and without views, on a pair of documents and on a batch."""
    sizes = _QUICK if quick else _FULL
    sizes = replace(
        sizes, queries=queries or sizes.queries, state=items or sizes.state, batch=batch_docs or sizes.batch
    )
    spark = start_session()
    levels: list[_Level] = []
    for name, schema in (("two-level", two_level()), ("three-level", three_level())):
        for documents in ("pair", "batch"):
            say(f"{sizes.queries:,} queries, {name}, {documents}")
            with tempfile.TemporaryDirectory(prefix="xscl-bench-") as folder:
                levels.append(_level(name, schema, documents, sizes, seed, spark, Path(folder)))
    last = levels[-1]
    figures: dict[str, Value] = {
        key: value for key, value in last.row().items() if key not in ("schema", "documents", "results_digest")
    }
    for level in levels[:-1]:
        prefix = f"{level.schema.replace('-', '_')}_{level.documents}"
        figures |= {f"{prefix}_{name}": level.row()[name] for name in ("plain_s", "views_s", "speedup")}
    figures |= {"results_digest": last.digest, "digest_equal": all(level.equal for level in levels)}
    return Report(
        bench="views",
        settings={**asdict(sizes), "seed": seed},
        figures=figures,
        table=tuple(level.row() for level in levels),
        plot=Plot(
            title=f"{sizes.queries:,} queries: statements with and without materialised views",
            x="templates",
            y="seconds",
            lines={
                f"{documents}: {label}": tuple(
                    (level.templates, value(level)) for level in levels if level.documents == documents
                )
                for documents in ("pair", "batch")
                for label, value in _LINES.items()
            },
            log_y=True,
        ),
        notes=(
            "`views_s` has the time in which the views are made and cached. Statements over many documents read as "
            "many rows of R_T as fit a stated amount of work, both kinds the same, and their time is extrapolated "
            "along a line; `statements_run_whole` says how many were not.",
            "`engine_s` is one batch of the engine, the second of its kind in the process; `engine_uncached_s` the "
            "same with a cache of no bytes, which went before.",
        ),
    )


def _level(
    name: str, schema: Schema, documents: str, sizes: Sizes, seed: int, spark: SparkSession, folder: Path
) -> _Level:
    base = folder / "base"
    with open_engine(base, spark) as engine:
        register(engine, thesis_queries(schema, sizes.queries, seed=seed))
        templates, groups = count_queries(engine)
    batches = {}
    # The one with its cache comes last, because the statements read the relations of its home.
    for cache_bytes in (0, None):
        home = copy_home(base, folder / f"home-{cache_bytes}")
        with open_engine(home, spark, cache_bytes=cache_bytes) as engine:
            take(engine, schema.channel, [(0, thesis_pair(schema, 0)[0])])
            run(engine)
            last = batches[cache_bytes] = _batch(engine, schema, documents, sizes, seed)
            if cache_bytes is None:
                relations = Relations.of(engine, last, folder / "relations")
                asked = set(queries_of_groups(engine).values())
                expected = engine_digests(engine, relations.templates, asked, last.first, last.last)
    tables = SparkRelations(spark, relations)
    plain = tables.plain_statements(repetitions=sizes.repetitions, most=sizes.statements)
    began = time.perf_counter()
    rows = {view: tables.materialise(view, text) for view, text in VIEWS.items()}
    materialise_s = time.perf_counter() - began
    texts = {template.id: views_text(template) for template in relations.templates}
    views = tables.statements(texts, repetitions=sizes.repetitions, most=sizes.statements)
    tables.close()
    return _Level(
        schema=name,
        documents=documents,
        templates=templates,
        groups=groups,
        engine_s=batches[None].seconds,
        engine_uncached_s=batches[0].seconds,
        hit_rate=_hit_rate(batches[None]),
        plain=plain,
        materialise_s=materialise_s,
        views=views,
        rows=rows,
        digest=digest(expected),
        equal=plain.agrees(expected) and views.agrees(expected),
    )


def _batch(engine: Engine, schema: Schema, documents: str, sizes: Sizes, seed: int) -> Run:
    """The last batch: d2 of the second pair, or the second batch over the state."""
    if documents == "pair":
        parts = [[text] for text in thesis_pair(schema, 1)]
    else:
        families = max(1, sizes.state // FAMILY)
        parts = [
            list(family_documents(schema, count, families=families, seed=seed + number, run=f"run {number}"))
            for number, count in enumerate((sizes.state, sizes.batch, sizes.batch))
        ]
    at = 1
    for part in parts:
        take(engine, schema.channel, enumerate(part, start=at))
        at += len(part)
        last = run(engine)
    return last


def _hit_rate(batch: Run) -> float | None:
    """Values whose rows were in the engine's cache by values asked for."""
    asked = sum(report.slices_asked for report in batch.reports)
    return sum(report.slices_found for report in batch.reports) / asked if asked else None


# -- views ----------------------------------------------------------------------------------------------------------

VIEWS = {
    "r_vj": """
select l.docid as docid1, l.node as node1, l.fn as fn1, r.docid as docid2, r.node as node2, r.fn as fn2, l.strval as s
from r_doc l join r_docw r on l.strval = r.strval where l.docid <> r.docid""",
    "r_l": """
select b.docid, b.var1, b.var2, b.node1, b.node2, v.fn, v.s
from (select distinct docid1, node1, fn1 as fn, s from r_vj) v
join r_bin b on b.docid = v.docid1 and b.node2 = v.node1""",
    "r_r": """
select b.docid, b.var1, b.var2, b.node1, b.node2, v.fn, v.s
from (select distinct docid2, node2, fn2 as fn, s from r_vj) v
join r_binw b on b.docid = v.docid2 and b.node2 = v.node2""",
}
"""In the order in which they are made."""


def views_text(template: Template) -> str:
    """The template's statement over the views, for templates of two blocks joined by equality, without ONCE.

    The first value join comes first and R_T after it, so that only what has an equal value meets R_T.
    """
    nodes: dict[int, str] = {}
    docids: dict[int, str] = {}
    joins: list[str] = []
    inner = {place for place, parent in enumerate(template.parents) if parent >= 0}
    shown: set[int] = set()

    def bind(relation: str, alias: str, lower: int, on: list[str], rt: list[str]) -> None:
        block, upper = template.blocks[lower], template.parents[lower] if lower in inner else lower
        rt += [f"{alias}.var1 = rt.var{upper + 1}", f"{alias}.var2 = rt.var{lower + 1}"]
        for known, key, column in ((docids, block, "docid"), (nodes, upper, "node1"), (nodes, lower, "node2")):
            name = f"{alias}.{column}"
            if known.setdefault(key, name) != name:
                on.append(f"{name} = {known[key]}")
        shown.add(lower)
        joins.append(f"{relation} as {alias}")

    clauses: list[str] = []
    for number, (left, right, _) in enumerate(template.joins, start=1):
        sides = (("l", left), ("r", right))
        on: list[str] = []
        rt: list[str] = []
        for side, place in sides:
            alias = f"{side}{number}"
            bind("r_r" if template.blocks[place] else "r_l", alias, place, on, rt)
            rt.append(f"{alias}.fn = rt.fn_{side}_{number}")
        equal = f"l{number}.s = r{number}.s"
        if number == 1:
            clauses += [joins[0], f"join {joins[1]} on {equal}", f"join rt_{template.id} as rt on {_all(rt)}"]
        else:
            first, second = (
                [text for text in (*on, *rt) if f"{side}{number}." in text.partition(" = ")[0]] for side in "lr"
            )
            clauses += [f"join {joins[-2]} on {_all(first)}", f"join {joins[-1]} on {_all([equal, *second])}"]
    for lower in sorted(inner - shown):
        on, rt = [], []
        bind("r_binw" if template.blocks[lower] else "r_bin", f"b{lower + 1}", lower, on, rt)
        clauses.append(f"join {joins[-1]} on {_all(on + rt)}")
    columns = ", ".join(f"{nodes[place]} as node{place + 1}" for place in range(template.width))
    return f"""
select distinct rt.qid, rt.`case`, d1.docid as docid1, d2.docid as docid2, {columns}
from {chr(10).join(clauses)}
join r_docts d1 on d1.docid = {docids[0]}
join r_doctsw d2 on d2.docid = {docids[1]}
where d1.docid > rt.sees_from and d2.docid > rt.sees_from and not d1.late and not d2.late and d1.item <> d2.item
and d2.ts - d1.ts between rt.lo_1_2 and rt.hi_1_2"""


def _all(conditions: list[str]) -> str:
    return " and ".join(conditions)
