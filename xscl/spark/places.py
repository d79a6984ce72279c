"""Places of work: the same function maps over items in this process, or in tasks of a Spark session.

Work names what it made: it takes small things (paths, numbers) and returns small things (paths, counts, statistics),
and writes files under names that nobody else has.  So a task that Spark runs twice harms nothing, and no rows pass
through a DataFrame, a shuffle or a broadcast.  A call of ``map`` with an item is exactly one job.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import pyarrow as pa

from xscl.spark.start_cost import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HERE", "Here", "OnSpark", "Place", "slots_of"]

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Place(Protocol):
    """A place where work is done."""

    @property
    def slots(self) -> int:
        """Items that are worked on at a time."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Return the result of each item, in their order."""


@dataclass(frozen=True, slots=True)
class Here:
    """This process."""

    slots: int = 1

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Return the result of each item, in their order."""
        return [work(item) for item in items]


HERE = Here()


@dataclass(frozen=True, slots=True)
class OnSpark:
    """Tasks of a session, one for each item; classic or Spark Connect, ours or the caller's."""

    session: Callable[[], SparkSession]
    """Asked at each call."""
    slots: int = 2
    """Items that the session works on at a time."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Return the result of each item, in their order, by one job.

        Raises:
            PySparkException: the work failed in a task; its text has the failure of Python.
        """
        if not items:
            return []
        packed = [pickle.dumps(item) for item in items]

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for at in batch.column(0).to_pylist():
                    result = pickle.dumps(work(pickle.loads(packed[at])))
                    yield pa.record_batch([pa.array([at]), pa.array([result], pa.binary())], ["at", "result"])

        count = len(packed)
        rows = self.session().range(0, count, 1, count).mapInArrow(task, "at long, result binary").toArrow()
        found = dict(zip(rows["at"].to_pylist(), rows["result"].to_pylist(), strict=True))
        return [pickle.loads(found[at]) for at in range(count)]


def slots_of(session: SparkSession) -> int:
    """Return the tasks that a session runs at a time; a session of Spark Connect does not tell, and counts as local."""
    from pyspark.sql import SparkSession

    if type(session) is SparkSession and hasattr(session, "sparkContext"):
        return int(session.sparkContext.defaultParallelism)
    return cores()
