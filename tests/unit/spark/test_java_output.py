"""What Java writes while it starts: noise is left out, all else is shown, and want of memory has a name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from xscl.base.errors import EngineError
from xscl.spark.java import java_version
from xscl.spark.java_output import lacks_memory

SCRIPT = """
import subprocess, sys
from xscl.spark.java_output import java_errors
with java_errors() as said:
    child = subprocess.Popen(["sh", "-c", "echo 'WARNING: Using incubator modules: jdk.incubator.vector' >&2;"
        "echo first >&2; read line; echo second >&2"], stdin=subprocess.PIPE)
print("own", file=sys.stderr, flush=True)
child.communicate(b"go\\n")
import time
for _ in range(6_000):
    if "second\\n" in said: break
    time.sleep(0.01)
print(list(said))
"""


def test_noise_is_left_out_and_all_else_is_shown_as_long_as_the_program_lives() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True)
    assert sorted(done.stderr.splitlines()) == ["first", "own", "second"]
    assert done.stdout == "['first\\n', 'second\\n']\n"


def test_a_process_without_standard_error_starts_programs(tmp_path: Path) -> None:
    lines = [
        "import os; os.close(2)",
        "from xscl.spark.java_output import java_errors",
        "with java_errors() as s: print(list(s))",
    ]
    text = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("said", "condition"),
    [
        (
            "Error occurred during initialization of VM\nCould not reserve enough space for object heap",
            "XSCL_JAVA_MEMORY",
        ),
        ("There is insufficient memory for the Java Runtime Environment to continue.", "XSCL_JAVA_MEMORY"),
        ("os::commit_memory failed; error='Not enough space' (errno=12)", "XSCL_JAVA_MEMORY"),
        ("Error: could not find libjava.so", "XSCL_NO_JAVA"),
    ],
)
def test_too_little_memory_for_java_is_no_missing_java(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, said: str, condition: str
) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    (tmp_path / "said").write_text(said)
    java.write_text(f"#!/bin/sh\ncat {tmp_path}/said >&2\nexit 1\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(EngineError) as caught:
        java_version()
    assert caught.value.condition == condition
    assert said.splitlines()[-1][:40] in caught.value.message


def test_a_process_that_cannot_be_made_lacks_memory() -> None:
    assert lacks_memory(str(OSError(12, os.strerror(12))))
    assert not lacks_memory(str(OSError(2, os.strerror(2))))
