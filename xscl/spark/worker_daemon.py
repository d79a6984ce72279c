"""Daemon of Spark's Python workers: imports what tasks need before workers are forked from it, and wastes no time.

A worker that Spark's own daemon forks imports numpy, pyarrow and our kernels itself, and Spark ends workers that have
nothing to do for a minute.  Every task of such a worker waits 40 ms: Java holds a small piece back until the one before
is acknowledged, and the system delays that.  Spark starts this module by the setting ``spark.python.daemon.module``.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from importlib import import_module

__all__ = ["DAEMON", "DAEMON_SETTING", "acknowledging", "prepare"]

DAEMON_SETTING = "spark.python.daemon.module"
"""Setting of a session; its executors need our package in their Python before they get anything sent along."""
DAEMON = "xscl.spark.worker_daemon"
_NEEDED = (
    "numpy",
    "pyarrow",
    "pyarrow.compute",
    "pyarrow.dataset",
    "pyarrow.parquet",
    "pyspark.cloudpickle",
    "pyspark.worker",
    "xscl.batches.tasks",
)
_ALONE = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Variables that keep libraries from threads, which a fork would lose."""


def prepare() -> None:
    """Import what tasks need, without a thread."""
    os.environ.update(_ALONE)
    for name in _NEEDED:
        import_module(name)


def acknowledging(task: Callable[[socket.socket, bool], int]) -> Callable[[socket.socket, bool], int]:
    """Return a worker's next task with what Java sends for it acknowledged at once, where the system can do that.

    Linux goes back to delays by itself, so it is told for each task anew.
    """

    def acknowledged(connection: socket.socket, authenticated: bool) -> int:
        if hasattr(socket, "TCP_QUICKACK") and connection.family != socket.AF_UNIX:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        return task(connection, authenticated)

    return acknowledged


if __name__ == "__main__":
    from pyspark import daemon

    prepare()
    daemon.worker = acknowledging(daemon.worker)  # type: ignore[assignment]
    daemon.manager()
