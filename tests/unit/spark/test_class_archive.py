"""Where the archive of Java classes is kept, when it is trusted, and how it is replaced; Spark is not started."""

from __future__ import annotations

import atexit
import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from xscl.cli import make_class_archive
from xscl.cli.make_class_archive import make_archive
from xscl.spark import class_archive, session
from xscl.spark.class_archive import ClassArchive, find_archive
from xscl.spark.session_options import SessionOptions

JAVA = 'openjdk version "17.0.1"'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder, and a Spark of two jars."""
    jars = tmp_path / "spark" / "jars"
    jars.mkdir(parents=True)
    for name in ("a.jar", "b.jar"):
        (jars / name).write_text(name)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path / "spark"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("XSCL_CLASS_ARCHIVE")
    return tmp_path / "cache" / "xscl"


@pytest.fixture
def archive(cache: Path) -> ClassArchive:
    found = find_archive(JAVA)
    assert found is not None and found.folder == cache
    return found


def put(archive: ClassArchive, content: str = "classes", *, mode: int = 0o400) -> Path:
    path = archive.folder / f"{archive.stem}.{len(content)}.jsa"
    path.write_text(content)
    path.chmod(mode)
    return path


def writes(content: str) -> Callable[[Path], None]:
    def run(target: Path) -> None:
        target.write_text(content)

    return run


def test_the_folder_is_made_for_its_user_alone(archive: ClassArchive) -> None:
    assert archive.folder.stat().st_mode & 0o777 == 0o700
    assert archive.path() is None


def test_no_archive_where_others_write(archive: ClassArchive) -> None:
    archive.folder.chmod(0o770)
    assert find_archive(JAVA) is None


@pytest.mark.parametrize("value", ["off", "OFF", " off "])
def test_it_can_be_turned_off(cache: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv("XSCL_CLASS_ARCHIVE", value)
    assert find_archive(JAVA) is None
    assert not cache.exists()


def test_a_relative_cache_folder_counts_for_nothing(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "cache")
    monkeypatch.setenv("HOME", str(tmp_path))
    found = find_archive(JAVA)
    assert found is not None and found.folder == tmp_path / ".cache" / "xscl"


def test_no_archive_where_no_folder_can_be(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file", tmp_path / "a:b"):
        monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
        assert find_archive(JAVA) is None


def test_another_java_or_another_jar_has_another_archive(archive: ClassArchive, tmp_path: Path) -> None:
    assert find_archive(JAVA) == archive
    other_java = find_archive('openjdk version "21.0.2"')
    assert other_java is not None and other_java.stem != archive.stem
    (tmp_path / "spark" / "jars" / "a.jar").write_text("another content")
    other_jar = find_archive(JAVA)
    assert other_jar is not None and other_jar.stem != archive.stem


def test_an_archive_is_used_only_as_it_was_written(archive: ClassArchive) -> None:
    path = put(archive)
    assert archive.path() == path
    path.chmod(0o600)
    path.write_text("class")  # cut off
    assert archive.path() is None


def test_an_archive_that_others_may_write_or_that_lies_elsewhere_is_not_used(
    archive: ClassArchive, tmp_path: Path
) -> None:
    path = put(archive, mode=0o620)
    assert archive.path() is None
    target = path.rename(tmp_path / "elsewhere")
    target.chmod(0o400)
    path.symlink_to(target)
    assert archive.path() is None


def test_making_one_leaves_the_archive_and_a_lock(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    archive.given_up.touch()
    (archive.folder / f"{archive.stem}.part").write_text("left by a process that was killed")
    (archive.folder / f"{archive.stem}.99.jsa").write_text("cut off")
    monkeypatch.setattr(make_class_archive, "_run_session", writes("classes"))
    made = make_archive(archive)
    assert made == archive.path() and made is not None
    assert made.read_text() == "classes" and made.stat().st_mode & 0o777 == 0o400
    assert sorted(archive.folder.iterdir()) == sorted([made, archive.folder / f"{archive.stem}.lock"])
    monkeypatch.setattr(make_class_archive, "_run_session", writes("again"))
    assert make_archive(archive) == made and made.read_text() == "classes"


@pytest.mark.parametrize("content", ["", "too large"])
def test_what_java_did_not_write_or_wrote_too_large_is_given_up(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch, content: str
) -> None:
    monkeypatch.setattr(make_class_archive, "MOST_BYTES", 5)
    monkeypatch.setattr(make_class_archive, "_run_session", writes(content))
    assert make_archive(archive) is None
    assert archive.path() is None and archive.given_up.exists()
    assert not list(archive.folder.glob("*.part"))


def test_a_session_that_fails_is_given_up(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(target: Path) -> None:
        target.write_text("half")
        raise OSError("no Java")

    monkeypatch.setattr(make_class_archive, "_run_session", fail)
    with pytest.raises(OSError, match="no Java"):
        make_archive(archive)
    assert archive.given_up.exists() and not list(archive.folder.glob("*.part"))


def test_one_process_makes_it_at_a_time(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(make_class_archive, "_run_session", writes("classes"))
    with (archive.folder / f"{archive.stem}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert make_archive(archive) is None and archive.path() is None
    assert make_archive(archive) is not None


def test_archives_of_other_versions_go_when_there_is_no_room(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    for age, name in enumerate(("newer", "older")):
        path = archive.folder / f"spark-{name}.8.jsa"
        path.write_text("8 bytes.")
        os.utime(path, (1000 - age, 1000 - age))
    monkeypatch.setattr(make_class_archive, "MOST_KEPT", 16)
    monkeypatch.setattr(make_class_archive, "_run_session", writes("classes"))
    made = make_archive(archive)
    assert made is not None
    assert sorted(archive.folder.glob("*.jsa")) == sorted([made, archive.folder / "spark-newer.8.jsa"])


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The Java options of each session that would be started; one with an archive fails."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    options: list[list[str]] = []

    def start(wanted: SessionOptions, scratch: Path, java_options: list[str]) -> str:
        options.append(java_options)
        if java_options:
            raise PySparkRuntimeError("Java exited")
        return "session"

    monkeypatch.setattr(session, "_classic_session", start)
    monkeypatch.setattr(session, "java_version", lambda: (17, JAVA))
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    return options


def test_where_java_does_not_start_with_an_archive_it_starts_without(
    archive: ClassArchive, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[object] = []
    monkeypatch.setattr(atexit, "register", lambda call, *arguments, **named: at_exit.append(call))
    path = put(archive)
    assert session.start_session() == "session"  # type: ignore[comparison-overlap]
    assert [bool(options) for options in started] == [True, False]
    assert str(path) in started[0][0] and not path.exists()
    assert class_archive.make_in_background in at_exit


def test_an_archive_that_was_given_up_is_not_tried_again(
    archive: ClassArchive, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    at_exit: list[object] = []
    monkeypatch.setattr(atexit, "register", lambda call, *arguments, **named: at_exit.append(call))
    archive.given_up.touch()
    session.start_session()
    assert started == [[]] and class_archive.make_in_background not in at_exit


def test_options_hold_paths_with_blanks_and_quotes() -> None:
    options = class_archive.reading_options(Path('/a b/"c"\\d.jsa'))
    assert options[0] == r'"-XX:SharedArchiveFile=/a b/\"c\"\\d.jsa"'
    assert class_archive.writing_options(Path("/a b"))[0] == '"-XX:ArchiveClassesAtExit=/a b"'


def test_archives_of_several_environments_have_room() -> None:
    assert make_class_archive.MOST_KEPT >= 8 * 180_000_000


def test_the_archive_that_was_used_last_stays(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    other = find_archive('openjdk version "21.0.2"')
    third = find_archive('openjdk version "23"')
    assert other is not None and third is not None
    used, unused = put(archive), put(other)
    os.utime(used, (1000, 1000))
    os.utime(unused, (2000, 2000))
    assert archive.use() == used
    monkeypatch.setattr(make_class_archive, "MOST_KEPT", 14)
    monkeypatch.setattr(make_class_archive, "_run_session", writes("classes"))
    made = make_archive(third)
    assert made is not None
    assert sorted(archive.folder.glob("*.jsa")) == sorted([made, used])


def test_no_second_java_in_the_background_within_a_day(archive: ClassArchive, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Path] = []
    started: list[object] = []

    def killed(target: Path) -> None:
        runs.append(target)
        raise KeyboardInterrupt

    monkeypatch.setattr(make_class_archive, "_run_session", killed)
    monkeypatch.setattr(class_archive.subprocess, "Popen", lambda *_, **__: started.append(1))
    class_archive.make_in_background(archive)
    assert started == [1]
    with pytest.raises(KeyboardInterrupt):
        make_archive(archive, background=True)
    # Of two processes that end together, the second one waits until the first is done.
    assert make_archive(archive, background=True) is None and len(runs) == 1
    class_archive.make_in_background(archive)
    assert started == [1]
    os.utime(archive.tried, (1000, 1000))
    class_archive.make_in_background(archive)
    assert started == [1, 1]
    with pytest.raises(KeyboardInterrupt):
        make_archive(archive, background=True)
    # Somebody who asks for it has it made.
    monkeypatch.setattr(make_class_archive, "_run_session", writes("classes"))
    assert make_archive(archive) is not None


def test_an_archive_that_was_evicted_is_not_made_again_within_a_day(
    archive: ClassArchive, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(make_class_archive, "_run_session", writes("classes"))
    made = make_archive(archive, background=True)
    assert made is not None and not archive.is_wanted()
    made.unlink()
    assert not archive.is_wanted() and make_archive(archive, background=True) is None
