"""The file in a home that tells of the service that has it open.

The service holds a lock on the file while it answers.  The lock goes with the process, however that ends, so a file
that is left behind tells of nobody.  The file has an address and a process, and nothing secret.
"""

from __future__ import annotations

import json
import os
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

__all__ = ["SERVICE_FILE", "Serving", "announce", "read_serving", "withdraw"]

SERVICE_FILE = "service.json"
_LOCAL = re.compile(r"http://(?:127\.0\.0\.1|\[::1\]):[0-9]{1,5}")
"""Addresses that are believed: those of this machine alone."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A service that has a home open."""

    url: str
    """Its address on this machine."""
    process: int
    tokens: bool
    """Whether its calls need a token."""


def announce(root: Path, serving: Serving) -> BinaryIO | None:
    """Tell of a service in a home; what is returned goes to ``withdraw``.  None: the home can hold no such file."""
    import fcntl  # Windows has none, and reads homes

    path = root / SERVICE_FILE
    told = {"url": serving.url, "process": serving.process, "tokens": serving.tokens, "machine": socket.gethostname()}
    try:
        while True:
            file = path.open("ab", buffering=0)
            # Readers hold it for a moment only.
            fcntl.flock(file, fcntl.LOCK_EX)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                break
            file.close()
        file.truncate(0)
        file.write(json.dumps(told).encode() + b"\n")
    except OSError:
        return None
    return file


def withdraw(root: Path, file: BinaryIO) -> None:
    """Remove what ``announce`` wrote."""
    with file, suppress(OSError):
        (root / SERVICE_FILE).unlink()


def read_serving(root: Path) -> Serving | None:
    """Return the service that has a home open on this machine; None: there is none."""
    try:
        import fcntl

        with (root / SERVICE_FILE).open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                told = json.loads(file.read(10_000))
            else:
                return None  # its process has ended
        serving = Serving(str(told["url"]), int(told["process"]), bool(told["tokens"]))
        is_here = told["machine"] == socket.gethostname()
    except (ImportError, OSError, ValueError, KeyError, TypeError):
        return None
    return serving if is_here and _LOCAL.fullmatch(serving.url) else None
