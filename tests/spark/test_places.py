"""Work in tasks: as many jobs as calls, the order of the items, and the failure's text."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from xscl.spark.job_counter import Jobs
from xscl.spark.places import HERE, OnSpark, slots_of


def test_tasks_do_what_this_process_does(spark: SparkSession) -> None:
    work: Callable[[int], tuple[int, str]] = lambda number: (number * 2, "x" * number)  # noqa: E731
    jobs = Jobs(lambda: spark, "places")
    there = OnSpark(jobs.session)
    assert there.map(work, range(9)) == HERE.map(work, range(9))
    assert jobs.count() == 1
    assert there.map(work, []) == []
    assert jobs.count() == 1
    assert os.getpid() not in there.map(lambda _: os.getpid(), [1, 2])
    jobs.close()
    assert slots_of(spark) >= 1


def test_a_failure_has_its_text_and_its_node(spark: SparkSession) -> None:
    with pytest.raises(PySparkException, match="division") as caught:
        OnSpark(lambda: spark).map(lambda number: 1 // number, [1, 0])
    assert f"on node {socket.gethostname()} (" in str(caught.value)


def test_workers_begin_with_what_tasks_import(spark: SparkSession) -> None:
    def work(_: int) -> bool:
        import sys

        return "xscl.templates.joins.find" in sys.modules

    assert OnSpark(lambda: spark).map(work, [1]) == [True]


def test_what_tasks_leave_is_kept_from_the_collector_of_garbage(spark: SparkSession) -> None:
    def work(_: int) -> int:
        import gc

        return gc.get_freeze_count()

    assert max(OnSpark(lambda: spark).map(work, range(4))) > 0
