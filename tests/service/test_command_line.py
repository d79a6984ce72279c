"""Commands that go to a running service print what they print of a home."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from http_service import SAME, SETTINGS, Running, running
from typer.testing import CliRunner, Result

from xscl.base.errors import EngineError
from xscl.base.types import Event
from xscl.cli.app import app
from xscl.cli.client import Client
from xscl.cli.printing import Format, print_rows
from xscl.cli.remote import Answer, ask_sql


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "home", SETTINGS) as found:
        engine = found.service.engine
        engine.register(SAME, name="same")
        engine.register("SELECT <t>{b}</t> FROM S//book->b", name="books")
        for n in range(4):
            for kind in ("book", "blog"):
                text = f"<{kind}><title>{kind} {n}</title><author>Ann {n}</author></{kind}>"
                engine.ingest([Event("S", f"{kind}{n}", 10 * n + (kind == "blog"), xml=text)])
        found.service.wake()
        found.settled()
        yield found


@pytest.fixture
def ask(service: Running, monkeypatch: pytest.MonkeyPatch) -> Iterator[CliRunner]:
    monkeypatch.setenv("XSCL_URL", service.address)
    monkeypatch.setenv("XSCL_TOKEN", service.tokens["admin"])
    yield CliRunner()


def told(result: Result) -> str:
    assert result.exit_code == 0, (result.output, result.exception)
    return result.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["match", "list"],
        ["match", "list", "same", "--format", "cards"],
        ["match", "list", "books", "--format", "documents"],
        ["match", "list", "--format", "table", "--limit", "3"],
        ["match", "list", "same", "--window", "5..25", "--json"],
        ["match", "list", "--since", "15", "--until", "1970-01-01T00:00:21Z", "--format", "csv"],
        ["match", "list", "--after", "start", "--limit", "5"],
        ["match", "list", "books", "--distinct", "--limit", "2", "--format", "csv"],
        ["match", "count"],
        ["match", "count", "books", "--by", "b", "--agg", "max(b)", "--agg", "count(DISTINCT b)", "--since", "15"],
        ["query", "list"],
        ["query", "list", "--like", "b*", "--json"],
        ["query", "list", "--limit", "1", "--offset", "1"],
        ["query", "list", "--count"],
        ["query", "show", "same"],
        ["query", "explain", "same"],
        ["stats", "--format", "csv"],
    ],
    ids=" ".join,
)
def test_the_same_as_of_a_home(service: Running, ask: CliRunner, arguments: list[str]) -> None:
    home = str(service.service.home.root)
    of_service, of_home = ask.invoke(app, arguments), ask.invoke(app, [*arguments, "--home", home, "--here"])
    assert told(of_service) == told(of_home)
    assert of_service.stderr == of_home.stderr
    assert of_service.stdout.strip()


def test_a_match_is_shown_with_its_members(service: Running, ask: CliRunner) -> None:
    first = json.loads(told(ask.invoke(app, ["match", "list", "same"])).splitlines()[0])["match"]
    home = str(service.service.home.root)
    for more in ([], ["--json"]):
        asked = ["match", "show", first[:8], *more]
        assert told(ask.invoke(app, asked)) == told(ask.invoke(app, [*asked, "--home", home, "--here"]))


def test_a_file_keeps_the_cursor(ask: CliRunner, tmp_path: Path) -> None:
    asked = ["match", "list", "--cursor", str(tmp_path / "place"), "--limit", "5"]
    parts = [told(ask.invoke(app, asked)).splitlines() for _ in range(3)]
    assert [len(part) for part in parts] == [5, 3, 0]
    assert len({json.loads(line)["match"] for part in parts for line in part}) == 8


def test_queries_are_registered_and_dropped(ask: CliRunner, tmp_path: Path) -> None:
    assert "query notes" in ask.invoke(app, ["query", "add", "notes", "S//note"]).stderr
    refused = ask.invoke(app, ["query", "add", "wrong", "S//["])
    assert isinstance(refused.exception, EngineError)
    assert refused.exception.condition == "XSCL_SYNTAX"
    assert "line 1, column 4" in refused.exception.message and "^" in refused.exception.message
    script = tmp_path / "queries.xscl"
    script.write_text("CREATE QUERY one AS S//one;\nCREATE QUERY two AS S//[;\n", encoding="utf-8")
    loaded = ask.invoke(app, ["query", "load", str(script)])
    assert loaded.exit_code == 3
    assert "registered one" in loaded.stderr and "XSCL_SYNTAX" in loaded.stderr and "1 refused" in loaded.stderr
    names = told(ask.invoke(app, ["query", "list", "--format", "csv"]))
    assert "one," in names and "notes," in names
    for name in ("one", "notes"):
        assert f"dropped {name}" in ask.invoke(app, ["query", "drop", name]).stderr
    for asked in (["query", "add", "x", "S//x", "--owner", "me"], ["query", "list", "--group", "1"]):
        assert ask.invoke(app, asked).exit_code == 2


def test_refusals(service: Running, ask: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    for asked, condition in (
        (["query", "show", "unknown"], "XSCL_QUERY_NOT_FOUND"),
        (["match", "show", "unknown"], "XSCL_MATCH_NOT_FOUND"),
        (["match", "list", "unknown"], "XSCL_QUERY_NOT_FOUND"),
        (["match", "count", "same", "--by", "zz"], "XSCL_BAD_AGGREGATE"),
        (["query", "list", "--url", "http://127.0.0.1:9"], "XSCL_NO_ANSWER"),
        (["query", "list", "--url", "nothing"], "XSCL_NO_ANSWER"),
    ):
        error = ask.invoke(app, asked).exception
        assert isinstance(error, EngineError), asked
        assert error.condition == condition
    assert ask.invoke(app, ["match", "list", "--window", "2..1"]).exit_code == 2
    assert ask.invoke(app, ["query", "list", "--url", service.address, "--home", "x"]).exit_code == 2
    monkeypatch.delenv("XSCL_TOKEN")
    error = ask.invoke(app, ["query", "list"]).exception
    assert isinstance(error, EngineError) and error.condition == "XSCL_UNAUTHORIZED"


def test_rows_of_sql(capsys: pytest.CaptureFixture[str]) -> None:
    asked = []

    def answered(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        columns = [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]
        return httpx2.Response(200, json={"columns": columns, "rows": [[1, "x"], [2, None]], "more": True})

    client = Client("http://service", httpx2.MockTransport(answered))
    answer = ask_sql(client, "select 1", 0)
    assert answer.more
    print_rows(answer.rows, answer.columns, Format.ndjson)
    assert capsys.readouterr().out.splitlines() == ['{"a": 1, "b": "x"}', '{"a": 2, "b": null}']
    assert asked == [{"sql": "select 1", "limit": 10_000}]


def test_a_script_of_sql_ends_at_its_first_error(
    ask: CliRunner, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def answer(client: Client, statement: str, limit: int) -> Answer:
        asked.append(statement)
        if "wrong" in statement:
            raise EngineError("XSCL_SQL", "it cannot be read at line 4, column 1")
        return Answer(["n"], [{"n": len(asked)}], more=False)

    monkeypatch.setattr("xscl.cli.sql.ask_sql", answer)
    script = "select 1; -- one\nselect\n 2;\nwrong;\nselect 3;"
    file = tmp_path / "report.sql"
    file.write_text(script, encoding="utf-8")
    of_file = ask.invoke(app, ["sql", "-f", str(file), "--format", "ndjson"])
    assert of_file.stdout == '{"n": 1}\n{"n": 2}\n'
    assert isinstance(of_file.exception, EngineError)
    assert of_file.exception.message == f"{file}:4: it cannot be read at line 4, column 1"
    assert asked == ["select 1", "\nselect\n 2", "\n\n\nwrong"]
    of_input = ask.invoke(app, ["sql", "-", "--format", "csv"], input="select 1;\nselect 2;\n")
    assert told(of_input) == "n\n4\n\nn\n5\n"
    for both in (["sql"], ["sql", "select 1", "-f", str(file)], ["sql", "-", "--show-steps"]):
        assert ask.invoke(app, both).exit_code == 2


def test_an_answer_that_ends_early_is_an_error() -> None:
    def parts() -> Iterator[bytes]:
        yield b'{"a": 1}\n'
        raise httpx2.ReadError("the connection ended")

    transport = httpx2.MockTransport(lambda request: httpx2.Response(200, content=parts()))
    lines = Client("http://service", transport).lines("/", {})
    assert next(lines) == {"a": 1}
    with pytest.raises(EngineError, match="XSCL_NO_ANSWER"):
        next(lines)
