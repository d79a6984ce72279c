"""One archive of Java classes for real: a process makes it, and the Java of the next session has it mapped.

Where it is kept and when it is trusted is tested without Java (``unit/spark/test_class_archive.py``).
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.thorough,
    pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc"),
]

SESSION = """
from pathlib import Path
from pyspark import SparkContext
from xscl.spark.session import start_session
assert start_session().range(3).count() == 3
print(Path(f"/proc/{SparkContext._gateway.proc.pid}/maps").read_text())
"""


def test_it_is_made_once_and_used(tmp_path: Path) -> None:
    # A blank, because Spark splits Java's options at blanks.
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "my cache")}
    del environment["XSCL_CLASS_ARCHIVE"]

    def python(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, *arguments], env=environment, capture_output=True, text=True, check=True, timeout=300
        )

    python("-m", "xscl.cli.make_class_archive")
    (made,) = (tmp_path / "my cache" / "xscl").glob("*.jsa")
    before = made.stat().st_ino
    ran = python("-c", SESSION)
    assert str(made) in ran.stdout
    assert "[cds" not in ran.stdout + ran.stderr
    (still,) = (tmp_path / "my cache" / "xscl").glob("*.jsa")
    assert (still, still.stat().st_ino) == (made, before)
