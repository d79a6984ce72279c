"""Failures of Spark while tasks take in inputs, by name and with what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from xscl.base.errors import EngineError, XsclError
from xscl.base.system_errors import file_fault, spark_reason, worker_fault
from xscl.spark.session import session_has_ended

__all__ = ["named_task_faults"]

_TAKEN = "what was taken in before stays; take the input in again, and what is there is known"


@contextmanager
def named_task_faults(root: Path) -> Iterator[None]:
    """Name what failed in Spark while something was taken into the home at ``root``.

    Raises:
        EngineError: ``XSCL_SPARK_GONE``; ``XSCL_WORKER``; ``XSCL_FILE_NOT_SHARED``; ``XSCL_INTAKE``.
    """
    try:
        yield
    except (PySparkException, Py4JError, ConnectionError) as error:
        if session_has_ended():
            gone = "the intake failed: Java, in which Spark runs, has ended"
            raise _with_notes(error, EngineError("XSCL_SPARK_GONE", gone, hint=_TAKEN)) from error
        if isinstance(error, ConnectionError):
            raise
        failed = EngineError("XSCL_INTAKE", f"the intake failed in Spark: {spark_reason(str(error))}", hint=_TAKEN)
        named = file_fault(error, root) or worker_fault(str(error)) or failed
        raise _with_notes(error, named) from error


def _with_notes(error: BaseException, named: XsclError) -> XsclError:
    """Give a named error the notes of the one that it stands for."""
    for note in getattr(error, "__notes__", ()):
        named.add_note(note)
    return named
