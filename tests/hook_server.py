"""A web server that takes webhooks, fails as it is told, and keeps what it took."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Got:
    """A request."""

    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def ids(self) -> list[str]:
        return [json.loads(line)["match"] for line in self.body.splitlines()]


@dataclass
class HookServer:
    """Requests in the order in which they came; ``answer`` gives the status of the next one."""

    answer: Callable[[int], int] = lambda number: 200
    headers: dict[str, str] = field(default_factory=dict)
    got: list[Got] = field(default_factory=list)
    url: str = ""

    @property
    def taken(self) -> list[str]:
        """Ids of all matches that were taken, as often as they were."""
        return [id_ for got in self.got if got.status < 300 for id_ in got.ids]


@contextmanager
def hook_server(answer: Callable[[int], int] = lambda number: 200, **headers: str) -> Iterator[HookServer]:
    hooks = HookServer(answer, {name.replace("_", "-"): value for name, value in headers.items()})
    turn = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            with turn:
                status = hooks.answer(len(hooks.got))
                hooks.got.append(Got({name.lower(): value for name, value in self.headers.items()}, body, status))
            self.send_response(status)
            for name, value in {"content-length": "0", **hooks.headers}.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01), daemon=True)
    thread.start()
    hooks.url = f"http://127.0.0.1:{server.server_address[1]}/hook"
    try:
        yield hooks
    finally:
        server.shutdown()
        server.server_close()
