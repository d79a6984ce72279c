"""Lines of the access log on their way out: a thread writes what has come, so that no answer waits for a terminal."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

__all__ = ["AccessLog"]

_PAUSE_S = 0.2
_MOST = 10_000
"""Lines that wait; more are left out, and the log says how many."""


class AccessLog:
    """A thread that writes lines, until ``close``."""

    def __init__(self, write: Callable[[str], None]) -> None:
        """``write`` takes some lines together, without the end of the last one."""
        self._write = write
        self._lines: deque[str] = deque()
        self._left_out = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="xscl-log", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Have a line written soon."""
        if len(self._lines) < _MOST:
            self._lines.append(line)
        else:
            self._left_out += 1

    def close(self) -> None:
        """Write what waits, then end."""
        self._ended.set()
        self._thread.join()

    def _loop(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            self._flush()
        self._flush()

    def _flush(self) -> None:
        lines = [self._lines.popleft() for _ in range(len(self._lines))]
        left_out, self._left_out = self._left_out, 0
        if left_out:
            lines.append(f"{left_out} lines of the access log are left out: they could not be written in time")
        if lines:
            try:
                self._write("\n".join(lines))
            except OSError:
                # A disk may be full for a while; whoever reads the log later is told.
                self._left_out += len(lines)
