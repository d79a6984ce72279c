"""Homes of earlier versions are upgraded when they are opened, whole and once."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import home_of_schema_8
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from home_of_schema_7 import FIRST, LATER, fill, more
from homes import as_told_then, matches_of, unpacked
from local_engine import LocalEngine
from oracle.evaluate import Doc

import xscl.catalog
import xscl.file_upgrades
import xscl.rebuild
import xscl.tables
import xscl.upgrade
from xscl.catalog import Versions, names_json, open_catalog
from xscl.compile import ChannelFacts, CompiledQuery, compile_query
from xscl.engine import Engine
from xscl.errors import CatalogError, UnsupportedFeatureError
from xscl.event_files import EVENT_SCHEMA
from xscl.file_upgrades import FileUpgrade
from xscl.health import examine_home
from xscl.home import Home, init_home, open_home
from xscl.matches import list_matches, match_json
from xscl.old_files import GRACE, unlink_old
from xscl.parser import parse_query
from xscl.prepared import Preparer
from xscl.registry import Registry
from xscl.state import held_state
from xscl.tables import (
    BATCHES,
    CHANNELS,
    GROUPS,
    HOME,
    INSTANCES,
    INTAKE_FILES,
    LATE,
    MEMBERSHIPS,
    METADATA,
    OLD_FILES,
    QUERIES,
    SCHEMA_VERSION,
    SOURCES,
    STATE_FILES,
    STREAMS,
    TEMPLATES,
    VARIABLES,
)
from xscl.types import Event
from xscl.values import value_hash
from xscl.xpath.witness import REFUSED, WITNESS_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MOVED = {"crossed", "crossed_again", "crossed_soon", "dropped", "lower", "rows"}
"""Queries of the home '0.1-moved' whose meta-variables were in another order."""


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return unpacked("0.1", tmp_path)


def matches(home: Home) -> list[str]:
    return [json.dumps(match_json(match), ensure_ascii=False) for match in list_matches(home)]


def content(folder: Path) -> dict[str, object]:
    """Everything in a catalogue, read without xscl."""
    engine = sa.create_engine(f"sqlite:///{folder / 'catalog.db'}")
    with engine.connect() as connection:
        names = sa.inspect(connection).get_table_names()
        found = {name: connection.execute(sa.text(f'select * from "{name}"')).all() for name in names}
    engine.dispose()
    return found


def config(connection: sa.Connection) -> Config:
    found = Config()
    found.set_main_option("script_location", "xscl:migrations")
    found.attributes["connection"] = connection
    return found


# -- the schema ------------------------------------------------------------------------------------------------


def test_revisions_are_numbered_and_end_with_the_schema() -> None:
    script = ScriptDirectory.from_config(config(None))  # type: ignore[arg-type]
    numbers = [revision.revision for revision in script.walk_revisions()][::-1]
    assert numbers == [f"{number:04d}" for number in range(1, SCHEMA_VERSION + 1)]


def test_migrations_lead_to_the_tables() -> None:
    """A catalogue that went through all revisions is one that was just made."""
    migrated, made = sa.create_engine("sqlite://"), sa.create_engine("sqlite://")
    with migrated.begin() as connection:
        command.upgrade(config(connection), "head")
        options = {"compare_type": True, "compare_server_default": True}
        assert [
            change
            for change in compare_metadata(MigrationContext.configure(connection, opts=options), METADATA)
            if getattr(change[1], "name", None) != "alembic_version"
        ] == []
    with made.begin() as connection:
        METADATA.create_all(connection)

    def indexes(engine: sa.Engine) -> set[str]:
        with engine.connect() as connection:
            rows = connection.exec_driver_sql("select sql from sqlite_master where type = 'index' and sql is not null")
            return {re.sub(r"\s+", " ", row[0].replace('"', "")).lower() for row in rows}

    assert indexes(migrated) == indexes(made)


# -- an old home -----------------------------------------------------------------------------------------------


def test_an_old_home_is_upgraded(old: Path) -> None:
    before = content(old)
    home = open_home(old)
    with home.catalog.read() as connection:
        assert home.catalog.versions(connection) == Versions.here()
        rows = connection.execute(sa.select(GROUPS)).all()
    facts = home.catalog.facts()
    compiled = {r.gid: Preparer(json.loads(r.namespaces), facts).prepare_text(r.text).compiled for r in rows}
    assert {row.gid: json.loads(row.channels) for row in rows} == {
        gid: sorted(set(found.channels)) for gid, found in compiled.items()
    }
    assert matches(home) == matches_of("0.1")
    after = content(old)
    # Results name groups and instances by number.
    assert {row.query: row.gid for row in after["queries"]} == {row.query: row.gid for row in before["queries"]}  # type: ignore[attr-defined]
    for name in ("groups", "instances"):
        numbers = {row[0] for row in before[name]}  # type: ignore[attr-defined]
        assert {row[0] for row in after[name]} == numbers  # type: ignore[attr-defined]
    used = {row.gid for row in after["queries"]}  # type: ignore[attr-defined]
    texts_before, texts_after = (
        {(row.gid, row.iid, row.text, row.namespaces) for row in rows["groups"] if row.gid in used}  # type: ignore[attr-defined]
        for rows in (before, after)
    )
    assert texts_after == texts_before
    # Templates got other ids; nothing names an old one any more.
    assert {row.template for row in after["templates"]} == {found.template.id for found in compiled.values()}  # type: ignore[attr-defined]
    assert {row.template for row in after["instances"]} <= {found.template.id for found in compiled.values()}  # type: ignore[attr-defined]
    assert {name for name in after if name.startswith("rt_")} == {
        f"rt_{found.template.id}" for found in compiled.values()
    }
    assert all(info.publish is None and info.starting == "NOW" for info in home.catalog.queries(live_only=False))
    home.catalog.close()


def test_an_upgraded_home_takes_queries(old: Path) -> None:
    home = open_home(old)
    registry = Registry(home.catalog)
    known = {info.name: info for info in home.catalog.queries()}
    for name in ("same_author", "same_price", "price_in_note"):
        registry.register(known[name].text, name=f"{name}_2")
        assert home.catalog.query(f"{name}_2").gid == known[name].gid
    registry.register("S//book->x JOIN {x = y, 5 h} S//blog->y", name="new")
    assert home.catalog.query("new").gid not in {info.gid for info in known.values()}
    for template, _, _ in home.catalog.templates():
        assert {row["qid"] for row in home.catalog.rt_rows(template)} == {
            info.name for info in home.catalog.queries() if info.template == template.id
        }
    with pytest.raises(CatalogError) as caught:
        registry.register("S//a", name="same_author")
    assert caught.value.condition == "XSCL_NAME_TAKEN"
    home.catalog.close()
    again = open_home(old)
    assert len(again.catalog.queries()) == len(known) + 4
    assert matches(again) == matches_of("0.1")
    again.catalog.close()


def test_a_catalogue_of_this_version_is_opened_without_alembic(old: Path) -> None:
    open_home(old).catalog.close()
    code = "import sys; from xscl.home import open_home; open_home(sys.argv[1]); print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code, str(old)], capture_output=True, text=True, check=True)
    assert not {"alembic", "xscl.upgrade", "xscl.rebuild"} & set(ran.stdout.split())


def test_many_open_an_old_home_at_once(old: Path) -> None:
    def opened(_: int) -> int:
        home = open_home(old)
        count = len(home.catalog.queries())
        home.catalog.close()
        return count

    with ThreadPoolExecutor(6) as pool:
        assert set(pool.map(opened, range(6))) == {10}
    code = "import sys; from xscl.home import open_home; print(len(open_home(sys.argv[1]).catalog.queries()))"
    fresh = unpacked("0.1", old.parent / "again")
    processes = [
        subprocess.Popen([sys.executable, "-c", code, str(fresh)], stdout=subprocess.PIPE, text=True) for _ in range(4)
    ]
    assert [process.communicate(timeout=120)[0].strip() for process in processes] == ["10"] * 4


def test_a_home_of_a_later_version_is_refused(old: Path) -> None:
    home = open_home(old)
    for column in ("schema_version", "derived_version", "files_version"):
        with home.catalog.begin() as connection:
            connection.execute(HOME.update().values({column: 99}))
        with pytest.raises(CatalogError, match="later version") as caught:
            open_home(old)
        assert caught.value.condition == "XSCL_CATALOG_VERSION"
        with home.catalog.begin() as connection:
            connection.execute(HOME.update().values({column: getattr(Versions.here(), column.partition("_")[0])}))
    home.catalog.close()
    open_home(old).catalog.close()


def test_an_upgrade_that_fails_changes_nothing(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = content(old)

    def refusing(*arguments: object, **options: object) -> CompiledQuery:
        raise UnsupportedFeatureError("XSCL_UNSUPPORTED_AXIS", "no")

    monkeypatch.setattr(xscl.rebuild, "compile_query", refusing)
    with pytest.raises(CatalogError, match="the query 'same_story' cannot be taken by this version: no") as caught:
        open_home(old)
    assert caught.value.condition == "XSCL_CATALOG_VERSION"
    assert content(old) == before
    monkeypatch.undo()
    home = open_home(old)
    assert matches(home) == matches_of("0.1")
    home.catalog.close()


def test_new_events_join_with_what_an_old_home_holds(old: Path, spark: SparkSession) -> None:
    with Engine(open_home(old), spark) as engine:
        before = {match.id for match in engine.matches()}
        xml = "<blog><author>Danny Ayers</author><title>RSS and Atom</title></blog>"
        assert engine.ingest([Event("S", "new", 7400, xml=xml)]).taken == 1
        engine.run_once()
        fresh = [match for match in engine.matches() if match.id not in before]
        assert {(match.query, match.events[0].id) for match in fresh} == {
            ("same_story", "d1"),
            ("same_author", "d1"),
            ("same_author", "d7"),
            ("same_author_again", "d1"),
            ("same_author_again", "d7"),
            ("same_author_soon", "d7"),
            ("lower_once", "d2"),
            ("lower_once", "d3"),
            ("lower_once", "d4"),
            ("other_title", "d3"),
        }
        counted = engine.sql("select count(*) as n from matches").collect()[0].n
        assert counted == len(before) + len(fresh)


# -- files -----------------------------------------------------------------------------------------------------


def stored_docs(home: Home) -> dict[int, Doc]:
    """The home's events by number."""
    with home.catalog.read() as connection:
        paths = home.paths(list(connection.scalars(sa.select(INTAKE_FILES.c.path).order_by(INTAKE_FILES.c.first))))
    rows = ds.dataset(paths, schema=EVENT_SCHEMA).to_table().to_pylist()
    assert all(row["version"] == 1 for row in rows)
    return {row["docid"]: Doc(row["channel"], row["id"], row["ts"], row["content"], row["late"]) for row in rows}


