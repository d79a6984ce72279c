"""A bit that flips in a file of a home changes no answer: it is told by name, and ``doctor --deep`` names the file."""

from __future__ import annotations

import io
import itertools
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from budget import THOROUGH, examples

import xscl.base.sealed
from xscl.answers.matches.listing import match_json
from xscl.base.errors import CatalogError, XsclError
from xscl.base.sealed import LIST, check_file, damaged_files, listed_files, read_whole, seal, write_whole
from xscl.base.system_errors import named_file_faults
from xscl.base.types import Event
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.tables import STATE_FILES
from xscl.engine import Engine
from xscl.planning.planner import Planner
from xscl.store.home import open_home
from xscl.store.inventory import named_files
from xscl.store.late_events import LateChoice, late_lines
from xscl.upkeep.event_export import export_events
from xscl.upkeep.health import examine_home, looks_like_a_catalogue
from xscl.upkeep.received_catalog import BadCatalogError, copy_received

FLIPS = examples(10)
"""Places of each file in which a bit is flipped, beside its first and its last bytes."""


@pytest.fixture
def root(rich: Path, tmp_path: Path) -> Path:
    """A home with files of every kind."""
    return shutil.copytree(rich / "home", tmp_path / "home")


def files(root: Path) -> list[Path]:
    """The files of a home that its catalogue names, and the lists of folders."""
    home = open_home(root)
    with home.catalog.read() as connection:
        named = [root / file.path for file in named_files(connection)]
    home.catalog.close()
    return sorted(file for path in named for file in (path.rglob("*") if path.is_dir() else [path]) if file.is_file())


def answers(root: Path) -> tuple[list[str], ...]:
    """What a home answers: its matches, its events, and what later events find."""
    copy = root.with_name("answering")
    shutil.copytree(root, copy, symlinks=True)
    try:
        with Engine(open_home(copy)) as engine:
            matches = [json.dumps(match_json(match)) for match in engine.matches()]
            events = [str(event) for event in late_lines(engine.home, LateChoice())]
            with (copy / "events.ndjson").open("wb") as stream:
                export_events(engine.home, stream)
            events += (copy / "events.ndjson").read_text().splitlines()
            later = ("book", "blog", "note")
            engine.ingest(
                [
                    Event("S", f"later{n}", 101 + n, xml=f"<{kind}><author>{author}</author><title>t</title></{kind}>")
                    for n, (kind, author) in enumerate(itertools.product(later, "ABC"))
                ]
            )
            engine.run_once()
            return matches, events, [json.dumps(match_json(match)) for match in engine.matches()]
    finally:
        shutil.rmtree(copy)


