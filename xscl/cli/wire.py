"""Requests of the command line to a service, by Python's own client of HTTP.

To import a larger client takes longer than most calls.
"""

from __future__ import annotations

import http.client
import os
import select
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import unquote, urlsplit

__all__ = ["LOOPBACK", "CallFailed", "NetworkWire", "Request", "Response", "Wire"]

LOOPBACK = ("127.0.0.1", "::1", "localhost")
_PIECE = 1 << 16
"""Bytes of an answer that are read together, at most."""


class CallFailed(Exception):
    """A request had no answer, or its answer ended early."""

    def __init__(self, told: str, *, was_sent: bool) -> None:
        """``was_sent``: the service may have got the request."""
        super().__init__(told)
        self.was_sent = was_sent


@dataclass(frozen=True, slots=True)
class Request:
    """A request, whose path is escaped and has the parameters."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes | None
    connect_s: float
    """Patience until somebody takes the connection."""
    read_s: float
    """Patience while nothing of the answer comes."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer, whose content comes in pieces."""

    status: int
    headers: Mapping[str, str]
    """Values by names in small letters."""
    pieces: Iterator[bytes]
    """The content; ``CallFailed`` where it ends early."""


class Wire(Protocol):
    """Way to a service."""

    def send(self, request: Request) -> Response:
        """Send a request; return its answer once that has begun.

        Raises:
            CallFailed: there is none.
        """


class NetworkWire:
    """Way to a service over the network; connections stay open for later requests, of any thread.

    Proxies are those of the environment, except on the way to this machine.
    """

    def __init__(self, url: str) -> None:
        """Read the address of a service.

        Raises:
            ValueError: it is none.
        """
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it does not begin with http:// or https:// and a host")
        self._host = parts.hostname
        self._is_secret = parts.scheme == "https"
        self._port = parts.port or (443 if self._is_secret else 80)
        self._prefix = parts.path.rstrip("/")
        self._proxy = None if self._host in LOOPBACK else _proxy_for(parts.scheme, self._host)
        self._idle: list[http.client.HTTPConnection] = []

    def send(self, request: Request) -> Response:
        """Send a request; return its answer once that has begun."""
        connection = self._connection(request)
        path = self._prefix + request.path
        if self._proxy is not None and not self._is_secret:
            path = f"http://{_shown(self._host)}:{self._port}{path}"
        with _closed_unless_whole(connection, was_sent=True):
            connection.request(request.method, path, request.body, {"Accept": "*/*", **request.headers})
            answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return Response(answer.status, headers, self._pieces(connection, answer))

    def _connection(self, request: Request) -> http.client.HTTPConnection:
        """Return a connection that is open."""
        while self._idle:
            connection = self._idle.pop()
            if _is_open(connection):
                connection.sock.settimeout(request.read_s)
                return connection
            connection.close()
        connection = self._made()
        with _closed_unless_whole(connection, was_sent=False):
            connection.timeout = request.connect_s
            connection.connect()
            connection.sock.settimeout(request.read_s)
        return connection

    def _made(self) -> http.client.HTTPConnection:
        host, port = (self._host, self._port) if self._proxy is None else self._proxy
        if not self._is_secret:
            return http.client.HTTPConnection(host, port)
        connection = http.client.HTTPSConnection(host, port)
        if self._proxy is not None:
            connection.set_tunnel(self._host, self._port)
        return connection

    def _pieces(self, connection: http.client.HTTPConnection, answer: http.client.HTTPResponse) -> Iterator[bytes]:
        with _closed_unless_whole(connection, was_sent=True):
            while piece := answer.read1(_PIECE):
                yield piece
            if answer.length:
                raise http.client.IncompleteRead(b"", answer.length)
            answer.close()
        if connection.sock is not None:
            self._idle.append(connection)


@contextmanager
def _closed_unless_whole(connection: http.client.HTTPConnection, *, was_sent: bool) -> Iterator[None]:
    """Close a connection where the context does not end by itself: the service sees that nobody waits any more.

    Raises:
        CallFailed: the network, or who answers, is at fault.
    """
    try:
        yield
    except (OSError, http.client.HTTPException, ValueError) as error:
        connection.close()
        raise CallFailed(str(error) or type(error).__name__, was_sent=was_sent) from None
    except BaseException:
        connection.close()
        raise


def _is_open(connection: http.client.HTTPConnection) -> bool:
    """Tell whether nobody has closed a connection meanwhile: one that says something unasked says that."""
    return connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _proxy_for(scheme: str, host: str) -> tuple[str, int] | None:
    """Return host and port of the proxy that the environment names for an address; None: there is none.

    Raises:
        ValueError: it names one that cannot be used.
    """
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass  # few environments have a proxy

    found = getproxies()
    told = found.get(scheme) or found.get("all")
    if not told or proxy_bypass(host):
        return None
    parts = urlsplit(told if "//" in told else f"//{told}")
    if not parts.hostname or parts.scheme not in ("", "http") or parts.username:
        raise ValueError("the environment names a proxy for it that is no plain http://HOST:PORT")
    return unquote(parts.hostname), parts.port or 80
