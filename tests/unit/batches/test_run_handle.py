"""The loop that processes batches in a thread of its own: when it looks, and what it tells."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
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


def test_a_loop_whose_thread_cannot_begin_lets_the_home_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    work = Work(lambda: None, lambda stop, note: None)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refused)
        with pytest.raises(RuntimeError):
            RunHandle(work, Pauses(60), RunLock(tmp_path), "mine")
    RunHandle(work, Pauses(60), RunLock(tmp_path), "mine").stop()


class Tried:
    """Batches that fail for a reason that nobody foresaw, as often as said."""

    def __init__(self, times: int) -> None:
        self.left = times
        self.handle: RunHandle | None = None
        self.told: list[BaseException] = []
        self.warned: list[str] = []

    def run(self, stop: Stop, note: Note) -> None:
        if self.left:
            self.left -= 1
            raise KeyError("c28")

    def begin(self, folder: Path) -> RunHandle:
        work = Work(lambda: None, self.run, failed=self.told.append, warns=self.warned.append)
        self.handle = RunHandle(work, Pauses(60), RunLock(folder), "mine")
        return self.handle

    def wait(self, holds: Callable[[RunHandle], object]) -> None:
        """Wait, and end each pause before the next try."""
        handle = self.handle
        assert handle is not None
        wait_for(lambda: (handle.wake(), holds(handle))[1])


def test_a_fault_that_nobody_foresaw_may_pass(tmp_path: Path) -> None:
    tried = Tried(2)
    handle = tried.begin(tmp_path)
    wait_for(lambda: handle.lastProblem is not None)
    problem = handle.lastProblem
    assert problem is not None and problem.condition == "XSCL_INTERNAL" and "KeyError('c28')" in str(problem)
    tried.wait(lambda handle: not tried.left and handle.lastProblem is None)
    assert handle.isActive and not tried.told
    assert [text.partition(":")[0] for text in tried.warned] == ["warning", "it goes on after 2 tries"]
    handle.stop()


def test_a_fault_that_stays_ends_it_and_is_told(tmp_path: Path) -> None:
    tried = Tried(1_000)
    handle = tried.begin(tmp_path)
    tried.wait(lambda handle: not handle.isActive)
    assert tried.left == 995
    assert tried.told == [handle.exception()]
    assert isinstance(tried.told[0].__cause__, KeyError)


def test_what_is_no_fault_ends_it_at_once(tmp_path: Path) -> None:
    told: list[BaseException] = []

    def warm() -> None:
        raise KeyboardInterrupt

    handle = RunHandle(Work(warm, lambda stop, note: None, failed=told.append), Pauses(60), RunLock(tmp_path), "mine")
    wait_for(lambda: not handle.isActive)
    assert (told, handle.isWarm) == ([handle.exception()], False)
    assert isinstance(handle.exception(), KeyboardInterrupt)


def test_a_loop_that_fails_while_its_status_is_read_has_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = RunHandle(Work(lambda: None, lambda stop, note: None), Pauses(60), RunLock(tmp_path), "mine")
    handle.stop()

    def ends_now(self: RunHandle) -> bool:
        self._error = KeyError("c28")
        return False

    monkeypatch.setattr(RunHandle, "isActive", property(ends_now))
    assert handle.status == {"message": "ended: 'c28'", "isActive": False}
