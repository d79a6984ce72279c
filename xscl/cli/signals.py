"""SIGTERM and Ctrl-C: what runs without end, ends behind what it is doing."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from xscl.cli.options import say

__all__ = ["End", "ended_by_signals", "interrupted_by_ctrl_c"]

_INTERRUPTED = 130
_LOOK_S = 0.2


@dataclass
class End:
    """Whether the end is wanted, and the exit code that goes with how it was asked for."""

    wanted: bool = False
    code: int = 0
    """0 after SIGTERM, with which services are stopped; 130 after Ctrl-C."""
    idle: bool = False
    """Whether nothing is being done."""

    def wait(self, seconds: float) -> None:
        """Wait until some seconds have passed, or the end is wanted."""
        # An event that a signal's handler sets may be locked by what it interrupts.
        until = time.monotonic() + seconds
        self.idle = True
        while not self.wanted and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _LOOK_S))
        self.idle = False


@contextmanager
def interrupted_by_ctrl_c() -> Iterator[None]:
    """Let Ctrl-C interrupt the work in the context, also in a process that was started with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def ended_by_signals() -> Iterator[End]:
    """Ask for the end at the first signal; interrupt at a second one, so that the work under way leaves no trace."""
    end = End()

    def ask(number: int, frame: FrameType | None) -> None:
        if end.wanted:
            raise KeyboardInterrupt
        end.code = _INTERRUPTED if number == signal.SIGINT else 0
        end.wanted = True
        say("ending" if end.idle else "ending after this batch; once more interrupts it")

    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield end
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
