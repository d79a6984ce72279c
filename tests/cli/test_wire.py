"""Requests of the command line: connections that stay open, answers that end early, and proxies."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from xscl.base.errors import EngineError
from xscl.cli.client import Client
from xscl.cli.wire import CallFailed, NetworkWire, Request

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
CHUNKED = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"


@contextmanager
def server(*connections: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    """Answers of each connection in their order; an empty one ends the connection.  Gives the address, and requests."""
    got: list[bytes] = []

    def serve() -> None:
        for answers in connections:
            taken, _ = listening.accept()
            with taken:
                for answer in answers:
                    if not answer:
                        break
                    head = b""
                    while b"\r\n\r\n" not in head:
                        head += taken.recv(65536)
                    got.append(head)
                    taken.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", got
        thread.join()


def get(path: str = "/a") -> Request:
    return Request("GET", path, {}, None, 5.0, 5.0)


def read(wire: NetworkWire, path: str = "/a") -> bytes:
    return b"".join(wire.send(get(path)).pieces)


def test_a_connection_stays_open_and_is_made_anew_once_it_has_ended() -> None:
    with server([OK, OK], [OK]) as (url, got):
        wire = NetworkWire(f"{url}/behind/")
        assert [read(wire), read(wire)] == [b"ok", b"ok"]
        (idle,) = wire._idle
        # The other side ends it; a byte less of waiting would leave that to chance.
        assert idle.sock.recv(1) == b""
        assert read(wire) == b"ok"
    assert [each.split(b" ")[1] for each in got] == [b"/behind/a"] * 3


def test_two_answers_at_a_time_have_connections_of_their_own() -> None:
    with server([OK], [OK]) as (url, _):
        wire = NetworkWire(url)
        first, second = wire.send(get()), wire.send(get())
        assert b"".join(second.pieces) == b"".join(first.pieces) == b"ok"
        assert len(wire._idle) == 2


@pytest.mark.parametrize(
    "answer",
    [OK.replace(b"length: 2", b"length: 3"), CHUNKED + b"2\r\nok\r\n", CHUNKED + b"9\r\nok", b"HTTP/1.1 what\r\n\r\n"],
    ids=["length", "chunks", "chunk", "status"],
)
def test_an_answer_that_ends_early_is_none(answer: bytes) -> None:
    with server([answer]) as (url, _), pytest.raises(CallFailed) as failed:
        read(NetworkWire(url))
    assert failed.value.was_sent


def test_nobody_there_has_got_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    with pytest.raises(CallFailed) as failed:
        read(NetworkWire(f"http://127.0.0.1:{port}"))
    assert not failed.value.was_sent


def test_lines_come_as_they_are_sent() -> None:
    lines = CHUNKED + b'5\r\n{"a":\r\n5\r\n1}\n{}\r\n4\r\n\n{}\n\r\n0\r\n\r\n'
    with server([lines]) as (url, got):
        assert [*Client(url).lines("/v1/x", {"by": ["a b", "ü"], "current": True})] == [{"a": 1}, {}, {}]
    assert got[0].startswith(b"GET /v1/x?by=a%20b&by=%C3%BC&current=true HTTP/1.1\r\n")


def test_a_proxy_of_the_environment_is_asked_for_other_machines(monkeypatch: pytest.MonkeyPatch) -> None:
    with server([OK]) as (url, got):
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.setenv("no_proxy", "inner.example")
        assert read(NetworkWire("http://xscl.example:81/p")) == b"ok"
    assert got[0].startswith(b"GET http://xscl.example:81/p/a HTTP/1.1\r\n")
    for near in ("http://127.0.0.1:9", "http://inner.example"):
        assert NetworkWire(near)._proxy is None
    monkeypatch.setenv("http_proxy", "socks5://localhost:1")
    with pytest.raises(EngineError, match="XSCL_BAD_URL"):
        Client("http://xscl.example")


@pytest.mark.parametrize("url", ["", "service", "ftp://a.example", "http://", "http://a:b", "http://[::1"])
def test_what_is_no_address_is_refused(url: str) -> None:
    with pytest.raises(EngineError, match="XSCL_BAD_URL"):
        Client(url)


def test_who_calls_is_told_by_a_token_or_by_the_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with server([OK], [OK]) as (url, got):
        address = url.replace("//", "//ann:s%3Acret@")
        monkeypatch.delenv("XSCL_TOKEN", raising=False)
        Client(address).call("GET", "/")
        monkeypatch.setenv("XSCL_TOKEN", " xscl_1 ")
        Client(address).call("GET", "/")
    assert [b"Authorization: Basic YW5uOnM6Y3JldA==" in got[0], b"Authorization: Bearer xscl_1" in got[1]] == [True] * 2


def test_a_statement_for_a_service_loads_little() -> None:
    told = b'{"columns": [{"name": "n", "type": "int"}], "rows": [[1]], "more": false}'
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(told), told)
    code = """
import atexit, sys
sys.argv = ["xscl", "sql", "select 1 as n"]
from xscl.cli.app import start
atexit.register(lambda: print(*sorted({name.partition(".")[0] for name in sys.modules})))
start()
"""
    with server([answer]) as (url, _):
        environment = {**os.environ, "XSCL_URL": url}
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    *printed, loaded = ran.stdout.splitlines()
    assert printed == ["n", "1"]
    heavy = {"pyspark", "pandas", "numpy", "pyarrow", "sqlalchemy", "fastapi", "pydantic", "httpx2", "lxml", "sqlglot"}
    assert "typer" in loaded.split()
    assert not (heavy | {"asyncio", "concurrent", "rich", "logging"}) & {*loaded.split()}
