"""``xscl bench views``: the thesis' materialised views R_vj, R_L, R_R against plain statements (Figures 6.14, 6.15).

R_vj has the pairs of nodes of a batch's documents (right) and of all documents (left) with equal values, R_L and R_R
the facts of R_bin on the left and on the right that end in such a node, with its value.  Then each statement reads
these instead of R_doc, and R_bin only for edges between inner nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xscl.bench.apart import watched
from xscl.bench.baselines import SparkRelations
from xscl.bench.bench import Bench, Case, Lab, Outcome, Result, Sizes, by_case, size
from xscl.bench.documents import family_parts, thesis_pair
from xscl.bench.engines import DRIVER, Run, new_base, on_copy, run_parts
from xscl.bench.plot import Axes
from xscl.bench.relations import Relations, all_digests, digest
from xscl.bench.report import Row
from xscl.bench.workload import Schema, thesis_queries, three_level, two_level
from xscl.engine import Engine
from xscl.templates.template import Template

__all__ = ["BENCH", "VIEWS", "views_text"]


@dataclass(frozen=True, slots=True)
class _Sizes(Sizes):
    queries: int = size(100_000, 300)
    items: int = size(10_000, 500)
    """Documents of the state."""
    batch: int = size(1_000, 50)
    statements: int | None = size(None, 1)
    """Templates with equally many joins whose statement is measured; None: all."""
    repetitions: int = size(3, 1)


@dataclass(frozen=True, slots=True)
class _Data:
    """Documents to join."""

    schema: Schema
    documents: str
    """``pair`` or ``batch``."""


def _prepare(lab: Lab[_Sizes]) -> Iterator[Case[_Data]]:
    queries = lab.sizes.queries
    for name, schema in (("two-level", two_level()), ("three-level", three_level())):
        base, counts = new_base(lab, queries, thesis_queries(schema, queries, seed=lab.seed))
        for documents in ("pair", "batch"):
            figures = {"schema": name, "documents": documents, **counts}
            yield Case(f"{name}, {documents}", _Data(schema, documents), figures, base)


def _batch(lab: Lab[_Sizes], case: Case[_Data], engine: Engine) -> Run:
    """Run the last batch: d2 of the second pair, or the second batch over the state."""
    schema, sizes = case.data.schema, lab.sizes
    if case.data.documents == "pair":
        documents = [thesis_pair(schema, 0)[0], *thesis_pair(schema, 1)]
        parts = iter([[document] for document in enumerate(documents)])
    else:
        parts = family_parts(schema, sizes.items, (sizes.batch, sizes.batch), seed=lab.seed)
        run_parts(engine, schema.channel, [[(0, thesis_pair(schema, 0)[0])]])
    return run_parts(engine, schema.channel, parts)[-1]


def _measure(lab: Lab[_Sizes], case: Case[_Data], engine: Engine) -> Outcome:
    """Measure the engine as it is, and the statements on the relations of its home."""
    sizes = lab.sizes
    batch = _batch(lab, case, engine)
    expected = all_digests(engine, batch)
    lab.say(f"{case.name}: statements")
    relations = Relations.of(engine, batch, lab.new_folder())
    tables = SparkRelations(lab.spark, relations)
    plain = tables.plain_statements(repetitions=sizes.repetitions, most=sizes.statements)
    with watched() as making:
        rows = {f"rows_of_{view}": tables.materialise(view, text) for view, text in VIEWS.items()}
    texts = {template.id: views_text(template) for template in relations.templates}
    views = tables.statements(texts, repetitions=sizes.repetitions, most=sizes.statements)
    tables.close()
    views_s = making.seconds + views.seconds
    return Outcome(
        figures={
            "plain_s": plain.seconds,
            "views_s": views_s,
            "speedup": plain.seconds / views_s,
            "materialise_s": making.seconds,
            "engine_s": batch.seconds,
            "engine_cpu_s": batch.cpu_s,
            **rows,
            "statements_run_whole": plain.measured,
        },
        digest=digest(expected),
        agrees=plain.agrees(expected) and views.agrees(expected),
    )


def _figures(_: _Sizes, results: Sequence[Result[_Data]]) -> Row:
    """Return the figures of the last case, and three with a prefix of each of the others."""
    *others, last = by_case(results)
    figures = {name: value for name, value in last.items() if name not in ("schema", "documents")}
    for row in others:
        prefix = f"{row['schema'].replace('-', '_')}_{row['documents']}"
        figures |= {f"{prefix}_{name}": row[name] for name in ("plain_s", "views_s", "speedup")}
    return figures


BENCH = Bench(
    name="views",
    sizes=_Sizes(),
    prepare=_prepare,
    variants=(on_copy(DRIVER, _measure),),
    table=by_case,
    figures=_figures,
    axes=Axes(
        "{s.queries:,} queries: statements with and without materialised views",
        x="templates",
        y="seconds",
        over="templates",
        lines={"plain": "plain_s", "views": "views_s", "engine": "engine_s"},
        by="documents",
        log_y=True,
    ),
    notes=(
        "`views_s` has the time in which the views are made and cached. Statements over many documents read as "
        "many rows of R_T as fit a stated amount of work, both kinds the same, and their time is extrapolated "
        "along a line; `statements_run_whole` says how many were not.",
        "`engine_s` is one batch of the engine.",
    ),
)


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
"""Views in the order in which they are made."""


def views_text(template: Template) -> str:
    """Write the template's statement over the views, for templates of two blocks joined by equality, without ONCE.

    The relations stand in the order in which they are to be joined.  The first value join comes first and R_T after
    it, so that only what has an equal value meets R_T.
    """
    blocks, parents = template.blocks, template.parents
    joined = {
        f"{side}{number}": place
        for number, (left, right, _) in enumerate(template.joins, start=1)
        for side, place in (("l", left), ("r", right))
    }
    inner = {
        f"b{place + 1}": place for place, parent in enumerate(parents) if parent >= 0 and place not in joined.values()
    }
    relations = [f"{'r_r' if blocks[place] else 'r_l'} as {alias}" for alias, place in joined.items()]
    relations.insert(2, f"rt_{template.id} as rt")
    relations += [f"{'r_binw' if blocks[place] else 'r_bin'} as {alias}" for alias, place in inner.items()]
    conditions = [f"l{number}.s = r{number}.s" for number in range(1, len(template.joins) + 1)]
    conditions += [f"{alias}.fn = rt.fn_{alias[0]}_{alias[1:]}" for alias in joined]
    docids: dict[int, str] = {}
    nodes: dict[int, str] = {}
    for alias, place in (joined | inner).items():
        upper = place if parents[place] < 0 else parents[place]
        conditions += [f"{alias}.var1 = rt.var{upper + 1}", f"{alias}.var2 = rt.var{place + 1}"]
        for known, key, column in ((docids, blocks[place], "docid"), (nodes, upper, "node1"), (nodes, place, "node2")):
            name = f"{alias}.{column}"
            if known.setdefault(key, name) != name:
                conditions.append(f"{name} = {known[key]}")
    columns = ", ".join(f"{nodes[place]} as node{place + 1}" for place in range(template.width))
    return f"""
select distinct rt.qid, rt.`case`, d1.docid as docid1, d2.docid as docid2, {columns}
from {", ".join(relations)}, r_docts d1, r_doctsw d2
where {" and ".join(conditions)} and d1.docid = {docids[0]} and d2.docid = {docids[1]}
and d1.docid > rt.sees_from and d2.docid > rt.sees_from and not d1.late and not d2.late and d1.item <> d2.item
and d2.ts - d1.ts between rt.lo_1_2 and rt.hi_1_2"""
