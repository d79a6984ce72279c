"""A loop that processes batches in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from uuid import uuid4

from xscl.base.errors import EngineError, XsclError
from xscl.base.locks import RunLock
from xscl.base.notebook import facts_html
from xscl.base.system_errors import PASSES, Patience
from xscl.batches.report import BatchReport

__all__ = ["CLOSED", "Pauses", "RunHandle", "Work"]

CLOSED = "XSCL_ENGINE_CLOSED"
"""Condition of calls on a home that was closed: a loop ends by it, and has not failed."""

_UNFORESEEN = "XSCL_INTERNAL"


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a loop, as functions that it calls."""

    warm: Callable[[], None]
    """Is called before the first look."""
    run: Callable[[Callable[[], bool], Callable[[BatchReport], None]], None]
    """Processes what is there: it asks the first function whether to stop, and gives reports to the second one."""
    then: Callable[[BatchReport], None] = lambda report: None
    """Is called with the report of each batch."""
    failed: Callable[[BaseException], None] = lambda error: None
    """Is called with the error that ends the loop."""
    warns: Callable[[str], None] = lambda text: None
    """Is called with a message when a failure may pass, and when it has passed."""


@dataclass(frozen=True, slots=True)
class Pauses:
    """Pauses of a loop, in seconds."""

    every_s: float
    """Time between two looks while nobody calls."""
    apart_s: float = 0.0
    """Time between the beginnings of two batches at least."""


class RunHandle:
    """A loop that processes batches in a thread of its own, and holds the home's lock until the loop ends.

    A failure that passes by itself (``system_errors.PASSES``) does not end the loop; ``lastProblem`` has the failure.
    One that nobody foresaw may pass, too: it is ``XSCL_INTERNAL``, caused by the error itself, and tried again.
    """

    def __init__(self, work: Work, pauses: Pauses, lock: RunLock, name: str) -> None:
        lock.take()
        self._work = work
        self._pauses = pauses
        self._lock = lock
        self._stopping = threading.Event()
        self._call = threading.Event()
        """Ends the pause between two looks."""
        self._progress: list[BatchReport] = []
        self._error: BaseException | None = None
        self._problem: XsclError | None = None
        self.isWarm = False
        """Whether the live queries are planned for, so that what comes is processed at once."""
        self.id = uuid4()
        """Identifier of the handle, in this process and in others."""
        self.name = name
        """Name of the handle and of its thread, as ``start`` was given it."""
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        try:
            self._thread.start()
        except BaseException:
            lock.release()
            raise

    def __repr__(self) -> str:
        return f"<xscl.RunHandle {self.name}: {self.status['message']}>"

    def _repr_html_(self) -> str:
        batch = None if self.lastProgress is None else self.lastProgress.batch
        return facts_html(f"xscl.RunHandle {self.name}", {"id": self.id, **self.status, "last batch": batch})

    @property
    def status(self) -> dict[str, object]:
        """``message`` and ``isActive``, in the manner of pyspark's StreamingQuery."""
        # A loop that has ended has left its error before.
        is_active, problem = self.isActive, self._problem
        if self._error is not None:
            message = f"ended: {self._error}"
        elif not is_active:
            message = "stopped"
        elif problem is not None:
            message = f"tries again: {problem}"
        else:
            message = "stopping" if self._stopping.is_set() else "running"
        return {"message": message, "isActive": is_active}

    @property
    def isActive(self) -> bool:  # noqa: N802 - pyspark's name
        """Whether the loop goes on."""
        return self._thread.is_alive()

    @property
    def lastProgress(self) -> BatchReport | None:  # noqa: N802 - pyspark's name
        """Report of the last batch."""
        return self._progress[-1] if self._progress else None

    @property
    def recentProgress(self) -> list[BatchReport]:  # noqa: N802 - pyspark's name
        """Reports of the last hundred batches."""
        return list(self._progress)

    @property
    def lastProblem(self) -> XsclError | None:  # noqa: N802 - as the others
        """Failure of the last try, if it may pass; None if the try went well."""
        return self._problem

    def exception(self) -> BaseException | None:
        """Return the error that ended the loop, or None."""
        return self._error

    def processAllAvailable(self) -> None:  # noqa: N802 - pyspark's name
        """Process everything taken in so far, now."""
        self._work.run(lambda: False, self._note)

    def wake(self) -> None:
        """Have the loop look for new events at once, and not only after its pause."""
        self._call.set()

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - pyspark's name
        """Wait until the loop ends, and raise the error that ended it; False if ``timeout`` seconds passed first.

        Raises:
            EngineError: ``XSCL_OWN_CALL``: a function that the loop calls cannot wait for its end.
        """
        if self._is_own():
            raise EngineError(
                "XSCL_OWN_CALL", f"{self.name} waits for its own end", hint="call stop() here, and wait elsewhere"
            )
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self.isActive

    def stop(self) -> None:
        """End the loop after the batch that is running, and wait for that.

        Functions that the loop calls may stop it, too: the loop ends behind the batch, and nobody waits.
        """
        self._stopping.set()
        self._call.set()
        if not self._is_own():
            self._thread.join()

    def _is_own(self) -> bool:
        """Whether this is the loop's own thread."""
        return threading.current_thread() is self._thread

    def _note(self, report: BatchReport) -> None:
        self._progress = [*self._progress, report][-100:]
        self._work.then(report)

    def _loop(self) -> None:
        patience = Patience(self._work.warns, passes=PASSES | {_UNFORESEEN})
        try:
            while not self._stopping.is_set():
                began = time.monotonic()
                # Who calls from here on may have seen more than this look sees.
                self._call.clear()
                try:
                    is_done = self._look(began + self._pauses.apart_s)
                    self._problem = None
                    patience.went_well()
                    pause = self._pauses.every_s - (time.monotonic() - began)
                except Exception as error:
                    named = _named(error)
                    if named.condition == CLOSED:
                        return
                    pause_s = patience.wait_s(named)
                    if pause_s is None:
                        raise named from named.__cause__
                    self._problem, pause, is_done = named, pause_s, True
                if is_done and not self._stopping.is_set():
                    self._call.wait(max(0.0, pause))
                self._stopping.wait(max(0.0, began + self._pauses.apart_s - time.monotonic()))
        except BaseException as error:
            self._error = error
            self._work.failed(error)
        finally:
            self._lock.release()

    def _look(self, until: float) -> bool:
        """Process what is there; tell whether all of it is done.  Before a time only one batch begins."""
        if not self.isWarm:
            self._work.warm()
            self.isWarm = True
        looked = is_cut = False

        def stop() -> bool:
            nonlocal looked, is_cut
            is_cut, looked = looked and time.monotonic() < until, True
            return is_cut or self._stopping.is_set()

        self._work.run(stop, self._note)
        return not is_cut


def _named(error: Exception) -> XsclError:
    """Return an error of xscl, which is made of one that nobody foresaw."""
    if isinstance(error, XsclError):
        return error
    named = EngineError(
        _UNFORESEEN, f"batches failed: {error!r}", hint="nothing was done by halves; report it with its trace"
    )
    named.__cause__ = error
    return named
