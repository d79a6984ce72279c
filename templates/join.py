"""The joins of a batch, in Spark SQL: one plan for all queries, whatever their number.

New witnesses are joined with all witnesses, once per enumerated edge (``order``), and sent to all executors for that.
Everything after is one relation that flows on by shuffles, in one job: matched edges, beside them what is to be
verified on their pairs, which two outer joins look up; then the rows of each pair together, resolved and written.  Rows
of links, which are parts of longer queries (``links``), are joined with those of earlier batches, block by block, in
one more job.  The statements' texts are fixed; what queries ask for are rows (``probe``, ``assembly_tasks``).

Law: a matched edge belongs to a pair of documents; one of them is new and neither is late; every such pair that some
group's windows allow, and that has all edges of an instance or link, has all its rows here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from xscl.base.arrow_schemas import spark_schema
from xscl.templates.assembly_tasks import (
    ASSEMBLED_SCHEMA,
    REQUEST_SCHEMA,
    assembled_batches,
    extend_batches,
    start_batches,
)
from xscl.templates.order import JoinOrder
from xscl.templates.probe import (
    ASKED_SCHEMA,
    CLOSE,
    MATCHED_SCHEMA,
    PROBE_SCHEMA,
    TINY,
    asked_batches,
    probe_batches,
    single_batches,
)
from xscl.templates.program import Program
from xscl.templates.results import RESULT_SCHEMA
from xscl.templates.value_counts import load_partners
from xscl.templates.worker import result_batches

__all__ = ["assembled", "matched_edges", "resolved"]

# Two new documents meet when the left one asks, so the right one does not ask for new partners again.  A witness
# without a value has hash 0 and NULL for its value and function: edges of time alone are the same join.  One whole
# number is found faster than a key of several columns; that is why the rest is compared inside of ``case``.
_EQUAL = """
select /*+ BROADCAST(p) */
       p.edge,
       if(p.new_left, p.docid, w.docid) as d1, if(p.new_left, w.docid, p.docid) as d2,
       if(p.new_left, p.item, w.item) as i1, if(p.new_left, w.item, p.item) as i2,
       if(p.new_left, p.ts, w.ts) as t1, if(p.new_left, w.ts, p.ts) as t2,
       if(p.new_left, p.place, w.place) as p1, if(p.new_left, w.place, p.place) as p2,
       coalesce(if(p.new_left, p.membership, w.membership), 0) as m1,
       coalesce(if(p.new_left, w.membership, p.membership), 0) as m2,
       if(p.new_left, p.node, w.node) as n1, if(p.new_left, w.node, p.node) as n2,
       if(p.new_left, p.chain, w.chain) as c1, if(p.new_left, w.chain, p.chain) as c2,
       cast(null as string) as v1, cast(null as string) as v2
from {witness} w join (select *, xxhash64(h, pvar, pfn) as key from {probe}) p on xxhash64(w.h, w.var, w.fn) = p.key
where not w.late and w.item <> p.item
  and (not w.fresh or p.new_left)
  and case when w.h = p.h and w.var = p.pvar and w.fn <=> p.pfn and w.strval <=> p.strval
        then if(p.new_left, w.ts - p.ts, p.ts - w.ts) end between p.lo and p.hi
"""

_VALUES = "select docid, var, fn, node, chain, strval, num from {witness} where not late and fn is not null"
# Matched edges ask for nothing: their keys are NULL but for the document, by which they are spread.
_LEFT = """
select /*+ MERGE(w) */ q.*, w.node as left_node, w.chain as left_chain, w.strval as value, w.num as number
from {asked} q left join {values} w on q.d1 = w.docid and q.lvar = w.var and q.lfn = w.fn
"""
# Numbers are compared exactly by whoever reads this (``resolve``) where they are too close for doubles to tell.
_VERIFIED = f"""
with met as (
  select /*+ MERGE(w) */
         q.*, w.node as right_node, w.chain as right_chain, w.strval as other, q.f * w.num + q.add as line,
         coalesce(abs(q.number - (q.f * w.num + q.add)) <= {CLOSE} * (abs(q.number) + abs(q.f * w.num) + abs(q.add))
                    or least(abs(q.number), abs(w.num), abs(q.f * w.num)) < {TINY}, true) as close
  from {{left}} q left join {{values}} w on q.d2 = w.docid and q.rvar = w.var and q.rfn = w.fn
)
select coalesce(verified, edge) as edge, d1, d2, i1, i2, t1, t2, p1, p2, m1, m2,
       coalesce(n1, left_node) as n1, coalesce(n2, right_node) as n2,
       coalesce(c1, left_chain) as c1, coalesce(c2, right_chain) as c2,
       if(numbers and close, value, null) as v1, if(numbers and close, other, null) as v2
