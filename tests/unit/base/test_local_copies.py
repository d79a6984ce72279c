"""Sealed files are copied to this machine's disk at first use, where copies are wanted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

import xscl
from xscl.base.errors import EngineError
from xscl.base.local_copies import FOLDER, near_file
from xscl.base.sealed import write_sealed


@pytest.fixture
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(FOLDER, str(tmp_path / "copies"))
    return tmp_path / "copies"


def written(home: Path, name: str = "a", content: str = "rows") -> Path:
    home.mkdir(exist_ok=True)
    return write_sealed(home / f"{name}.run", lambda path: path.write_text(content))


def test_without_a_folder_files_are_used_where_they_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(FOLDER, raising=False)
    path = written(tmp_path / "home")
    assert near_file(path) == path


def test_a_file_is_copied_once(tmp_path: Path, copies: Path) -> None:
    path = written(tmp_path / "home")
    copy = near_file(path)
    assert copies in copy.parents and copy.name == path.name and copy.read_text() == "rows"
    assert stat.S_IMODE(copy.parent.stat().st_mode) == 0o700
    state = copy.stat()
    assert near_file(path) == copy and copy.stat().st_ino == state.st_ino
    path.unlink()  # what is copied is read no more
    assert near_file(path) == copy


def test_homes_have_folders_of_their_own(tmp_path: Path, copies: Path) -> None:
    one, two = (near_file(written(tmp_path / name)) for name in ("home", "other"))
    assert one != two and one.name == two.name


def test_a_changed_copy_is_made_again(tmp_path: Path, copies: Path) -> None:
    path = written(tmp_path / "home")
    near_file(path).write_text("other")
    assert near_file(path).read_text() == "rows"


def test_what_is_wrong_with_the_home_is_said_of_its_file(tmp_path: Path, copies: Path) -> None:
    path = written(tmp_path / "home")
    path.write_text("other")
    with pytest.raises(EngineError, match=str(path)) as found:
        near_file(path)
    assert found.value.condition == "XSCL_FILE_DAMAGED"
    path.unlink()
    with pytest.raises(EngineError, match=str(path)) as found:
        near_file(path)
    assert found.value.condition == "XSCL_FILE_MISSING"
    assert not [file for file in copies.rglob("*") if file.is_file()]


def test_copies_of_files_that_have_gone_go(tmp_path: Path, copies: Path) -> None:
    first, second = (written(tmp_path / "home", name, name) for name in "ab")
    gone = near_file(first)
    left, begun = gone.with_name(".a.left"), gone.with_name(".a.begun")
    for file in (left, begun):
        file.touch()
    os.utime(left, (0, 0))
    first.unlink()
    near_file(second)
    assert not gone.exists() and not left.exists() and begun.exists()


def test_a_folder_that_takes_no_copies_is_named(tmp_path: Path, copies: Path) -> None:
    copies.write_text("a file")
    with pytest.raises(EngineError, match=str(copies)) as found:
        near_file(written(tmp_path / "home"))
    assert found.value.condition == "XSCL_CANNOT_WRITE" and FOLDER in str(found.value.hint)


def test_batches_read_runs_from_copies(tmp_path: Path, copies: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("S/a/k->x JOIN {x = y, 1 h} S/b/k->y", name="q")
        for part in range(3):
            engine.ingest(
                xscl.Event("S", f"{name}{part}", part, xml=f"<{name}><k>1</k></{name}>") for name in ("a", "b")
            )
            engine.run_once()
        assert len(engine.matches("q")) == 9
        runs = {path.name for path in engine.home.folder("witness").glob("*.run")}
        assert runs and runs <= {path.name for path in copies.glob("*/*")}
