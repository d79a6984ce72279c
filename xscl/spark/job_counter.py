"""How many Spark jobs something takes, as Spark itself counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

__all__ = ["Jobs", "counted_jobs"]


class Jobs:
    """Gives out a session and counts the jobs that run there, by Spark's own status tracker."""

    def __init__(self, session: Callable[[], SparkSession], group: str) -> None:
        self._get = session
        self._group = group
        self._spark: SparkSession | None = None

    def session(self) -> SparkSession:
        """The session; what runs there from now on is counted."""
        if self._spark is None:
            self._spark = self._get()
            if self._counts:
                self._spark.sparkContext.setJobGroup(self._group, "xscl batch")
        return self._spark

    @property
    def _counts(self) -> bool:
        # Spark Connect has no context.
        return type(self._spark) is SparkSession and hasattr(self._spark, "sparkContext")

    def count(self) -> int | None:
        """Jobs so far; None where Spark does not tell."""
        if self._spark is None:
            return 0
        if not self._counts:
            return None
        return len(self._spark.sparkContext.statusTracker().getJobIdsForGroup(self._group))

    def close(self) -> None:
        """What runs from now on is not counted."""
        if self._spark is not None and self._counts:
            self._spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


@contextmanager
def counted_jobs(session: Callable[[], SparkSession], group: str) -> Iterator[Jobs]:
    """Counts what runs inside; ``session`` is asked when a session is needed."""
    jobs = Jobs(session, group)
    try:
        yield jobs
    finally:
        with suppress(Py4JError, OSError):  # Java has ended, and nothing is counted any more
            jobs.close()