def stored_results(home: Home) -> list[dict[str, Any]]:
    with home.catalog.read() as connection:
        paths = home.paths([path for path in connection.scalars(sa.select(BATCHES.c.result_path)) if path is not None])
    stored = [row for path in paths for row in ds.dataset(path).to_table().to_pylist()]
    # Rows of classes, for each combination of documents.
    docs: dict[tuple[int, int], list[list[int]]] = {}
    for row in stored:
        if row["relation"] == "docs":
            of_class = docs.setdefault((row["origin"], row["class"]), [])
            of_class.append(row["docs"] or [doc for doc in (row["d1"], row["d2"]) if doc is not None])
    return [
        {**row, "docs": combination}
        for row in stored
        if row["relation"] in ("rout", "match")
        for combination in docs[row["origin"], row["class"]]
    ]


@pytest.mark.parametrize("version", ["0.1", "0.1-moved"])
def test_results_of_two_columns_are_those_of_this_version(version: str, tmp_path: Path) -> None:
    """Stored rows of R_out and witnesses are, after the upgrade, what the same texts give on the same events now."""
    folder = unpacked(version, tmp_path)
    before = {row.query: json.loads(row.names)["meta"] for row in content(folder)["queries"]}  # type: ignore[attr-defined]
    home = open_home(folder)
    # Values are listed in the order of meta-variables; otherwise not a byte is another.
    assert list(map(json.loads, matches(home))) == list(map(json.loads, matches_of(version)))
    queries = home.catalog.queries(live_only=False)
    compiled = {
        info.name: compile_query(
            parse_query(info.text), info.text, namespaces=info.namespaces, channels=home.catalog.facts()
        )
        for info in queries
    }
    docs, results = stored_docs(home), stored_results(home)
    engine = LocalEngine(tmp_path, compiled)
    engine.run(list(docs.values()))
    compared = 0
    for info in queries:
        seen = {doc.id for place, doc in docs.items() if info.docid_from < place < info.docid_until}
        count = compiled[info.name].template.block_count
        expected = {row for row in engine.rout(info.name) if seen.issuperset(row[:count])}
        found: dict[str, set[tuple[object, ...]]] = {"rout": set(), "match": set()}
        for row in results:
            ids = tuple(docs[docid].id for docid in row["docs"]) if row["relation"] in found else ()
            if ids and info.gid in row["groups"] and seen.issuperset(ids):
                assert row["cases"] == [1] * len(row["groups"])
                found[row["relation"]].add((*ids, *(row["nodes"] if row["relation"] == "rout" else row["witness"])))
        assert found["rout"] == expected, info.name
        assert found["match"] <= expected, info.name
        assert info.names == json.loads(names_json(compiled[info.name])), info.name
        compared += len(expected)
    assert compared > 15
    moved = {info.name for info in queries if list(info.names["meta"]) != before[info.query]}
    assert moved == (set() if version == "0.1" else MOVED)
    home.catalog.close()


