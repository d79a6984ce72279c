"""JSON of the catalogue that this program never wrote: each command names table and column, none shows a traceback."""

from __future__ import annotations

import shutil
import sys
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest
import sqlalchemy as sa

import xscl
from xscl.base.errors import CatalogError, XsclError
from xscl.catalog.stored_json import JSON_COLUMNS, read_stored, wrong_json
from xscl.catalog.tables import CHANNELS, FEEDS, QUERIES, RETRACTIONS, SOURCES, TEMPLATES
from xscl.cli.app import main
from xscl.engine import Engine
from xscl.store.home import open_home
from xscl.upkeep.health import examine_home

COMMANDS = (("query", "list", "--channel", "S"), ("match", "list"), ("run", "--once", "--batch-docs", "2"))
OF_FEEDS = (("feed", "export", "-"), ("ingest", "--channel", "news", "news.xml"))
WRONG = ("{", "[7, {}]", '{"a": [{}]}')


@pytest.fixture(scope="module")
def stored(rich: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = shutil.copytree(rich, tmp_path_factory.mktemp("stored") / "rich")
    with Engine(open_home(folder / "home")) as engine:
        values = {"url": "http://f.example/rss", "status": "active", "hints": "{}", "outline": "{}"}
        with engine.home.catalog.begin() as connection:
            connection.execute(FEEDS.update().values(values))
            connection.execute(CHANNELS.update().where(CHANNELS.c.name == "S").values(former="[[1, 2, 1000000]]"))
            connection.execute(QUERIES.update().where(QUERIES.c.qid == "all").values(held_from='{"S": 0}'))
            gone = {"batch": 1, "gid": 1, "docs": "[1, 2]", "nodes": "0", "members": "", "first": 1, "last": 2}
            connection.execute(RETRACTIONS.insert().values(**gone, place=2, because="late"))
    return folder


def told(capsys: pytest.CaptureFixture[str], *command: str) -> tuple[int, str]:
    """Exit code and texts of a command on the home of this folder."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(SystemExit) as ended:
        patch.setattr(sys, "argv", ["xscl", *command, "--home", "home"])
        main()
    shown = capsys.readouterr()
    return int(ended.value.code or 0), shown.out + shown.err


def damage(root: Path, column: sa.Column[Any], wrong: str | None) -> None:
    """Give each value of a column another text, or change one character of it."""
    home, dice = open_home(root), Random(str(column))
    with home.catalog.begin() as connection:
        found = sorted(set(connection.scalars(sa.select(column).where(column.is_not(None)))))
        assert found
        for number, text in enumerate(found):
            place = dice.randrange(len(text))
            flipped = f"{text[:place]}{chr(ord(text[place]) ^ 1)}{text[place + 1 :]}"
            # Some columns have each value once.
            value = flipped if wrong is None else wrong + number * " "
            connection.execute(column.table.update().where(column == text).values({column: value}))
    home.catalog.close()


@pytest.mark.parametrize(
    ("column", "wrong"),
    [each for n, column in enumerate(JSON_COLUMNS) for each in ((column, None), (column, WRONG[n % len(WRONG)]))],
    ids=str,
)
def test_damage_is_named_and_nothing_is_thrown(
    stored: Path,
    tmp_path: Path,
    column: sa.Column[Any],
    wrong: str | None,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(stored, folder, symlinks=True)
    monkeypatch.chdir(folder)
    damage(folder / "home", column, wrong)
    named = f"column {column.name} of table {column.table.name}"
    for command in OF_FEEDS if column.table is FEEDS else COMMANDS:
        code, text = told(capsys, *command)
        assert "Traceback" not in text and code in (0, 1, 3), command
        # A text with another character may be JSON of the kind still.
        if code == 1 and wrong is not None:
            assert "XSCL_CATALOG_DAMAGED" in text and named in text and "xscl doctor --deep" in text, command
    home = open_home(folder / "home")
    faults = str(examine_home(home, deep=True))
    home.catalog.close()
    assert wrong != "{" or named in faults


@pytest.mark.parametrize(
    ("column", "command"),
    [
        (CHANNELS.c.schema, "channel list"),
        (QUERIES.c.names, "query list"),
        (QUERIES.c.names, "match list"),
        (TEMPLATES.c.joins, "template list"),
        (TEMPLATES.c.blocks, "template list"),
        (QUERIES.c.namespaces, "query list"),
        (FEEDS.c.outline, "feed export -"),
        (FEEDS.c.memory, "ingest --channel news news.xml"),
    ],
    ids=str,
)
def test_who_reads_the_damage_is_told(
    stored: Path,
    tmp_path: Path,
    column: sa.Column[Any],
    command: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(stored, folder, symlinks=True)
    monkeypatch.chdir(folder)
    damage(folder / "home", column, "17")
    code, text = told(capsys, *command.split())
    named = f"column {column.name} of table {column.table.name}"
    assert code == 1 and f'{named} of the catalogue cannot be read: it has "17' in text


def test_positions_of_sources_are_read_as_what_they_are(rich: Path, tmp_path: Path) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(rich, folder)
    with Engine(open_home(folder / "home")) as engine, engine.home.catalog.begin() as connection:
        connection.execute(SOURCES.update().values(position="{}"))
    with xscl.connect(home=folder / "home") as engine, pytest.raises(XsclError, match="column position of table"):
        next(islice(engine.follow(rich / "log.ndjson", every="0.01 s"), 1))


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "[1]", '{"a": 1}', '{"meta": []}', "null", None, b"{}"])
def test_what_is_no_value_of_the_column_has_a_name(text: Any) -> None:
    with pytest.raises(CatalogError) as caught:
        read_stored(QUERIES.c.names, text)
    assert caught.value.condition == "XSCL_CATALOG_DAMAGED"


def test_what_the_program_writes_is_sound(stored: Path) -> None:
    home = open_home(stored / "home")
    with home.catalog.read() as connection:
        for column in JSON_COLUMNS:
            for text in connection.scalars(sa.select(column).where(column.is_not(None))):
                assert wrong_json(column, text) is None and read_stored(column, text) is not None
    home.catalog.close()
