"""Homes that cannot be written are listed, as another user's or on a read-only disk; what would write is named."""

from __future__ import annotations

import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa

from xscl.base.errors import CatalogError
from xscl.base.types import Event
from xscl.catalog.tables import CHANNELS
from xscl.cli.app import main
from xscl.engine import Engine
from xscl.store.home import init_home, open_home
from xscl.upkeep import doctor
from xscl.upkeep.health import examine_home

LISTINGS = (("match", "list"), ("query", "list"), ("stats",), ("channel", "list"))
NOBODY = 65_534


@pytest.fixture
def root() -> Iterator[Path]:
    """A home that everybody may read, where nobody else may write; other users cannot enter pytest's folders."""
    folder = Path(tempfile.mkdtemp(prefix="xscl-read-only-", dir="/tmp"))
    with Engine(init_home(folder / "home")) as engine:
        engine.register("S//a", name="q")
        engine.ingest([Event("S", "1", 1, xml="<a/>")])
        engine.run_once()
    yield folder / "home"
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o755)
    shutil.rmtree(folder)


def close_to_others(root: Path) -> None:
    for path in (root.parent, *root.parent.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)


@contextmanager
def as_another_user() -> Iterator[None]:
    """Be a user who owns nothing; for a user other than root, closed files are closed already."""
    if os.geteuid() != 0:
        yield
        return
    os.setresuid(NOBODY, NOBODY, 0)
    try:
        yield
    finally:
        os.setresuid(0, 0, 0)


