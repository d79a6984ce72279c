"""An archive of the classes Spark loads, made once on a machine, with which later sessions start in half the time.

``python -m xscl.class_archive`` makes it, in a process of its own; ``session`` uses it.  Without one nothing else is
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
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

from xscl.scratch import temporary_folder

__all__ = [
    "SWITCH",
    "ClassArchive",
    "cache_folder",
    "find_archive",
    "is_turned_off",
    "make_archive",
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
    """Where the archive for one Java and one Spark is, or would be."""

    folder: Path
    stem: str
    """Java, Spark and every jar, in a digest: an archive serves no other."""

    def path(self) -> Path | None:
        """The archive; None if there is none, or none to be trusted.

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
    """The archive for the Java of this version line; None where none can be kept (turned off, no private folder)."""
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
    """A folder in which only this user writes: whoever writes an archive decides what Java runs."""
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
    """What Java is told to use an archive, and to say nothing where it cannot."""
    return [_quoted(f"-XX:SharedArchiveFile={archive}"), "-Xshare:auto", "-Xlog:cds*=off,class+path*=off"]


def writing_options(target: Path) -> list[str]:
    """What Java is told to write an archive when it ends."""
    return [_quoted(f"-XX:ArchiveClassesAtExit={target}"), "-Xlog:cds*=off,class+path*=off"]


def _quoted(option: str) -> str:
    """One option in ``spark.driver.extraJavaOptions``, which is split at blanks."""
    escaped = option.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def make_in_background(archive: ClassArchive) -> None:
    """Start a process that makes the archive and outlives this one, unless one has tried within a day.

    It is called when a process ends that had a session without an archive.  Written by that session's own Java, the
    archive would take its last seconds and hold only what it happened to load; made beside it, it would take one of
    its cores.  So a process of the lowest priority follows, and the next start profits.
    """
    if not archive.is_wanted():
        return
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", "xscl.class_archive", "background"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def make_archive(archive: ClassArchive, *, background: bool = False) -> Path | None:
    """Make the archive with a session of this process, which must have none yet; takes some 20 seconds.

    Args:
        archive: where it is to be.
        background: whether nobody has asked for it; then it is tried once a day.

    Returns:
        The archive; None if another process makes one just now or it cannot be made.
    """
    with _alone(archive) as alone:
        if not alone:
            return None
        if (made := archive.path()) is not None:
            return made
        if background:
            if not archive.is_wanted():
                return None
            archive.tried.touch()
        for left in archive.folder.glob(f"{archive.stem}.*"):
            if left.suffix in (".part", ".jsa"):
                left.unlink(missing_ok=True)
        part = archive.folder / f"{archive.stem}.part"
        try:
            if shutil.disk_usage(archive.folder).free > 2 * MOST_BYTES:
                _run_session(part)
            size = part.stat().st_size if part.is_file() else 0
            if not 0 < size <= MOST_BYTES:
                archive.given_up.touch()
                return None
            with part.open("rb") as written:
                os.fsync(written.fileno())
            target = archive.folder / f"{archive.stem}.{size}.jsa"
            part.chmod(0o400)
            part.replace(target)
            archive.given_up.unlink(missing_ok=True)
        except Exception:
            archive.given_up.touch()
            raise
        finally:
            part.unlink(missing_ok=True)
        _remove_unused(archive.folder, keep=target)
        return target


@contextlib.contextmanager
def _alone(archive: ClassArchive) -> Iterator[bool]:
    """Whether no other process makes this archive; it is kept out while the context lasts."""
    import fcntl

    with (archive.folder / f"{archive.stem}.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _remove_unused(folder: Path, *, keep: Path) -> None:
    """Hold the folder within ``MOST_KEPT``: archives of other environments go, the one used least lately first."""
    others = [(found, found.stat()) for found in folder.glob("*.jsa") if found != keep]
    held = keep.stat().st_size + sum(state.st_size for _, state in others)
    for found, state in sorted(others, key=lambda other: other[1].st_mtime):
        if held > MOST_KEPT:
            found.unlink(missing_ok=True)
            held -= state.st_size


_QUERIES = (
    "S//book->x1[./author->x2] FOLLOWED BY {x2=x5, 7 days} S//blog->x4[./author->x5]",
    "S//book->x1[./author->x2] JOIN {x2=x5 and x3<x6, 7 days} S//blog->x4[./author->x5][./year->x6]",
)
_BOOK = "<book><author>A</author><year>1</year></book>"
_BLOG = "<blog><author>A</author><year>2</year></blog>"


def _run_session(target: Path) -> None:
    """What a session usually does, on next to nothing, in a Java that writes its classes to ``target`` when it ends."""
    from pyspark import SparkContext

    import xscl
    from xscl.session import start_session

    session = start_session(classes_to=target)
    gateway = SparkContext._gateway
    assert gateway is not None
    java: subprocess.Popen[bytes] = gateway.proc
    try:
        with temporary_folder("xscl-classes") as scratch:
            with xscl.connect(home=scratch, spark=session) as engine:
                engine.register_many(_QUERIES)
                for number in range(2):
                    engine.ingest(
                        [
                            xscl.Event("S", f"b{number}", 2 * number, xml=_BOOK),
                            xscl.Event("S", f"c{number}", 2 * number + 1, xml=_BLOG),
                        ]
                    )
                    engine.run_once()
                engine.sql("SELECT * FROM matches").toArrow()
                engine.sql("SELECT qid, count(*) FROM matches GROUP BY qid").collect()
            session.sql("SELECT count(*) FROM range(1000) JOIN range(100) USING (id)").collect()
            session.stop()
        assert java.stdin is not None
        java.stdin.close()
        java.wait(timeout=300)
    finally:
        java.kill()


def _main() -> None:
    from xscl.session import java_version

    background = sys.argv[1:] == ["background"]
    if background:
        os.nice(19)
    archive = find_archive(java_version()[1])
    if archive is None:
        sys.exit(1)
    with temporary_folder("xscl-classes") as scratch:
        # Should Java crash, its report goes there.
        os.chdir(scratch)
        made = make_archive(archive, background=background)
    sys.exit(made is None)


if __name__ == "__main__":
    _main()
