"""Pushed events on their way into the home: whatever came meanwhile is taken in one transaction.

A push is answered once its events are committed, so an answer survives the end of the process.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field

from xscl.base.errors import EngineError, XsclError
from xscl.intake.intake import Intake
from xscl.intake.pushes import Push, Pushed, take_pushes
from xscl.service.problems import Refused
from xscl.service.settings import EVENT_BYTES

__all__ = ["Arrivals"]

_EVENTS, _BYTES = 10_000, 32 * 1024 * 1024
"""Events and bytes of one transaction, unless a single push has more."""
_REST, _REST_S = 3.0, 0.1
"""Rest behind a transaction of several pushes, in which others gather: a multiple of its time, and seconds at most."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    push: Push
    size: int
    answer: Future[Pushed] = field(default_factory=Future)


class Arrivals:
    """A queue of pushes, and the thread that takes them."""

    def __init__(self, intake: Intake, most: int, then: Callable[[int], None]) -> None:
        """``most`` bytes may wait.  ``then`` is called, in the thread, with the place of what was committed."""
        self._intake = intake
        self._most = most
        self._then = then
        self._queue: deque[_Waiting] = deque()
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self.waiting = 0
        """Bytes of pushes that were not answered yet, counted as ``put`` does."""
        self._thread = threading.Thread(target=self._loop, name="xscl-arrivals", daemon=True)
        self._thread.start()

    def put(self, push: Push, size: int) -> Future[Pushed]:
        """Queue a push whose body has so many bytes; the future has its outcome once it is committed.

        Raises:
            Refused: ``XSCL_BUSY``: too much waits, or the service is ending.
        """
        size += EVENT_BYTES * len(push)
        with self._changed:
            if self._closed.is_set():
                raise Refused(503, "XSCL_BUSY", "the service is ending", after_s=5)
            if self.waiting and self.waiting + size > self._most:
                raise Refused(503, "XSCL_BUSY", "more events wait to be taken in than the service holds", after_s=1)
            waiting = _Waiting(push, size)
            self._queue.append(waiting)
            self.waiting += size
            self._changed.notify()
        return waiting.answer

    def close(self) -> None:
        """Take what waits, then end."""
        with self._changed:
            self._closed.set()
            self._changed.notify()
        self._thread.join()

    def _loop(self) -> None:
        while part := self._next():
            began = time.monotonic()
            size = sum(each.size for each in part)
            # Whoever has gone meanwhile was promised nothing.
            part = [each for each in part if each.answer.set_running_or_notify_cancel()]
            try:
                outcomes = take_pushes(self._intake, [each.push for each in part]) if part else []
            except BaseException as error:
                # The fault may be of one push only, as a row that no database can hold.
                self._alone(part) if len(part) > 1 else self._fail(part[0], error)
            else:
                if outcomes:
                    self._then(outcomes[-1].place)
                for each, outcome in zip(part, outcomes, strict=True):
                    each.answer.set_result(outcome)
            with self._changed:
                self.waiting -= size
            if len(part) > 1:
                self._closed.wait(min(_REST * (time.monotonic() - began), _REST_S))

    def _alone(self, part: list[_Waiting]) -> None:
        """Take pushes one by one, so that each fails for itself."""
        for each in part:
            try:
                (outcome,) = take_pushes(self._intake, [each.push])
            except BaseException as error:
                self._fail(each, error)
            else:
                self._then(outcome.place)
                each.answer.set_result(outcome)

    def _fail(self, waiting: _Waiting, error: BaseException) -> None:
        named = error if isinstance(error, XsclError) else EngineError("XSCL_INTAKE", f"the intake failed: {error!r}")
        waiting.answer.set_exception(named)

    def _next(self) -> list[_Waiting]:
        """Wait for pushes and return those of the next transaction; none at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed.is_set())
            part: list[_Waiting] = []
            events = size = 0
            while self._queue and (not part or (events < _EVENTS and size + self._queue[0].size <= _BYTES)):
                first = self._queue.popleft()
                part.append(first)
                events += len(first.push)
                size += first.size
            return part
