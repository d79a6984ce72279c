"""Messages of Spark are told as what they mean: files that are not shared, packages that workers lack."""

from __future__ import annotations

from pathlib import Path

import pytest

from xscl.base.errors import XsclError
from xscl.base.sealed import missing_file
from xscl.base.system_errors import PASSES, file_fault, spark_reason, worker_fault
from xscl.base.version import VERSION

TRACE = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/opt/spark/python/lib/pyspark.zip/pyspark/worker.py", line 1, in main
    func, profiler = read_command(pickleSer, infile)
{error}

\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:1)
"""
JAVA = """Job aborted due to stage failure: Task 0 in stage 0.0 failed 4 times: {error}
\tat org.apache.hadoop.fs.RawLocalFileSystem.deprecatedGetFileStatus(RawLocalFileSystem.java:1)
"""


@pytest.mark.parametrize("there", [True, False])
@pytest.mark.parametrize(
    "text",
    [
        JAVA.format(error="java.io.FileNotFoundException: File file:{path} does not exist"),
        JAVA.format(error="[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error: java.io.FileNotFoundException: {path}"),
        TRACE.format(error="FileNotFoundError: [Errno 2] No such file or directory: '{path}'"),
        TRACE.format(
            error="xscl.base.errors.EngineError: [XSCL_FILE_MISSING] {path} is missing, which the catalogue names"
        ),
    ],
)
def test_a_file_that_only_the_driver_sees_is_called_that(tmp_path: Path, text: str, *, there: bool) -> None:
    path = tmp_path / "events" / "a.parquet"
    path.parent.mkdir()
    if there:
        path.touch()
    fault = file_fault(RuntimeError(text.replace("{path}", str(path))), tmp_path)
    assert fault is not None and str(path) in fault.message
    if there:
        assert fault.condition == "XSCL_FILE_NOT_SHARED"
        assert "repair" not in str(fault) and "mount" in str(fault)
    else:
        assert fault.condition == "XSCL_FILE_MISSING" and "doctor --repair" in str(fault)


def test_a_file_that_this_process_misses_is_missing(tmp_path: Path) -> None:
    fault = file_fault(FileNotFoundError(2, "No such file", str(tmp_path / "events/a")), tmp_path)
    assert fault is not None and fault.condition == missing_file(tmp_path).condition


@pytest.mark.parametrize(
    ("error", "needed"),
    [
        ("ModuleNotFoundError: No module named 'xscl'", f"install xscl {VERSION} for that Python"),
        ("ModuleNotFoundError: No module named 'xscl.templates'", f"install xscl {VERSION} for that Python"),
        ("ModuleNotFoundError: No module named 'pyarrow'", "install pyarrow, which xscl"),
        (
            "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker: 3.9",
            "version",
        ),
        ('java.io.IOException: Cannot run program "python3.12": error=2, No such file', "PYSPARK_PYTHON"),
    ],
)
def test_what_workers_lack_is_said(error: str, needed: str) -> None:
    fault: XsclError | None = worker_fault(TRACE.format(error=error))
    assert fault is not None and fault.condition == "XSCL_WORKER" not in PASSES
    assert error.partition(": ")[2][:30] in fault.message and needed in (fault.hint or "")


@pytest.mark.parametrize(
    "error", ["ValueError: 3", "MemoryError", "KeyError: 'x'", "xscl.base.errors.EngineError: [XSCL_X] y"]
)
def test_the_reason_is_the_error_of_the_worker(error: str) -> None:
    text = TRACE.format(error=error)
    assert worker_fault(text) is None
    assert spark_reason(text) == error


def test_without_a_worker_the_reason_is_sparks_first_line() -> None:
    assert spark_reason("\n[INTERNAL] It failed.\n\tat a.b.C") == "[INTERNAL] It failed."


def test_without_a_worker_the_reason_is_sparks_last_cause() -> None:
    text = (
        "a.b.SparkException: Exception thrown in awaitResult:\n\tat a.b.C\nCaused by: a.b.D: Job aborted.\n\tat a.b.E"
    )
    assert (
        spark_reason(f"{text}\nCaused by: java.io.IOException: Broken pipe\n\tat a")
        == "java.io.IOException: Broken pipe"
    )


def test_what_py4j_says_before_the_reason_is_left_out() -> None:
    text = "An error occurred while calling None.org.apache.spark.api.java.JavaSparkContext.\n: a.b.SparkException: No."
    assert spark_reason(f"{text}\n\tat a.b.C") == "a.b.SparkException: No."


def test_the_node_that_a_task_tells_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for error in ("ModuleNotFoundError: No module named 'xscl'", f"FileNotFoundError: [Errno 2] No: '{tmp_path}/a'"):
        text = TRACE.format(error=f"{error}\non node h1 (/work/app-1/0)")
        fault = worker_fault(text) or file_fault(RuntimeError(text), tmp_path)
        assert fault is not None and fault.message.endswith(" (on node h1 (/work/app-1/0))")
        assert spark_reason(text) == error
