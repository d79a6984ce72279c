"""The shell: by a pipe, and by a person at a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

import pytest
from typer.testing import CliRunner
from waiting import wait_for

from xscl.base.errors import EngineError
from xscl.cli.app import app
from xscl.cli.shell_input import first_statement, is_sql
from xscl.cli.shell_words import Words, candidates, home_words
from xscl.engine import Engine
from xscl.store.home import init_home


@pytest.mark.parametrize(
    ("text", "sql"),
    [
        ("select 1", True),
        ("-- why\n(SELECT * from queries)", True),
        ("with a as (select 1) select * from a", True),
        ("show tables", True),
        ("SELECT <t>{b}</t> FROM S//book->b", False),
        ("select a from S//book->a", False),
        ("create query q as S//a", False),
        ("S//a", False),
        ("selection//a", False),
        ("SELECT * FROM matches /* x */ LIMIT 1", True),
        ("SELECT 'from a/b' AS x FROM matches", True),
        ("select a /* from S/a */ from queries", True),
        ("SELECT <t>it's</t> FROM S//a", False),
        ("-- " + 400 * "-" + "\n" + 400 * "/* a */\n" + "CREATE QUERY q AS S//a", False),
        (4_000 * "/*" + "select 1", False),
        (4_000 * "'" + "/", False),
    ],
)
def test_sql_and_xscl(text: str, sql: bool) -> None:
    assert is_sql(text) == sql


@pytest.mark.parametrize(
    ("text", "expected", "rest"),
    [
        ("select ';' as a; select 2", "select ';' as a", " select 2"),
        ("select 1\n", None, None),
        ("create query a as S//a[. = ';']; select 1;", "create query a as S//a[. = ';'];", " select 1;"),
        ("create query a as\n", None, None),
        ("SELECT <t>a; b</t> FROM S//a;x", "SELECT <t>a; b</t> FROM S//a;", "x"),
        ("(: a; :) drop query a;", "drop query a;", ""),
        (";", "", ""),
    ],
)
def test_where_statements_end(text: str, expected: str | None, rest: str | None) -> None:
    found = first_statement(text)
    if expected is None:
        assert found is None or not found.is_ended
    else:
        assert found is not None and found.is_ended
        assert (found.text, text[found.end :]) == (expected, rest)


WORDS = Words({"matches": ["qid", "docids"], "match_members": ["qid", "block"]}, ["mine", "same-story"])


@pytest.mark.parametrize(
    ("word", "before", "expected"),
    [
        ("ma", "select * from ", ["matches", "match_members"]),
        ("same", "drop query ", ["same-story"]),
        ("mi", "select * from ", []),
        ("q", "select ", ["qid", "query"]),
        ("m.d", "select ", ["m.docids"]),
        ("match_members.", "select ", ["match_members.qid", "match_members.block"]),
        ("DES", "", ["DESCRIBE"]),
        ("\\t", "", ["\\timing"]),
        ("match_", "\\d ", ["match_members"]),
        ("mi", "select '", ["mine"]),
    ],
)
def test_words_are_completed(word: str, before: str, expected: list[str]) -> None:
    assert candidates(word, before, WORDS) == expected


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("XSCL_URL", raising=False)
    engine = Engine(init_home(tmp_path / "home"))
    engine.register("S//book[./author->a] JOIN {a = c, 7 days} S//blog[./author->c]", name="same")
    monkeypatch.setenv("XSCL_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_words_of_a_home(home: Path) -> None:
    words = home_words(Engine(init_home(home)).home)
    assert words.queries == ["same"]
    assert "docids" in words.relations["matches"]
    assert any(name.startswith("rt_") and "hi_1_2" in columns for name, columns in words.relations.items())


def test_a_pipe_of_statements_of_xscl(home: Path, tmp_path: Path) -> None:
    more = tmp_path / "more.xscl"
    more.write_text("drop query one;\ncreate query three as S//three;\n", encoding="utf-8")
    script = (
        "declare namespace n = 'urn:n';\n-- nothing\ncreate query one as S//n:one;\ncreate query two as\n  S//two;\n"
        f"\\i {more}\n\\d\n\\?\n\\timing\ncreate query four as S//four"
    )
    result = CliRunner().invoke(app, ["shell"], input=script)
    assert result.exit_code == 0, (result.output, result.exception)
    assert "matches" in result.stdout and r"\timing" in result.stdout
    assert re.search(r"^rt_\w+ +R_T of a template", result.stdout, re.MULTILINE)
    # Turning them on is not timed.
    assert len(re.findall(r"^time: \d+ ms$", result.stderr, re.MULTILINE)) == 1
    names = CliRunner().invoke(app, ["query", "list", "--format", "csv"]).stdout
    assert re.findall(r"^(\w+),", names, re.MULTILINE)[1:] == ["four", "same", "three", "two"]


def test_the_first_error_of_a_pipe_ends_it(home: Path) -> None:
    result = CliRunner().invoke(app, ["shell"], input="create query one as S//one;\n\ncreate query two as S//[;\nwrong")
    assert isinstance(result.exception, EngineError)
    assert result.exception.condition == "XSCL_SYNTAX"
    assert result.exception.message.startswith("-:3: ") and "^" in result.exception.message
    assert CliRunner().invoke(app, ["query", "list", "--count"]).stdout == "2\n"
    for text in ("\\nothing\n", "\\i nowhere.sql\n"):
        assert isinstance(CliRunner().invoke(app, ["shell"], input=text).exception, EngineError)


# -- a person ----------------------------------------------------------------------------------------------------


class Service(BaseHTTPRequestHandler):
    """A service that answers a few statements, one of them late."""

    answers: ClassVar[dict[str, Any]] = {
        "/v1/channels": {"channels": [{"channel": "S", "of": None, "schema": None}]},
        "/v1/templates": {"templates": []},
        "/v1/queries": {"queries": [{"name": "same"}], "after": None},
    }
    is_slow = threading.Event()

    def do_GET(self) -> None:
        self._answer(200, self.answers[self.path.partition("?")[0]])

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.path.endswith("/bulk"):
            done = {"name": "q", "problem": None, "line": 1, "action": "registered", "notes": []}
            self._answer(200, {"outcomes": [done]})
            return
        text = asked["sql"]
        if "slow" in text:
            self.is_slow.set()
            time.sleep(600)
        if "wrong" in text:
            problem = {"type": "urn:xscl:problem:XSCL_SQL", "detail": "there is no column: line 1, column 8"}
            self._answer(422, problem)
            return
        rows = [[f"answer {n} to {text.split()[-1]}"] for n in range(60 if "many" in text else 1)]
        self._answer(200, {"columns": [{"name": "said", "type": "string"}], "rows": rows, "more": False})

    def _answer(self, status: int, told: object) -> None:
        body = json.dumps(told).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        with suppress(BrokenPipeError):  # whoever asked has cancelled
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@dataclass
class Person:
    """A pseudo-terminal with a shell behind it."""

    terminal: int
    process: subprocess.Popen[bytes]
    seen: str = ""
    at: int = field(default=0)

    def types(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def interrupts(self) -> None:
        """Press Ctrl-C until it is seen, with a key before it.

        A terminal forgets keys that Ctrl-C overtakes, and a reader that has heard of one waits for the next key.
        """
        self.types("\x03")
        for _ in range(24):
            if self.has_seen("cancelled", 5):
                return
            self.types(" ")
            time.sleep(0.2)
            self.types("\x03")
        raise AssertionError(self.seen[self.at :])

    def sees(self, text: str) -> None:
        """Wait until a text stands behind what was seen before."""
        assert self.has_seen(text, 120), (text, self.seen[self.at :])

    def has_seen(self, text: str, seconds: float) -> bool:
        """Wait until a text stands behind what was seen before, or some time has passed."""
        until = time.monotonic() + seconds
        while (found := self.seen.find(text, self.at)) < 0:
            if (left := until - time.monotonic()) <= 0:
                return False
            if select.select([self.terminal], [], [], min(left, 0.2))[0]:
                try:
                    self.seen += os.read(self.terminal, 65536).decode(errors="replace").replace("\r", "")
                except OSError:
                    assert text in self.seen[self.at :], (text, self.seen[self.at :])
        self.at = found + len(text)
        return True


_AT_TERMINAL = (
    "import os,fcntl,termios,sys;os.setsid();fcntl.ioctl(0,termios.TIOCSCTTY,0);os.execv(sys.argv[1],sys.argv[1:])"
)


@contextmanager
def at_terminal(url: str, folder: Path) -> Iterator[Person]:
    mine, theirs = pty.openpty()
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder),
        "PAGER": "sed s/^/paged:/",
        "TERM": "xterm",
        "LINES": "24",
    }
    command = [sys.executable, "-c", _AT_TERMINAL, sys.executable, "-m", "xscl", "shell", "--url", url]
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment) as process:
        os.close(theirs)
        try:
            yield Person(mine, process)
        finally:
            process.kill()
            os.close(mine)


def test_a_person_at_a_terminal(tmp_path: Path) -> None:
    more = tmp_path / "more.sql"
    more.write_text("select included;\nselect wrong;\nselect never;\n", encoding="utf-8")
    with ThreadingHTTPServer(("127.0.0.1", 0), Service) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with at_terminal(f"http://127.0.0.1:{server.server_port}", tmp_path) as person:
            person.sees("xscl> ")
            person.types("select\n")
            person.sees("  ... ")
            person.types("one;\n")
            person.sees("answer 0 to one")
            person.types("select wrong;\n")
            person.sees("error: [XSCL_SQL] there is no column: line 1, column 8")
            person.sees("    select wrong\n           ^")
            person.types("select half\n")
            person.sees("  ... ")
            person.types("\\timing off\n")
            person.sees("times are not told")
            person.types("a ")
            person.sees("a ")
            person.interrupts()
            person.types("select slow;\n")
            wait_for(Service.is_slow.is_set)
            person.interrupts()
            person.types("\\timing\n")
            person.sees("times are told")
            person.types("select two from match_mem\t;\n")
            person.sees("answer 0 to match_members")
            person.sees("time: ")
            person.types(f"\\i {more}\n")
            person.sees("answer 0 to included")
            person.sees(f"{more}:2: ")
            person.types("create query q as S//q;\n")
            person.sees("registered q")
            person.types("select many;\n")
            person.sees("paged:answer 59 to many")
            person.types("S//book->b;\n")
            person.sees("error: [XSCL_UNNAMED_QUERY]")
            person.types("help\n")
            person.sees("leave the shell")
            person.types("exit;\n")
            assert person.process.wait(120) == 0
            assert "never" not in person.seen
        server.shutdown()
    history = tmp_path / "xscl" / "history"
    assert history.stat().st_mode & 0o777 == 0o600
    assert "select wrong;" in history.read_text(encoding="utf-8")
