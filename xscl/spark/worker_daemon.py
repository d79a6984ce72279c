"""Daemon of Spark's Python workers: imports what tasks need before workers are forked from it.

A worker that Spark's own daemon forks imports numpy, pyarrow and our kernels itself, and Spark ends workers that have
nothing to do for a minute.  Spark starts this module by the setting ``spark.python.daemon.module``.
"""

from __future__ import annotations

import os
from importlib import import_module

__all__ = ["DAEMON", "DAEMON_SETTING", "prepare"]

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


if __name__ == "__main__":
    from pyspark.daemon import manager

    prepare()
    manager()
