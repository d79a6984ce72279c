"""Connections that send nothing, or send it slowly: they are bounded, end, and take nothing from others."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest
from http_service import SETTINGS, XML, Running, running

from xscl.base.types import Event
from xscl.service import access, server
from xscl.service.connections import Connection, most_connections

PUSH = "/v1/channels/S/events"
HEAD = b"GET /healthz HTTP/1.1\r\nHost: here\r\n"


def connected(served: Running) -> socket.socket:
    url = httpx2.URL(served.address)
    assert url.port is not None
    return socket.create_connection((url.host, url.port), timeout=60)


def answered(client: socket.socket) -> bytes:
    """Everything that comes until the service ends the connection."""
    found = b""
    try:
        while part := client.recv(65536):
            found += part
    except ConnectionResetError:
        pass
    return found


def dripped(client: socket.socket, bytes_: bytes) -> None:
    """Send a byte now and then, until the service ends the connection."""
    try:
        for place in range(len(bytes_)):
            client.sendall(bytes_[place : place + 1])
            time.sleep(0.02)
    except OSError:
        return
    pytest.fail("the connection goes on")


@pytest.fixture
def files() -> Iterator[int]:
    """As many files as the process may have open, which are few while the test runs."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (400, before[1]))
    yield 400
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_connections_leave_files_for_the_work(files: int, tmp_path: Path) -> None:
    assert most_connections() == files // 2
    with running(tmp_path / "home", replace(SETTINGS, connections=4)) as served, ExitStack() as opened:
        client = opened.enter_context(served.client("write"))
        assert client.post(PUSH, content="<a/>", headers=XML).status_code == 202
        held = [opened.enter_context(connected(served)) for _ in range(20)]
        for each in held:
            each.sendall(HEAD)
        for each in held[4:]:
            assert answered(each).startswith(b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\n")
        refused = httpx2.get(f"{served.address}/healthz")
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:xscl:problem:XSCL_BUSY")
        assert refused.json()["detail"] == "4 connections are open" and refused.headers["retry-after"] == "5"
        # Whoever was there before is served.
        assert client.post(PUSH, content="<b/>", headers=XML).json()["taken"] == 1
        for each in held:
            each.close()
        served.settled()


def test_a_connection_without_a_request_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Connection, "head_s", 1.0)
    with running(tmp_path / "home", SETTINGS) as served, served.client() as client:
        with connected(served) as silent:
            assert answered(silent) == b""
        with connected(served) as slow:
            dripped(slow, HEAD * 10_000)
        # A live stream is a request that goes on.
        with client.stream("GET", "/v1/matches/stream?after=start") as stream:
            lines = stream.iter_lines()
            next(lines)
            time.sleep(1.5)
            served.service.engine.register("S", name="all")
            assert served.service.engine.ingest([Event("S", "a", 1, xml="<a/>")]).taken == 1
            served.service.wake()
            assert next(line for line in lines if line.startswith("event:")) == "event: match"


def test_an_answered_connection_that_sends_no_whole_request_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_KEEP_ALIVE_S", 1)
    monkeypatch.setattr(Connection, "head_s", 1.0)
    with running(tmp_path / "home", SETTINGS) as served, connected(served) as client:
        # A call without a token is answered before its body comes, which may never end.
        client.sendall(b"POST /v1/sql HTTP/1.1\r\nHost: here\r\nContent-Length: 1000000\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 401")
        dripped(client, b"x" * 1_000_000)


def test_an_answer_that_is_read_slowly_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_KEEP_ALIVE_S", 1)
    monkeypatch.setattr(Connection, "head_s", 0.5)
    with running(tmp_path / "home", SETTINGS) as served, socket.socket() as client:
        served.service.engine.register("S", name="all")
        events = [Event("S", f"e{number}", number, xml=f"<a>{'x' * 900_000}</a>") for number in range(10)]
        assert served.service.engine.ingest(events).taken == 10
        served.settled()
        url = httpx2.URL(served.address)
        assert url.port is not None
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        client.settimeout(60)
        client.connect((url.host, url.port))
        head = f"GET /v1/matches HTTP/1.1\r\nHost: here\r\nAuthorization: Bearer {served.tokens['read']}\r\n\r\n"
        client.sendall(head.encode())
        found = b""
        while len(found) < 9_000_000:
            # All of it is written at once, and waits where the connection is written.
            part = client.recv(131_072)
            assert part, len(found)
            found += part
            time.sleep(0.03)


def test_a_slow_body_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access, "_BODY_S", 0.3)
    with running(tmp_path / "home", SETTINGS) as served, served.client("write") as client:

        def body(pause_s: float, size: int) -> Iterator[bytes]:
            yield b"<a>"
            for _ in range(8):
                time.sleep(pause_s)
                yield b"x" * size
            yield b"</a>"

        for path, kind in ((PUSH, XML), ("/v1/queries", {"content-type": "application/json"})):
            refused = client.post(path, content=body(0.1, 1), headers=kind)
            assert (refused.status_code, refused.json()["type"]) == (408, "urn:xscl:problem:XSCL_SLOW_BODY")
        # With what it brings a body may take longer.
        assert client.post(PUSH, content=body(0.1, 8_192), headers=XML).json()["taken"] == 1
