"""Counts of Spark jobs, by Spark's own status tracker."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Jobs"]


class Jobs:
    """A session, and the number of jobs that run there."""

    def __init__(self, session: Callable[[], SparkSession], group: str) -> None:
        self._get = session
        self._group = group
        self._spark: SparkSession | None = None

    def session(self) -> SparkSession:
        """Return the session; jobs that run there from now on are counted."""
        if self._spark is None:
            self._spark = self._get()
            if self._counts:
                self._spark.sparkContext.setJobGroup(self._group, "xscl batch")
        return self._spark

    @property
    def _counts(self) -> bool:
        # Spark Connect has no context.
        if self._spark is None:
            return False
        from pyspark.sql import SparkSession  # only where a session is

        return type(self._spark) is SparkSession and hasattr(self._spark, "sparkContext")

    def count(self) -> int | None:
        """Return the number of jobs so far; None where Spark does not tell, or has ended."""
        if self._spark is None:
            return 0
        if not self._counts:
            return None
        with suppress(Py4JError, OSError):  # Java has ended behind the last job: the batch needs it no longer
            return len(self._spark.sparkContext.statusTracker().getJobIdsForGroup(self._group))
        return None

    def close(self) -> None:
        """Count no further jobs."""
        if self._spark is not None and self._counts:
            with suppress(Py4JError, OSError):  # Java has ended, and no job is counted any longer
                self._spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
