"""Files and catalogues of tests need not outlive a power cut, so that nothing waits for the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from xscl.catalog import catalog

_MEMORY = Path("/dev/shm")
"""Where Linux keeps files in memory.  A folder there is removed in a hundredth of a millisecond, on a disk in two."""
_ROOM = 4 << 30
"""Bytes that tests are to have there, at least."""
_made: list[str] = []
"""Folder that this process has made there."""


def keep_files_in_memory() -> None:
    """Have tests, and the programs that they start, put their temporary files into memory, if there is room.

    ``TMPDIR`` names another place.  Folders of runs that were killed, or had failures, go with the next run.
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK):
        return
    place = os.statvfs(_MEMORY)
    # Some tests run programs that they have written.
    if place.f_bavail * place.f_frsize >= _ROOM and not place.f_flag & os.ST_NOEXEC:
        for left in _MEMORY.glob("xscl-tests-*-*"):
            if not Path("/proc", left.name.split("-")[2]).exists():
                shutil.rmtree(left, ignore_errors=True)
        folder = tempfile.mkdtemp(prefix=f"xscl-tests-{os.getpid()}-", dir=_MEMORY)
        os.environ["TMPDIR"], tempfile.tempdir = folder, None
        # A server of PostgreSQL, say, is another user's.
        Path(folder).chmod(0o755)
        _made.append(folder)


def leave_memory() -> None:
    """Remove what lies in memory, by the process that began to keep files there."""
    for folder in _made:
        shutil.rmtree(folder, ignore_errors=True)


def wait_for_no_disk() -> None:
    """Spare this process every wait until a file is on the disk; what it has written is there for all others."""
    setattr(os, "fsync", lambda file: None)  # noqa: B010
    settings = catalog._sqlite_settings

    def unsynchronised(connection: Any, record: object) -> None:
        # Before the settings, too, of which the first waits for a new file.
        connection.execute("pragma synchronous = off").close()
        settings(connection, record)
        connection.execute("pragma synchronous = off").close()

    setattr(catalog, "_sqlite_settings", unsynchronised)  # noqa: B010
