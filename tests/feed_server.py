"""A web server that does as it is told, and a network on which every name leads to it.

``Network`` resolves names as a test says and brings connections to public addresses to the server; what is asked of
other addresses goes where it says.  So what counts is what was sent, not what was meant to be sent.
"""

from __future__ import annotations

import contextlib
import socketserver
import ssl
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import httpx2

PUBLIC = "93.184.216.34"


@dataclass(frozen=True)
class Asked:
    """A request as the server saw it."""

    host: str
    path: str
    headers: dict[str, str]
    at: int

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"


Answer = bytes | Iterable[bytes]
Route = Answer | Callable[[Asked], Answer]


def reply(status: int = 200, body: bytes = b"", **headers: str) -> bytes:
    """A whole answer; ``content_type=…`` is the header ``content-type``."""
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if "content-length" not in given and "transfer-encoding" not in given:
        given["content-length"] = str(len(body))
    lines = "".join(f"{name}: {value}\r\n" for name, value in given.items())
    return f"HTTP/1.1 {status} Whatever\r\n{lines}\r\n".encode() + body


def rss(*titles: str, head: str = "", link: str = "http://a.example/") -> bytes:
    """A feed with an item for each title."""
    items = "".join(f"<item><guid>{title}</guid><title>{title}</title></item>" for title in titles)
    return f"<rss><channel><title>Feed</title><link>{link}</link>{head}{items}</channel></rss>".encode()


class FeedServer:
    """Answers by address, ``host/path``; what it does not know is 404."""

    def __init__(self, now: Callable[[], int] = lambda: 0, tls: ssl.SSLContext | None = None) -> None:
        self.routes: dict[str, Route] = {}
        self.log: list[Asked] = []
        self.now = now
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with contextlib.suppress(OSError):
                    outer._serve(self.rfile, self.wfile)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            block_on_close = False
            request_queue_size = 128

            def finish_request(self, request: Any, client_address: Any) -> None:
                with contextlib.suppress(OSError):
                    # The handshake is the thread's: who refuses our certificate holds up nobody.
                    wrapped = request if tls is None else tls.wrap_socket(request, server_side=True)
                    super().finish_request(wrapped, client_address)

        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=lambda: self._server.serve_forever(0.01), daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def asked(self, host: str | None = None) -> list[str]:
        return [asked.url for asked in self.log if host in (None, asked.host)]

    def _serve(self, incoming: Any, out: Any) -> None:
        first = incoming.readline()
        if not first:
            return
        headers = {}
        while (line := incoming.readline().strip()) != b"":
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.lower()] = value.strip()
        asked = Asked(headers.get("host", ""), first.split()[1].decode(), headers, self.now())
        self.log.append(asked)
        route = self.routes.get(asked.host + asked.path, reply(404))
        answer = route(asked) if callable(route) else route
        for part in [answer] if isinstance(answer, bytes) else answer:
            out.write(part)


class Network(httpx2.AsyncBaseTransport):
    """Names and addresses of a test: unknown names are at a public address, and that is the server's."""

    def __init__(self, server: FeedServer) -> None:
        self.server = server
        self.names: dict[str, Sequence[str]] = {}
        self.resolved: list[str] = []
        self.connections: list[str] = []
        self._tcp = self._over(True)

    def trust(self, context: ssl.SSLContext) -> None:
        """Take the certificates that a context takes."""
        self._tcp = self._over(context)

    def _over(self, verify: ssl.SSLContext | bool) -> httpx2.AsyncHTTPTransport:
        alone = httpx2.Limits(max_connections=None, max_keepalive_connections=0)
        return httpx2.AsyncHTTPTransport(verify=verify, trust_env=False, limits=alone)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.resolved.append(host)
        if host.replace(".", "").isdigit() or ":" in host:
            return [host]
        found = self.names.get(host, [PUBLIC])
        if not found:
            raise OSError(-2, "Name or service not known")
        return found

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.connections.append(request.url.host)
        url = request.url
        if url.host == PUBLIC:
            url = url.copy_with(host="127.0.0.1", port=self.server.port)
        moved = httpx2.Request(request.method, url, headers=request.headers, extensions=request.extensions)
        return await self._tcp.handle_async_request(moved)

    async def aclose(self) -> None:
        await self._tcp.aclose()


@contextlib.contextmanager
def serving(
    now: Callable[[], int] = lambda: 0, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[FeedServer, Network]]:
    server = FeedServer(now, tls)
    try:
        yield server, Network(server)
    finally:
        server.close()
