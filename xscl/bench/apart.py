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

__all__ = ["Watch", "peak_memory", "processor_time", "resident_memory", "run_apart", "watched"]


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


def processor_time() -> float:
    """Return the seconds of processor time of this process and all its descendants, Java and Python workers among them.

    A descendant's time comes from ``/proc`` in ticks, mostly of 10 ms, and has that of its own children that have
    ended.  Without ``/proc`` descendants count once they have ended.
    """
    ended = os.times()
    parents, ticks = _processes()
    children = sum(ticks[process] for process in parents if _descends(process, parents))
    return time.process_time() + ended.children_user + ended.children_system + children / os.sysconf("SC_CLK_TCK")


@dataclass(slots=True)
class Watch:
    """Seconds by the clock, and seconds of processor time of all processes (``processor_time``)."""

    seconds: float = 0.0
    cpu_s: float = 0.0


@contextmanager
def watched() -> Iterator[Watch]:
    """Time a block."""
    watch = Watch()
    spent, began = processor_time(), time.perf_counter()
    yield watch
    watch.seconds = time.perf_counter() - began
    watch.cpu_s = processor_time() - spent


def _processes() -> tuple[dict[int, int], dict[int, int]]:
    """Return the parent, and the ticks of processor time, of each process."""
    parents, ticks = {}, {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # it has ended
        # proc(5): behind the name come state, parent, …; utime, stime, cutime and cstime are fields 14 to 17.
        fields = stat.rpartition(")")[2].split()
        parents[int(folder.name)] = int(fields[1])
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    return parents, ticks


def _descends(process: int, parents: Mapping[int, int]) -> bool:
    while (process := parents.get(process, 0)) > 1:
        if process == os.getpid():
            return True
    return False


def _main() -> None:
    module, _, function = sys.argv[1].partition(":")
    measure = getattr(importlib.import_module(module), function)
    findings = measure(tell, **json.loads(sys.argv[2]))
    write_data(json.dumps(findings))


if __name__ == "__main__":
    _main()
