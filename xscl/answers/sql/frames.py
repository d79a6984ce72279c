"""Event files, and other files of a known shape, as relations of Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from xscl.base.arrow_schemas import EVENT_SCHEMA, spark_schema
from xscl.ingest.rows import ROW_DOCUMENT
from xscl.xpath.relational import RowShape

__all__ = ["read_parquet", "with_documents"]

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
    """Return events with the document of each row of these channels as its content.

    Column ``shaped`` is true for the rows whose documents were made so.
    """
    told = {name: {"element": shape.element, "columns": shape.columns} for name, shape in shapes.items()}
    return spark.sql(_WITH_DOCUMENTS, args={"shapes": json.dumps(told)}, events=events)


def read_parquet(spark: SparkSession, schema: pa.Schema, paths: Sequence[str]) -> DataFrame:
    """Read Parquet files of a known shape; no path at all is the empty relation."""
    if not paths:
        # An empty Arrow table is a local relation: the planner leaves out what is joined with it.
        return spark.createDataFrame(schema.empty_table(), spark_schema(schema))
    # Spark takes a path for a pattern; a home may be called anything.
    literal = [re.sub(r"([\\*?\[\]{}])", r"\\\1", path) for path in paths]
    reader = spark.read.schema(spark_schema(schema)).option("recursiveFileLookup", True)
    # The driver has looked at whole files; what executors see of them may be another copy.
    return reader.option("parquet.page.verify-checksum.enabled", True).parquet(*literal)
