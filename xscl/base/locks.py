"""Locks on files: a lock goes with the process that holds it, however that ends, so none is ever left behind."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from xscl.base.errors import CatalogError

__all__ = ["RunLock", "holder", "locked", "running", "try_lock"]

_CLOSED = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
"""Error numbers of files that this user cannot write."""
_LOOK_S = 0.01
"""Seconds after which a lock is tried again: ``holder`` may have looked at it, and looks for a few microseconds."""


def try_lock(path: Path) -> BinaryIO | None:
    """Lock a file, which is made if need be, until it is closed; None if somebody else has it locked.

    While it is locked, the file says by which process.

    Raises:
        CatalogError: ``XSCL_READ_ONLY``: this user cannot write the file.
    """
    import fcntl  # Windows has none, and reads homes

    try:
        lock = path.open("ab", buffering=0)
    except OSError as error:
        if error.errno not in _CLOSED:
            raise
        raise CatalogError(
            "XSCL_READ_ONLY",
            f"{path} cannot be written by this user, or its disk is read-only",
            hint="listings need no more than reading; to change something, use the home's owner or a copy",
        ) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_LOOK_S)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    except BaseException:
        lock.close()
        raise
    with suppress(OSError):  # a full disk: it is locked without
        lock.truncate(0)
        lock.write(b"%d\n" % os.getpid())
    return lock


@contextmanager
def locked(path: Path, doing: str, hint: str) -> Iterator[None]:
    """Hold a lock that nobody else may have.

    Args:
        path: its file.
        doing: what the holder does, as in "polls the feeds of /data/home".
        hint: what whoever is refused may do.

    Raises:
        CatalogError: ``XSCL_HOME_IN_USE``: somebody else has it.  ``XSCL_READ_ONLY``.
    """
    lock = try_lock(path)
    if lock is None:
        raise CatalogError("XSCL_HOME_IN_USE", f"{_holder(path)} {doing}", hint=hint)
    with lock:
        try:
            yield
        finally:
            # Who is refused next must not be told of this process; the lock goes when the file is closed.
            with suppress(OSError):
                lock.truncate(0)


def holder(path: Path) -> str | None:
    """Return the process that has a file locked, as in "process 17"; None: nobody has."""
    import fcntl

    try:
        # A shared lock: two processes that look at once must not take each other for the holder.
        with path.open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(path)
    except OSError:
        return None
    return None


def _holder(path: Path) -> str:
    try:
        process = int(path.read_bytes())
    except (OSError, ValueError):
        return "another process"
    return f"process {process}" if process != os.getpid() else "another engine of this process"


def running(root: Path) -> AbstractContextManager[None]:
    """Take the lock of the home in this folder, under which batches run and files are put in order.

    Raises:
        CatalogError: on entering, ``XSCL_HOME_IN_USE``, ``XSCL_READ_ONLY``.
    """
    hint = "one process at a time runs batches on a home; wait until it is done, or stop it"
    return locked(root / "run.lock", f"runs batches on {root}", hint)


class RunLock:
    """The lock of a home under which batches run; whoever has the object may take it again.

    ``root`` is the folder of the home.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._taking = threading.Lock()
        self._holders = 0
        self._held = ExitStack()

    def take(self) -> None:
        """Hold it until it was released as often as it was taken.

        Raises:
            CatalogError: ``XSCL_HOME_IN_USE``: somebody else holds it.
        """
        with self._taking:
            if not self._holders:
                self._held.enter_context(running(self._root))
            self._holders += 1

    def release(self) -> None:
        """Let it go, if nobody else here holds it."""
        with self._taking:
            self._holders -= 1
            if not self._holders:
                self._held.close()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold it for a while; raises what ``take`` does."""
        self.take()
        try:
            yield
        finally:
            self.release()
