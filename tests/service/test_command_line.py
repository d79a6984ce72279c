"""Commands that go to a running service print what they print of a home."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from http_service import SAME, SETTINGS, Running, running
from played_wire import PlayedWire, answered, in_pieces
from typer.testing import CliRunner, Result

from xscl.base.errors import EngineError
from xscl.base.types import Event
from xscl.cli.app import app
from xscl.cli.client import Client
from xscl.cli.printing import Format, print_rows
from xscl.cli.remote import Answer, ask_sql
from xscl.cli.wire import CallFailed

TEMPLATE = "t2_09bc611bb4aa3c95"
FEED = """<rss version="2.0"><channel><title>news</title><link>https://example.org/</link>
<item><guid>urn:1</guid><title>One</title><pubDate>Mon, 01 Jan 2001 00:00:00 GMT</pubDate></item>
<item><guid>urn:2</guid><title>No 2</title><pubDate>Tue, 02 Jan 2001 00:00:00 GMT</pubDate></item>
<item><guid>urn:3</guid><title>No 23</title><pubDate>Tue, 02 Jan 2001 00:00:00 GMT</pubDate></item>
</channel></rss>"""


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "home", SETTINGS) as found:
        engine = found.service.engine
        engine.register(SAME, name="same")
        engine.register("SELECT <t>{b}</t> FROM S//book->b", name="books")
        engine.register("S//none->n NOT FOLLOWED BY {n = m, 1 h} S//none->m", name="alone")
        feed = tmp_path_factory.mktemp("feed") / "news.xml"
        feed.write_text(FEED, encoding="utf-8")
        engine.ingest(str(feed), channel="items")
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
        ["match", "list", "books", "--current", "--by", "b", "--format", "csv"],
        ["match", "count"],
        ["match", "count", "books", "--by", "b", "--agg", "max(b)", "--agg", "count(DISTINCT b)", "--since", "15"],
        ["query", "list"],
        ["query", "list", "--like", "b*", "--json"],
        ["query", "list", "--limit", "1", "--offset", "1"],
        ["query", "list", "--count"],
        ["query", "show", "same"],
        ["query", "explain", "same"],
        ["stats", "--format", "csv"],
        ["stats", "--consistency", "--json"],
        ["query", "list", "--group", "1", "--json"],
        ["query", "run", SAME, "--name", "same", "--since", "5", "--limit", "2"],
        ["query", "run", "S//book->b", "--format", "cards"],
        ["item", "list", "--json"],
        ["item", "list", "--feed", "news", "--since", "2001-01-01T00:00:00Z", "--like", "*2*", "--format", "csv"],
        ["item", "list", "--until", "NOW-1d", "--limit", "1", "--format", "table"],
        ["item", "show", "urn:3"],
        ["item", "show", "urn:3", "--feed", "news", "--json"],
        ["template", "list"],
        ["template", "show", TEMPLATE],
        ["template", "show", TEMPLATE, "--json"],
        ["template", "show", TEMPLATE, "--graph", "mermaid"],
        ["template", "sql", TEMPLATE],
        ["template", "sql", TEMPLATE, "--query", "same", "--dialect", "sqlite"],
        ["template", "datalog", TEMPLATE],
        ["channel", "suggest"],
        ["channel", "suggest", "S", "--json"],
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
    script.write_text(
        "CREATE QUERY one AS S//one;\nCREATE QUERY two AS S//[;\nCREATE QUERY six AS S[\n", encoding="utf-8"
    )
    loaded = ask.invoke(app, ["query", "load", str(script)])
    assert loaded.exit_code == 3
    assert "registered one" in loaded.stderr and "2 refused" in loaded.stderr
    # As of a home, also at the end of the text, where no line can be shown.
    told_of = {line.partition(" ")[0] for line in loaded.stderr.splitlines()}
    assert {f"{script}:2:24:", f"{script}:4:1:"} <= told_of
    assert "  CREATE QUERY two AS S//[;\n                         ^\n" in loaded.stderr
    names = told(ask.invoke(app, ["query", "list", "--format", "csv"]))
    assert "one," in names and "notes," in names
    for name in ("one", "notes"):
        assert f"dropped {name}" in ask.invoke(app, ["query", "drop", name]).stderr
    assert ask.invoke(app, ["query", "add", "x", "S//x", "--owner", "me"]).exit_code == 2


def test_witnesses_of_documents(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    engine = service.service.engine
    engine.add_channel("wide", kind="rows", schema="sym string, price double", element="tick")
    engine.add_channel("own", of="S")
    for name, text in (("dear", "wide->w[./price->p][./price > 100]"), ("own", "own//book->b[./author->a]")):
        engine.register(text, name=name)
    (tmp_path / "book.xml").write_text("<book><author>Ann</author></book>", encoding="utf-8")
    (tmp_path / "rows.csv").write_text("sym,price\nIBM,101.5\nHP,7\n", encoding="utf-8")
    home = ["--home", str(service.service.home.root)]
    for asked in (
        ["query", "test", "same", str(tmp_path / "book.xml")],
        ["query", "test", "own", str(tmp_path / "book.xml"), "--json"],
        ["query", "test", "dear", str(tmp_path / "rows.csv"), "--format", "csv"],
    ):
        of_service, of_home = ask.invoke(app, asked), ask.invoke(app, [*asked, *home])
        assert told(of_service) == told(of_home) and "Ann" in of_home.stdout + "Ann" * (asked[2] == "dear")
        assert of_service.stderr == of_home.stderr


def test_a_suspended_query_goes_on(service: Running, ask: CliRunner) -> None:
    engine = service.service.engine
    engine.register("S//pair->x JOIN {x = y, 1 d} S//pair->y", name="greedy")
    engine.set_quotas(pairs=1)
    engine.ingest([Event("S", f"p{n}", n, xml="<pair>1</pair>") for n in range(3)])
    service.service.wake()
    service.settled()
    engine.set_quotas(pairs=None)
    engine.ingest([Event("S", "p4", 4, xml="<pair>2</pair>")])
    assert "greedy" in told(ask.invoke(app, ["query", "list", "--suspended"]))
    resumed = ask.invoke(app, ["query", "resume", "greedy"])
    assert "query greedy goes on from place" in resumed.stderr and "not for it were" in resumed.stderr
    error = ask.invoke(app, ["query", "resume", "greedy"]).exception
    assert isinstance(error, EngineError) and error.condition == "XSCL_NOT_SUSPENDED"


def test_lateness_is_declared(service: Running, ask: CliRunner) -> None:
    said = ask.invoke(app, ["channel", "suggest", "S", "--apply"]).stderr
    assert said.startswith("channel S: lateness ")
    assert said.strip().endswith(str(service.client().get("/v1/channels").json()["channels"][0]["lateness"]))


def test_all_items_come_in_pages(service: Running, ask: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    from xscl.cli import remote_answers

    whole = told(ask.invoke(app, ["item", "list", "--format", "ndjson"]))
    monkeypatch.setattr(remote_answers, "_PAGE", 1)
    assert told(ask.invoke(app, ["item", "list", "--format", "ndjson"])) == whole
    assert whole.count("\n") == 3


def test_refusals(service: Running, ask: CliRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    for asked, condition in (
        (["query", "show", "unknown"], "XSCL_QUERY_NOT_FOUND"),
        (["match", "show", "unknown"], "XSCL_MATCH_NOT_FOUND"),
        (["match", "list", "unknown"], "XSCL_QUERY_NOT_FOUND"),
        (["match", "count", "same", "--by", "zz"], "XSCL_BAD_AGGREGATE"),
        (["query", "list", "--url", "http://127.0.0.1:9"], "XSCL_NO_ANSWER"),
        (["query", "list", "--url", "nothing"], "XSCL_BAD_URL"),
        (["query", "run", "S//["], "XSCL_SYNTAX"),
        (["query", "run", "S//a", "--where", "spark"], "XSCL_NEEDS_HOME"),
        (["query", "test", "unknown", "-"], "XSCL_QUERY_NOT_FOUND"),
        (["item", "show", "unknown"], "XSCL_ITEM_NOT_FOUND"),
        (["item", "list", "--feed", "unknown"], "XSCL_FEED_NOT_FOUND"),
        (["template", "sql", "unknown"], "XSCL_TEMPLATE_NOT_FOUND"),
        (["channel", "suggest", "unknown"], "XSCL_UNKNOWN_CHANNEL"),
    ):
        error = ask.invoke(app, asked).exception
        assert isinstance(error, EngineError), asked
        assert error.condition == condition
    assert ask.invoke(app, ["match", "list", "--window", "2..1"]).exit_code == 2
    assert ask.invoke(app, ["query", "list", "--url", service.address, "--home", "x"]).exit_code == 2
    monkeypatch.delenv("XSCL_TOKEN")
    error = ask.invoke(app, ["query", "list"]).exception
    assert isinstance(error, EngineError) and error.condition == "XSCL_UNAUTHORIZED" and "XSCL_TOKEN" in str(error.hint)


def test_rows_of_sql(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [{"name": "a", "type": "int"}, {"name": "b", "type": "string"}]
    wire = PlayedWire(lambda _: answered(200, {"columns": columns, "rows": [[1, "x"], [2, None]], "more": True}))
    answer = ask_sql(Client("http://service", wire), "select 1", 0)
    assert answer.more
    print_rows(answer.rows, answer.columns, Format.ndjson)
    assert capsys.readouterr().out.splitlines() == ['{"a": 1, "b": "x"}', '{"a": 2, "b": null}']
    assert [json.loads(each.body or b"") for each in wire.asked] == [{"sql": "select 1", "limit": 10_000}]


def test_columns_of_one_name_keep_their_values() -> None:
    columns = [{"name": "title", "type": "string"}, {"name": "title", "type": "string"}]
    wire = PlayedWire(lambda _: answered(200, {"columns": columns, "rows": [["x", "y"]], "more": False}))
    answer = ask_sql(Client("http://service", wire), "select a.title, b.title from …", 0)
    assert (answer.columns, answer.rows) == (["title", "title_2"], [{"title": "x", "title_2": "y"}])


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
        raise CallFailed("the connection ended", was_sent=True)

    lines = Client("http://service", PlayedWire(lambda _: in_pieces(parts()))).lines("/", {})
    assert next(lines) == {"a": 1}
    with pytest.raises(EngineError, match="XSCL_NO_ANSWER"):
        next(lines)
