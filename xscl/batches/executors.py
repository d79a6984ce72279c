"""Steps of a batch in Spark's executors: documents to witnesses, witnesses to results, rows of links to results.

Every step is a relation written as Parquet; none brings rows to the driver.  The number of jobs does not depend on
what is registered.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import broadcast, lit

from xscl.base.arrow_schemas import spark_schema
from xscl.base.failpoints import step
from xscl.ingest.rows import ROW_DOCUMENT
from xscl.planning.planner import Plan
from xscl.store.event_files import EVENT_SCHEMA, Level
from xscl.store.state_files import LINK_SCHEMA
from xscl.templates.bounds import UNBOUNDED
from xscl.templates.join import assembled, matched_edges, resolved
from xscl.templates.order import join_order, pair_limit
from xscl.templates.results import RESULT_SCHEMA
from xscl.templates.value_counts import estimated_pairs, kept_counts, partners_of, save_partners, value_counts
from xscl.xpath.relational import RowShape
from xscl.xpath.witness_columns import WITNESS_SCHEMA
from xscl.xpath.worker import READ, witness_batches

__all__ = ["read_parquet", "read_state", "with_documents", "write_assembled", "write_results", "write_witnesses"]

_FEW = 1_000
"""Numbers that are written into a statement; more are sent to the executors as a relation."""
_WITH_DOCUMENTS = f"""
with shaped as (
  select *, element_at(
    from_json(:shapes, 'map<string, struct<element string, columns array<string>>>'), channel) as shape
  from {{events}}
)
select {", ".join(name for name in EVENT_SCHEMA.names if name != "content")}, shape is not null as shaped,
       coalesce(content, {ROW_DOCUMENT}) as content
from shaped
"""


def with_documents(spark: SparkSession, events: DataFrame, shapes: Mapping[str, RowShape]) -> DataFrame:
    """Events with the document of each row of these channels as its content; ``shaped`` says which events those are."""
    told = {name: {"element": shape.element, "columns": shape.columns} for name, shape in shapes.items()}
    return spark.sql(_WITH_DOCUMENTS, args={"shapes": json.dumps(told)}, events=events)


def _events_frame(spark: SparkSession, level: Level, channels: Collection[str]) -> DataFrame:
    """Return the events of a level of some channels, in the shape of ``EVENT_SCHEMA``."""
    events = read_parquet(spark, EVENT_SCHEMA, level.paths).where(f"docid between {level.first} and {level.last}")
    wanted = events.channel.isin([*channels])
    for channel, least in level.since.items():
        wanted &= (events.channel != channel) | (events.ts >= least)
    if level.until is not None:
        wanted &= events.ts <= level.until
    if level.only is not None:
        wanted &= events.docid.isin(sorted(level.only))
    in_time = events.docid.isin(sorted(level.on_time))
    return events.where(wanted).withColumn("late", events.late & ~in_time if level.on_time else events.late)


def read_parquet(spark: SparkSession, schema: pa.Schema, paths: Sequence[str]) -> DataFrame:
    """Parquet files of a known shape; no path at all is the empty relation."""
    if not paths:
        return spark.createDataFrame([], spark_schema(schema))
    # Spark takes a path for a pattern; a home may be called anything.
    literal = [re.sub(r"([\\*?\[\]{}])", r"\\\1", path) for path in paths]
    reader = spark.read.schema(spark_schema(schema)).option("recursiveFileLookup", True)
    # The driver has looked at whole files; what executors see of them may be another copy.
    return reader.option("parquet.page.verify-checksum.enabled", True).parquet(*literal)


def write_witnesses(spark: SparkSession, plan: Plan, level: Level, target: Path) -> None:
    """Write the witness rows of a level's documents, in one job."""
    answered, walked = (names.intersection(level.channels) for names in (plan.answered, plan.walked))
    shapes = {name: plan.shapes[name] for name in walked if name in plan.shapes}
    specs = str(plan.specs_path) if walked else None
    rows = str(plan.rows_path) if answered else None

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return witness_batches(batches, specs=specs, rows=rows)

    needed = with_documents(spark, _events_frame(spark, level, answered | walked), shapes)
    witnesses = needed.select(*READ).mapInArrow(work, spark_schema(WITNESS_SCHEMA))
    witnesses.write.parquet(str(target))
    step("executors.witnesses")


