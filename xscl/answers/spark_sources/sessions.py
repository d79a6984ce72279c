"""The Spark data sources of xscl, and the sessions that know them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakSet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register_sources"]

_KNOWING: WeakSet[SparkSession] = WeakSet()
"""Sessions that know our data sources."""


def register_sources(spark: SparkSession) -> None:
    """Make the formats ``xscl-xml``, ``xscl-feed``, ``xscl-channel`` and ``xscl-matches`` known to a session."""
    from xscl.answers.spark_sources.channels import ChannelSource
    from xscl.answers.spark_sources.matches import MatchSource
    from xscl.ingest.spark_sources import FeedSource, XmlSource

    if spark in _KNOWING:
        return  # Spark would warn
    for source in (XmlSource, FeedSource, ChannelSource, MatchSource):
        spark.dataSource.register(source)
    _KNOWING.add(spark)
