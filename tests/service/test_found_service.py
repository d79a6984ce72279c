"""Commands on a home that a service has open go to the service, and to the home where it does not answer."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from http_service import SAME, SETTINGS, Running, running
from typer.testing import CliRunner, Result

from xscl.base.errors import EngineError
from xscl.cli.app import app
from xscl.cli.client import Client
from xscl.cli.sql import Answering
from xscl.engine import Engine
from xscl.store.home import init_home
from xscl.store.served import SERVICE_FILE, Serving, announce, read_serving, withdraw

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("served") / "home", replace(SETTINGS, auth=False)) as found:
        found.service.engine.register(SAME, name="same")
        yield found


@pytest.fixture
def ask(service: Running, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("XSCL_HOME", str(service.service.home.root))
    return CliRunner()


def told(result: Result, code: int = 0) -> str:
    assert result.exit_code == code, (result.output, result.exception)
    return result.stdout


def went(service: Running, *paths: str) -> bool:
    """Whether a command made these calls, behind the one that asks whether the service answers; the log ends there.

    Lines of the log come behind the answers, those of ``settled`` also behind the end of it.
    """
    wanted = ["/v1/batches", *paths] if paths else []
    until = time.monotonic() + 120

    def made() -> list[str]:
        return [path for line in [*service.log] if (path := json.loads(line)["path"]) != "/v1/stats"]

    while (found := made()) != wanted and time.monotonic() < until:
        time.sleep(0.01)
    service.log.clear()
    return found == wanted


def test_commands_find_the_service(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    service.log.clear()
    assert "same" in told(ask.invoke(app, ["query", "list"]))
    assert went(service, "/v1/queries")
    document = tmp_path / "d.xml"
    document.write_text("<book><author>Ann</author></book>", encoding="utf-8")
    assert "1 event taken" in ask.invoke(app, ["ingest", str(document), "--channel", "S"]).stderr
    assert went(service, "/v1/channels/S/events")
    service.settled()
    service.log.clear()
    for arguments, path in (
        (["query", "explain", "same"], "/v1/queries/same/explanation"),
        (["match", "list"], "/v1/matches.ndjson"),
        (["query", "show", "same"], "/v1/queries/same/text"),
    ):
        of_home = ask.invoke(app, [*arguments, "--here"])
        assert went(service)
        assert told(ask.invoke(app, arguments)) == told(of_home)
        assert went(service, path)


def test_the_home_does_what_no_service_does(service: Running, ask: CliRunner, tmp_path: Path) -> None:
    service.log.clear()
    assert "query own" in ask.invoke(app, ["query", "add", "own", "S//own", "--owner", "me"]).stderr
    assert went(service)
    feed = tmp_path / "feed.xml"
    feed.write_text("<rss version='2.0'><channel><item><guid>1</guid></item></channel></rss>", encoding="utf-8")
    lines = tmp_path / "events.ndjson"
    lines.write_text(
        '{"channel": "S", "id": "a", "xml": "<a/>"}\n{"register": {"name": "q7", "text": "S//a", "owner": "x"}}\n'
    )
    result = ask.invoke(app, ["ingest", str(lines), str(feed)])
    told(result)
    assert "3 events taken, 1 query registered" in result.stderr
    assert went(service, "/v1/channels/S/events")
    assert "q7,x" in told(ask.invoke(app, ["query", "list", "--here", "--format", "csv"]))


def test_a_token_is_needed_where_the_service_asks_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(tmp_path / "home", SETTINGS) as found:
        monkeypatch.setenv("XSCL_HOME", str(found.service.home.root))
        monkeypatch.delenv("XSCL_TOKEN", raising=False)
        ask = CliRunner()
        quiet = ask.invoke(app, ["query", "list"])
        told(quiet)
        assert found.log == [] and "open" not in quiet.stderr
        monkeypatch.setenv("XSCL_TOKEN", "xscl_unknown")
        refused = ask.invoke(app, ["query", "list"])
        told(refused)
        assert "does not know the token" in refused.stderr and "works on the home" in refused.stderr
        monkeypatch.setenv("XSCL_TOKEN", found.tokens["read"])
        found.log.clear()
        told(ask.invoke(app, ["query", "list"]))
        assert went(found, "/v1/queries")
        mode = (found.service.home.root / SERVICE_FILE).stat().st_mode & 0o777
        text = (found.service.home.root / SERVICE_FILE).read_text(encoding="utf-8")
        assert sorted(json.loads(text)) == ["machine", "process", "tokens", "url"], oct(mode)
    assert not (tmp_path / "home" / SERVICE_FILE).exists()
    told(ask.invoke(app, ["query", "list"]))


def test_a_service_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = init_home(tmp_path / "home")
    Engine(home).register(SAME, name="same")
    monkeypatch.setenv("XSCL_HOME", str(home.root))
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    held = announce(home.root, Serving(f"http://127.0.0.1:{port}", os.getpid(), False))
    assert held is not None
    result = CliRunner().invoke(app, ["query", "list"])
    assert "same" in told(result)
    assert "does not answer" in result.stderr and "works on the home" in result.stderr
    withdraw(home.root, held)
    assert read_serving(home.root) is None


class _Late(BaseHTTPRequestHandler):
    """A service without time for SQL."""

    def do_GET(self) -> None:
        self._answer(200, {"batches": []})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self._answer(504, {"type": "urn:xscl:problem:XSCL_SQL_TIME", "detail": "the statement ran for more than 60 s"})

    def _answer(self, status: int, told: object) -> None:
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(told).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_service_without_time_leaves_the_statement_to_the_home(capsys: pytest.CaptureFixture[str]) -> None:
    with HTTPServer(("127.0.0.1", 0), _Late) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.server_port}", is_found=True)
        assert client.fault() is None
        with pytest.raises(ZeroDivisionError):  # the home would be opened
            Answering(client, lambda: 1 / 0).ask("select 1", 10)  # type: ignore[arg-type,return-value]
        server.shutdown()
    assert "more than 60 s" in capsys.readouterr().err


def test_a_file_that_was_left_behind_is_of_nobody(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from xscl.store.served import Serving, announce
held = announce(Path(sys.argv[1]), Serving("http://127.0.0.1:1", os.getpid(), False))
print("there", flush=True)
sys.stdin.read()
os._exit(9)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "there\n"
        found = read_serving(tmp_path)
        assert found is not None and found.process == process.pid
        process.stdin.close()
        process.wait(120)
    assert (tmp_path / SERVICE_FILE).exists()
    assert read_serving(tmp_path) is None
    # The next service takes the file over.
    held = announce(tmp_path, Serving("http://127.0.0.1:2", 1, True))
    assert held is not None
    assert read_serving(tmp_path) == Serving("http://127.0.0.1:2", 1, True)
    withdraw(tmp_path, held)


@pytest.mark.parametrize(
    "told",
    ["", "{}", "[1]", '{"url": "http://evil.example:80", "process": 1, "tokens": true, "machine": "%"}',
     '{"url": "http://127.0.0.1:80", "process": 1, "tokens": true, "machine": "another"}'],
)  # fmt: skip
def test_a_file_that_says_something_else(tmp_path: Path, told: str) -> None:
    held = announce(tmp_path, Serving("http://127.0.0.1:2", 1, True))
    assert held is not None
    (tmp_path / SERVICE_FILE).write_text(told.replace("%", socket.gethostname()), encoding="utf-8")
    assert read_serving(tmp_path) is None
    withdraw(tmp_path, held)


def test_the_shell_uses_the_session_of_the_service(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(tmp_path / "home", replace(SETTINGS, auth=False), spark) as found:
        monkeypatch.setenv("XSCL_HOME", str(found.service.home.root))
        monkeypatch.setattr("xscl.cli.sql.Answering._of_home", lambda *_: pytest.fail("the home was asked"))
        script = "create query one as S//one;\nselect qid,\n  1.5BD as n from queries;\n\\d streams\nselect wrong;\n"
        result = CliRunner().invoke(app, ["shell", "--format", "csv"], input=script)
    assert result.stdout.startswith("qid,n\none,1.5\ncol_name "), result.output
    assert "name of the stream, which no channel has" in result.stdout
    assert isinstance(result.exception, EngineError) and result.exception.message.startswith("-:5: ")
    assert "\n    select wrong\n           ^" in result.exception.message