def flips(file: Path, dice: Random) -> Iterator[tuple[int, int]]:
    size = file.stat().st_size
    places = {0, 4, size - 1, size - 5, size // 2} | {dice.randrange(size) for _ in range(FLIPS)}
    return ((place, dice.randrange(8)) for place in sorted(places) if 0 <= place < size)


def flip(file: Path, place: int, bit: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1 << bit
    file.write_bytes(content)


def named(root: Path, file: Path) -> Path:
    """What the catalogue names of a file: itself, or the folder of results that it is in."""
    return root / Path(*file.relative_to(root).parts[:2]) if file.is_relative_to(root / "results") else file


def one_of_each_kind(root: Path) -> list[Path]:
    """Files of different folders, relations and makers."""
    kinds = {(file.relative_to(root).parts[0], file.name.rpartition("-")[2][:4]): file for file in files(root)}
    return list(kinds.values())


def test_every_flip_is_found(root: Path) -> None:
    dice, count = Random(3), 0
    for file in files(root):
        whole, stored = file.read_bytes(), named(root, file)
        for place, bit in flips(file, dice):
            flip(file, place, bit)
            assert file in [path for path, _ in damaged_files(stored, deep=True)], (place, bit)
            with pytest.raises(XsclError, match="XSCL_FILE_DAMAGED"):
                listed_files(stored) if stored.is_dir() else check_file(stored)
            file.write_bytes(whole)
            count += 1
        assert [*damaged_files(stored, deep=True)] == []
    assert count > 300


def test_a_flip_changes_no_answer(root: Path) -> None:
    dice, expected = Random(4), answers(root)
    assert all(expected)
    told = 0
    home = open_home(root)
    for file in one_of_each_kind(root)[:: 1 if THOROUGH else 2]:
        whole = file.read_bytes()
        flip(file, dice.randrange(len(whole)), dice.randrange(8))
        damaged = [str(each) for each in examine_home(home, deep=True).damaged]
        assert len(damaged) == 1 and damaged[0].startswith(str(named(root, file).relative_to(root)))
        try:
            found = answers(root)
        except XsclError as error:
            assert error.condition == "XSCL_FILE_DAMAGED" and file.name in str(error)
            told += 1
        else:
            assert found == expected, file
        file.write_bytes(whole)
    assert examine_home(home, deep=True).damaged == ()
    home.catalog.close()
    assert told >= 3
    assert answers(root) == expected


def test_a_file_that_is_missing_is_told(root: Path) -> None:
    expected = answers(root)
    home = open_home(root)
    for file in files(root):
        aside = file.with_name(".aside")
        file.rename(aside)
        damaged = [str(each) for each in examine_home(home).damaged]
        assert len(damaged) == 1 and damaged[0].endswith("missing"), (file, damaged)
        aside.rename(file)
    for file in one_of_each_kind(root)[:: 1 if THOROUGH else 2]:
        aside = file.with_name(".aside")
        file.rename(aside)
        try:
            found = answers(root)
        except XsclError as error:
            assert error.condition == "XSCL_FILE_MISSING" and file.name in str(error)
        else:
            assert found == expected, file
        aside.rename(file)
    home.catalog.close()


def test_a_file_of_a_results_folder_that_is_missing_is_told_by_a_listing(root: Path) -> None:
    home = open_home(root)
    with Engine(home) as engine:
        assert list(engine.matches())
        for file in sorted(home.folder("results").rglob("*.parquet")):
            file.unlink()
            break
        with pytest.raises(XsclError) as caught:
            list(engine.matches())
        assert caught.value.condition == "XSCL_FILE_MISSING"


def test_what_workers_load_is_told(root: Path) -> None:
    home = open_home(root)
    planner = Planner(home.catalog, home.folder("programs"))
    plan = planner.plan(1, home.catalog.ask(read_last_places)[1] + 1)
    assert plan is not None
    made = [plan.specs_path, plan.rows_path, plan.program_path]
    for path in map(Path, made):
        whole, dice = path.read_bytes(), Random(5)
        pickle.loads(read_whole(path))
        for place, bit in flips(path, dice):
            flip(path, place, bit)
            with pytest.raises(XsclError, match=path.name):
                read_whole(path)
            path.write_bytes(whole)
    planner.close()
    home.catalog.close()


def test_repair_makes_again_what_a_flip_has_damaged(root: Path) -> None:
    from xscl.upkeep.repair import repair_home

    expected = answers(root)[0]
    home = open_home(root)
    with home.catalog.read() as connection:
        states = connection.scalars(sa.select(STATE_FILES.c.path)).all()
    results = next(home.folder("results").rglob(LIST))
    for file in (home.root / states[0], results):
        flip(file, file.stat().st_size // 2, 3)
    done = repair_home(home, deep=True)
    assert done and not any(each.lost for each in done)
    home.catalog.close()
    with Engine(open_home(root)) as engine:
        engine.run_once()
        found = {json.loads(text)["match"] for text in (json.dumps(match_json(match)) for match in engine.matches())}
    assert {json.loads(text)["match"] for text in expected} <= found


def test_a_file_that_was_looked_at_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.parquet").write_bytes(b"a" * 100)
    file = seal(tmp_path / "a.parquet")
    read: list[Path] = []
    digest = xscl.base.sealed._digest
    monkeypatch.setattr(xscl.base.sealed, "_digest", lambda path: read.append(path) or digest(path))
    for _ in range(3):
        assert xscl.base.sealed.check_file(file) == file
    assert read == []
    file.touch()
    for _ in range(3):
        xscl.base.sealed.check_file(file)
    assert read == [file]


def test_a_small_file_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    write_whole(tmp_path / "x", b"one")
    write_whole(tmp_path / "x", b"two")
    assert read_whole(tmp_path / "x") == b"two"
    assert [path.name for path in tmp_path.iterdir()] == ["x"]
    (tmp_path / "x").write_bytes(b"tw")
    with pytest.raises(XsclError, match="XSCL_FILE_DAMAGED"):
        read_whole(tmp_path / "x")
    with pytest.raises(XsclError, match="XSCL_FILE_MISSING"):
        read_whole(tmp_path / "y")


def test_a_bit_that_flips_behind_a_process_is_found(root: Path) -> None:
    """Disks flip bits without a trace in sizes and times, so a file that was found sound may be none any more."""
    home, dice = open_home(root), Random(6)

    def told(read: Callable[[], object]) -> str | None:
        try:
            read()
        except XsclError as error:
            return error.condition
        return None

    def matches() -> list[str]:
        with Engine(open_home(root)) as engine:
            return [json.dumps(match_json(match)) for match in engine.matches()]

    def events() -> bytes:
        written = io.BytesIO()
        with named_file_faults(root):
            export_events(home, written)
        return written.getvalue()

    for folder, read in (("results", matches), ("events", events)):
        expected = read()
        found = []
        for file in [each for each in files(root) if each.suffix == ".parquet" and folder in each.parts]:
            status, whole = file.stat(), file.read_bytes()
            # The end of a column is that of its last page.
            with pq.ParquetFile(file) as opened:
                group = opened.metadata.row_group(0)
            columns = [group.column(number) for number in range(group.num_columns)]
            column = dice.choice([each for each in columns if each.total_compressed_size > 60])
            begin = column.dictionary_page_offset or column.data_page_offset
            flipped = bytearray(whole)
            flipped[begin + column.total_compressed_size - 2] ^= 16
            with file.open("r+b") as stream:
                stream.write(flipped)
            os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
            condition = told(read)
            assert condition == "XSCL_FILE_DAMAGED" or (condition is None and read() == expected), file
            found.append(condition)
            file.write_bytes(whole)
        assert "XSCL_FILE_DAMAGED" in found


def test_a_schema_that_is_no_text(root: Path, tmp_path: Path) -> None:
    """SQLite quotes the damaged schema, and Python cannot decode what it says."""
    path = root / "catalog.db"
    data = path.read_bytes()
    assert b"CREATE INDEX parts_of_steps" in data
    path.write_bytes(data.replace(b"CREATE INDEX parts_of_steps", b"CR\xacATE INDEX parts_of_steps"))
    told = r"malformed database schema \(parts_of_steps\) - near \"CR\\xacATE\""
    with pytest.raises(CatalogError, match=f"XSCL_CATALOG_DAMAGED.*{told}"):
        open_home(root)
    assert re.match(told, looks_like_a_catalogue(path) or "")
    with pytest.raises(BadCatalogError, match=told):
        copy_received(path, tmp_path / "copy.db")
