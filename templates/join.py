"""The joins of a batch, in Spark SQL: one plan for all queries, whatever their number.

New witnesses are joined with all witnesses, once per distinct edge; other comparisons are checked on the pairs of
documents that equality or time has found; what that says of two blocks of a longer query (``links``) is joined with
what earlier batches found, block by block.  The statements' texts are fixed; what queries ask for are rows (``probe``,
``assemble``).  Every join of values but the last sends its small side to all executors, and links meet by a shuffle,
so a batch has the same number of jobs whatever is asked.

Law: a matched edge is one of a pair of documents of which one is new and neither is late; every such pair that some
group's windows allow, and that has all edges of an instance or link, has all its rows here.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession

from xscl.arrow import spark_schema
from xscl.templates.assemble import FOUND_SCHEMA, REQUEST_SCHEMA, assembled_batches, extend_batches, start_batches
from xscl.templates.probe import CHECK_SCHEMA, CLOSE, PROBE_SCHEMA, TINY, check_batches, probe_batches
from xscl.templates.results import RESULT_SCHEMA
from xscl.templates.worker import result_batches

__all__ = ["assembled", "matched_edges", "resolved"]

# Two new documents meet when the left one asks, so the right one does not ask for new partners again.  A witness
# without a value has hash 0 and NULL for its value and function: edges of time alone are the same join.
_EQUAL = """
select /*+ BROADCAST(p) */
       p.edge, p.checked,
       if(p.new_left, p.docid, w.docid) as d1, if(p.new_left, w.docid, p.docid) as d2,
       if(p.new_left, p.item, w.item) as i1, if(p.new_left, w.item, p.item) as i2,
       if(p.new_left, p.ts, w.ts) as t1, if(p.new_left, w.ts, p.ts) as t2,
       if(p.new_left, p.place, w.place) as p1, if(p.new_left, w.place, p.place) as p2,
       if(p.new_left, p.node, w.node) as n1, if(p.new_left, w.node, p.node) as n2,
       if(p.new_left, p.chain, w.chain) as c1, if(p.new_left, w.chain, p.chain) as c2,
       cast(null as string) as v1, cast(null as string) as v2
from {witness} w join {probe} p
  on w.h = p.h and w.var = p.pvar and w.fn <=> p.pfn and w.strval <=> p.strval
where not p.single and not w.late and w.item <> p.item
  and (not w.fresh or p.new_left)
  and if(p.new_left, w.ts - p.ts, p.ts - w.ts) between p.lo and p.hi
"""

_SINGLE = """
select edge, docid as d1, cast(null as bigint) as d2, item as i1, cast(null as bigint) as i2,
       ts as t1, cast(null as bigint) as t2, place as p1, cast(null as string) as p2,
       node as n1, node as n2, chain as c1, chain as c2, cast(null as string) as v1, cast(null as string) as v2
from {probe} where single
"""

_CHECKED = "select distinct edge, d1, d2, i1, i2, t1, t2, p1, p2 from {equal} where checked"

_CHECK_LEFT = """
select /*+ BROADCAST(q) */ q.*, w.node as n1, w.chain as c1, w.strval as value, w.num as number
from {witness} w join {checks} q on w.docid = q.d1 and w.var = q.lvar and w.fn = q.lfn
"""
# Numbers are compared exactly by whoever reads this (``resolve``) where they are too close for doubles to tell.
_CHECK = f"""
with met as (
  select /*+ BROADCAST(q) */
         q.*, w.node as n2, w.chain as c2, w.strval as other, q.f * w.num + q.add as line,
         coalesce(abs(q.number - (q.f * w.num + q.add)) <= {CLOSE} * (abs(q.number) + abs(q.f * w.num) + abs(q.add))
                    or least(abs(q.number), abs(w.num), abs(q.f * w.num)) < {TINY}, true) as close
  from {{witness}} w join {{left}} q on w.docid = q.d2 and w.var = q.rvar and w.fn = q.rfn
)
select edge, d1, d2, i1, i2, t1, t2, p1, p2, n1, n2, c1, c2,
       if(numbers and close, value, null) as v1, if(numbers and close, other, null) as v2
