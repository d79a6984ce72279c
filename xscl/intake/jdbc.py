"""Tables at JDBC URLs, which Spark reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from xscl.base.errors import SourceError
from xscl.base.shown import masked
from xscl.catalog.source_offsets import position_of
from xscl.ingest.reading import Reading
from xscl.ingest.sql_tables import keyed_table, position_key, sql_source
from xscl.intake.intake import Intake, IntakeReport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["take_jdbc_table"]


def take_jdbc_table(
    intake: Intake,
    spark: SparkSession,
    url: str,
    table: str,
    *,
    key: str,
    reading: Reading,
    properties: Mapping[str, str] | None = None,
) -> IntakeReport:
    """Take the rows of a table above the last key taken; the channel is that of ``reading``.

    Raises:
        SourceError: ``XSCL_SOURCE_UNREADABLE``: the table cannot be read.
        DocumentError: the rows do not fit the channel as a whole.
    """
    channel = reading.channel
    assert channel is not None
    source = sql_source(masked(re.split("[?;]", url)[0]), table, channel)
    with intake.catalog.read() as connection:
        position = position_of(connection, source)
    reader = spark.read.format("jdbc").options(**{**(properties or {}), "url": url, "dbtable": table})
    try:
        frame = reader.load()
        if position is not None:
            frame = frame.where(frame[key] > position_key(position))
        rows = frame.orderBy(key).toArrow()
    except (PySparkException, Py4JError) as error:
        reason = str(error).partition("\n")[0]
        raise SourceError("XSCL_SOURCE_UNREADABLE", f"{table}: {reason}") from error
    return intake.take(keyed_table(rows, table, key=key, channel=channel, kept_as=source, reading=reading))
