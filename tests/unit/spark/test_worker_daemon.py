"""Workers are forked with what tasks import, and from a process that has one thread."""

from __future__ import annotations

import subprocess
import sys

PREPARED = """
import os, sys
from xscl.spark import worker_daemon
worker_daemon.prepare()
print(len(os.listdir("/proc/self/task")), all(name in sys.modules for name in worker_daemon._NEEDED))
"""


def test_the_daemon_has_what_tasks_import_and_no_threads() -> None:
    done = subprocess.run([sys.executable, "-c", PREPARED], capture_output=True, text=True, check=True)
    assert done.stdout == "1 True\n"
