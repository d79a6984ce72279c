"""Places of work: the same function maps over items in this process, or in tasks of a Spark session.

Work names what it made: it takes small things (paths, numbers) and returns small things (paths, counts, statistics),
and writes files under names that nobody else has.  So a task that Spark runs twice harms nothing, and no rows pass
through a DataFrame, a shuffle or a broadcast.  A call of ``map`` with an item is exactly one job.
"""

from __future__ import annotations

import pickle
import re
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

import pyarrow as pa

from xscl.spark.start_cost import cores

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HERE", "Here", "OnSpark", "Place", "slots_of"]

_PARTS = re.compile(r"splits=(?:Some\()?(\d+)")
_Given = ParamSpec("_Given")
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


class Place(Protocol):
    """A place where work is done."""

    @property
    def slots(self) -> int:
        """Items that are worked on at a time."""

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Return the result of each item, in their order."""

    def beside(self, work: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        """Return work for another thread, whose jobs are those of this thread."""


@dataclass(frozen=True, slots=True)
class Here:
    """This process."""

    slots: int = 1

    def map(self, work: Callable[[_Item], _Result], items: Sequence[_Item]) -> list[_Result]:
        """Return the result of each item, in their order."""
        return [work(item) for item in items]

    def beside(self, work: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        """Return the work."""
        return work


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
        from pyspark import cloudpickle

        if not items:
            return []
        # Work is unpacked by the task itself, which so tells on which node that fails.
        packed_work = cloudpickle.dumps(work)  # type: ignore[no-untyped-call]
        packed = [pickle.dumps(item) for item in items]

        def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for at in batch.column(0).to_pylist():
                    try:
                        from xscl.base.collecting import begin_task

                        begin_task()
                        result = pickle.dumps(pickle.loads(packed_work)(pickle.loads(packed[at])))
                    except Exception as error:
                        error.add_note(f"on node {socket.gethostname()} ({Path.cwd()})")
                        raise
                    yield pa.record_batch([pa.array([at]), pa.array([result], pa.binary())], ["at", "result"])

        count = len(packed)
        rows = self.session().range(0, count, 1, count).mapInArrow(task, "at long, result binary").toArrow()
        found = dict(zip(rows["at"].to_pylist(), rows["result"].to_pylist(), strict=True))
        return [pickle.loads(found[at]) for at in range(count)]

    def beside(self, work: Callable[_Given, _Result]) -> Callable[_Given, _Result]:
        """Return work for another thread, with the group and the pool of this thread's jobs."""
        from pyspark import inheritable_thread_target
        from pyspark.sql import SparkSession

        session = self.session()
        if type(session) is not SparkSession:
            return work  # a session of Spark Connect has no threads of Java
        found: Callable[_Given, _Result] = inheritable_thread_target(session)(work)
        return found


def slots_of(session: SparkSession) -> int:
    """Return the tasks that a session runs at a time.

    A session of Spark Connect does not tell, and one that tells nothing counts as local; a plan says in how many parts
    it would read a range.
    """
    from pyspark.sql import SparkSession

    if type(session) is SparkSession and hasattr(session, "sparkContext"):
        return int(session.sparkContext.defaultParallelism)
    found = _PARTS.search(str(session.sql("EXPLAIN SELECT * FROM range(1)").first()))
    return int(found[1]) if found else cores()
