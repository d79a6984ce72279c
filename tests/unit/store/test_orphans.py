"""What processes leave that are killed, and who removes it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import xscl
from xscl.base.errors import CatalogError
from xscl.base.temporary import hold_folder, let_folder_go, remove_left, scratch_folder, temporary_folder
from xscl.base.types import Event
from xscl.catalog.tables import METADATA, OLD_FILES
from xscl.planning.planner import Planner
from xscl.store.home import init_home
from xscl.store.inventory import PATHS
from xscl.store.orphans import tidy, unnamed_files

_MAKE = """
import atexit
from xscl.base.temporary import scratch_folder, temporary_folder
before = atexit._ncallbacks()
for _ in range(3):
    with temporary_folder("xscl-three"):
        pass
print(scratch_folder("xscl-three"), atexit._ncallbacks() - before)
"""
_DIE = """
import os, signal, sys
from xscl.base.temporary import scratch_folder
print(scratch_folder(sys.argv[1]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_files_that_no_row_names_are_removed_and_no_others(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.register("S//a[./k->v] JOIN {v=w, 1 h} S//b[./k->w]", name="Q")
        engine.ingest([Event("S", "1", 1, xml="<a><k>1</k></a>"), Event("S", "2", 2, xml="<b><k>1</k></b>")])
        engine.run_once()
        home = engine.home
        kept = sorted(path for path in home.root.rglob("*") if "programs" not in path.parts)
        with home.catalog.begin() as connection:
            connection.execute(OLD_FILES.insert().values(path="results/old", replaced=1))
        (home.root / "results" / "old").mkdir()
        left = ["events/000000000001-x.parquet", "witness/x.parquet", "witness/y/p.parquet", "results/z/0/d.parquet"]
        for name in left:
            (home.root / name).parent.mkdir(parents=True, exist_ok=True)
            (home.root / name).touch()
        # Here it was done before the first batch, and is not again.
        engine.run_once()
        assert all((home.root / name).exists() for name in left)
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.run_once()
        there = sorted(path for path in home.root.rglob("*") if "programs" not in path.parts)
        assert there == sorted([*kept, home.root / "results" / "old"])
        assert [match.query for match in engine.matches()] == ["Q"]


def test_every_column_that_names_files_is_known() -> None:
    columns = [column for table in METADATA.tables.values() for column in table.c]
    assert {str(column) for column in columns if column.name.endswith("path")} == set(map(str, PATHS))


def test_nothing_is_removed_where_folder_and_catalogue_are_not_one(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    stranger = home.root / "events" / "000000000002-x.parquet"
    mine = home.root / "events" / "000000000001-x.parquet"
    for path in (stranger, mine):
        path.touch()
    assert unnamed_files(home) == []  # two places were never given out
    stranger.unlink()
    assert unnamed_files(home) == [mine]
    with xscl.connect(home=tmp_path / "home") as engine:
        engine.ingest([Event("S", "1", 1, xml="<a>1</a>")])
        (named,) = set(home.folder("events").iterdir()) - {mine}
        named.rename(named.with_suffix(".away"))
        tidy(home)
        assert mine.exists() and named.with_suffix(".away").exists()


def test_a_new_catalogue_takes_no_folder_with_events(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    home.catalog.close()
    (home.root / "events" / "000000000001-x.parquet").touch()
    for path in home.root.glob("catalog.db*"):
        path.unlink()
    with pytest.raises(CatalogError, match="holds events") as refused:
        init_home(tmp_path / "home")
    assert refused.value.condition == "XSCL_NO_CATALOG"


def test_what_workers_load_goes_with_its_process(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    mine, old, new = (home.folder("programs") / name for name in ("mine", "old", "new"))
    for folder in (mine, old, new):
        folder.mkdir()
    hold_folder(mine)
    os.utime(old, (time.time() - 3_600,) * 2)
    tidy(home)
    assert sorted(home.folder("programs").iterdir()) == [mine, new]
    let_folder_go(mine)
    assert sorted(home.folder("programs").iterdir()) == [new]
    planner = Planner(home.catalog, home.folder("programs"))
    planner.close()
    assert sorted(home.folder("programs").iterdir()) == [new]


def test_folders_of_killed_processes_go_with_the_next_of_their_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    left = []
    for kind in ("xscl-one", "xscl-one", "xscl-two"):
        command = [sys.executable, "-c", _DIE, kind]
        left.append(Path(subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()))
    assert left[0].parent == tmp_path
    assert [folder.exists() for folder in left] == [False, True, True]
    mine = scratch_folder("xscl-one")
    with temporary_folder("xscl-one") as other:
        assert mine.exists() and other.exists()
    assert not other.exists()
    remove_left(tmp_path, "xscl-one-*")
    assert sorted(tmp_path.iterdir()) == sorted([mine, left[2]])
    let_folder_go(mine)


def test_temporary_folders_leave_nothing_in_a_process_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    made = subprocess.run([sys.executable, "-c", _MAKE], capture_output=True, text=True, check=True).stdout.split()
    assert Path(made[0]).parent == tmp_path and made[1] == "0"
    assert not Path(made[0]).exists(), "it went with its process"