def test_names_of_texts_that_are_not_taken_any_more_move_with_their_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dropped query of an instance that others ask for keeps its names, in the order of what is stored now."""

    def refusing(query: object, text: str, **options: object) -> CompiledQuery:
        if "3 s" in text:
            raise UnsupportedFeatureError("XSCL_UNSUPPORTED_AXIS", "no")
        return compile_query(parse_query(text), text, **options)  # type: ignore[arg-type]

    for module in (xscl.rebuild, xscl.file_upgrades):
        monkeypatch.setattr(module, "compile_query", refusing)
    home = open_home(unpacked("0.1-moved", tmp_path))
    assert list(map(json.loads, matches(home))) == list(map(json.loads, matches_of("0.1-moved")))
    names = {info.name: info.names for info in home.catalog.queries(live_only=False)}
    assert names["dropped"] == names["crossed"]
    home.catalog.close()


def test_files_are_upgraded_once(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[str, Path, int]] = []

    def step(name: str) -> FileUpgrade:
        def upgrade(folder: Path, connection: sa.Connection, facts: Mapping[str, ChannelFacts]) -> None:
            # The schema is new, what is derived is still old.
            assert connection.scalar(sa.select(QUERIES.c.starting).limit(1)) == "NOW"
            assert facts["ticks"].numeric == {"price", "size"}
            calls.append((name, folder, connection.scalar(sa.select(HOME.c.derived_version)) or 0))

        return upgrade

    monkeypatch.setattr(xscl.upgrade, "FILE_UPGRADES", (step("one"), step("two")))
    for module in (xscl.tables, xscl.catalog, xscl.upgrade):
        monkeypatch.setattr(module, "FILES_VERSION", 2)
    with pytest.raises(CatalogError, match="open the home"):
        open_catalog(f"sqlite:///{old / 'catalog.db'}")
    for _ in range(2):
        open_home(old).catalog.close()
    assert calls == [("one", old, 0), ("two", old, 0)]


def witnesses(folder: Path) -> list[dict[str, Any]]:
    """Witness rows of all batches, as the catalogue names their files."""
    engine = sa.create_engine(f"sqlite:///{folder / 'catalog.db'}")
    with engine.connect() as connection:
        old = "witness_path" in {column["name"] for column in sa.inspect(connection).get_columns("batches")}
        named = (
            "select witness_path from batches where witness_path is not null order by batch"
            if old
            else "select path from state_files where kind = 'witness' order by batch, path"
        )
        paths = connection.execute(sa.text(named)).scalars().all()
    engine.dispose()
    return [row for path in paths for row in ds.dataset(folder / path).to_table().to_pylist()]


def test_hashes_become_those_of_spark(old: Path) -> None:
    before = witnesses(old)
    open_home(old).catalog.close()
    after = witnesses(old)
    assert {row["fn"] for row in after} > {None, ""}
    for row, was in zip(after, before, strict=True):
        assert row["h"] == (0 if row["fn"] is None else value_hash(row["strval"]))
        assert {**row, "h": was["h"]} == was


def test_refused_documents_have_no_hash(tmp_path: Path) -> None:
    home = init_home(tmp_path / "home")
    rows = [
        {"var": REFUSED, "node": 0, "fn": None, "strval": "too many", "h": 0, "chain": []},
        {"var": 1, "node": 0, "fn": "", "strval": "", "h": 7, "chain": []},
    ]
    (home.root / "witness/a").mkdir()
    pq.write_table(pa.Table.from_pylist(rows, schema=WITNESS_SCHEMA), home.root / "witness/a/part.parquet")
    (home.root / "witness/none").mkdir()
    with home.catalog.begin() as connection:
        for batch, path in ((1, "witness/a"), (2, "witness/none")):
            facts = {"kind": "witness", "batch": batch, "rows": 0, "held": 0, "bytes": 0}
            connection.execute(STATE_FILES.insert().values({**facts, "path": path}))
        xscl.file_upgrades.hashes_that_spark_has(home.root, connection, {})
    assert [(row["strval"], row["h"]) for row in witnesses(home.root)] == [("too many", 0), ("", value_hash(""))]
    home.catalog.close()


def test_documents_get_classes(tmp_path: Path) -> None:
    """Results of version 2, those of long queries in a folder beside: equal rows become one class."""
    home = init_home(tmp_path / "home")
    by_both = [
        {"relation": "rout", "instance": 3, "nodes": [1, 2], "groups": [5, 6], "cases": [1, 1]},
        {"relation": "match", "instance": 3, "nodes": [0], "witness": [1, 2], "groups": [5, 6], "cases": [1, 1]},
    ]
    other = [{**row, "groups": [5], "cases": [1]} for row in by_both]
    pairs = [([7, 8], by_both), ([7, 9], other), ([8, 9], by_both[::-1]), ([9], other)]
    members = [{"docid": d, "item": d, "ts": 10 * d, "place": f"S\0d{d}", "membership": None} for d in (7, 8)]
    link = {"relation": "link", "link": 4, "docs": [7, 8], "nodes": [1, 2, 3], "members": members}
    rows: list[dict[str, object]] = [{**row, "docs": docs} for docs, of_docs in pairs for row in of_docs]
    rows += [link, {"relation": "pairs", "docs": [12]}]
    for folder, part in (("results/a", rows), ("results/a-joined", [{**row, "docs": [7, 8, 9]} for row in other])):
        (home.root / folder).mkdir()
        table = pa.Table.from_pylist(part, schema=xscl.file_upgrades._RESULTS_1)
        pq.write_table(table, home.root / folder / "part.parquet")
    numbers = {column.name: 0 for column in BATCHES.columns if not column.nullable}
    with home.catalog.begin() as connection:
        for batch, path in ((2, "results/a"), (3, None)):
            connection.execute(BATCHES.insert().values({**numbers, "batch": batch, "result_path": path}))
        xscl.file_upgrades.classes_of_documents(home.root, connection, {})
        state = held_state(home, connection)
        path = connection.scalar(sa.select(BATCHES.c.result_path).where(BATCHES.c.batch == 2))
    found = ds.dataset(home.root / str(path)).to_table().to_pylist()
    classes = {
        tuple(row["docs"] or [d for d in (row["d1"], row["d2"]) if d is not None]): (row["origin"], row["class"])
        for row in found
        if row["relation"] == "docs"
    }
    assert classes[7, 8] == classes[8, 9] and classes[7, 9] == classes[9,]
    assert len(set(classes.values())) == 3, "the joined results are those of a writer of its own"
    assert {origin >> 24 for origin, _ in classes.values()} == {2}
    for docs, of_docs in [*pairs, ([7, 8, 9], other)]:
        stored = [r for r in found if (r["origin"], r["class"]) == classes[tuple(docs)] and r["relation"] != "docs"]
        named = [{name: row[name] for name in row if row[name] is not None} for row in stored]
        without = [{name: row[name] for name in row if name not in ("origin", "class")} for row in named]
        assert sorted(map(repr, without)) == sorted(map(repr, of_docs))
    assert [row["docs"] for row in found if row["relation"] == "pairs"] == [[12]]
    assert pq.read_table(state.paths("link")).to_pylist() == [
        {"link": 4, "ts1": 70, "ts2": 80, "members": members, "nodes": [1, 2, 3]}
    ]
    assert state.rows == 1 and state.floors is None
    home.catalog.close()


def test_files_of_witnesses_become_state(old: Path) -> None:
    """Before the next batch nothing says how long rows are kept, so all are."""
    rows = len(witnesses(old))
    home = open_home(old)
    with home.catalog.read() as connection:
        state = held_state(home, connection)
        clocks = connection.execute(sa.select(CHANNELS.c.processed)).all()
    assert state.rows == rows > 0 and state.floors is None
    assert pq.read_table(state.paths("witness")).num_rows == rows
    docids = pq.read_table(state.paths("witness")).column("docid").to_pylist()
    assert (min(docids), max(docids)) == (
        min(file.docid_min for file in state.files if file.docid_min is not None),
        max(file.docid_max for file in state.files if file.docid_max is not None),
    )
    assert set(clocks) == {(None,)}
    home.catalog.close()


def test_there_are_as_many_upgrades_of_files_as_the_version_says() -> None:
    assert len(xscl.upgrade.FILE_UPGRADES) == xscl.tables.FILES_VERSION


# -- what is derived -------------------------------------------------------------------------------------------


def outdate(home: Home) -> None:
    with home.catalog.begin() as connection:
        connection.execute(HOME.update().values(derived_version=0))
    home.catalog.close()


def test_rebuilding_changes_nothing_where_texts_compile_as_before(old: Path) -> None:
    home = open_home(old)
    registry = Registry(home.catalog)
    registry.register("S//book->x JOIN {x = y, 5 h} S//blog->y", name="new")
    registry.drop("other_title")
    before = content(old)
    outdate(home)
    again = open_home(old)
    after = content(old)
    assert {name: sorted(map(repr, rows)) for name, rows in after.items()} == {  # type: ignore[call-overload]
        name: sorted(map(repr, rows))  # type: ignore[call-overload]
        for name, rows in before.items()
    }
    again.catalog.close()


def test_rebuilding_fills_what_is_missing(old: Path) -> None:
    home = open_home(old)
    before = content(old)
    with home.catalog.begin() as connection:
        connection.execute(VARIABLES.delete())
        connection.execute(GROUPS.update().values(channels="[]"))
        for template, _, _ in home.catalog.templates():
            connection.exec_driver_sql(f"drop table rt_{template.id}")
    outdate(home)
    open_home(old).catalog.close()
    after = content(old)
    assert after["groups"] == before["groups"]
    assert sorted(map(repr, after["variables"])) == sorted(map(repr, before["variables"]))  # type: ignore[call-overload]
    assert set(after) == set(before)


def test_groups_that_become_equal_stay_apart(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If windows did not count any more, two groups would be one; their stored matches are still told apart."""
    home = open_home(old)
    known = {info.name: info for info in home.catalog.queries()}
    outdate(home)

    def without_windows(query: object, text: str, **options: object) -> CompiledQuery:
        text = text.replace("1 h", "7 days")
        return compile_query(parse_query(text), text, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(xscl.rebuild, "compile_query", without_windows)
    again = open_home(old)
    assert matches(again) == matches_of("0.1")
    after = {info.name: info for info in again.catalog.queries()}
    assert {name: info.gid for name, info in after.items()} == {name: info.gid for name, info in known.items()}
    Registry(again.catalog).register(known["same_author"].text, name="joined")
    assert again.catalog.query("joined").gid == known["same_author"].gid
    again.catalog.close()


def test_a_query_that_its_group_does_not_speak_for_gets_a_group(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_home(old)
    known = {info.name: info for info in home.catalog.queries()}
    assert known["same_author"].gid == known["same_author_again"].gid
    outdate(home)

    def hours_are_short(query: object, text: str, **options: object) -> CompiledQuery:
        text = text.replace("168 h", "3 h")
        return compile_query(parse_query(text), text, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(xscl.rebuild, "compile_query", hours_are_short)
    again = open_home(old)
    after = {info.name: info for info in again.catalog.queries()}
    assert after["same_author"].gid == known["same_author"].gid
    assert after["same_author_again"].gid not in {info.gid for info in known.values()}
    with again.catalog.read() as connection:
        gid = after["same_author_again"].gid
        group = connection.execute(sa.select(GROUPS).where(GROUPS.c.gid == gid)).one()
        assert group.text == known["same_author_again"].text
        assert connection.execute(sa.select(INSTANCES).where(INSTANCES.c.iid == group.iid)).one()
        assert connection.scalar(sa.select(sa.func.count()).select_from(TEMPLATES)) == 4
    again.catalog.close()


def test_what_dropped_queries_found_stays(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query that nobody asks any more may be one that is not taken any more."""

    def refusing(query: object, text: str, **options: object) -> CompiledQuery:
        if "'ABC'" in text:
            raise UnsupportedFeatureError("XSCL_UNSUPPORTED_AXIS", "no")
        return compile_query(parse_query(text), text, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(xscl.rebuild, "compile_query", refusing)
    home = open_home(old)
    assert matches(home) == matches_of("0.1")
    home.catalog.close()


# -- the home of schema 7 --------------------------------------------------------------------------------------

NOT_ANSWERED = {"all", "since"}
"""Queries that start before they were registered: the version that made the home did not answer them from what was."""


def found(home: Home) -> dict[str, list[dict[str, Any]]]:
    by_query: dict[str, list[dict[str, Any]]] = {}
    for match in list_matches(home):
        by_query.setdefault(match.query, []).append(match_json(match))
    return by_query


def test_a_home_of_schema_7_is_upgraded(tmp_path: Path) -> None:
    folder = unpacked("schema-7", tmp_path)
    home = open_home(folder)
    with home.catalog.read() as connection:
        assert home.catalog.versions(connection) == Versions.here()
    assert as_told_then(matches(home)) == matches_of("schema-7")
    infos = home.catalog.queries(live_only=False)
    assert {info.name for info in infos} == {*FIRST, *LATER, "short_lived"}
    assert all(info.sees_from == info.docid_from and info.ts_from is info.history is None for info in infos)
    assert {info.name for info in infos if info.filled is not None} == NOT_ANSWERED
    assert {info.name for info in infos if not info.live} == {"author_again", "short_lived"}
    home.catalog.close()
    again = open_home(folder)
    assert as_told_then(matches(again)) == matches_of("schema-7")
    again.catalog.close()


def going_on(version: str, folder: Path) -> Engine:
    """An engine on a stored home, which has followed a file of the one that is made in ``fresh``."""
    engine = Engine(open_home(unpacked(version, folder)))
    (folder / "log.ndjson").write_bytes((folder / "fresh" / "log.ndjson").read_bytes())
    with engine.home.catalog.begin() as connection:
        # It lies elsewhere now.
        connection.execute(SOURCES.update().values(source=str(folder / "log.ndjson")))
    return engine


def test_a_home_of_schema_7_goes_on_as_one_of_this_version(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    with Engine(init_home(tmp_path / "fresh" / "home")) as fresh:
        fill(fresh, tmp_path / "fresh")
        with going_on("schema-7", tmp_path) as stored:
            before = found(stored.home)
            more(fresh, tmp_path / "fresh")
            more(stored, tmp_path)
            expected, got = found(fresh.home), found(stored.home)
            tables = (CHANNELS, LATE, MEMBERSHIPS, STREAMS)
            for table in tables:
                assert rows_of(stored.home, table) == rows_of(fresh.home, table), table.name
        for name in expected.keys() - NOT_ANSWERED:
            assert got[name] == expected[name], name
        # They see what came after them.
        as_now = {json.dumps(match["events"]) for match in got["late_comer"]}
        assert {json.dumps(match["events"]) for match in got["all"]} == as_now
        gone_on = {name for name, listed in got.items() if len(listed) > len(before.get(name, ()))}
        assert gone_on >= {"author", "author_long", "once", "three", "price", "seen", "echo", "loudest", "wires"}
        assert gone_on >= {"wire", "items", "raw", "hot", "all", "since", "fresh"}


def rows_of(home: Home, table: sa.Table) -> list[dict[str, object]]:
    """Rows without the time of their receipt, and without what schema 7 did not keep."""
    rows = [
        {name: value for name, value in row.items() if name not in ("received", "docid")}
        for row in home.catalog.rows(table)
    ]
    return sorted(rows, key=repr)


# -- the home of schema 8 --------------------------------------------------------------------------------------


def test_a_home_of_schema_8_is_upgraded(tmp_path: Path) -> None:
    folder = unpacked("schema-8", tmp_path)
    connection = sqlite3.connect(folder / "catalog.db")
    gone = {path for (path,) in connection.execute("select path from state_files where replaced is not null")}
    used = {path for (path,) in connection.execute("select path from state_files where replaced is null")}
    connection.close()
    assert gone and used
    home = open_home(folder)
    with home.catalog.read() as reading:
        assert home.catalog.versions(reading) == Versions.here()
    assert matches(home) == matches_of("schema-8")
    assert {row["path"] for row in home.catalog.rows(STATE_FILES)} == used
    assert {row["path"] for row in home.catalog.rows(OLD_FILES)} >= gone
    assert not list(examine_home(home, deep=True).problems)
    unlink_old(home, time.time_ns() // 1000 + 2 * GRACE)
    assert not any((folder / path).exists() for path in gone) and all((folder / path).exists() for path in used)
    assert matches(home) == matches_of("schema-8")
    home.catalog.close()


def test_a_home_of_schema_8_goes_on_as_one_of_this_version(tmp_path: Path) -> None:
    (tmp_path / "fresh").mkdir()
    with Engine(init_home(tmp_path / "fresh" / "home")) as fresh:
        home_of_schema_8.fill(fresh, tmp_path / "fresh")
        with going_on("schema-8", tmp_path) as stored:
            before = found(stored.home)
            home_of_schema_8.more(fresh, tmp_path / "fresh")
            home_of_schema_8.more(stored, tmp_path)
            got = found(stored.home)
            assert got == found(fresh.home)
            # Which late events are still noted depends on when upkeep looks.
            for table in (CHANNELS, MEMBERSHIPS, STREAMS):
                assert rows_of(stored.home, table) == rows_of(fresh.home, table), table.name
        assert {
            name for name, listed in got.items() if len(listed) > len(before.get(name, ()))
        } >= home_of_schema_8.MORE.keys()
