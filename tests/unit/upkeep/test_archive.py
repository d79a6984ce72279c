"""Archives of homes: everything comes back and goes on, while others write, and no bad archive leaves anything."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sample_home import more

from xscl.answers.matches.listing import list_matches, match_json
from xscl.base.errors import CatalogError
from xscl.base.failpoints import VARIABLE, hooked
from xscl.base.sealed import seal
from xscl.base.types import Event
from xscl.catalog.intake_order import read_last_places
from xscl.catalog.queries import read_queries
from xscl.catalog.tables import INTAKE_FILES, METADATA, OLD_FILES, SCHEMA_VERSION, STATE_FILES
from xscl.engine import Engine
from xscl.store.home import Home, init_home, open_home
from xscl.store.inventory import files_of, named_files
from xscl.templates.runs.mapped_columns import open_columns, save_columns
from xscl.upkeep.archive_export import export_home
from xscl.upkeep.archive_import import import_home
from xscl.upkeep.health import examine_home


def matches(home: Home) -> list[str]:
    return [json.dumps(match_json(match), ensure_ascii=False) for match in list_matches(home)]


def book(id_: str, ts: int, author: str = "A") -> Event:
    return Event("S", id_, ts, xml=f"<book><author>{author}</author></book>")


@pytest.fixture(scope="module")
def archive(rich: Path) -> bytes:
    return packed(rich / "home")


def packed(root: Path) -> bytes:
    home, stream = open_home(root), io.BytesIO()
    try:
        export_home(home, stream)
    finally:
        home.catalog.close()
    return stream.getvalue()


def refused(archive: bytes, parent: Path) -> CatalogError:
    """What an import says that leaves nothing behind."""
    before = sorted(parent.rglob("*"))
    with pytest.raises(CatalogError) as caught:
        import_home(parent / "taken", io.BytesIO(archive))
    assert sorted(parent.rglob("*")) == before
    return caught.value


def rows(home: Home) -> dict[str, list[str]]:
    return {table.name: sorted(map(repr, home.catalog.rows(table))) for table in METADATA.sorted_tables}


# -- whole -----------------------------------------------------------------------------------------------------


def test_everything_comes_back_and_goes_on(rich: Path, archive: bytes, tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    shutil.copytree(rich, here)
    there.mkdir()
    counts = import_home(there / "home", io.BytesIO(archive))
    home, copy = open_home(here / "home"), open_home(there / "home")
    assert counts.queries == len(home.catalog.ask(read_queries)) and counts.events > 20
    assert matches(copy) == matches(home) != []
    expected = rows(home)
    with home.catalog.begin() as connection:
        connection.execute(OLD_FILES.delete())
    expected = rows(home)
    assert rows(copy) == expected
    with copy.catalog.read() as connection:
        named = {path for file in named_files(connection) for path in files_of(copy.root, file.path)}
    assert {str(p.relative_to(copy.root)) for p in copy.root.rglob("*") if p.is_file()} - named <= {
        "catalog.db",
        "catalog.db-wal",
        "catalog.db-shm",
    }
    with Engine(home) as one, Engine(copy) as two:
        for folder, engine in ((here, one), (there, two)):
            (folder / "log.ndjson").write_text("")
            more(engine, folder)
        assert [m.id for m in two.matches()] == [m.id for m in one.matches()]
        assert len(list(two.matches())) > counts.batches


def test_an_empty_home_comes_back(tmp_path: Path) -> None:
    init_home(tmp_path / "home").catalog.close()
    (tmp_path / "copy").mkdir()
    assert import_home(tmp_path / "copy", io.BytesIO(packed(tmp_path / "home"))).events == 0
    home = open_home(tmp_path / "copy")
    assert home.catalog.ask(read_last_places) == (0, 0)
    home.catalog.close()


def test_an_archive_is_what_it_says(rich: Path, archive: bytes) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        members = tar.getmembers()
        manifest = json.loads(tar.extractfile("manifest.json").read())  # type: ignore[union-attr]
    assert [members[0].name, members[1].name] == ["manifest.json", "catalog.db"]
    assert manifest["schema"] == SCHEMA_VERSION
    assert manifest["counts"]["files"] == len(members) - 2 > 10
    assert manifest["counts"]["bytes"] == sum(member.size for member in members[1:])
    home = open_home(rich / "home")
    with home.catalog.read() as connection:
        named = {path for file in named_files(connection) for path in files_of(home.root, file.path)}
    home.catalog.close()
    assert {member.name for member in members[2:]} == named


def test_others_go_on_while_a_home_is_packed(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.register("S//book->x[./author->a] JOIN {a = b, 1 h} S//book->y[./author->b]", name="q")
        stop = threading.Event()

        def work() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                engine.ingest([book(f"e{number}", number, f"{number % 20}")])
                engine.run_once()

        worker = threading.Thread(target=work)
        worker.start()
        try:
            archives = [packed(tmp_path / "home") for _ in range(6)]
        finally:
            stop.set()
            worker.join()
        engine.run_once()
        final = {match.id for match in engine.matches()}
        for number, content in enumerate(archives):
            import_home(tmp_path / f"copy{number}", io.BytesIO(content))
            with Engine(open_home(tmp_path / f"copy{number}")) as copy:
                copy.run_once()
                assert {match.id for match in copy.matches()} <= final
                copy.ingest([book("one", 1, "1"), book("two", 2, "1")])
                copy.run_once()
                assert list(copy.matches())


def test_homes_with_selections_of_numbers_come_back(tmp_path: Path) -> None:
    """Two columns of numbers stand alike in their documents; a document may have several numbers of one column."""
    numbers = "<m>4</m>", "<m>4</m><m>5</m>", "<m>2</m>", "<m>4</m><n>4</n>", ""
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.add_channel("S", lateness="0 s")
        engine.register("S/a[./m > 3]/k->x FOLLOWED BY {x = y, 1 h} S/b[./m < 5]/k->y", name="pair")
        engine.register("S/a[./m > 3]/k->x NOT FOLLOWED BY {x = y, 2 s} S/b[./n > 3]/k->y", name="none")
        for batch in range(3):
            made = [f"<{root}>{some}<k>1</k></{root}>" for root in "ab" for some in numbers]
            engine.ingest([Event("S", f"e{batch}-{at}", 10 * batch + at, xml=xml) for at, xml in enumerate(made)])
            engine.run_once()
        found = matches(engine.home)
        assert {json.loads(match)["query"] for match in found} == {"pair", "none"}
        assert not [*examine_home(engine.home, deep=True).problems]
    (tmp_path / "there").mkdir()
    import_home(tmp_path / "there/copy", io.BytesIO(packed(tmp_path / "home")))
    copy = open_home(tmp_path / "there/copy")
    assert matches(copy) == found and not [*examine_home(copy, deep=True).problems]
    copy.catalog.close()


# -- bad archives ----------------------------------------------------------------------------------------------


def test_archives_that_are_cut_off(archive: bytes, tmp_path: Path) -> None:
    for part in (0, 1, 5, 100, len(archive) // 3, len(archive) // 2, len(archive) - 9, len(archive) - 1):
        assert refused(archive[:part], tmp_path).condition == "XSCL_BAD_ARCHIVE", part


def test_archives_that_are_damaged(archive: bytes, tmp_path: Path) -> None:
    content = gzip.decompress(archive)
    for place in range(0, len(archive), max(1, len(archive) // 60)):
        damaged = archive[:place] + bytes([archive[place] ^ 0x55]) + archive[place + 1 :]
        try:
            import_home(tmp_path / "taken", io.BytesIO(damaged))
        except CatalogError as error:
            assert error.condition == "XSCL_BAD_ARCHIVE", place
        else:
            # Some bytes of a gzip header mean nothing, and within zeros a repetition may begin at any of them.
            assert gzip.decompress(damaged) == content, place
            shutil.rmtree(tmp_path / "taken")
        assert list(tmp_path.iterdir()) == []


def test_what_is_no_archive(tmp_path: Path) -> None:
    for content in (b"", b"hello", gzip.compress(b""), gzip.compress(b"x" * 5_000), gzip.compress(b"\0" * 5_000)):
        assert refused(content, tmp_path).condition == "XSCL_BAD_ARCHIVE"


Members = list[tuple[tarfile.TarInfo, bytes]]


def unpacked_members(archive: bytes) -> Members:
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        return [(member, tar.extractfile(member).read()) for member in tar.getmembers()]  # type: ignore[union-attr]


def repacked(members: Members) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz", format=tarfile.USTAR_FORMAT) as tar:
        for info, content in members:
            info.size = len(content) if info.isreg() else 0
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def with_manifest(members: Members, change: Callable[[dict[str, Any]], None]) -> Members:
    found = json.loads(members[0][1])
    change(found)
    return [(members[0][0], json.dumps(found).encode()), *members[1:]]


def listed(members: Members) -> Members:
    """The members with a manifest that counts them as they are."""

    def change(manifest: dict[str, Any]) -> None:
        manifest["counts"]["files"] = len(members) - 2
        manifest["counts"]["bytes"] = sum(len(content) for _, content in members[1:])

    return with_manifest(members, change)


def plain(name: str) -> tarfile.TarInfo:
    return tarfile.TarInfo(name)


def linked(name: str, target: str, kind: bytes) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def test_archives_that_strangers_made(archive: bytes, tmp_path: Path) -> None:
    members = unpacked_members(archive)
    last, content = members[-1]
    evil = [
        listed([*members, (plain("../evil"), b"x")]),
        listed([*members, (plain("/tmp/evil"), b"x")]),
        listed([*members, (plain("events/../../evil"), b"x")]),
        listed([*members, (plain("events/.hidden"), b"x")]),
        listed([*members, (plain("programs/x.pickle"), b"x")]),
        listed([*members, members[-1]]),
        listed([*members, (plain("events/more.parquet"), b"x")]),
        listed([*members, (plain(f"{last.name}/more"), b"x")]),
        listed([*members, (plain("catalog.db"), members[1][1])]),
        [*members, (plain("events/more.parquet"), b"x")],
        [*members[:-1], (linked(last.name, "/etc/passwd", tarfile.SYMTYPE), b"")],
        [*members[:-1], (linked(last.name, "catalog.db", tarfile.LNKTYPE), b"")],
        [members[0], members[2], members[1], *members[3:]],
        [*members[:-1], (last, content[:-1] + b"!")],
        [*members[:-1], (last, content[:-1])],
        members[1:],
        listed([members[0], *members[2:]]),
        listed(members[:-1]),
        with_manifest(members, lambda manifest: manifest.pop("counts")),
        with_manifest(members, lambda manifest: manifest.update(counts=[1])),
        with_manifest(members, lambda manifest: manifest["counts"].update(files=-1)),
        with_manifest(members, lambda manifest: manifest["counts"].update(bytes=1 << 60)),
        [(members[0][0], b"[" * 100_000), *members[1:]],
        with_manifest(members, lambda manifest: manifest.update(format=float("inf"))),
        with_manifest(members, lambda manifest: manifest["counts"].update(events=float("inf"))),
    ]
    for number, each in enumerate(evil):
        assert refused(repacked(each), tmp_path).condition == "XSCL_BAD_ARCHIVE", number
    no_utf8 = gzip.decompress(archive).replace(b"manifest.json", b"manifest.\xe9\xe9\xe9\xe9")
    assert refused(gzip.compress(no_utf8), tmp_path).condition == "XSCL_BAD_ARCHIVE"
    later = [
        with_manifest(members, lambda manifest: manifest.update(schema=99)),
        with_manifest(members, lambda manifest: manifest.update(format=2)),
    ]
    for each in later:
        assert refused(repacked(each), tmp_path).condition == "XSCL_CATALOG_VERSION"


@pytest.mark.parametrize(
    "statement",
    [
        "create trigger t after insert on late begin delete from home; end",
        "create view v as select 1",
        "update intake_files set path = '../../evil' where path = (select min(path) from intake_files)",
        "update batches set result_path = '/etc' where result_path is not null",
        "insert into old_files values ('../home', 0)",
        "create virtual table v using fts5(a)",
        "drop table state_files",
        "drop table queries",
        "update intake_files set path = 'events/none.parquet' where path = (select min(path) from intake_files)",
        "create table more (a)",
        "create index more on late (ts)",
        "create index more on late (abs(ts))",
        "alter table totals add column more text",
        "alter table totals add column more integer generated always as (abs(count)) virtual",
        "create temp table t as select * from totals; drop table totals; create table totals "
        "(name varchar primary key not null, count bigint not null check (abs(count) >= 0)); "
        "insert into totals select * from t",
        "drop index event_ids_base",
        # Rows that this program does not write.
        "update home set next_place = 'x'",
        "update home set next_place = 1",
        "update home set processed = -1",
        "update home set next_place = 1e300",
        "insert into home (one, schema_version, next_place, received, processed) select 2, 1, 9, 0, 0",
        "insert into quotas values ('pairs', -1)",
        "delete from home",
        "update channels set feed = 7",
        "update channels set kind = x'ff'",
        "update channels set schema = '{' where schema is not null",
        "update queries set names = '[]'",
        "update queries set names = 'nonsense'",
        "update queries set namespaces = replace(hex(zeroblob(50000)), '0', '[')",
        "update queries set docid_until = -5",
        "update queries set gid = 1 << 40",
        "update groups set channels = '{}'",
        "update templates set joins = '[1]'",
        "update templates set blocks = '{}'",
        "update templates set template = 'x; drop table home' where template = (select min(template) from templates)",
        "update templates set template = '../x' where template = (select min(template) from templates)",
        "update state_files set path = 'witness/../../x' where path = (select min(path) from state_files)",
        "update state_files set path = x'00' where path = (select min(path) from state_files)",
        "update state_files set rows = 'many'",
        "update state_files set rows = rows + 1",
        "update state_files set held = rows + 1",
        "update state_files set ts_max = ts_max - 1 where kind = 'witness'",
        "update state_files set kind = 'link' where kind = 'witness'",
        "update state_files set kind = 'reach' where kind = 'link'",
        "update batches set prepare_s = 'long'",
        "update event_ids set docid = -1",
        "update event_ids set ts = 'now'",
        "update feeds set memory = '{'",
        "update memberships set streams = 'x' where number = 1",
    ],
)
def test_catalogues_that_strangers_made(statement: str, archive: bytes, tmp_path: Path) -> None:
    members = unpacked_members(archive)
    database = tmp_path / "catalog.db"
    database.write_bytes(members[1][1])
    connection = sqlite3.connect(database)
    connection.executescript(statement)
    connection.commit()
    connection.close()
    changed = listed([members[0], (members[1][0], database.read_bytes()), *members[2:]])
    database.unlink()
    assert refused(repacked(changed), tmp_path).condition == "XSCL_BAD_ARCHIVE"


def test_a_file_that_unpacks_hugely_is_refused_before_it_is_read(
    rich: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(rich / "home", tmp_path / "home")
    huge = pa.table({"content": ["0" * (100 << 20)]})
    pq.write_table(huge, tmp_path / "home/events/bomb.parquet", use_dictionary=False, compression="zstd")
    bomb = seal(tmp_path / "home/events/bomb.parquet")
    assert bomb.stat().st_size < 50_000
    home = open_home(tmp_path / "home")
    with home.catalog.begin() as connection:
        connection.execute(INTAKE_FILES.insert().values(path=f"events/{bomb.name}", first=1, last=1, rows=1))
    home.catalog.close()
    monkeypatch.setattr(pq.ParquetFile, "read", None)
    archive = packed(tmp_path / "home")
    shutil.rmtree(tmp_path / "home")
    error = refused(archive, tmp_path)
    assert error.condition == "XSCL_BAD_ARCHIVE" and bomb.name in error.message


def test_runs_that_strangers_made(archive: bytes, rich: Path, tmp_path: Path) -> None:
    """Their digests are right, and the catalogue names them; each is refused by its name, and nothing is left."""

    def cut(columns: dict[str, pa.Array]) -> None:
        columns["slice_starts"] = pa.array([0, 1 << 40])

    def lead_out(columns: dict[str, pa.Array]) -> None:
        columns["doc"] = pa.array([1 << 30] * len(columns["doc"]), pa.int32())

    def lack(columns: dict[str, pa.Array]) -> None:
        del columns["texts"]

    def other(columns: dict[str, pa.Array]) -> None:
        columns["ts"] = columns["ts"].cast(pa.float64())

    def links_out(columns: dict[str, pa.Array]) -> None:
        columns["left"] = pa.array([-1] * len(columns["left"]), pa.int32())

    def whole(columns: dict[str, pa.Array]) -> None:
        """Change nothing, so that a refusal comes of nothing else."""

    for kind, change in (
        *(("witness", each) for each in (whole, cut, lead_out, lack, other)),
        *(("link", each) for each in (whole, links_out)),
    ):
        shutil.copytree(rich / "home", tmp_path / "home")
        home = open_home(tmp_path / "home")
        path = next(str(row["path"]) for row in home.catalog.rows(STATE_FILES) if row["kind"] == kind)
        columns, told = open_columns(home.root / path)
        change(columns)
        save_columns(tmp_path / "home/witness/other.run", columns, told)
        made = seal(tmp_path / "home/witness/other.run")
        (home.root / path).unlink()
        with home.catalog.begin() as connection:
            values = {"path": f"witness/{made.name}", "bytes": made.stat().st_size}
            connection.execute(STATE_FILES.update().where(STATE_FILES.c.path == path).values(values))
        home.catalog.close()
        content = packed(tmp_path / "home")
        shutil.rmtree(tmp_path / "home")
        if change is whole:
            import_home(tmp_path / "taken", io.BytesIO(content))
            shutil.rmtree(tmp_path / "taken")
            continue
        error = refused(content, tmp_path)
        assert error.condition == "XSCL_BAD_ARCHIVE" and made.name in error.message, change


# -- where something is in the way -----------------------------------------------------------------------------


def test_an_import_wants_a_place_of_its_own(archive: bytes, tmp_path: Path) -> None:
    init_home(tmp_path / "home").catalog.close()
    (tmp_path / "file").write_text("x")
    for name in ("home", "file"):
        before = sorted(tmp_path.rglob("*"))
        with pytest.raises(CatalogError) as caught:
            import_home(tmp_path / name, io.BytesIO(archive))
        assert caught.value.condition == "XSCL_HOME_NOT_EMPTY"
        assert sorted(tmp_path.rglob("*")) == before


def test_a_batch_that_found_nothing_may_have_no_folder(tmp_path: Path) -> None:
    """As one that answers a query from what is held, which is nothing."""
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.ingest([book("1", 1, "A")])
        engine.register("T/a STARTING ALL", name="q")
        engine.run_once()
    assert import_home(tmp_path / "copy", io.BytesIO(packed(tmp_path / "home"))).batches == 2
    assert not list(examine_home(open_home(tmp_path / "copy")).problems)


def test_a_file_that_is_lost_is_named(rich: Path, tmp_path: Path) -> None:
    shutil.copytree(rich, tmp_path / "copy")
    lost = sorted((tmp_path / "copy" / "home" / "events").iterdir())[0]
    lost.unlink()
    with pytest.raises(CatalogError, match=lost.name) as caught:
        packed(tmp_path / "copy" / "home")
    assert caught.value.condition == "XSCL_FILE_MISSING"


class _Ended(BaseException):
    pass


def test_an_import_that_ends_half_way_leaves_nothing(archive: bytes, tmp_path: Path) -> None:
    steps: list[str] = []
    with hooked(steps.append):
        import_home(tmp_path / "whole", io.BytesIO(archive))
    shutil.rmtree(tmp_path / "whole")
    mine = [name for name in dict.fromkeys(steps) if name.startswith("import.") and name != "import.renamed"]
    assert len(mine) == 4
    for name in mine:

        def end(at: str, name: str = name) -> None:
            if at == name:
                raise _Ended

        with hooked(end), pytest.raises(_Ended):
            import_home(tmp_path / "taken", io.BytesIO(archive))
        assert list(tmp_path.iterdir()) == []


def test_an_import_that_is_killed_leaves_no_home(archive: bytes, tmp_path: Path) -> None:
    (tmp_path / "archive").write_bytes(archive)
    code = "import sys; from xscl.upkeep.archive_import import *; import_home(sys.argv[1], open(sys.argv[2], 'rb'))"
    command = [sys.executable, "-c", code, str(tmp_path / "taken"), str(tmp_path / "archive")]
    for place in ("import.file:3", "import.checked", "import.rename"):
        killed = subprocess.run(command, env={**os.environ, VARIABLE: place}, check=False)
        assert killed.returncode == -signal.SIGKILL
        with pytest.raises(CatalogError) as caught:
            open_home(tmp_path / "taken")
        assert caught.value.condition == "XSCL_NO_HOME"
        # The archive, and what this import has left; it has put the one before in order.
        assert len(list(tmp_path.iterdir())) == 2
    # One that was killed before it had a lock leaves an empty folder.
    (tmp_path / ".taken-import-empty").mkdir()
    # The next import puts it in order, also one of another home.
    other = [*command[:3], str(tmp_path / "other"), command[4]]
    subprocess.run(other, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "other"]
    subprocess.run(command, check=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "other", "taken"]
    open_home(tmp_path / "taken").catalog.close()
