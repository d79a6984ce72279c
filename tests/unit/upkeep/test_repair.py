"""Homes that were damaged in each way: what the doctor says of them, and what a repair leaves."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import sqlalchemy as sa
from sample_home import fill, more

from xscl.answers.matches.listing import list_matches
from xscl.base.docids import PUBLISHED
from xscl.base.errors import CatalogError, EngineError
from xscl.base.locks import running
from xscl.base.types import Event, Match
from xscl.catalog import catalog
from xscl.catalog.tables import CHANNELS, GROUPS, HOME, INSTANCES, QUERIES, STATE_FILES, TEMPLATES
from xscl.engine import Engine
from xscl.store.home import Home, init_home, open_home
from xscl.store.inventory import files_of, named_files
from xscl.store.orphans import tidy
from xscl.upkeep import repair
from xscl.upkeep.doctor import examine
from xscl.upkeep.health import examine_home
from xscl.upkeep.repair import Done, repair_home
from xscl.upkeep.upkeep import EVERY


@pytest.fixture(scope="module")
def expected(rich: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Match]:
    """What the home comes to when it goes on undisturbed."""
    folder = tmp_path_factory.mktemp("expected")
    shutil.copytree(rich, folder / "rich")
    with Engine(open_home(folder / "rich" / "home")) as engine:
        more(engine, folder / "rich")
        return listed(engine)


@pytest.fixture
def folder(rich: Path, tmp_path: Path) -> Path:
    return shutil.copytree(rich, tmp_path / "rich")


def listed(engine: Engine) -> list[Match]:
    """Matches, in whatever batch they were found."""
    return [replace(match, cursor="") for match in engine.matches()]


def problems(home: Home, *, deep: bool = False) -> list[str]:
    found = examine_home(home, deep=deep)
    unnamed = ["unnamed files"] if found.unnamed and found.runs is None else []
    return [*unnamed, *(what for what, _, _ in found.problems)]


def paths(home: Home, kind: str, *, published: bool = False) -> list[Path]:
    with home.catalog.read() as connection:
        named = [f for f in named_files(connection) if f.kind == kind and ((f.first or 0) >= PUBLISHED) == published]
    return [home.root / path for file in named for path in files_of(home.root, file.path)]


def first_results(home: Home) -> list[Path]:
    """The files of one batch."""
    with home.catalog.read() as connection:
        batch = next(file for file in named_files(connection) if file.kind == "results" and file.rows)
    return [home.root / path for path in files_of(home.root, batch.path)]


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def spoil(path: Path) -> None:
    """Damage what is in a file, not what it says of itself."""
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\xff" * 40 + content[44:])


def statement(text: sa.Executable) -> Callable[[Home], None]:
    def run(home: Home) -> None:
        with home.catalog.begin() as connection:
            connection.execute(text)

    return run


def drop_rt(home: Home) -> None:
    with home.catalog.begin() as connection:
        template = connection.scalar(sa.select(QUERIES.c.template).where(QUERIES.c.qid == "author_long"))
        connection.exec_driver_sql(f"drop table rt_{template}")


def empty_rt(home: Home) -> None:
    with home.catalog.begin() as connection:
        template = connection.scalar(sa.select(QUERIES.c.template).where(QUERIES.c.qid == "author_long"))
        connection.exec_driver_sql(f"delete from rt_{template}")


def data_files_of(home: Home) -> list[Path]:
    """The files of rows of a home."""
    return sorted(path for path in home.root.rglob("*") if path.suffix in (".parquet", ".run"))


def orphans(home: Home) -> None:
    (home.root / "witness" / "00000001-abcdefgh-0.run").write_bytes(b"x" * 100)
    (home.root / "results" / "00000009-abcdefgh").mkdir()
    (home.root / "events" / "000000000001-abcdefgh.parquet").write_bytes(b"x" * 50)


DAMAGES: dict[str, tuple[str, Callable[[Home], None]]] = {
    "results lost": ("files", lambda home: [p.unlink() for p in first_results(home)] and None),
    "results cut": ("files", lambda home: cut(paths(home, "results")[-1])),
    "all results lost": ("files", lambda home: [p.unlink() for p in paths(home, "results")] and None),
    "state lost": ("files", lambda home: paths(home, "witness")[0].unlink()),
    "state cut": ("files", lambda home: cut(paths(home, "witness")[-1])),
    "links lost": ("files", lambda home: paths(home, "link")[0].unlink()),
    "reach lost": ("files", lambda home: paths(home, "reach")[0].unlink()),
    "reach cut": ("files", lambda home: cut(paths(home, "reach")[0])),
    "rows of state": ("files", statement(STATE_FILES.update().values(rows=STATE_FILES.c.rows + 1))),
    "published lost": ("files", lambda home: paths(home, "events", published=True)[0].unlink()),
    "orphans": ("unnamed files", orphans),
    "table lost": ("derived", drop_rt),
    "rows lost": ("derived", empty_rt),
    "groups lost": ("derived", statement(GROUPS.delete().where(GROUPS.c.gid > 2))),
    "instances lost": ("derived", statement(INSTANCES.delete())),
    "templates lost": ("derived", statement(TEMPLATES.delete())),
    "place behind": ("places", statement(HOME.update().values(next_place=1))),
    "processed behind": ("places", statement(HOME.update().values(processed=0))),
}


@pytest.mark.parametrize("damage", [name for name, (what, _) in DAMAGES.items() if what == "files"])
def test_files_are_made_good(damage: str, folder: Path, expected: list[Match]) -> None:
    home = open_home(folder / "home")
    make_good(home, damage)
    goes_on(home, folder, expected)


def test_the_catalogue_is_made_good(folder: Path, expected: list[Match]) -> None:
    """One damage after another, each seen and made good by itself; then the home goes on."""
    home = open_home(folder / "home")
    for damage, (what, _) in DAMAGES.items():
        if what != "files":
            make_good(home, damage)
            assert problems(home, deep=True) == [], damage
    goes_on(home, folder, expected)


def goes_on(home: Home, folder: Path, expected: list[Match]) -> None:
    """Assert that a home which was repaired comes to what another does."""
    with Engine(home) as engine:
        more(engine, folder)
        assert listed(engine) == expected
        assert problems(home, deep=True) == []


def make_good(home: Home, damage: str) -> None:
    """Damage a home and repair what is seen, by the plan that a dry run tells."""
    what, harm = DAMAGES[damage]
    assert problems(home) == [], damage
    harm(home)
    assert what in problems(home), damage
    before = {path: path.stat().st_mtime_ns for path in data_files_of(home)}
    planned = repair_home(home, dry_run=True)
    assert what in problems(home), damage
    assert {path: path.stat().st_mtime_ns for path in data_files_of(home)} == before, damage
    done = repair_home(home)
    assert done == planned and done and not any(each.lost for each in done), damage
    assert problems(home) == [] and repair_home(home) == [], damage


@pytest.mark.parametrize("harm", [spoil, Path.unlink])
def test_damage_of_some_of_the_results_of_a_batch(
    harm: Callable[[Path], None], folder: Path, expected: list[Match]
) -> None:
    """Damage inside a file is found when it is read, a file that is missing at once."""
    home = open_home(folder / "home")
    first, second, *_ = first_results(home)
    harm(second)
    assert problems(home, deep=True) == ["files"]
    if harm is spoil:
        assert problems(home) == []
        assert not repair_home(home, deep=False)
    assert repair_home(home, deep=True)
    assert list((home.root / "damaged").iterdir())
    with Engine(home) as engine:
        more(engine, folder)
        assert listed(engine) == expected


def test_events_that_are_lost(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.upkeep.events.FANOUT", 1_000)  # each intake's file stays as it is
    home = open_home(folder / "home")
    with Engine(home) as engine:
        engine.run_once()
        before = list(engine.matches())
        # The file of the last step's first events.
        found = examine_home(home)
        assert not list(found.problems)
        with home.catalog.read() as connection:
            files = [f for f in named_files(connection) if f.kind == "events" and (f.first or 0) < PUBLISHED]
        lost = next(f for f in reversed(files) if f.rows == 5)
        (home.root / lost.path).unlink()
        done = repair_home(home)
        assert [each.lost for each in done] == [True, False]
        assert "its 5 events are lost" in done[0].text and "run again" in done[1].text
        assert problems(home) == []
        engine.run_once()
        after = list(engine.matches())
        gone = {("S", "d7"), ("S", "d8"), ("S", "d9"), ("S", "late"), ("wire", "w3")}
        taken_in = {"S", "wire", "ticks", "news", "news.raw", "rooms"}
        plain = [m for m in before if {e.channel for e in m.events} <= taken_in]
        left = {m.id for m in plain if not gone & {(e.channel, e.id) for e in m.events}}
        assert left <= {m.id for m in after}
        assert not any(gone & {(e.channel, e.id) for e in m.events} for m in after)
        # They may be taken in again.
        from sample_home import _doc

        assert engine.ingest([_doc("book", "d7", 31, "B")]).taken == 1


def test_nothing_is_run_again_where_events_are_gone(folder: Path) -> None:
    home = open_home(folder / "home")
    with Engine(home) as engine:
        before = listed(engine)
        with home.catalog.begin() as connection:
            connection.execute(CHANNELS.update().where(CHANNELS.c.name == "rooms").values(kept_from=-1))
        with home.catalog.read() as connection:
            batch = next(f.batch for f in named_files(connection) if f.kind == "results" and f.rows)
        for path in [*first_results(home), *paths(home, "reach")]:
            path.unlink()
        done = repair_home(home)
        assert [each.lost for each in done].count(True) == 1
        assert any(f"stored matches of batch {batch} are lost" in each.text for each in done)
        assert problems(home) == []
        after = listed(engine)
        assert {m.id for m in after} < {m.id for m in before} and after


@pytest.mark.parametrize("kinds", [("witness",), ("link",), ("witness", "link", "reach")])
def test_join_state_is_made_again_where_events_are_gone(
    kinds: tuple[str, ...], folder: Path, expected: list[Match]
) -> None:
    home = open_home(folder / "home")
    with home.catalog.begin() as connection:
        connection.execute(CHANNELS.update().where(CHANNELS.c.name == "rooms").values(kept_from=-(1 << 60)))
    for kind in kinds:
        for path in paths(home, kind):
            path.unlink()
    done = repair_home(home)
    assert done and not any(each.lost for each in done)
    assert problems(home) == []
    with Engine(home) as engine:
        more(engine, folder)
        assert listed(engine) == expected


def test_a_repair_wants_the_home_for_itself(folder: Path) -> None:
    home = open_home(folder / "home")
    orphans(home)
    with running(home.root):
        assert "unnamed files" not in problems(home)
        with pytest.raises(CatalogError) as caught:
            repair_home(home)
    assert caught.value.condition == "XSCL_HOME_IN_USE"
    home.catalog.close()


def test_a_catalogue_that_cannot_be_made_smaller_is_repaired_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "_BUSY_TIMEOUT_MS", 1)
    home = init_home(tmp_path / "home")
    other = sqlite3.connect(home.root / "catalog.db", isolation_level=None)

    def then_locked(of: Home) -> None:
        tidy(of)
        other.execute("begin immediate")

    monkeypatch.setattr(repair, "tidy", then_locked)
    (done,) = repair_home(home)
    other.close()
    assert done == Done("the catalogue's file keeps its size: database is locked")
    monkeypatch.undo()
    assert repair_home(home) == []


def test_a_catalogue_of_another_home(folder: Path, tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "other")) as other:
        fill(other, tmp_path)
    home = open_home(folder / "home", f"sqlite:///{tmp_path / 'other' / 'catalog.db'}")
    before = data_files_of(home)
    with pytest.raises(CatalogError) as caught:
        repair_home(home)
    assert caught.value.condition == "XSCL_CANNOT_REPAIR"
    assert data_files_of(home) == before
    home.catalog.close()


def test_a_catalogue_that_is_damaged(folder: Path) -> None:
    open_home(folder / "home").catalog.close()
    database = folder / "home" / "catalog.db"
    content = database.read_bytes()
    database.write_bytes(content[:4096] + b"\xaa" * (len(content) - 4096))
    found = next(check for check in examine(folder / "home", None) if check.what == "catalogue")
    assert not found.ok and "import" in found.advice
    database.write_bytes(b"nothing of the kind")
    found = next(check for check in examine(folder / "home", None) if check.what == "catalogue")
    assert not found.ok


def test_a_catalogue_is_looked_at_where_the_home_has_a_relative_path(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    found = next(check for check in examine(Path("home"), None) if check.what == "home")
    assert found.ok, found


@pytest.mark.parametrize("cut", [b"", b"PAR1 and nothing else", None])
def test_damaged_files_are_named_where_they_are_read(folder: Path, cut: bytes | None) -> None:
    for part in ("events", "results"):
        for path in (folder / "home" / part).rglob("*.parquet"):
            content = path.read_bytes()
            path.write_bytes(content[:-40] + b"\xff" * 30 + content[-10:] if cut is None else cut)
    home = open_home(folder / "home")
    with pytest.raises(EngineError) as caught:
        list(list_matches(home))
    assert caught.value.condition == "XSCL_FILE_DAMAGED"
    home.catalog.close()


# -- where events were removed -----------------------------------------------------------------------------------


KEY = "<a><k>{}</k></a>"


@pytest.fixture
def lossy(tmp_path: Path) -> Iterator[Engine]:
    """A home with a channel from which events were removed on purpose."""
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.add_channel("other", retention="1 s")
        engine.ingest([Event("other", f"o{n}", 10.0 * n, xml=KEY.format(n)) for n in range(4)])
        list(engine.run_once())
        yield engine


def test_a_damaged_file_of_published_events_takes_only_its_own_along(lossy: Engine) -> None:
    """What is published of held events has numbers between those of others."""
    lossy.register("S/a PUBLISH P", name="a")
    lossy.ingest([Event("S", f"e{n}", 10.0 * n, xml=KEY.format(n)) for n in range(4)])
    list(lossy.run_once())
    lossy.register("S/a PUBLISH Q STARTING ALL", name="b")
    list(lossy.run_once())
    kept, damaged = paths(lossy.home, "events", published=True)
    assert kept.name < damaged.name
    damaged.write_bytes(b"bad")
    assert any("4 events are lost (4 of Q)" in done.text for done in repair_home(lossy.home))
    assert not problems(lossy.home)
    lossy.drop("b")
    lossy.register("S/a PUBLISH Q STARTING ALL", name="b")
    lossy.register("P STARTING ALL", name="readers")
    list(lossy.run_once())
    assert not problems(lossy.home)
    for query in ("b", "readers"):
        assert sorted(match.document for match in lossy.matches(query)) == [KEY.format(n) for n in range(4)]


def test_the_state_of_the_query_that_was_filled_last_is_made_again(lossy: Engine) -> None:
    lossy.register("U/a/k->x JOIN {x = y, 1 h} V/a/k->y", name="else")
    lossy.ingest([Event("S", "s", 1.0, xml=KEY.format(1)), Event("U", "u", 1.0, xml=KEY.format(1))])
    list(lossy.run_once())
    lossy.register("S/a/k->x JOIN {x = y, 1 h} T/a/k->y STARTING ALL", name="q")
    list(lossy.run_once())
    paths(lossy.home, "witness")[0].unlink()
    repair_home(lossy.home)
    with Engine(open_home(lossy.home.root)) as engine:
        engine.ingest([Event("T", "t", 2.0, xml=KEY.format(1)), Event("V", "v", 2.0, xml=KEY.format(1))])
        list(engine.run_once())
        assert sorted(match.query for match in engine.matches()) == ["else", "q"]


def test_late_published_events_that_were_taken_again_are_again(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        engine.add_channel("P", lateness="1 s")
        engine.register("S/a PUBLISH P", name="pub")
        engine.register("P/a/k->x JOIN {x = y, 1 h} T/a/k->y", name="q")
        given = (("T", "t", 1.0, 1), ("S", "s1", 100.0, 2), ("S", "s2", 10.0, 1))
        engine.ingest([Event(channel, id_, ts, xml=KEY.format(key)) for channel, id_, ts, key in given])
        list(engine.run_once())
        assert engine.replay_late().events == 1
        list(engine.run_once())
        before = sorted(match.id for match in engine.matches())
        assert len(before) == 3
        for path in first_results(engine.home):
            path.unlink()
        assert not any(done.lost for done in repair_home(engine.home))
    with Engine(open_home(tmp_path / "home")) as engine:
        list(engine.run_once())
        assert sorted(match.id for match in engine.matches()) == before


def test_files_that_went_out_of_use_are_no_strangers(tmp_path: Path) -> None:
    with Engine(init_home(tmp_path / "home")) as engine:
        for number in range(EVERY + 1):
            engine.ingest([Event("S", str(number), number, xml="<a/>")])
            list(engine.run_once())
        lost = paths(engine.home, "events")
        assert len(lost) < len(list(lost[0].parent.iterdir())) / 2
        for path in lost:
            path.unlink()
        assert any(done.lost for done in repair_home(engine.home))
        assert not problems(engine.home)


FLIPS = {
    "update templates set joins = replace(joins, '1', '2')": ("derived", False),
    "update templates set blocks = substr(blocks, 2)": ("catalogue", True),
    "update groups set text = replace(text, 'a', 'b')": ("derived", False),
    "update groups set key = key || 'x' where gid = 3": ("derived", False),
    "update instances set key = key || 'x' where iid = 2": ("derived", False),
    "update variables set definition = definition || 'x'": ("derived", False),
    "update queries set names = replace(names, 'a', 'b')": ("derived", False),
    "update queries set names = substr(names, 2)": ("catalogue", True),
    "update queries set gid = 4 where qid = 'author'": ("derived", False),
    "update queries set text = replace(text, 'author', 'authos')": ("derived", True),
    "update channels set schema = replace(schema, '{', '[')": ("catalogue", True),
    "update event_ids set ts = ts + 64": ("ids", True),
    "update event_ids set received = received - 1 where channel = 'ticks'": ("ids", True),
    "update intake_files set last = last - 1 where rows > 1": ("ids", True),
    "update row_ranges set first = first + 1": ("ids", True),
    "update state_files set ts_max = ts_max - 1024": ("ids", True),
}
"""Statement that damages a catalogue: the problem that a deep look tells, and whether no repair can mend it."""


@pytest.mark.parametrize("damage", FLIPS)
def test_values_that_follow_from_others_are_compared_by_a_deep_look(damage: str, folder: Path) -> None:
    what, stays = FLIPS[damage]
    home = open_home(folder / "home")
    with home.catalog.begin() as connection:
        assert connection.exec_driver_sql(damage).rowcount
    assert what in problems(home, deep=True)
    if what == "derived":
        done = repair_home(home, deep=True)
        assert done and any(each.lost for each in done) == stays
        assert (problems(home, deep=True) == []) != stays
    home.catalog.close()


def test_a_value_that_differs_from_its_index_is_told_by_a_deep_look(lossy: Engine) -> None:
    database = lossy.home.root / "catalog.db"
    lossy.home.catalog.close()
    content = database.read_bytes()
    # An id stands in its table and in the index of ids; here, the last of them is changed.
    at = content.rindex(b"o3")
    database.write_bytes(content[:at] + b"o7" + content[at + 2 :])
    assert examine_home(lossy.home, deep=True).catalogue is not None
