"""What must be measured in a process of its own, so that its memory is its own, and how much memory that is."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from xscl.errors import EngineError

__all__ = ["peak_memory", "resident_memory", "run_apart"]


def run_apart(module: str, settings: Mapping[str, object], say: Callable[[str], None]) -> dict[str, Any]:
    """Run ``python -m module SETTINGS``: settings and what was measured are JSON objects, lines on stderr are said.

    Raises:
        EngineError: the process failed.
    """
    command = [sys.executable, "-m", module, json.dumps(settings)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout is not None and process.stderr is not None
    with process:
        last = ""
        for line in process.stderr:
            last = line.rstrip()
            say(last)
        measured = process.stdout.read()
    if process.returncode:
        raise EngineError("XSCL_BENCH", f"the measured process failed: {last}")
    found: dict[str, Any] = json.loads(measured)
    return found


def peak_memory() -> int:
    """The greatest resident size of this process so far, in bytes."""
    # getrusage's figure is inherited from the process that started this one.
    return _status("VmHWM:") or _usage()


def resident_memory() -> int:
    """The resident size of this process now, in bytes; where the system does not say, the greatest so far."""
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