def write_results(
    spark: SparkSession, plan: Plan, fresh: Path, state: Sequence[str], target: Path, origin: int
) -> None:
    """Write what new documents find: their witnesses ``fresh`` joined with themselves and with those of documents that
    were there before, the files ``state``; in two jobs.

    ``origin`` is that of the first of its parts: there is one for each partition.
    """
    program, path = plan.program, str(plan.program_path)
    new = read_parquet(spark, WITNESS_SCHEMA, [str(fresh)])
    reach = max((max(-edge.lo, edge.hi, 0) for edge in program.edges.values()), default=0)
    met = _within("ts", pc.min_max(ds.dataset(fresh, schema=WITNESS_SCHEMA).to_table(columns=["ts"])["ts"]), reach)
    earlier = read_parquet(spark, WITNESS_SCHEMA, state).withColumn("fresh", lit(False))
    witness = earlier.unionAll(new.withColumn("fresh", lit(True))).where(met)
    counts = value_counts(str(fresh))
    kept = [kept_counts(file) for file in state]
    pairs = estimated_pairs(program, counts, kept)
    order = join_order(program, pairs, pair_limit(counts.rows))
    target.parent.mkdir(parents=True, exist_ok=True)
    partners = target.with_name(f".{target.name}-partners")
    save_partners(partners_of(counts, kept), partners)
    try:
        matched = matched_edges(
            spark,
            fresh=new,
            witness=witness,
            program=program,
            program_path=path,
            order=order,
            partners_path=str(partners),
        )
        resolved(matched, path, origin).write.parquet(str(target))
        step("executors.results")
    finally:
        partners.unlink()


def _within(column: str, times: pa.StructScalar, reach: int) -> str:
    """Return a condition of SQL: not farther than ``reach`` from a span of times."""
    least, greatest = (time.as_py() or 0 for time in times.values())
    return f"{column} between {max(least - reach, -UNBOUNDED)} and {min(greatest + reach, UNBOUNDED)}"


def write_assembled(
    spark: SparkSession, plan: Plan, fresh: Path, earlier: Sequence[str], target: Path, origin: int
) -> None:
    """Write what queries of three and more blocks find with the new rows of links among the results ``fresh``, in one
    job; ``earlier`` are files with rows of links of earlier batches, ``origin`` that of the first of its parts.
    """
    new = read_parquet(spark, RESULT_SCHEMA, [str(fresh)]).where("relation = 'link'")
    reach = max(max(-b.lo, b.hi) for assembly in plan.program.assemblies.values() for b in assembly.bounds)
    rows = ds.dataset(fresh, schema=RESULT_SCHEMA).to_table(["members"], filter=ds.field("relation") == "link")
    times = pc.min_max(pc.struct_field(pc.list_flatten(rows["members"]), "ts"))
    # Any two members of a match are so close.
    kept = read_parquet(spark, LINK_SCHEMA, earlier).where(
        f"{_within('ts1', times, reach)} and {_within('ts2', times, reach)}"
    )
    found = assembled(
        spark,
        fresh=new,
        earlier=kept,
        program_path=str(plan.program_path),
        rounds=plan.program.rounds,
        origin=origin,
    )
    found.write.parquet(str(target))
    step("executors.assembled")


def read_state(
    spark: SparkSession, state: Sequence[str], wanted: npt.NDArray[np.int64], column: str, most: int
) -> pa.Table:
    """Read the witness rows in the files ``state`` whose ``column`` (h or docid) is one of some numbers.

    At most ``most`` rows and one more are read; in one job, or two if the numbers are many.
    """
    rows = read_parquet(spark, WITNESS_SCHEMA, state).where("not late")
    if len(wanted) <= _FEW:
        found = rows.where(f"{column} in ({', '.join(map(str, wanted.tolist()))})")
    else:
        asked = spark.createDataFrame(pa.table({column: pa.array(wanted)}))
        found = rows.join(broadcast(asked), column, "left_semi")
    return found.limit(most + 1).toArrow().select(WITNESS_SCHEMA.names).cast(WITNESS_SCHEMA)
