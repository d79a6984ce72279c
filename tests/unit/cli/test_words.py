"""Words of commands that go wrong, have nothing to do or are ended."""

from __future__ import annotations

import os
import re
import signal
import threading
from pathlib import Path

import pytest
import sqlglot
from command_line import exit_code
from sqlglot.errors import ParseError
from typer.testing import CliRunner

import xscl
from xscl.answers.sql.tokens import parse_refusal
from xscl.cli.app import app, main
from xscl.cli.signals import ended_by_signals
from xscl.upkeep.doctor import examine


@pytest.mark.parametrize(("named", "state", "ok"), [(False, "none", True), (True, "FAILS", False)])
def test_a_home_that_is_not_there(named: bool, state: str, ok: bool, tmp_path: Path) -> None:
    check = next(check for check in examine(tmp_path / "none", None, named=named) if check.what == "home")
    assert (check.state, check.ok) == (state, ok)
    assert check.found.startswith("none at")


@pytest.mark.parametrize("words", [["run", "-q"], ["match", "list", "--quiet"], ["run", "-v"]])
def test_options_that_stand_before_the_command(words: list[str]) -> None:
    ran = CliRunner().invoke(app, words, env={"COLUMNS": "200", "TERM": "dumb"})
    assert ran.exit_code == 2
    assert f"it stands before the command: xscl {words[-1]} {words[0]}" in " ".join(ran.output.split())


def test_once_and_every_exclude_each_other() -> None:
    ran = CliRunner().invoke(app, ["run", "--once", "--every", "30s"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert ran.exit_code == 2 and "--once and --every exclude each other" in ran.output


def test_a_pause_of_nothing_is_refused_before_the_home_is_looked_at() -> None:
    ran = CliRunner().invoke(app, ["run", "--every", "0s"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert ran.exit_code == 2 and "1 ms is the least" in ran.output


def test_a_signal_while_nothing_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    with ended_by_signals() as end:
        timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGTERM))
        timer.start()
        end.wait(60)
        timer.join()
    assert capsys.readouterr().err == "ending\n"


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("SELECT * FROM matches WHERE", "something is missing behind WHERE"),
        ("SELECT * FROM", "Expected table name but got the end"),
        ("SELECT count( FROM x", "Expecting )"),
    ],
)
def test_a_broken_statement_is_refused_in_plain_words(statement: str, words: str) -> None:
    with pytest.raises(ParseError) as raised:
        sqlglot.parse_one(statement, dialect="spark")
    message = str(parse_refusal(raised.value))
    assert words in message and not re.search("sqlglot|SENTINEL", message)


def test_numbers_are_as_large_as_databases_hold() -> None:
    environment = {"COLUMNS": "200", "TERM": "dumb"}
    shown = CliRunner().invoke(app, ["query", "list", "--help"], env=environment).output
    assert "[x>=0]" in shown and "[x>=1]" in shown and "9223372036854775807" not in shown
    ran = CliRunner().invoke(app, ["query", "list", "--limit", str(1 << 63)], env=environment)
    assert ran.exit_code == 2 and f"{1 << 63} is more than databases hold" in ran.output


def test_hints_of_commands_name_no_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = str(tmp_path / "home")
    with xscl.connect(home=home) as engine:
        engine.register("T//a", name="q")
    for words, hint in (
        ("query show none", "list them with 'xscl query list'"),
        ("query add q T//b", "drop it first with 'xscl query drop q', or take another name"),
        ("query resume q", "list those that are with 'xscl query list'"),
        (
            "query add 500 T//b",
            "it begins with a letter or '_', and has letters, digits, '_', and inside '-' and '.'; "
            "at most 128 characters",
        ),
        ("query add two T//b;T//c", "many statements are loaded with 'xscl query load FILE'"),
        ("query add r S//a --strict", "create it with 'xscl channel add S', or leave out --strict"),
        ("channel set S --lateness 1s", "create it with 'xscl channel add S'"),
        ("channel add S --source s", "make it a stream of a channel, with --of"),
        ("match show none", "list them with 'xscl match list'"),
        ("ingest none.csv --op o", "name the column of ids, by --id"),
    ):
        assert exit_code(monkeypatch, *words.split(), "--home", home) == 1
        assert capsys.readouterr().err.rstrip().endswith(f"hint: {hint}"), words


def test_hints_name_the_call_beside_the_command(tmp_path: Path) -> None:
    with xscl.connect(home=tmp_path / "home") as engine:
        with pytest.raises(xscl.CatalogError, match=r"engine\.add_channel\('T'\)"):
            engine.register("T//a", strict=True)
        with pytest.raises(xscl.CatalogError, match="the relation channels"):
            engine.drop_channel("T")
        with pytest.raises(xscl.CatalogError, match="the relation feeds"):
            engine.fetch_feeds(["https://example.org/feed"])


@pytest.mark.parametrize("command", ["query list", "run --once", "feed list", "export -", "init", "doctor --repair"])
def test_a_home_with_a_name_that_is_too_long(
    command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / ("a" * 300)
    monkeypatch.setattr("sys.argv", ["xscl", *command.split(), "--home", str(root)])
    with pytest.raises(SystemExit) as ended:
        main()
    told = capsys.readouterr().err
    assert ended.value.code == 1 and "[XSCL_NO_HOME]" in told and "name too long" in told
    check = next(check for check in examine(root, None, named=True) if check.what == "home")
    assert not check.ok and str(root) in check.found
