"""Connections of the service: so many at once, and none that holds its place without a request.

Whoever opens connections has shown no token yet.  Connections without a request would take the files that the process
may have open, until neither the catalogue nor a document can be opened.
"""

from __future__ import annotations

import asyncio
import math
import resource
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from xscl.service.problems import answer, problem

__all__ = ["Connection", "most_connections"]

_MOST = 10_000
"""Connections at once, however many files the process may have open."""
_AGAIN_S = 5


def most_connections() -> int:
    """Return how many connections may be open: they take half of the files that the process may have open."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else min(_MOST, files // 2)


class Connection(H11Protocol):
    """A connection of HTTP that ends when no request comes, however slowly its bytes come.

    The server's limit of concurrency is that of connections: one more is told to come again.
    """

    head_s: ClassVar[float] = 30.0
    """Seconds in which the first line and the headers of a request come."""
    _end: asyncio.TimerHandle | None = None
    _unread: float = math.inf
    """Bytes of answers that the client had not read at the last look."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a request."""
        super().connection_made(transport)
        most = self.limit_concurrency
        if most is not None and len(self.connections) >= most:
            self.connections.discard(self)
            transport.write(_refusal(most))
            transport.close()
        self._wait(self.head_s)

    def handle_events(self) -> None:
        """Begin the requests that have come."""
        super().handle_events()
        if self._has_request:
            self._wait_no_longer()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        self._wait(self.timeout_keep_alive + self.head_s)
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self._wait_no_longer()
        super().connection_lost(exc)

    @property
    def _has_request(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _wait(self, seconds: float) -> None:
        self._wait_no_longer()
        self._unread = math.inf
        self._end = self.loop.call_later(seconds, self._give_up)

    def _give_up(self) -> None:
        """End the connection, unless its client still reads; one that stops would never let it close."""
        unread = self.transport.get_write_buffer_size()
        if 0 < unread < self._unread:
            self._unread = unread
            self._end = self.loop.call_later(self.head_s, self._give_up)
        else:
            self.transport.abort()

    def _wait_no_longer(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def _refusal(most: int) -> bytes:
    """Write the answer to a connection that is one too many."""
    told = f"{most - 1} connections are open"
    response = answer(problem(503, "XSCL_BUSY", told), _AGAIN_S)
    lines = [b"HTTP/1.1 503 Service Unavailable", b"Connection: close"]
    lines += (name + b": " + value for name, value in response.raw_headers)
    return b"\r\n".join([*lines, b"", bytes(response.body)])
