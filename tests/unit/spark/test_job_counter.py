"""Counts of jobs where Java has ended."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from py4j.protocol import Py4JNetworkError

from xscl.spark.job_counter import Jobs


class _Counted(Jobs):
    _counts = True  # type: ignore[assignment]


def tracked(jobs: object) -> Any:
    """A session whose tracker gives jobs, or raises."""

    def of_group(group: str) -> list[int]:
        assert group == "batch"
        if isinstance(jobs, Exception):
            raise jobs
        return [1, 2]

    tracker = SimpleNamespace(getJobIdsForGroup=of_group)
    context = SimpleNamespace(setJobGroup=lambda *_: None, statusTracker=lambda: tracker)
    return SimpleNamespace(sparkContext=context)


def counted(jobs: object) -> int | None:
    found = _Counted(lambda: tracked(jobs), "batch")
    found._spark = found.session()
    return found.count()


def test_jobs_are_counted() -> None:
    assert counted(None) == 2


def test_a_batch_that_needs_java_no_longer_does_not_fail_by_a_count() -> None:
    assert counted(Py4JNetworkError("Answer from Java side is empty")) is None
    assert counted(ConnectionRefusedError()) is None
