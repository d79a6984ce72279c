"""Files of deliveries: lines at the end of a file that another one follows by day and by size.

The catalogue says how many bytes of the file are delivered.  Bytes behind them with which the next page begins are of
a process that ended between writing and noting it; the page takes their place, so a file has every match once.  Other
bytes stay, and the page goes to a new file: a copy of the home may have written them.
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
from pathlib import Path

from xscl.base.errors import EngineError

__all__ = ["append_lines", "next_file"]

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


def next_file(folder: Path, name: str, day: str, file: str | None, size: int, most: int, *, new: bool = False) -> str:
    """Choose the file that lines go to: the one that is written, or a new one.

    A new one begins on another day, where the last one is full, and where somebody took it away.

    >>> next_file(Path("/nowhere"), "all", "20260601", None, 0, 10)
    'all-20260601-000001.ndjson'

    Args:
        folder: of the files.
        name: of the delivery.
        day: as the names have it.
        file: name of the file that is written; None: none yet.
        size: its bytes that are delivered.
        most: size at which it is full.
        new: whether others write to the one that is written.
    """
    is_open = not new and size < most
    if is_open and file is not None and file.startswith(f"{name}-{day}-") and _holds(folder / file, size):
        return file
    pattern = re.compile(rf"{re.escape(name)}-{day}-(\d{{6,}})\.ndjson", re.ASCII)
    # The name of a file that was taken away must not come again.
    names = [file or "", *(each.name for each in folder.iterdir())] if folder.is_dir() else [file or ""]
    numbers = (int(found[1]) for each in names if (found := pattern.fullmatch(each)))
    return f"{name}-{day}-{max(numbers, default=0) + 1:06}.ndjson"


def append_lines(path: Path, size: int, lines: bytes) -> int | None:
    """Write lines behind the first ``size`` bytes of a file; return its size then, or None where others write, too.

    Raises:
        EngineError: ``XSCL_CANNOT_WRITE``; ``XSCL_DISK_FULL`` is told as the former, and passes by itself.
    """
    try:
        handle = os.open(path, _FLAGS, 0o666)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise EngineError("XSCL_CANNOT_WRITE", f"{path} is no file")
            if _is_held(handle):
                return None
            # A machine that went down may leave zeros, which no line has.
            if not lines.startswith(os.pread(handle, len(lines) + 1, size).rstrip(b"\0")):
                return None
            os.ftruncate(handle, size)
            os.lseek(handle, size, os.SEEK_SET)
            left = memoryview(lines)
            while left:
                left = left[os.write(handle, left) :]
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise EngineError("XSCL_CANNOT_WRITE", f"{path}: {error.strerror}") from None
    return size + len(lines)


def _holds(path: Path, size: int) -> bool:
    """Whether a file has all that was delivered to it; one that is not written yet has."""
    try:
        return path.lstat().st_size >= size
    except FileNotFoundError:
        return size == 0
    except OSError:
        return False


def _is_held(handle: int) -> bool:
    """Lock an open file until it is closed, and tell whether somebody else has; some file systems have no locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    return False
