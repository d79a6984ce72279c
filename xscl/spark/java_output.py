"""Errors that Java writes while it starts: a line that nobody can use is left out, and want of memory has a name."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from xscl.base.errors import EngineError
from xscl.base.terminal import safe_message

__all__ = ["java_errors", "lacks_memory", "memory_error"]

_NOISE = re.compile(rb"WARNING: Using incubator modules: ")
"""Begins the line that Java writes because Spark asks for vector instructions."""
_MEMORY = re.compile(
    r"could not reserve enough space|insufficient memory|cannot allocate memory|outofmemoryerror|errno=12\b"
    r"|unable to create native thread|failed to (map|reserve|commit) memory",
    re.IGNORECASE,
)


def lacks_memory(text: str) -> bool:
    """Tell whether Java says that it gets too little memory."""
    return _MEMORY.search(text) is not None


def memory_error(text: str) -> EngineError:
    """Make the error of a Java that does not start for want of memory; ``text`` is what it says."""
    said = next((line.strip() for line in text.splitlines() if lacks_memory(line)), text.strip())
    return EngineError(
        "XSCL_JAVA_MEMORY",
        f"Java is there, and gets too little memory to start: {said}",
        hint="end other programs, raise the limit of memory (ulimit -v, the container's), or give Spark less with "
        "SPARK_DRIVER_MEMORY, for example 512m",
    )


@contextmanager
def java_errors() -> Iterator[deque[str]]:
    """Pass on the errors of programs that are started meanwhile, without noise, for as long as they live.

    Yields:
        The lines written last.
    """
    lines: deque[str] = deque(maxlen=50)
    try:
        shown = os.dup(2)
    except OSError:  # this process has no standard error
        yield lines
        return
    read, write = os.pipe()
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.flush()
    os.dup2(write, 2)
    os.close(write)
    forwarding = threading.Thread(target=_forward, args=(read, os.dup(shown), lines), daemon=True, name="java-errors")
    forwarding.start()
    try:
        yield lines
    except BaseException:
        # A Java that has ended has written all: it is to be known what.
        os.dup2(shown, 2)
        forwarding.join(1.0)
        raise
    finally:
        os.dup2(shown, 2)
        os.close(shown)


def _forward(source: int, target: int, lines: deque[str]) -> None:
    with os.fdopen(source, "rb") as stream, os.fdopen(target, "wb", buffering=0) as shown:
        for line in stream:
            if not _NOISE.match(line):
                text = line.decode("utf-8", "replace")
                lines.append(text)
                with suppress(OSError):  # nobody reads it any more
                    shown.write(safe_message(text).encode())
