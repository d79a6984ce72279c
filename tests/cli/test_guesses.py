"""Wrong guesses at the command line, and what is said of them."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa
from typer.testing import CliRunner, Result

from xscl.answers.status import skipped_notes
from xscl.base.errors import CatalogError, EngineError
from xscl.cli.app import app
from xscl.intake.intake import Intake
from xscl.registry.registry import Registry
from xscl.store.home import Home, open_home

from xscl.base.types import Event  # isort: skip
from xscl.upkeep.health import examine_home


def run(home: Home, *words: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, [*words, "--home", str(home.root)], input=given, env={"COLUMNS": "200"})


def usage(*words: str) -> str:
    result = CliRunner().invoke(app, words, env={"COLUMNS": "200"})
    assert result.exit_code == 2, result.output
    return " ".join(result.output.replace("│", " ").split())


def test_a_statement_has_its_name_itself(home: Home) -> None:
    assert "query named" in run(home, "query", "add", "CREATE QUERY named AS S//a").stderr
    assert "xscl query add NAME 'TEXT'" in usage("query", "add", "S//a -> x")
    assert "xscl query add same 'TEXT'" in usage("query", "add", "same")


def test_texts_and_names_in_the_wrong_place(tmp_path: Path) -> None:
    assert "-q TEXT" in usage("eval", "S//a->x", "feed.xml")
    assert "xscl match list QUERY" in usage("match", "list", "--query", "same")
    assert "give --query QUERY, and either --to URL or --file DIR" in usage("deliver", "add", "shop")


@pytest.mark.parametrize("ending", ["sqlite", "db", "parquet", "csv"])
def test_relations_go_to_a_folder_or_to_duckdb(home: Home, tmp_path: Path, ending: str) -> None:
    target = tmp_path / f"out.{ending}"
    error = run(home, "export", str(target), "--relations").exception
    assert isinstance(error, EngineError) and error.condition == "XSCL_BAD_OPTION" and "folder" in str(error.hint)
    assert not target.exists()


def test_rows_without_times(home: Home, tmp_path: Path) -> None:
    text = "seq,taken_at,room\n1,2026-06-01T09:30:00Z,a\n"
    refused = run(home, "ingest", "-", given=text)
    assert "--format csv --channel NAME, and --ts taken_at" in refused.stderr
    assert "--format csv" not in run(home, "ingest", "-", given="Some words of a letter.\n").stderr
    rows = tmp_path / "readings.csv"
    rows.write_text(text, encoding="utf-8")
    told = run(home, "ingest", str(rows)).stderr
    assert "rows of the channel readings have the time of receipt; --ts taken_at" in told
    assert "note" not in run(home, "ingest", str(rows), "--ts", "taken_at", "--channel", "other").stderr
    days = rows.with_name("days.csv")
    days.write_text("day,v\n20260301,1\n20260302,2\n")
    told = run(home, "ingest", str(days), "--ts", "day").stderr
    assert "20260301 in column day is so many seconds since 1970; --ts-format %Y%m%d reads it as a day" in told
    assert "note" not in run(home, "ingest", str(days), "--ts", "day", "--ts-format", "%Y%m%d", "--channel", "d").stderr
    # No time counts where nothing is stored, and there is no --ts.
    run(home, "query", "add", "rooms", "readings[./room->r]")
    tried = run(home, "query", "test", "rooms", str(rows))
    assert tried.exit_code == 0 and "--ts" not in tried.stderr


def test_groups_are_those_of_current_matches(home: Home) -> None:
    error = run(home, "match", "list", "--by", "x").exception
    assert isinstance(error, EngineError) and "--current" in str(error.hint)


def test_queries_that_see_no_older_events_are_not_told_to_ask_for_them(home: Home) -> None:
    registry = Registry(home.catalog)
    Intake(home).take([Event("S", "e1", 1, xml="<a>1</a>")])
    registry.register("S//a->x NOT FOLLOWED BY {x = y, 1 h} T//b->y", name="absent")
    registry.register("S//a->x ON CHANGE RETRACT", name="edited")
    registry.register("S//a->x", name="plain")
    notes = list(skipped_notes(home.catalog, 0))
    asked = [note.split(";")[1].strip() for note in notes]
    registration = "it sees events from its registration on"
    assert asked == [registration, registration, "STARTING ALL includes older events"]


def test_older_tables_are_no_damage(home: Home) -> None:
    with home.catalog.begin() as connection:
        connection.execute(sa.text("ALTER TABLE queries RENAME COLUMN level TO other"))
    with pytest.raises(CatalogError, match="XSCL_CATALOG_VERSION"):
        Registry(open_home(home.root).catalog).register("S//a", name="n")
    assert examine_home(home).catalogue == "made by another version of xscl: it lacks queries.level"


def test_late_events_are_named_where_there_are_no_matches(home: Home) -> None:
    run(home, "query", "add", "pair", "S/a->x JOIN {x = y, 1 h} S/b->y")
    run(home, "channel", "add", "S", "--lateness", "1 min")
    Intake(home).take([Event("S", "e2", 7_200_000_000, xml="<a/>"), Event("S", "e1", 0, xml="<b/>")])
    run(home, "run", "--once")
    told = run(home, "match", "list", "--format", "table").stderr
    assert "1 event came late, which no match has ('xscl late list')" in told


def test_queries_that_came_behind_all_events_are_told_where_there_are_no_matches(home: Home) -> None:
    Intake(home).take([Event("S", "e1", 1, xml="<a>1</a>")])
    run(home, "query", "add", "late", "S//a->x")
    run(home, "run", "--once")
    told = run(home, "match", "list", "--format", "table").stderr
    assert "all events came before the queries" in told and "STARTING ALL" in told
    run(home, "query", "add", "all", "S//b->x STARTING ALL")
    run(home, "run", "--once")
    assert "all events are processed" in run(home, "match", "list", "--format", "table").stderr
    run(home, "query", "drop", "all")
    Intake(home).take([Event("S", "e2", 2, xml="<c/>")])
    run(home, "run", "--once")
    assert "all events are processed" in run(home, "match", "list", "--format", "table").stderr