from met
where case when numbers then
        close or case op when '<' then number < line when '<=' then number < line
                         when '>' then number > line when '>=' then number > line else op = '!=' end
      else case op when '!=' then value <> other when '<' then value < other when '<=' then value <= other
                   when '>' then value > other when '>=' then value >= other end
      end
"""

_SIDES = """
select link, members, nodes, fresh, side, member.docid as doc
from {links} lateral view posexplode(members) m as side, member
"""
_MEETING = """
select /*+ SHUFFLE_HASH(l) */ r.*, l.members as link_members, l.nodes as link_nodes, l.fresh
from {requests} r left join {sides} l on l.link = r.link and l.side = r.side and l.doc = r.doc
"""


def matched_edges(spark: SparkSession, *, fresh: DataFrame, earlier: DataFrame, program_path: str) -> DataFrame:
    """Matched edges of all pairs with a new document: the edge, its pair, nodes, chains and, if close, numbers.

    ``fresh`` are the witnesses of the new documents, ``earlier`` those of all that were there before.
    """

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return probe_batches(program_path, batches)

    def check(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return check_batches(program_path, batches)

    asked = fresh.mapInArrow(probe, spark_schema(PROBE_SCHEMA))
    witness = spark.sql(
        "select *, false as fresh from {earlier} union all select *, true as fresh from {fresh}",
        earlier=earlier,
        fresh=fresh,
    )
    equal = spark.sql(_EQUAL, witness=witness, probe=asked)
    single = spark.sql(_SINGLE, probe=asked)
    pairs = spark.sql(_CHECKED, equal=equal)
    checks = pairs.mapInArrow(check, spark_schema(CHECK_SCHEMA))
    left = spark.sql(_CHECK_LEFT, witness=witness, checks=checks)
    checked = spark.sql(_CHECK, witness=witness, left=left)
    return equal.drop("checked").unionByName(single).unionByName(checked)


def resolved(matched: DataFrame, program_path: str, origin: int) -> DataFrame:
    """Rows of ``RESULT_SCHEMA``: the matched edges of each pair brought together and resolved on the executors.

    ``origin`` is that of part 0 of the batch; every partition is a part.
    """

    def resolve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return result_batches(program_path, batches, origin + _partition())

    together = matched.repartition("d1", "d2").sortWithinPartitions("d1", "d2")
    return together.mapInArrow(resolve, spark_schema(RESULT_SCHEMA))


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def assembled(
    spark: SparkSession, *, fresh: DataFrame, earlier: DataFrame, program_path: str, rounds: int, origin: int
) -> DataFrame:
    """Rows of R_out and matches of queries of three and more blocks that have a new row of a link.

    ``fresh`` are the rows of links of this batch, ``earlier`` those of all batches before; the statement grows with the
    most links that a query has, never with the number of queries.
    """

    def start(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return start_batches(program_path, batches)

    def extend(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return extend_batches(program_path, batches)

    def assemble(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return assembled_batches(program_path, batches, origin + _partition())

    names = ("link", "members", "nodes")
    links = spark.sql(
        "select *, true as fresh from {fresh} union all select *, false as fresh from {earlier}",
        fresh=fresh.select(*names),
        earlier=earlier.select(*names),
    )
    sides = spark.sql(_SIDES, links=links)
    found = fresh.select(*names).mapInArrow(start, spark_schema(REQUEST_SCHEMA))
    for _ in range(rounds):
        met = spark.sql(_MEETING, requests=found, sides=sides)
        found = met.mapInArrow(extend, spark_schema(REQUEST_SCHEMA))
    named = spark.sql(
        "select assembly, transform(members, m -> m.docid) as docs, members, nodes from {found}", found=found
    )
    together = named.repartition("assembly", "docs").sortWithinPartitions("assembly", "docs")
    return together.select(*FOUND_SCHEMA.names).mapInArrow(assemble, spark_schema(RESULT_SCHEMA))