def told(capsys: pytest.CaptureFixture[str], root: Path, *command: str) -> tuple[int, str, str]:
    """Exit code, output and messages of a command."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["xscl", *command, "--home", str(root)])
        main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out, shown.err


@pytest.mark.parametrize("log", ["none", "of a writer that lives", "of a writer that was killed"])
def test_a_home_that_cannot_be_written_is_listed(root: Path, log: str, capsys: pytest.CaptureFixture[str]) -> None:
    writer = sqlite3.connect(root / "catalog.db")
    if log != "none":
        writer.execute("update channels set lateness = 5000000")
        writer.commit()
    # Modules are imported here: another user may not read them.
    expected = [told(capsys, root, *command)[:2] for command in LISTINGS]
    assert all(code == 0 and shown for code, shown in expected)
    assert told(capsys, root, "query", "drop", "none")[0] == 1
    copies = {file: file.read_bytes() for file in root.glob("catalog.db-wal")}
    if log != "of a writer that lives":
        writer.close()
    if log == "of a writer that was killed":
        assert copies and all(copies.values())
        for file, content in copies.items():
            file.write_bytes(content)
    close_to_others(root)
    with as_another_user():
        found = [told(capsys, root, *command) for command in LISTINGS]
        code, _, refused = told(capsys, root, "query", "drop", "q")
        of_run = told(capsys, root, "run", "--once")
        health = examine_home(open_home(root))
        checks = {check.what: check for check in doctor._home(root, None, deep=False, named=True)}
    assert [each[:2] for each in found] == expected, found
    assert code == 1 and "XSCL_READ_ONLY" in refused and "Traceback" not in refused
    assert of_run[0] == 1 and "[XSCL_READ_ONLY]" in of_run[2] and "run.lock" in of_run[2]
    assert health.runs is None
    assert checks["home"].ok and checks["writing"].state == "none"
    assert "cannot be written by this user" in checks["writing"].found
    writer.close()


@pytest.mark.parametrize("closed", ["all", "the folder alone"])
def test_the_doctor_calls_a_home_sound_whose_writer_was_killed(
    root: Path, closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = sqlite3.connect(root / "catalog.db")
    writer.execute("update channels set lateness = 5000000")
    writer.commit()
    log = root / "catalog.db-wal"
    content = log.read_bytes()
    writer.close()
    log.write_bytes(content)
    assert not (root / "catalog.db-shm").exists()
    temporary = root.parent / "temporary"
    temporary.mkdir()
    close_to_others(root)
    if closed == "the folder alone":
        for file in root.glob("catalog.db*"):
            file.chmod(0o666)
    temporary.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with as_another_user():
        checks = {check.what: check for check in doctor._home(root, None, deep=False, named=True)}
        assert not [*temporary.iterdir()]
    assert checks.keys() == {"home", "writing"} and checks["home"].ok, checks
    assert checks["writing"].ok == (closed == "all")


def test_the_copy_of_a_log_goes_when_the_home_is_closed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = sqlite3.connect(root / "catalog.db")
    writer.execute("update channels set lateness = 5000000")
    writer.commit()
    log = root / "catalog.db-wal"
    content = log.read_bytes()
    writer.close()
    log.write_bytes(content)
    temporary = root.parent / "temporary"
    temporary.mkdir()
    close_to_others(root)
    temporary.chmod(0o777)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with as_another_user():
        home = open_home(root)
        assert home.catalog.rows(CHANNELS)[0]["lateness"] == 5_000_000
        (copy,) = temporary.iterdir()
        assert (copy / "catalog.db").is_file()
        home.catalog.close()
        assert not list(temporary.iterdir())
        open_home(root).catalog.close()
        with Engine(open_home(root)) as engine:
            assert len(list(temporary.iterdir())) == 1 and list(engine.queries())
        home.catalog.close()
        assert not list(temporary.iterdir())


def test_a_home_of_which_some_cannot_be_written_has_a_fault(root: Path) -> None:
    assert "writing" not in {check.what for check in doctor._home(root, None, deep=False, named=True)}
    close_to_others(root)
    for path in (root, root / "catalog.db", root / "results", root / "witness", root / "programs"):
        path.chmod(0o777)
    with as_another_user():
        checks = {check.what: check for check in doctor._home(root, None, deep=False, named=True)}
    assert checks["writing"].state == "FAILS" and checks["writing"].found.endswith(f"but not {root / 'events'}")
    assert "chown" in checks["writing"].advice


@pytest.mark.parametrize("closed", [".", "..", "results", "catalog.db"])
def test_a_home_that_cannot_be_read_has_a_name(root: Path, closed: str, capsys: pytest.CaptureFixture[str]) -> None:
    told(capsys, root, "query", "list")
    for path in (root, *root.iterdir()):
        path.chmod(0o755)
    (root / closed).resolve().chmod(0o700 if (root / closed).is_dir() else 0o600)
    with as_another_user():
        code, _, refused = told(capsys, root, "query", "list")
        (check,) = doctor._home(root, None, deep=False, named=False)
    assert code == 1 and "[XSCL_HOME_CLOSED] this user may not look into" in refused
    assert (check.what, check.state) == ("home", "FAILS") and "may not look into" in check.found


def test_a_home_that_has_lost_a_folder_is_none_that_never_was(root: Path) -> None:
    (root / "results").rename(root / "gone")
    (check,) = doctor._home(root, None, deep=False, named=False)
    assert check.state == "FAILS" and check.found.endswith("lacks its folder results")


@pytest.mark.parametrize("harm", ["alter table channels rename column kind to kinds", "drop table batches"])
def test_a_schema_of_another_version_has_a_name(root: Path, harm: str) -> None:
    connection = sqlite3.connect(root / "catalog.db")
    connection.execute(harm)
    connection.close()
    with pytest.raises(CatalogError) as caught:
        home = open_home(root)
        with Engine(home) as engine:
            list(engine.matches())
    assert caught.value.condition == "XSCL_CATALOG_VERSION"


def test_a_text_that_is_none_has_a_name(root: Path) -> None:
    home = open_home(root)
    with home.catalog.begin() as connection:
        connection.exec_driver_sql("update queries set text = cast(x'ff' as text)")
    with pytest.raises(CatalogError) as caught, home.catalog.read() as connection:
        connection.execute(sa.text("select text from queries")).all()
    assert caught.value.condition == "XSCL_CATALOG_DAMAGED"
    home.catalog.close()
