"""Time, memory and processor time of processes, and functions that are measured in a process of their own.

``python -m xscl.bench.apart MODULE:FUNCTION SETTINGS`` runs such a function: settings and findings are JSON objects,
progress goes to stderr.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from xscl.base.errors import EngineError
from xscl.base.terminal import tell, write_data

__all__ = ["Spent", "Watch", "peak_memory", "private_memory", "resident_memory", "run_apart", "spent", "watched"]


def run_apart(
    function: Callable[..., Mapping[str, Any]], settings: Mapping[str, object], say: Callable[[str], None]
) -> dict[str, Any]:
    """Call ``function(say, **settings)`` in a process of its own, and return its findings.

    Raises:
        EngineError: the process failed.
    """
    name = f"{function.__module__}:{function.__qualname__}"
    command = [sys.executable, "-m", __name__, name, json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout is not None and process.stderr is not None
    with process:
        last = ""
        for line in process.stderr:
            last = line.rstrip()
            say(last)
        printed = process.stdout.read()
    if process.returncode:
        raise EngineError("XSCL_BENCH", f"the measured process failed: {last}")
    findings: dict[str, Any] = json.loads(printed)
    return findings


def peak_memory() -> int:
    """Return the greatest resident size of this process so far, in bytes."""
    # getrusage's figure is inherited from the process that started this one.
    return _status("VmHWM:") or _usage()


def resident_memory() -> int:
    """Return the resident size of this process, in bytes; the greatest so far where the system does not say."""
    return _status("VmRSS:") or _usage()


def private_memory() -> int:
    """Return the resident size of this process without mapped files, in bytes; the greatest with them so far where the
    system does not say.
    """
    return _status("RssAnon:") or _usage()


def _status(name: str) -> int | None:
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith(name):
                return int(line.split()[1]) * 1024
    return None


def _usage() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


@dataclass(frozen=True, slots=True)
class Spent:
    """Seconds of processor time of this process and all its descendants (``spent``)."""

    here: float = 0.0
    """Seconds of this process, and of processes other than those below."""
    java: float = 0.0
    workers: float = 0.0
    """Seconds of Python processes that Java has started."""

    @property
    def total(self) -> float:
        """Seconds of all of them."""
        return self.here + self.java + self.workers

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.here + other.here, self.java + other.java, self.workers + other.workers)

    def since(self, before: Spent) -> Spent:
        """Return what was spent since an earlier moment."""
        return Spent(self.here - before.here, self.java - before.java, self.workers - before.workers)


def spent(own: float | None = None) -> Spent:
    """Return the processor time so far of this process and all its descendants, Java and Python workers among them.

    To read ``/proc`` takes milliseconds.  ``own`` are the seconds of this process alone where they were read before.

    A descendant's time comes from ``/proc`` in ticks, mostly of 10 ms, and has that of its own children that have
    ended.  Without ``/proc`` descendants count once they have ended.
    """
    ended = os.times()
    processes = _processes()
    _remember_workers(processes)
    java = {number for number, process in processes.items() if process.name == "java"}
    ticks = dict.fromkeys(("here", "java", "workers"), 0)
    ticks["workers"] = sum(_ended_workers.values())
    for number, process in processes.items():
        above = list(_ancestors(number, processes))
        if os.getpid() in above:
            kind = "java" if number in java else "workers" if java.intersection(above) else "here"
            ticks[kind] += process.ticks
    seconds = {kind: count / os.sysconf("SC_CLK_TCK") for kind, count in ticks.items()}
    seconds["here"] += (time.process_time() if own is None else own) + ended.children_user + ended.children_system
    return Spent(**seconds)


@dataclass(slots=True)
class Watch:
    """Seconds by the clock, and seconds of processor time of all processes."""

    seconds: float = 0.0
    spent: Spent = Spent()

    @property
    def cpu_s(self) -> float:
        """Processor time of all processes."""
        return self.spent.total

    def __add__(self, other: Watch) -> Watch:
        return Watch(self.seconds + other.seconds, self.spent + other.spent)


@contextmanager
def watched() -> Iterator[Watch]:
    """Time a block."""
    watch = Watch()
    before, began = spent(), time.perf_counter()
    yield watch
    own, watch.seconds = time.process_time(), time.perf_counter() - began
    watch.spent = spent(own).since(before)


@dataclass(frozen=True, slots=True)
class _Process:
    name: str
    parent: int
    ticks: int
    """Ticks of it, and of its children that have ended and that it has waited for."""


_workers: dict[int, int] = {}
"""Ticks of the workers of Spark that were there when somebody looked last."""
_ended_workers: dict[int, int] = {}
"""Ticks of those that have ended.  Their parent does not wait for them, so its own ticks do not have theirs."""


def _remember_workers(processes: Mapping[int, _Process]) -> None:
    now = {}
    for number, process in processes.items():
        above = list(_ancestors(number, processes))
        # A worker is a child of a daemon, which is one of Java.
        if os.getpid() in above[2:] and processes[above[1]].name == "java":
            now[number] = process.ticks
    for number in _workers.keys() - now.keys():
        _ended_workers[number] = _ended_workers.get(number, 0) + _workers.pop(number)
    _workers.update(now)


def _processes() -> dict[int, _Process]:
    """Return the processes of the machine by their numbers."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        # proc(5): behind the name come state, parent, …; utime, stime, cutime and cstime are fields 14 to 17.
        before, _, after = stat.rpartition(")")
        fields = after.split()
        name = before.partition("(")[2]
        found[int(folder.name)] = _Process(name, int(fields[1]), sum(map(int, fields[11:15])))
    return found


def _ancestors(number: int, processes: Mapping[int, _Process]) -> Iterator[int]:
    while number in processes and (number := processes[number].parent) > 1:
        yield number


def _main() -> None:
    module, _, function = sys.argv[1].partition(":")
    measure = getattr(importlib.import_module(module), function)
    findings = measure(tell, **json.loads(sys.argv[2]))
    write_data(json.dumps(findings))


if __name__ == "__main__":
    _main()
