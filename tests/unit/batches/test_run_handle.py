"""The loop that processes batches in a thread of its own: when it looks, and what it tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

from waiting import wait_for

from xscl.base.locks import RunLock
from xscl.batches.report import BatchReport
from xscl.batches.run_handle import Pauses, RunHandle, Work

Stop = Callable[[], bool]
Note = Callable[[BatchReport], None]


class Steady:
    """Work that is always there, as under a load that never ends."""

    def __init__(self) -> None:
        self.begun: list[float] = []
        self.told: list[BatchReport] = []
        self.order: list[str] = []

    def warm(self) -> None:
        self.order.append("warm")

    def run(self, stop: Stop, note: Note) -> None:
        while not stop():
            self.order.append("batch")
            self.begun.append(time.monotonic())
            time.sleep(0.002)
            note(cast(BatchReport, len(self.begun)))

    def then(self, report: BatchReport) -> None:
        self.told.append(report)


def test_batches_under_load_are_told_one_by_one_and_begin_apart(tmp_path: Path) -> None:
    steady = Steady()
    started = time.monotonic()
    handle = RunHandle(Work(steady.warm, steady.run, steady.then), Pauses(60, 0.05), RunLock(tmp_path), "mine")
    wait_for(lambda: len(steady.told) >= 4)
    handle.stop()
    assert steady.order[:2] == ["warm", "batch"]
    assert handle.isWarm
    assert all(begun - started >= 0.05 * number - 0.005 for number, begun in enumerate(steady.begun))


def test_a_call_ends_the_pause(tmp_path: Path) -> None:
    looks: list[float] = []

    def run(stop: Stop, note: Note) -> None:
        assert not stop()
        looks.append(time.monotonic())

    handle = RunHandle(Work(lambda: None, run), Pauses(60, 0.05), RunLock(tmp_path), "mine")
    wait_for(lambda: len(looks) == 1)
    time.sleep(0.06)
    handle.wake()
    # Without the call it looks again after a minute.
    wait_for(lambda: len(looks) == 2)
    handle.stop()


def test_the_error_that_ends_it_is_told(tmp_path: Path) -> None:
    told: list[BaseException] = []
    ended = threading.Event()

    def failed(error: BaseException) -> None:
        told.append(error)
        ended.set()

    def warm() -> None:
        raise ZeroDivisionError

    handle = RunHandle(Work(warm, lambda stop, note: None, failed=failed), Pauses(60), RunLock(tmp_path), "mine")
    assert ended.wait(120)
    wait_for(lambda: not handle.isActive)
    assert (told, handle.isWarm) == ([handle.exception()], False)
    assert isinstance(handle.exception(), ZeroDivisionError)
