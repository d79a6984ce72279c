"""The value joins of a batch, in Spark SQL: one statement for all queries, whatever their number.

New witnesses are joined with all witnesses, once per distinct edge; unequal values are compared on the pairs of
documents that equality or time has found.  The statement's text is fixed, and what queries ask for are rows of
``edges``.

Law: a row is a matched edge of a pair of documents of which one is new and neither is late; every such pair that some
group's windows allow, and that has all edges of an instance, has all its rows here.
"""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from xscl.arrow import spark_schema
from xscl.templates.program import Program
from xscl.templates.resolve import RESULT_SCHEMA, result_batches

__all__ = ["edges_table", "matched_edges", "resolved"]

EDGES_SCHEMA = pa.schema(
    [
        ("edge", pa.int32()),
        ("kind", pa.string()),
        ("lvar", pa.int64()),
        ("lfn", pa.string()),
        ("rvar", pa.int64()),
        ("rfn", pa.string()),
        ("lo", pa.int64()),
        ("hi", pa.int64()),
        ("checked", pa.bool_()),
    ]
)

# Each new witness asks, once for each edge it takes part in, for its partner on the other side.
_PROBE = """
select e.edge, e.checked, e.lo, e.hi, true as new_left, e.rvar as var, e.rfn as fn,
       f.docid, f.ts, f.item, f.place, f.node, f.strval, f.h, f.chain
from {fresh} f join {edges} e on f.var = e.lvar and f.fn <=> e.lfn
where e.kind = 'EQ' and not f.late
union all
select e.edge, e.checked, e.lo, e.hi, false, e.lvar, e.lfn,
       f.docid, f.ts, f.item, f.place, f.node, f.strval, f.h, f.chain
from {fresh} f join {edges} e on f.var = e.rvar and f.fn <=> e.rfn
where e.kind = 'EQ' and not f.late
"""

# Two new documents meet when the left one asks, so the right one does not ask for new partners again.  A witness
# without a value has hash 0 and NULL for its value and function: edges of time alone are the same join.
_EQUAL = """
select /*+ BROADCAST(p) */
       p.edge, p.checked,
       if(p.new_left, p.docid, w.docid) as d1, if(p.new_left, w.docid, p.docid) as d2,
       if(p.new_left, p.ts, w.ts) as t1, if(p.new_left, w.ts, p.ts) as t2,
       if(p.new_left, p.place, w.place) as p1, if(p.new_left, w.place, p.place) as p2,
       if(p.new_left, p.node, w.node) as n1, if(p.new_left, w.node, p.node) as n2,
       if(p.new_left, p.chain, w.chain) as c1, if(p.new_left, w.chain, p.chain) as c2
from {witness} w join {probe} p
  on w.h = p.h and w.var = p.var and w.fn <=> p.fn and w.strval <=> p.strval
where not w.late and w.item <> p.item
  and (w.docid < {first} or p.new_left)
  and if(p.new_left, w.ts - p.ts, p.ts - w.ts) between p.lo and p.hi
"""

_SINGLE = """
select e.edge, false as checked, f.docid as d1, cast(null as bigint) as d2, f.ts as t1, cast(null as bigint) as t2,
       f.place as p1, cast(null as string) as p2, f.node as n1, f.node as n2, f.chain as c1, f.chain as c2
from {fresh} f join {edges} e on f.var = e.lvar and f.fn <=> e.lfn
where e.kind = 'ONE'
"""

_UNEQUAL = """
select e.edge, false as checked, q.d1, q.d2, q.t1, q.t2, q.p1, q.p2, l.node as n1, r.node as n2, l.chain as c1,
       r.chain as c2
from (select distinct d1, d2, t1, t2, p1, p2 from {equal} where checked) q
  join {witness} l on l.docid = q.d1
  join {edges} e on e.kind = 'NE' and e.lvar = l.var and e.lfn = l.fn
  join {witness} r on r.docid = q.d2 and r.var = e.rvar and r.fn = e.rfn
where l.strval <> r.strval
"""


def edges_table(program: Program) -> pa.Table:
    """The program's edges as rows."""
    rows = [
        {
            "edge": edge.number,
            "kind": edge.kind,
            "lvar": edge.lvar,
            "lfn": edge.lfn,
            "rvar": edge.rvar,
            "rfn": edge.rfn,
            "lo": edge.lo,
            "hi": edge.hi,
            "checked": edge.checked,
        }
        for edge in program.edges
    ]
    return pa.Table.from_pylist(rows, schema=EDGES_SCHEMA)


def matched_edges(
    spark: SparkSession, *, fresh: DataFrame, witness: DataFrame, edges: DataFrame, first: int
) -> tuple[DataFrame, DataFrame]:
    """Matched edges (edge, d1, d2, t1, t2, p1, p2, n1, n2, c1, c2) of all pairs with a new document.

    ``fresh`` are the witnesses of the batch, whose documents are numbered from ``first``; ``witness`` all witnesses,
    the new ones included.  The second result is an intermediate relation that is used twice: the caller caches it
    before the first is computed and releases it afterwards.
    """
    probe = spark.sql(_PROBE, fresh=fresh, edges=edges)
    equal = spark.sql(_EQUAL, witness=witness, probe=probe, first=first).cache()
    single = spark.sql(_SINGLE, fresh=fresh, edges=edges)
    unequal = spark.sql(_UNEQUAL, equal=equal, witness=witness, edges=edges)
    return equal.unionByName(single).unionByName(unequal).drop("checked"), equal


def resolved(matched: DataFrame, program_path: str) -> DataFrame:
    """Rows of ``RESULT_SCHEMA``: the matched edges of each pair brought together and resolved on the executors."""

    def resolve(batches):  # type: ignore[no-untyped-def]
        return result_batches(program_path, batches)

    together = matched.repartition("d1", "d2").sortWithinPartitions("d1", "d2")
    return together.mapInArrow(resolve, spark_schema(RESULT_SCHEMA))
