"""The Java that Spark would start, and its version."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from xscl.base.errors import EngineError
from xscl.spark.java_output import lacks_memory, memory_error

__all__ = ["java_version"]

_HINT = (
    "install Java 17 or 21 (Debian and Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@21) "
    "and put it on the PATH or set JAVA_HOME"
)


def java_version() -> tuple[int, str]:
    """Return (major version, the line Java prints) of the Java that Spark would start.

    Raises:
        EngineError: there is none, or none that Spark runs on.
    """
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if java is None or not shutil.which(java):
        raise EngineError("XSCL_NO_JAVA", "Spark needs Java, and there is none here", hint=_HINT)
    try:
        # In a session of its own, because Ctrl-C would end it and look as if there were no Java.
        run = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False, start_new_session=True
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        if lacks_memory(str(error)):
            raise memory_error(str(error)) from None
        raise EngineError("XSCL_NO_JAVA", f"{java} does not start: {error}", hint=_HINT) from None
    if run.returncode != 0 and lacks_memory(said := f"{run.stderr}\n{run.stdout}"):
        raise memory_error(said)
    line = (run.stderr or run.stdout).strip().partition("\n")[0]
    found = re.search(r'version "(\d+)', line)
    if run.returncode != 0 or not found:
        raise EngineError("XSCL_NO_JAVA", f"{java} does not tell its version: {line}", hint=_HINT)
    major = int(found[1])
    if major < 17:
        raise EngineError("XSCL_JAVA_VERSION", f"Spark needs Java 17 or 21, this is {line}", hint=_HINT)
    return major, line
