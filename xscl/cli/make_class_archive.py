"""Making the archive of classes from which Spark starts: ``python -m xscl.cli.make_class_archive``."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import xscl
from xscl.base.temporary import temporary_folder
from xscl.spark.class_archive import MOST_BYTES, MOST_KEPT, ClassArchive, find_archive
from xscl.spark.java import java_version
from xscl.spark.session import start_session

__all__ = ["make_archive"]


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
    """Do what sessions usually do, on next to nothing, in a Java that writes its classes to ``target`` when it ends."""
    from pyspark import SparkContext

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
