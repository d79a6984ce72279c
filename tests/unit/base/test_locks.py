"""Locks: one process at a time, and none that is left behind."""

from __future__ import annotations

import fcntl
import subprocess
import sys
import time
from pathlib import Path

import pytest

import xscl
from xscl.base.errors import CatalogError
from xscl.base.locks import RunLock, holder, locked, running

_HOLD = """
import sys, time
from pathlib import Path
from xscl.base.locks import running
with running(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


def test_a_second_process_is_refused_and_told_of_the_first(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _HOLD, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "held\n"
        with pytest.raises(CatalogError, match=rf"process {first.pid} runs batches") as refused, running(tmp_path):
            pass
        assert refused.value.condition == "XSCL_HOME_IN_USE" and refused.value.hint
        first.kill()
        first.wait()
    with running(tmp_path):  # killed, it holds nothing
        pass


def test_who_holds_the_lock_may_take_it_again(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    with lock.held():
        lock.take()
        with pytest.raises(CatalogError, match="another engine of this process"), running(tmp_path):
            pass
    with pytest.raises(CatalogError), running(tmp_path):
        pass
    lock.release()
    with running(tmp_path), pytest.raises(CatalogError):
        lock.take()
    with lock.held():
        pass


def test_a_look_at_a_lock_keeps_nobody_from_taking_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.lock"
    path.touch()
    with path.open("rb") as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert holder(path) is None
        monkeypatch.setattr(time, "sleep", lambda seconds: looking.close())
        with running(tmp_path):
            assert holder(path) == "another engine of this process"
    assert holder(path) is None and holder(tmp_path / "none.lock") is None


def test_other_locks_have_their_own_words(tmp_path: Path) -> None:
    path = tmp_path / "other.lock"
    with locked(path, "does it", "wait"), pytest.raises(CatalogError, match="does it"), locked(path, "does it", "wait"):
        pass


def test_one_engine_runs_batches_on_a_home(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as first, xscl.connect(home=tmp_path / "home") as second:
        assert first.run_once() == [] == second.run_once()
        handle = first.start(every="1 h")
        assert first.run_once() == []
        with pytest.raises(CatalogError) as refused:
            second.run_once()
        assert refused.value.condition == "XSCL_HOME_IN_USE"
        with pytest.raises(CatalogError):
            second.start()
        handle.stop()
        assert second.run_once() == []
        with second.alone(), pytest.raises(CatalogError):
            first.start()
