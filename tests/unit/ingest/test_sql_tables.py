"""Tables of databases: what is above the last key."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
import sqlalchemy as sa

from xscl.base.errors import SourceError, XsclError
from xscl.catalog.channels import read_channels
from xscl.catalog.event_counts import channel_counts
from xscl.catalog.tables import REJECTED, ROW_RANGES, SOURCES
from xscl.ingest.reading import Reading
from xscl.ingest.sql_tables import key_position, position_key, read_sql_table, shown_url
from xscl.intake.inputs import take_sql_table
from xscl.intake.intake import Intake, IntakeReport
from xscl.store.home import Home


@pytest.fixture
def database(tmp_path: Path) -> Iterator[sa.Engine]:
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'x.db'}")
    run(engine, "create table r (id integer primary key, room text, temp real, at timestamp, cost numeric(8, 2))")
    yield engine
    engine.dispose()


def run(engine: sa.Engine, *statements: str) -> None:
    with engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def add(engine: sa.Engine, *keys: int) -> None:
    for key in keys:
        run(engine, f"insert into r values ({key}, 'r{key}', {key}.5, '2026-01-01 00:00:0{key % 10}', {key}.25)")


def take(home: Home, engine: sa.Engine, table: str = "r", key: str = "id", **more: object) -> IntakeReport:
    how = Reading("R", **more)  # type: ignore[arg-type]
    return take_sql_table(Intake(home), str(engine.url), table, key=key, reading=how)


def count(home: Home) -> int:
    with home.catalog.read() as connection:
        return channel_counts(connection).get("R", 0)


def test_only_new_rows_are_read(home: Home, database: sa.Engine) -> None:
    add(database, 1, 2)
    assert take(home, database, ts="at").taken == 2
    again = take(home, database, ts="at")
    assert (again.taken, again.duplicates) == (0, 0)
    add(database, 3, 10)
    assert take(home, database, ts="at").taken == 2
    spans = [(row["prefix"], row["first"], row["last"]) for row in home.catalog.rows(ROW_RANGES)]
    assert sorted(spans) == [("r:", 1, 2), ("r:", 3, 10)]
    [position] = home.catalog.rows(SOURCES)
    assert json.loads(str(position["position"])) == {"key": 10}
    columns = home.catalog.ask(read_channels)["R"].schema
    assert columns == {"id": "bigint", "room": "string", "temp": "double", "at": "timestamp", "cost": "decimal"}


def test_a_row_that_comes_later_with_a_smaller_key_is_not_seen(home: Home, database: sa.Engine) -> None:
    add(database, 5)
    take(home, database)
    add(database, 4, 6)
    assert take(home, database).taken == 1


def test_rows_that_do_not_fit_are_passed_and_named(home: Home, database: sa.Engine) -> None:
    add(database, 1, 2, 3)
    run(database, "update r set temp = 'warm' where id = 2")
    report = take(home, database, columns="room,temp")
    assert (report.taken, report.rejected) == (2, 1)
    assert [row["source"] for row in home.catalog.rows(REJECTED)] == ["r:2"]
    assert take(home, database).taken == 0


def test_rows_that_do_not_fit_at_all_are_not_passed(home: Home, database: sa.Engine) -> None:
    add(database, 1)
    take(home, database, columns="room")
    add(database, 2)
    with pytest.raises(XsclError) as caught:
        take(home, database, columns="cost")
    assert caught.value.condition == "XSCL_ROW_SCHEMA"
    assert take(home, database, columns="room").taken == 1


def test_keys_that_are_texts(home: Home, database: sa.Engine) -> None:
    run(database, "create table k (name text, v integer)", "insert into k values ('a', 1), ('b', 2)")
    assert take(home, database, "k", "name").taken == 2
    run(database, "insert into k values ('c', 3)")
    assert take(home, database, "k", "name").taken == 1
    assert count(home) == 3


def test_keys_that_are_times_need_ids(home: Home, database: sa.Engine) -> None:
    add(database, 1, 2)
    with pytest.raises(SourceError, match="--id"):
        take(home, database, key="at")
    assert take(home, database, key="at", id="room").taken == 2
    add(database, 3)
    assert take(home, database, key="at", id="room").taken == 1


def test_many_rows_are_read_in_parts(home: Home, database: sa.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("xscl.ingest.sql_tables._ROWS", 2)
    add(database, *range(1, 6))
    assert take(home, database).taken == 5
    assert len(home.catalog.rows(ROW_RANGES)) == 3


@pytest.mark.parametrize(
    ("table", "key", "more"),
    [("s", "id", {}), ("r", "nr", {}), ("r", "id", {"ts": "when"}), ("r", "id", {"columns": "x"})],
)
def test_what_is_not_there(home: Home, database: sa.Engine, table: str, key: str, more: dict[str, str]) -> None:
    add(database, 1)
    with pytest.raises(SourceError):
        take(home, database, table, key, **more)
    assert count(home) == 0


@pytest.mark.parametrize("url", ["nothing", "sqlite:////no/such.db", "nodialect://x/y"])
def test_databases_that_are_not_there(url: str) -> None:
    with pytest.raises(SourceError):
        list(read_sql_table(url, "r", key="id", channel="R", position=None, reading=Reading()))


def test_passwords_are_not_shown() -> None:
    assert "secret" not in shown_url("postgresql://u:secret@h/db")


@pytest.mark.parametrize("key", [7, "x", datetime(2026, 1, 1)])
def test_positions(key: object) -> None:
    assert position_key(key_position(key)) == key


def test_keys_that_have_no_order() -> None:
    assert position_key(key_position(Decimal(7))) == 7
    for key in (None, True, 1.5, Decimal("1.5"), date(2026, 1, 1)):
        with pytest.raises(SourceError):
            key_position(key)
