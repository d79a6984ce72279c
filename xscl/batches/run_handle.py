"""A loop that processes batches in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from uuid import uuid4

from xscl.base.errors import XsclError
from xscl.base.locks import RunLock
from xscl.base.notebook import facts_html
from xscl.base.system_errors import Patience
from xscl.batches.report import BatchReport

__all__ = ["RunHandle"]


class RunHandle:
    """A loop that processes batches in a thread of its own, and holds the home's lock until it ends.

    A failure that passes by itself (``system_errors.PASSES``) does not end the loop; ``lastProblem`` has the failure.
    """

    def __init__(
        self,
        run: Callable[[Callable[[], bool]], list[BatchReport]],
        every_s: float,
        lock: RunLock,
        name: str,
        then: Callable[[list[BatchReport]], None] = lambda reports: None,
    ) -> None:
        lock.take()
        self._run = run
        self._every_s = every_s
        self._lock = lock
        self._then = then
        self._stopping = False
        self._call = threading.Event()
        """Ends the pause between two looks."""
        self._progress: list[BatchReport] = []
        self._error: BaseException | None = None
        self._problem: XsclError | None = None
        self.id = uuid4()
        """Identifier of the handle, in this process and in others."""
        self.name = name
        """Name of the handle and of its thread, as ``start`` was given it."""
        self._thread = threading.Thread(target=self._loop, name=name, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        return f"<xscl.RunHandle {self.name}: {self.status['message']}>"

    def _repr_html_(self) -> str:
        batch = None if self.lastProgress is None else self.lastProgress.batch
        return facts_html(f"xscl.RunHandle {self.name}", {"id": self.id, **self.status, "last batch": batch})

    @property
    def status(self) -> dict[str, object]:
        """``message`` and ``isActive``, in the manner of pyspark's StreamingQuery."""
        if self._error is not None:
            message = f"ended: {self._error}"
        elif not self.isActive:
            message = "stopped"
        elif self._problem is not None:
            message = f"tries again: {self._problem}"
        else:
            message = "stopping" if self._stopping else "running"
        return {"message": message, "isActive": self.isActive}

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
        self._note(self._run(lambda: False))

    def wake(self) -> None:
        """Have the loop look for new events at once, and not only after its pause."""
        self._call.set()

    def awaitTermination(self, timeout: float | None = None) -> bool:  # noqa: N802 - pyspark's name
        """Wait until the loop ends, and raise the error that ended it; False if ``timeout`` seconds passed first."""
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self.isActive

    def stop(self) -> None:
        """End the loop after the batch that is running."""
        self._stopping = True
        self._call.set()
        self._thread.join()

    def _note(self, reports: list[BatchReport]) -> None:
        self._progress = [*self._progress, *reports][-100:]
        self._then(reports)

    def _loop(self) -> None:
        patience = Patience()
        try:
            while not self._stopping:
                began = time.monotonic()
                # Who calls from here on may have seen more than this look sees.
                self._call.clear()
                try:
                    self._note(self._run(lambda: self._stopping))
                    self._problem = None
                    patience.went_well()
                    pause = self._every_s - (time.monotonic() - began)
                except XsclError as error:
                    pause_s = patience.wait_s(error)
                    if pause_s is None:
                        raise
                    self._problem, pause = error, pause_s
                if not self._stopping:
                    self._call.wait(max(0.0, pause))
        except BaseException as error:
            self._error = error
        finally:
            self._lock.release()
