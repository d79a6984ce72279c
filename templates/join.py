"""The value joins of a batch, in Spark SQL: one plan for all queries, whatever their number.

New witnesses are joined with all witnesses, once per distinct edge; unequal values are compared on the pairs of
documents that equality or time has found.  The statements' texts are fixed; what queries ask for are rows (``probe``).
Every join but the last sends its small side to all executors, so a batch has the same number of jobs whatever is asked.

Law: a row is a matched edge of a pair of documents of which one is new and neither is late; every such pair that some
group's windows allow, and that has all edges of an instance, has all its rows here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from xscl.arrow import spark_schema
from xscl.templates.probe import CHECK_SCHEMA, PROBE_SCHEMA, check_batches, probe_batches
from xscl.templates.resolve import RESULT_SCHEMA, result_batches

__all__ = ["matched_edges", "resolved"]

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
  on w.h = p.h and w.var = p.pvar and w.fn <=> p.pfn and w.strval <=> p.strval
where not p.single and not w.late and w.item <> p.item
  and (w.docid < {first} or p.new_left)
  and if(p.new_left, w.ts - p.ts, p.ts - w.ts) between p.lo and p.hi
"""

_SINGLE = """
select edge, docid as d1, cast(null as bigint) as d2, ts as t1, cast(null as bigint) as t2,
       place as p1, cast(null as string) as p2, node as n1, node as n2, chain as c1, chain as c2
from {probe} where single
"""

_CHECKED = "select distinct edge, d1, d2, t1, t2, p1, p2 from {equal} where checked"

_UNEQUAL_LEFT = """
select /*+ BROADCAST(q) */ q.*, w.node as n1, w.chain as c1, w.strval as value
from {witness} w join {checks} q on w.docid = q.d1 and w.var = q.lvar and w.fn = q.lfn
"""
_UNEQUAL = """
select /*+ BROADCAST(q) */
       q.edge, q.d1, q.d2, q.t1, q.t2, q.p1, q.p2, q.n1, w.node as n2, q.c1, w.chain as c2
from {witness} w join {left} q on w.docid = q.d2 and w.var = q.rvar and w.fn = q.rfn
where w.strval <> q.value
"""


def matched_edges(
    spark: SparkSession, *, fresh: DataFrame, witness: DataFrame, program_path: str, first: int
) -> DataFrame:
    """Matched edges (edge, d1, d2, t1, t2, p1, p2, n1, n2, c1, c2) of all pairs with a new document.

    ``fresh`` are the witnesses of the batch, whose documents are numbered from ``first``; ``witness`` all witnesses,
    the new ones included.
    """

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return probe_batches(program_path, batches)

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return check_batches(program_path, batches)

    asked = fresh.mapInArrow(probe, spark_schema(PROBE_SCHEMA))
    equal = spark.sql(_EQUAL, witness=witness, probe=asked, first=first)
    single = spark.sql(_SINGLE, probe=asked)
    pairs = spark.sql(_CHECKED, equal=equal)
    checks = pairs.mapInArrow(check, spark_schema(CHECK_SCHEMA))
    left = spark.sql(_UNEQUAL_LEFT, witness=witness, checks=checks)
    unequal = spark.sql(_UNEQUAL, witness=witness, left=left)
    return equal.drop("checked").unionByName(single).unionByName(unequal)


def resolved(matched: DataFrame, program_path: str) -> DataFrame:
    """Rows of ``RESULT_SCHEMA``: the matched edges of each pair brought together and resolved on the executors."""

    def resolve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return result_batches(program_path, batches)

    together = matched.repartition("d1", "d2").sortWithinPartitions("d1", "d2")
    return together.mapInArrow(resolve, spark_schema(RESULT_SCHEMA))