from met
where verified is null or left_node is not null and right_node is not null and
      case when numbers then
        close or case op when '<' then number < line when '<=' then number < line
                         when '>' then number > line when '>=' then number > line else op = '!=' end
      else case op when '=' then value = other when '!=' then value <> other when '<' then value < other
                   when '<=' then value <= other when '>' then value > other when '>=' then value >= other end
      end
"""

_SIDES = """
select link, members, nodes, fresh, side, member.place, members[1 - side].place as other
from {links} lateral view posexplode(members) m as side, member
"""
_MEETING = """
select /*+ SHUFFLE_HASH(l) */ r.*, l.members as link_members, l.nodes as link_nodes, l.fresh
from {requests} r left join {sides} l
  on l.link = r.link and l.side = r.side and l.place = r.place and coalesce(l.other = r.other, true)
"""


def matched_edges(
    spark: SparkSession,
    *,
    fresh: DataFrame,
    witness: DataFrame,
    program: Program,
    program_path: str,
    order: JoinOrder,
    partners_path: str,
) -> DataFrame:
    """Return rows of ``MATCHED_SCHEMA``, in no order: those of all pairs with a new document, and of new documents
    alone.

    ``fresh`` are the witnesses of new documents; ``witness`` all witnesses with a column ``fresh`` that tells the new
    ones, which are among them.  Parts that no query asks for are left out, by kinds of edges and not by their number.
    """

    def probe(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return probe_batches(program_path, order, load_partners(partners_path), batches)

    def single(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return single_batches(program_path, batches)

    kinds = {program.edges[edge].key.kind for edge in order.enumerated}
    frames = []
    if "ONE" in kinds:
        frames.append(fresh.mapInArrow(single, spark_schema(MATCHED_SCHEMA)))
    if "EQ" in kinds or not frames:
        asked = fresh.mapInArrow(probe, spark_schema(PROBE_SCHEMA))
        equal = spark.sql(_EQUAL, witness=witness, probe=asked)
        frames.append(_verified(spark, equal, witness, program, program_path, order) if order.verified else equal)
    return reduce(DataFrame.unionByName, frames)


def _verified(
    spark: SparkSession, matched: DataFrame, witness: DataFrame, program: Program, program_path: str, order: JoinOrder
) -> DataFrame:
    """Add the edges that are verified on the pairs of matched edges and hold."""

    def ask(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return asked_batches(program_path, order, batches)

    keys = [program.edges[edge].key for others in order.verified.values() for edge in others]
    variables = {key.lvar for key in keys} | {key.rvar for key in keys}
    # One relation for both look-ups, so that it is shuffled once.
    values = spark.sql(_VALUES, witness=witness.where(col("var").isin(variables)))
    asked = _by_pair(matched).mapInArrow(ask, spark_schema(ASKED_SCHEMA))
    left = spark.sql(_LEFT, asked=asked, values=values)
    return spark.sql(_VERIFIED, left=left, values=values)


def _by_pair(matched: DataFrame) -> DataFrame:
    """Return the rows of each pair one after another."""
    return matched.repartition("d1", "d2").sortWithinPartitions("d1", "d2")


def resolved(matched: DataFrame, program_path: str, origin: int) -> DataFrame:
    """Return rows of ``RESULT_SCHEMA``: the matched edges of each pair brought together and resolved on the executors.

    ``origin`` is that of part 0 of the batch; every partition is a part.
    """

    def resolve(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return result_batches(program_path, batches, origin + _partition())

    return _by_pair(matched).mapInArrow(resolve, spark_schema(RESULT_SCHEMA))


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None
    return context.partitionId()


def assembled(
    spark: SparkSession, *, fresh: DataFrame, earlier: DataFrame, program_path: str, rounds: int, origin: int
) -> DataFrame:
    """Return rows of R_out and matches of queries of three and more blocks that have a new row of a link.

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
        "select assembly, array_sort(transform(members, m -> m.place)) as alike, "
        "transform(members, m -> m.docid) as docs, members, nodes, wanted from {found}",
        found=found,
    )
    together = named.repartition("alike").sortWithinPartitions("alike", "assembly", "docs")
    return together.select(*ASSEMBLED_SCHEMA.names).mapInArrow(assemble, spark_schema(RESULT_SCHEMA))
