"""An archive of the classes Spark loads, made once on a machine, with which later sessions start in half the time.

``xscl.cli.make_class_archive`` makes it, in a process of its own; ``session`` uses it.  Without one nothing else is
different: whatever keeps an archive from being made or read, Spark starts as it would without.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import time
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

__all__ = [
    "MOST_BYTES",
    "MOST_KEPT",
    "SWITCH",
    "ClassArchive",
    "cache_folder",
    "find_archive",
    "is_turned_off",
    "make_in_background",
    "reading_options",
    "writing_options",
]

SWITCH = "XSCL_CLASS_ARCHIVE"
"""Environment variable; ``off`` means that no archive is made or used."""
MOST_BYTES = 512 * 1024 * 1024
"""Size of one archive at most; it usually has some 180 MB."""
MOST_KEPT = 2 * 1024 * 1024 * 1024
"""Size of all archives together at most: there is room for those of some ten environments."""
_DAY = 86_400.0
"""Seconds in which no process in the background tries twice to make the same archive."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """Place of the archive for one Java and one Spark."""

    folder: Path
    stem: str
    """Java, Spark and every jar, in a digest: an archive serves no other."""

    def path(self) -> Path | None:
        """Return the archive; None if there is none, or none to be trusted.

        The name has the size, because Java crashes on an archive that was cut off.
        """
        for found in self.folder.glob(f"{self.stem}.*.jsa"):
            try:
                state = found.lstat()
            except OSError:
                continue
            if stat.S_ISREG(state.st_mode) and _only_ours(state) and found.name == f"{self.stem}.{state.st_size}.jsa":
                return found
        return None

    def use(self) -> Path | None:
        """Return the archive as ``path`` does, and note that it is used: those used last are kept."""
        found = self.path()
        if found is not None:
            with contextlib.suppress(OSError):
                os.utime(found)
        return found

    @property
    def tried(self) -> Path:
        """A file whose time says when a process in the background tried to make the archive."""
        return self.folder / f"{self.stem}.tried"

    def is_wanted(self) -> bool:
        """Tell whether a process in the background should make the archive."""
        if self.path() is not None or self.given_up.exists():
            return False
        try:
            # A clock that was put back must not forbid it for long.
            return abs(time.time() - self.tried.stat().st_mtime) >= _DAY
        except OSError:
            return True

    @property
    def given_up(self) -> Path:
        """A file that is there when an archive could not be made; nobody but doctor tries again."""
        return self.folder / f"{self.stem}.failed"


def is_turned_off() -> bool:
    """Whether the environment says so."""
    return os.environ.get(SWITCH, "").strip().lower() == "off"


def find_archive(java: str) -> ClassArchive | None:
    """Return the archive for the Java of this version line; None where none can be kept (no private folder)."""
    if is_turned_off() or os.name != "posix":
        return None
    folder = cache_folder()
    if folder is None:
        return None
    from pyspark.find_spark_home import _find_spark_home
    from pyspark.version import __version__ as spark

    digest = blake2b(digest_size=8)
    digest.update(f"{java}\n{os.environ.get('JAVA_HOME')}\n{shutil.which('java')}\n".encode())
    try:
        jars = sorted(Path(_find_spark_home(), "jars").iterdir())
        for jar in jars:
            state = jar.stat()
            digest.update(f"{jar}\n{state.st_size}\n{state.st_mtime_ns}\n".encode())
    except OSError:
        return None
    return ClassArchive(folder, f"spark-{spark}-{digest.hexdigest()}")


def cache_folder() -> Path | None:
    """Return a folder in which only this user writes: whoever writes an archive decides what Java runs."""
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    try:
        folder = (given if given.is_absolute() else Path.home() / ".cache") / "xscl"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = folder.stat()
    except (OSError, RuntimeError):
        return None
    # A colon would part two archives in Java's option.
    return folder if _only_ours(state) and ":" not in str(folder) else None


def _only_ours(state: os.stat_result) -> bool:
    return state.st_uid == os.geteuid() and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def reading_options(archive: Path) -> list[str]:
    """Return the options with which Java uses an archive, and says nothing where it cannot."""
    return [_quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", "-Xlog:cds*=off,class+path*=off"]


def writing_options(target: Path) -> list[str]:
    """Return the options with which Java writes an archive when it ends."""
    return [_quoted(f"-XX:ArchiveClassesAtExit={target}"), "-Xlog:cds*=off,class+path*=off"]


def _quoted(option: str) -> str:
    """Quote an option for ``spark.driver.extraJavaOptions``, which is split at blanks."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def make_in_background(archive: ClassArchive) -> None:
    """Start a process that makes the archive and outlives this one, unless one has tried within a day.

    The call comes when a process ends that had a session without an archive.  Written by that session's own Java, the
    archive would take its last seconds and hold only what it happened to load; made beside it, it would take one of
    its cores.  So a process of the lowest priority follows, and the next start profits.
    """
    if not archive.is_wanted():
        return
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "xscl.cli.make_class_archive", "background"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
