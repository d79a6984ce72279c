"""Files for others, which appear under their names when they are whole."""

from __future__ import annotations

import errno
import gzip
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from xscl.base.errors import EngineError

__all__ = ["DISK_FULL", "check_place", "written_whole"]

DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""Error numbers of the system where nothing more can be written."""


@contextmanager
def written_whole(path: Path, *, zipped: bool = False) -> Iterator[BinaryIO]:
    """Open a file to write, which takes the place of an earlier one when all of it is written.

    Links are followed. A device or a pipe is written to as it is: nothing may take its place.

    Raises:
        EngineError: ``XSCL_CANNOT_WRITE``, ``XSCL_DISK_FULL``; what was there stays.
    """
    target = path.resolve()
    with _named_faults(path):
        if target.exists() and not target.is_file():
            with target.open("wb", buffering=0) as raw, _packed(cast(BinaryIO, raw), zipped) as stream:
                yield stream
            return
        unfinished = target.with_name(f".{target.name}.{os.getpid()}")
        stream = unfinished.open("xb")
        try:
            with stream:
                with _packed(cast(BinaryIO, stream), zipped) as packed:
                    yield packed
                stream.flush()
                os.fsync(stream.fileno())
            unfinished.replace(target)
        finally:
            unfinished.unlink(missing_ok=True)


def check_place(path: Path) -> None:
    """Refuse a path at which no file can be written, before anything is done.

    Raises:
        EngineError: ``XSCL_CANNOT_WRITE``.
    """
    folder = path.resolve().parent
    if not folder.is_dir():
        raise _cannot_write(path, os.strerror(errno.ENOENT if not folder.exists() else errno.ENOTDIR))
    if not os.access(folder, os.W_OK):
        raise _cannot_write(path, os.strerror(errno.EACCES))


@contextmanager
def _packed(stream: BinaryIO, zipped: bool) -> Iterator[BinaryIO]:
    if not zipped:
        yield stream
        return
    with gzip.GzipFile(filename="", mode="wb", compresslevel=6, fileobj=stream) as packed:
        yield cast(BinaryIO, packed)


@contextmanager
def _named_faults(path: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        if error.errno in DISK_FULL:
            raise EngineError(
                "XSCL_DISK_FULL",
                f"{path} cannot be written: {error.strerror}",
                hint="make room on the disk, and write it again; what was there is as it was",
            ) from error
        # What is read meanwhile has errors of its own.
        if error.filename is None or Path(error.filename).parent != path.resolve().parent:
            raise
        raise _cannot_write(path, str(error.strerror)) from error


def _cannot_write(path: Path, why: str) -> EngineError:
    return EngineError("XSCL_CANNOT_WRITE", f"{path}: {why}", hint="give a place where a file can be written")
